"""Result rows as tables, figures and one page; ``predictions_page`` is about predictions on a user's graph.

Nothing here trains, and what is imported below does not need torch.
"""

from .page import write_report
from .results import compare

__all__ = ["compare", "write_report"]
