"""A user's own tables (CSV, Parquet, Excel, JSON lines): errors name the row; files are written whole or not at all."""

from .assembly import Understood, graph_tables, read_graph
from .columns import Table, read_columns, several
from .encode import Memory
from .roles import find_id
from .writing import check_writable, write_columns

__all__ = [
    "Memory",
    "Table",
    "Understood",
    "check_writable",
    "find_id",
    "graph_tables",
    "read_columns",
    "read_graph",
    "several",
    "write_columns",
]
