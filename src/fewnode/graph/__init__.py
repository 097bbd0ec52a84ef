"""The graph and what is computed from its structure and features."""

from .graph import Graph

__all__ = ["Graph"]
