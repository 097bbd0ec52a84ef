"""Adapters: one small network writes the weights of another."""

from torch import Tensor, nn

from .initialization import xavier


class Adapter(nn.Module):
    """Modulation of a weight vector by a context: ``(1 + alpha(c)) * theta + beta(c)``, weight by weight.

    Alpha and beta are MLPs with one hidden layer, read from a context such as the mean of a class's supports.

    Perez, Strub, de Vries, Dumoulin, Courville: FiLM: Visual Reasoning with a General Conditioning Layer.
    AAAI 2018.

    Args:
        in_channels: width of the context.
        hidden_channels: width of the hidden layer.
        size: how many weights there are to adapt.
        start: size of the last layers at the start, relative to Glorot's; 0 means no adaptation yet.
    """

    def __init__(self, in_channels: int, hidden_channels: int, size: int, *, start: float = 1.0) -> None:
        super().__init__()
        self.alpha = self._mlp(in_channels, hidden_channels, size, start)
        self.beta = self._mlp(in_channels, hidden_channels, size, start)

    @staticmethod
    def _mlp(in_channels: int, hidden_channels: int, size: int, start: float) -> nn.Sequential:
        last = xavier(nn.Linear(hidden_channels, size))
        last.weight.data.mul_(start)
        return nn.Sequential(xavier(nn.Linear(in_channels, hidden_channels)), nn.ReLU(), last)

    def forward(self, context: Tensor, theta: Tensor) -> Tensor:
        """Weights [..., size] for the contexts [..., in_channels], from the common ones ``theta [size]``."""
        adapted: Tensor = (1 + self.alpha(context)) * theta + self.beta(context)
        return adapted
