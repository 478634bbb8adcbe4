"""Tables of measurements: read, checked, transformed, summarised and exported; data sets by name."""

from lindley.table.columns import Columns
from lindley.table.datasets import DatasetInfo, list_datasets, load_dataset
from lindley.table.export import export_csv
from lindley.table.findings import Finding, TableError, exit_status, render_findings
from lindley.table.read import Examination, examine_table, read_table
from lindley.table.summary import FeatureSummary, Summary, render_summary, summarise
from lindley.table.table import Table
from lindley.table.transform import Transform

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
