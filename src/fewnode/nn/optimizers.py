"""Torch's optimisers without its compiler, which most of their methods first ask whether it is at work.

Nothing here is ever compiled, and importing the compiler takes a second of every command that learns. Under each of
these methods is the same one without the question; should a later torch ask elsewhere, that costs the second again and
nothing else.
"""

from inspect import unwrap
from typing import Any

import torch


class Adam(torch.optim.Adam):
    step = torch.no_grad()(unwrap(torch.optim.Adam.step))


class LBFGS(torch.optim.LBFGS):
    def step(self, closure: Any) -> Any:  # type: ignore[override]  # torch's has no types
        return super().step(closure)  # type: ignore[no-untyped-call]


for _kind in (Adam, LBFGS):
    for _name in ("add_param_group", "zero_grad", "state_dict", "load_state_dict"):
        setattr(_kind, _name, unwrap(getattr(_kind, _name)))
