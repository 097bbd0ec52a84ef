"""How common each class is among the nodes without a label: estimated from their scores, or said by the user.

After Saerens, Latinne, Decaestecker: Adjusting the Outputs of a Classifier to New a Priori Probabilities. Neural
Computation 14, 2002.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ...errors import InputError

STEPS = 60
FAINT = 0.02  # weight of the assumed shares inside the estimate, so that none reaches zero
TRUST = 0.3  # of the estimate beside the assumed shares, on the scale of logarithms: scores of few examples mislead it


def checked_priors(priors: Mapping[str, float] | None, new: Sequence[str], other: str) -> dict[str, float]:
    """Shares that a user gave for new classes and for ``other``, refused by name where they cannot be."""
    given = dict(priors or {})
    for name, share in given.items():
        if name not in (*new, other):
            raise InputError(f"a prior for {name!r}; priors can be given for {', '.join(map(repr, (*new, other)))}")
        if not isinstance(share, int | float) or isinstance(share, bool) or not 0 <= share <= 1:
            raise InputError(f"the prior of {name!r} is {share!r}; it is a share of the nodes, from 0 to 1")
    if (total := sum(given.values())) > 1:
        raise InputError(f"the priors sum to {total:g}; together they are at most 1")
    return given


@torch.no_grad()
def estimate(
    utilities: Tensor, assumed: Tensor, fixed: Mapping[int, float] | None = None, weight: Tensor | None = None
) -> Tensor:
    """How common the groups are, ``[G]``, by ``utilities [n, G]`` that were made for the shares ``assumed``.

    The answer is between the likeliest shares and the assumed ones (``TRUST``). Groups in ``fixed`` have the share
    given there. ``weight [n]`` says how many nodes each stands for.
    """
    likely = utilities.double().softmax(1)
    each = torch.ones_like(likely[:, 0]) if weight is None else weight.double()
    each = each / each.sum().clamp(min=1e-12)
    shares = assumed = assumed.to(likely)
    for _ in range(STEPS):
        ratio = shares / assumed
        found = ratio * ((each / (likely @ ratio).clamp(min=1e-12)) @ likely)  # the mean posterior, in two products
        shares = _with_fixed((found + FAINT * assumed) / (1 + FAINT), fixed or {})
    between = assumed ** (1 - TRUST) * shares**TRUST
    return _with_fixed(between / between.sum(), fixed or {}).float()


def _with_fixed(shares: Tensor, fixed: Mapping[int, float]) -> Tensor:
    """The shares with some of them given; the others keep their proportions."""
    if not fixed:
        return shares
    free = torch.ones_like(shares, dtype=torch.bool)
    free[list(fixed)] = False
    left = max(1 - sum(fixed.values()), 0.0)
    shares = torch.where(free, shares / shares[free].sum().clamp(min=1e-12) * left, shares)
    shares[list(fixed)] = shares.new_tensor(list(fixed.values()))
    return shares


def with_shares(utilities: Tensor, assumed: Tensor, shares: Tensor) -> Tensor:
    """Probabilities ``[n, G]`` of the groups once they are as common as ``shares`` instead of ``assumed``."""
    shift = (shares.clamp(min=1e-12) / assumed).log()
    return (utilities + shift).softmax(1)
