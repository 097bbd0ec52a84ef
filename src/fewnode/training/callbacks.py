"""The progress of a training, and callbacks that receive it: ``callback(TrainingProgress)``."""

from dataclasses import dataclass

from ..errors import InputError
from ..storage import PathLike


@dataclass(frozen=True)
class TrainingProgress:
    """What a callback receives: after every step the loss, at every check the validation accuracy too."""

    step: int
    steps: int
    loss: float
    accuracy: float | None
    best: float | None
    steps_per_second: float


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
