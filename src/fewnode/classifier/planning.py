"""The memory and disk space that a graph larger than memory needs."""

from pathlib import Path

from ..errors import InputError
from ..store import Space, default_memory


def plan(nodes: int, edges: int, columns: int, *, classes: int = 40, memory: int | None = None) -> dict[str, int]:
    """The memory and disk space needed to fit a graph in a store.

    Args:
        nodes: number of nodes.
        edges: number of edges, each counted once.
        columns: number of feature columns.
        classes: number of known classes.
        memory: bytes that the work may use; by default half of the free memory.

    Returns:
        Bytes of memory (the minimum, and as given), the number of blocks of columns, and bytes on disk
        (afterwards, and meanwhile).
    """
    for name, value in {"nodes": nodes, "edges": edges, "columns": columns, "classes": classes}.items():
        if value < 1:
            raise InputError(f"{name} is {value}; it is at least 1")
    memory = default_memory() if memory is None else memory
    views, rank = 6, min(256, max(columns, 64))
    joined, spare = min(512, views * rank), 16  # columns of a node's row, and more to find leading eigenvectors
    copies = 4  # matrices as wide as a block of columns that are in memory at a time
    disk = 8 * edges + nodes * (16 + 8 * columns + 2 * rank * (1 + views) + 2 * joined + 14 * classes + 24)
    least = Space.least(nodes, copies)
    return {
        "least_memory": least,
        "memory": memory,
        "blocks": len(Space(Path(), max(memory, least)).columns(nodes, rank, copies - 2)),
        "disk": disk,
        "disk_while_made": disk + 8 * nodes * (2 * rank + spare + classes),
    }
