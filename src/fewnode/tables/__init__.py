"""A user's own tables (CSV, Parquet, Excel, JSON lines, DuckDB): errors name the row; files are written whole."""

from .encode import TableEncoder as TableEncoder
from .encode import few_nonzero as few_nonzero
from .encode import in_format as in_format
from .graph_tables import GraphTables as GraphTables
from .graph_tables import read_graph as read_graph
from .read import Table as Table
from .read import read_columns as read_columns
from .read import several as several
from .schema import find_id as find_id
from .write import check_writable as check_writable
from .write import write_columns as write_columns
