"""Tables of measurements: read, checked, transformed, summarised and exported; data sets by name."""

from lindley.data.columns import Columns
from lindley.data.datasets import DatasetInfo, list_datasets, load_dataset
from lindley.data.export import export_csv
from lindley.data.findings import Finding, TableError, exit_status, render_findings
from lindley.data.read import Examination, examine_table, read_table
from lindley.data.summary import FeatureSummary, Summary, render_summary, summarise
from lindley.data.table import Table
from lindley.data.transform import Transform

__all__ = [
    "Columns",
    "DatasetInfo",
    "Examination",
    "FeatureSummary",
    "Finding",
    "Summary",
    "Table",
    "TableError",
    "Transform",
    "examine_table",
    "exit_status",
    "export_csv",
    "list_datasets",
    "load_dataset",
    "read_table",
    "render_findings",
    "render_summary",
    "summarise",
]
