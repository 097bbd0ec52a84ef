"""Rows into tables, figures and one page. Nothing here trains, or needs torch."""

from .comparison import compare
from .page import write_report

__all__ = ["compare", "write_report"]
