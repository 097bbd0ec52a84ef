"""Torch's optimisers without its compiler.

Most of their methods first check whether the compiler is active, and this check imports it. The import takes a second
of every command that learns, and nothing here is ever compiled. ``unwrap`` gives the same methods without the check. If
a later torch checks elsewhere, the only effect is that the import takes this second again.
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
