"""How layers start."""

from torch import nn


def xavier(linear: nn.Linear) -> nn.Linear:
    """The layer with Glorot's uniform weights and a zero bias."""
    nn.init.xavier_uniform_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear
