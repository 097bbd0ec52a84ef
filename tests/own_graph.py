"""A small graph of a user's own, and the tables it would come in."""

from pathlib import Path

import numpy as np

from fewnode.graph import Graph

TRADES = ("baker", "barber", "courier", "farmer", "florist", "grocer")
NEW = ("mule", "phisher")
COLUMNS = ("age", "balance", "cash", "cards", "nights", "amount")
EACH = 30


def arrays(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges, features in very different units, and the true class of each node; classes are easy to tell."""
    rng = np.random.default_rng(seed)
    kinds = len(TRADES) + len(NEW)
    typical = 2.5 * np.random.default_rng(7).normal(size=(kinds, len(COLUMNS)))  # the same for every seed
    y = np.tile(np.arange(kinds), EACH)
    x = (typical[y] + rng.normal(size=(len(y), len(COLUMNS)))) * 10.0 ** np.arange(-2, 4)
    friend = (np.arange(len(y)) + kinds * rng.integers(1, EACH, len(y))) % len(y)
    return np.stack([np.arange(len(y)), friend]), x.astype(np.float32), y


def graph(seed: int = 0) -> Graph:
    """Nodes ``n0, n1, ...``; the new classes are unlabelled."""
    edges, x, y = arrays(seed)
    known = np.where(y < len(TRADES), y, -1)
    names = [f"n{i}" for i in range(len(y))]
    return Graph.from_edges(edges, x, known, node_names=names, class_names=TRADES, feature_names=COLUMNS)


def examples(shots: tuple[int, int] = (3, 2)) -> dict[str, list[str]]:
    y = arrays()[2]
    picked = zip(NEW, shots, range(len(TRADES), len(TRADES) + 2), strict=True)
    return {name: [f"n{i}" for i in np.flatnonzero(y == c)[:shot]] for name, shot, c in picked}


def write_tables(folder: Path, seed: int = 0, columns: tuple[str, ...] = COLUMNS) -> None:
    """edges.csv, nodes.csv and support.csv; a third of the known nodes has no label."""
    edges, x, y = arrays(seed)
    place = [COLUMNS.index(name) if name in COLUMNS else 0 for name in columns]
    rows = [
        f"n{i},{TRADES[c] if c < len(TRADES) and i % 3 else ''},{','.join(f'{v:.6g}' for v in x[i, place])}"
        for i, c in enumerate(y)
    ]
    write(folder / "nodes.csv", ["id,label," + ",".join(columns), *rows])
    write(folder / "edges.csv", ["source,target", *(f"n{a},n{b}" for a, b in edges.T)])
    pairs = [f"{node},{name}" for name, nodes in examples().items() for node in nodes]
    write(folder / "support.csv", ["id,label", *pairs])


def write(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
