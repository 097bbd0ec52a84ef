"""Training curves for TensorBoard: a callback for ``fit`` (extra ``log``)."""

from .errors import InputError
from .storage import PathLike
from .training import Progress


class TensorBoardLog:
    """Writes the loss and speed of every step and the validation accuracy of every check into a folder.

    ``fit(..., callback=TensorBoardLog("runs/log"))``; then ``tensorboard --logdir runs/log``.
    """

    def __init__(self, folder: PathLike) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise InputError("writing for TensorBoard needs it installed: pip install 'fewnode[log]'") from error
        self.writer = SummaryWriter(str(folder))

    def __call__(self, progress: Progress) -> None:
        self.writer.add_scalar("loss", progress.loss, progress.step)
        self.writer.add_scalar("steps_per_second", progress.steps_per_second, progress.step)
        if progress.accuracy is not None:
            self.writer.add_scalar("validation_accuracy", progress.accuracy, progress.step)
            self.writer.flush()  # a check is what should survive a kill
