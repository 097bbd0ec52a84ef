"""What a graph larger than memory will cost: time, memory and disk, from rates measured on this machine."""

import tempfile
import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ..errors import InputError
from ..graph.operators import Operator
from ..store import Space, default_memory

VIEWS, SPARE = 6, 16  # views of the nodes, and columns to spare while the leading eigenvectors are found
COPIES = 4  # matrices as wide as a block of columns that are in memory at a time


@dataclass(frozen=True)
class Rates:
    """Seconds for an arc and a column of smoothing, for a multiplication of a dense product, for a byte on disk, and
    for a multiplication of a product with as few columns as there are classes."""

    arc: float
    product: float
    byte: float
    thin: float

    @classmethod
    def measured(cls, nodes: int, degree: float, folder: Path | None = None, *, most: int = 1 << 21) -> "Rates":
        """On a random graph with that mean degree and that many nodes, or as many as a few seconds allow."""
        random = torch.Generator().manual_seed(0)
        n = min(nodes, most, max(1 << 12, int((1 << 24) / max(degree, 1))))
        arcs = int(n * max(degree, 1))
        pattern = Operator(
            torch.arange(n + 1) * arcs // n, torch.randint(n, (arcs,), generator=random, dtype=torch.int32)
        )
        h = torch.randn(n, 16, generator=random)
        left, right = torch.randn(4096, 256), torch.randn(256, 256)
        few = right[:, :40].contiguous()
        with tempfile.TemporaryDirectory(dir=folder) as where:
            space = Space(Path(where), 1 << 40)
            operator = replace(pattern, left=torch.ones(n), right=torch.ones(n), loops=True, space=space)

            def written() -> None:
                space.write("h", h)
                space.read("h")

            return cls(
                arc=_seconds(lambda: operator.smooth(h, 3, 0.1)) / (3 * arcs * h.shape[1]),
                product=_seconds(lambda: left @ right) / (4096 * 256 * 256),
                byte=_seconds(written) / (8 * h.numel()),
                thin=_seconds(lambda: left.T @ (left @ few)) / (2 * 4096 * 256 * 40),
            )


def _seconds(work: Callable[[], Any]) -> float:
    """The shortest of three times."""
    return min(timeit.repeat(work, timer=time.perf_counter, repeat=3, number=1))


@dataclass(frozen=True)
class Plan:
    """Seconds of each part of the work, bytes of memory (at least, and as given) and of disk."""

    views_seconds: float
    known_seconds: float
    predict_seconds: float
    least_memory: int
    memory: int
    blocks: int
    disk: int
    disk_while_made: int
    rates: Rates


def plan(
    nodes: int, edges: int, columns: int, *, classes: int = 40, labelled: float = 0.5, memory: int | None = None
) -> Plan:
    """What fitting and predicting will cost on this machine.

    Args:
        nodes: of the graph.
        edges: each counted once.
        columns: of features.
        classes: that are known.
        labelled: share of the nodes that have a label.
        memory: bytes that the work may take; half of what is free, if not given.
    """
    for name, value in {"nodes": nodes, "edges": edges, "columns": columns, "classes": classes}.items():
        if value < 1:
            raise InputError(f"{name} is {value}; it is at least 1")
    if not 0 <= labelled <= 1:
        raise InputError(f"labelled is {labelled}; it is a share of the nodes, from 0 to 1")
    memory = default_memory() if memory is None else memory
    rates = Rates.measured(nodes, 2 * edges / nodes)
    rank = rank_of(columns)
    wide, width = rank + SPARE, min(512, VIEWS * rank)
    disk = 8 * edges + nodes * (16 + 8 * columns + 2 * rank * (1 + VIEWS) + 2 * width + 14 * classes + 24)
    least = Space.least(nodes, COPIES)
    whole = 1.3  # whole runs of three sizes took so much longer than the best of short tries (benchmarks/scale.py)
    return Plan(
        views_seconds=whole * _views(nodes, edges, rank, wide, rates),
        known_seconds=whole * _known(nodes, edges, width, classes, labelled, rates),
        predict_seconds=nodes * (width * 20 * rates.product + (2 * width + 200) * rates.byte + 6e-6),
        least_memory=least,
        memory=memory,
        blocks=len(Space(Path(), max(memory, least)).columns(nodes, rank, COPIES - 2)),
        disk=disk,
        disk_while_made=disk + 4 * nodes * (2 * rank + 2 * wide + 2 * classes),
        rates=rates,
    )


def rank_of(columns: int) -> int:
    """The width of the views of a graph with so many columns."""
    return min(256, max(columns, 64))


def _views(nodes: int, edges: int, rank: int, wide: int, rates: Rates) -> float:
    arcs = 2 * edges * (58 * rank + 13 * wide)  # passes of smoothing; and of the subspace iteration for the links
    turned = 36 * wide * wide  # its inner products and rotations, in double precision
    written = 4 * (32 * wide + 4 * VIEWS * rank)
    fixed = 1.3e11 * rates.thin  # training, whatever the graph
    return arcs * rates.arc + nodes * (turned * rates.product + written * rates.byte) + fixed


def _known(nodes: int, edges: int, width: int, classes: int, labelled: float, rates: Rates) -> float:
    times = 5  # three rounds of simulated novel classes, the choice of the weights, and the model itself
    propagated = 28 * classes * times * (2 * edges + 8 * nodes) * rates.arc  # 28 steps for labels and predictions
    learned = 45 * labelled * width * (2 * classes * rates.thin + 5 * rates.arc)  # passes of the regression
    scored = times * width * (classes * rates.thin + 5 * rates.arc)
    joined = 2 * width * width * rates.product
    chosen = min(labelled * nodes, 20_000) * 2 * width * classes * rates.thin * 204  # fits that choose the penalty
    covariance = min(nodes, 50_000) * 2 * width * width * rates.product * 4
    return propagated + nodes * (learned + scored + joined) + chosen + covariance + 1.3e11 * rates.thin
