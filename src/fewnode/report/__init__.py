"""Rows into tables, figures and one page; and, in ``own_page``, predictions on a user's graph into another.

Nothing here trains; what is imported below does not need torch either.
"""

from .page import write_report
from .results import compare

__all__ = ["compare", "write_report"]
