"""The progress of a training, and callbacks that receive it: ``callback(TrainingProgress)``."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..errors import InputError
from ..storage import PathLike
from .distributed import is_first


@dataclass(frozen=True)
class TrainingProgress:
    """What a callback receives: after every step the loss, at every check the validation accuracy too."""

    step: int
    steps: int
    loss: float
    accuracy: float | None
    best: float | None
    steps_per_second: float


Callback = Callable[[TrainingProgress], None]


@contextmanager
def shown(callback: Callback | None) -> Iterator[Callback | None]:
    """The callback; if there is none and a person sits at a terminal, a bar on standard error that leaves no trace.

    ``callback=lambda _: None`` shows nothing.
    """
    if callback is not None or not is_first() or not sys.stderr.isatty():
        yield callback
        return
    from rich import progress
    from rich.console import Console

    columns = "training", progress.BarColumn(), progress.MofNCompleteColumn(), "{task.fields[facts]}"
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("training", total=None, facts="")

        def tell(now: TrainingProgress) -> None:
            best = "" if now.best is None else f", validation {100 * now.best:.1f} %"
            bar.update(task, completed=now.step, total=now.steps, facts=f"loss {now.loss:.3f}{best}")

        yield tell


class TensorBoardLog:
    """Writes the loss and speed of every step and the validation accuracy of every check into a folder (extra ``log``).

    ``fit(..., callback=TensorBoardLog("runs/log"))``; then ``tensorboard --logdir runs/log``.
    """

    def __init__(self, folder: PathLike) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise InputError("writing for TensorBoard needs it installed: pip install 'fewnode[log]'") from error
        self.writer = SummaryWriter(str(folder))

    def __call__(self, progress: TrainingProgress) -> None:
        self.writer.add_scalar("loss", progress.loss, progress.step)
        self.writer.add_scalar("steps_per_second", progress.steps_per_second, progress.step)
        if progress.accuracy is not None:
            self.writer.add_scalar("validation_accuracy", progress.accuracy, progress.step)
            self.writer.flush()  # a check is what should survive a kill
