"""Processes that may die and start at once: copies of this one, in which torch is loaded already.

A copy has none of the threads of the original, and waits for ever if it counts on them: it works with one.
"""

import multiprocessing
import os
from collections.abc import Callable
from typing import Any

import torch

LONGEST = 240  # seconds that a process may take
CONTEXT = multiprocessing.get_context("fork")


def start(work: Callable[..., Any], *args: Any) -> Any:
    """A process that does ``work`` and ends, with what ``sys.exit`` says if it is called."""
    process = CONTEXT.Process(target=_alone, args=(work, *args), daemon=True)  # a failed test leaves nothing running
    process.start()
    return process


def _alone(work: Callable[..., Any], *args: Any) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    work(*args)


def ended(work: Callable[..., Any], *args: Any) -> int:
    """The exit code of ``work`` in a process of its own; that of a killed one is negative."""
    process = start(work, *args)
    process.join(LONGEST)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError(f"{work.__name__} has not ended after {LONGEST} s")
    return process.exitcode
