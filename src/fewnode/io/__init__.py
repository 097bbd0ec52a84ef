"""A user's own tables (CSV, TSV, Parquet): errors name the row; files are written whole or not at all."""

from .assembly import graph_tables
from .columns import Table, check_writable, read_columns, write_columns

__all__ = ["Table", "check_writable", "graph_tables", "read_columns", "write_columns"]
