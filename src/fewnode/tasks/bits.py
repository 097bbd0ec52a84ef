"""Random bits that are the same on every platform and version."""

import numpy as np

from ..errors import InputError


def random_bits(seed: int, count: int) -> np.ndarray:
    """``count`` random 64-bit words that depend on the seed alone: Philox-4x64 with the seed as its key."""
    if not 0 <= seed < 2**128:
        raise InputError(f"seed {seed} must be an integer from 0 to 2^128 - 1")
    return np.random.Philox(key=seed).random_raw(count)
