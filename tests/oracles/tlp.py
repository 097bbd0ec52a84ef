"""The self-supervised losses, node by node."""

import math

from torch import Tensor


def cosine(a: Tensor, b: Tensor) -> float:
    return float((a * b).sum() / (a.norm() * b.norm()))


def bgrl(guess: Tensor, goal: Tensor) -> float:
    return sum(2 - 2 * cosine(a, b) for a, b in zip(guess, goal, strict=True)) / len(guess)


def grace(first: Tensor, second: Tensor, temperature: float) -> float:
    total = 0.0
    for one, two in ((first, second), (second, first)):
        for i in range(len(one)):
            wanted = math.exp(cosine(one[i], two[i]) / temperature)
            others = [math.exp(cosine(one[i], two[k]) / temperature) for k in range(len(one)) if k != i]
            others += [math.exp(cosine(one[i], one[k]) / temperature) for k in range(len(one)) if k != i]
            total -= math.log(wanted / (wanted + sum(others)))
    return total / (2 * len(first))
