"""Nodes of the new classes of ``own_graph``, for the tests of labelling."""

import own_graph


def members(number: int) -> list[str]:
    """Names of the nodes of a new class (0: mule, 1: phisher)."""
    y = own_graph.arrays()[2]
    return [f"n{i}" for i, c in enumerate(y) if c == len(own_graph.TRADES) + number]
