"""The graph and everything that is computed from its structure and features alone."""

from .graph import Graph

__all__ = ["Graph"]
