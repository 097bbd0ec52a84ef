"""Where walks go, written out with dense matrices."""

import numpy as np


def visit_ratios(adjacency: np.ndarray, places: list[int], steps: int, restart: float) -> np.ndarray:
    """A walk takes one step, then goes on with probability ``1 - restart`` up to ``steps`` times."""
    degree = adjacency.sum(1)
    walk = np.divide(adjacency, degree[:, None], out=np.zeros_like(adjacency), where=degree[:, None] > 0)
    there = np.zeros_like(adjacency)
    for further in range(steps + 1):
        ends_here = restart if further < steps else 1.0
        there += (1 - restart) ** further * ends_here * np.linalg.matrix_power(walk, further + 1)
    return there[:, places] / (degree[places] / degree.sum())


def view(ratios: np.ndarray, rank: int) -> np.ndarray:
    """Positive logarithms; singular vectors as long as the roots of their values, around the mean, of length one."""
    gains = np.log(np.maximum(ratios, 1))
    u, s, _ = np.linalg.svd(gains, full_matrices=False)
    h = u[:, :rank] * np.sqrt(s[:rank])
    full = np.linalg.norm(h, axis=1) > 1e-6
    h = np.where(full[:, None], h - h[full].mean(0), 0)
    return h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-12)
