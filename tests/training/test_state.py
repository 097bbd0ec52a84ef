"""The optimiser of a training."""

import pytest
import torch

from fewnode.methods.base import ModelCard, Training
from fewnode.training.loop import TrainingState


@pytest.mark.parametrize("fused", [False, True])
def test_adam_is_that_of_one_weight_after_the_other(fused):
    """In one call to the bit; fused up to rounding."""
    models = [torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Linear(5, 2)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    plain = torch.optim.Adam(models[0].parameters(), lr=0.01, weight_decay=0.1, foreach=False, fused=False)
    models[1].card = ModelCard("linear", {}, {}, "", 2, 1, 1, 0)
    made = TrainingState(models[1], Training(learning_rate=0.01, weight_decay=0.1, fused=fused), None).optimizer
    x = torch.randn(8, 6)
    for _ in range(20):
        for model, steps in zip(models, (plain, made), strict=True):
            steps.zero_grad()
            model(x).square().mean().backward()
            steps.step()
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4 if fused else 0, atol=1e-5 if fused else 0)
