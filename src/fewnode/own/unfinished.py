"""A training for a user's model that is not whole yet: where its state is kept, so that a killed one can go on."""

import shutil
from pathlib import Path

from .. import checkpoint
from ..errors import InputError
from ..storage import PathLike


def unfinished(out: PathLike, resume: bool) -> Path:
    """The folder beside ``out`` that keeps the state of a training until there is a whole model; empty unless it is to
    be gone on with."""
    target = Path(out)
    state = target.with_name(f"{target.name}.training")
    if resume and not state.exists():
        raise InputError(f"there is no training to go on with at {state}; leave --resume out to start one")
    if not resume:
        forget(state)
    return state


def stopped_early(folder: PathLike) -> bool:
    """Whether the folder holds a model whose training was stopped by hand."""
    return (Path(folder) / checkpoint.CARD).exists() and checkpoint.load(folder).card.interrupted


def forget(state: Path) -> None:
    """Remove the state of a training that is whole."""
    shutil.rmtree(state, ignore_errors=True)
