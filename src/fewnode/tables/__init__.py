"""A user's own tables (CSV, Parquet, Excel, JSON lines, DuckDB): errors name the row; files are written whole."""

from .encode import TableEncoder
from .graph_tables import GraphTables, read_graph
from .read import Table, read_columns, several
from .schema import find_id
from .write import check_writable, write_columns

__all__ = [
    "GraphTables",
    "Table",
    "TableEncoder",
    "check_writable",
    "find_id",
    "read_columns",
    "read_graph",
    "several",
    "write_columns",
]
