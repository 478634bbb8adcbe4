"""Tables of measurements: read, checked, transformed, summarised and exported; data sets by name."""

from lindley.table.check import FeatureSummary, Summary, render_summary, summarise
from lindley.table.datasets import DatasetInfo, list_datasets, load_dataset
from lindley.table.findings import Finding, TableError, exit_status, render_findings
from lindley.table.join import join_tables
from lindley.table.read import Examination, examine_table, read_table
from lindley.table.scaling import Transform
from lindley.table.table import Table, export_csv

__all__ = [
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
    "join_tables",
    "list_datasets",
    "load_dataset",
    "read_table",
    "render_findings",
    "render_summary",
    "summarise",
]
