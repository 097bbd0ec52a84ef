"""Optimisers that do as torch's do, without its compiler."""

import subprocess
import sys

import pytest
import torch

from fewnode.nn import optimizers

STEPS = """
import sys, torch
from fewnode.nn.optimizers import LBFGS, Adam
w = torch.ones(3, requires_grad=True)
for made in (Adam([w]), LBFGS([w])):
    def loss():
        made.zero_grad()
        (value := w.square().sum()).backward()
        return value
    made.step(loss)
    made.load_state_dict(made.state_dict())
print("torch._dynamo" in sys.modules)
"""


def test_the_compiler_is_not_imported():
    found = subprocess.run([sys.executable, "-c", STEPS], check=True, capture_output=True, text=True)
    assert found.stdout == "False\n"


@pytest.mark.parametrize("name", ["Adam", "LBFGS"])
def test_steps_are_those_of_torch(name):
    weights = [torch.arange(1.0, 4.0).requires_grad_() for _ in range(2)]
    for weight, home in zip(weights, (torch.optim, optimizers), strict=True):
        made = getattr(home, name)([weight], lr=0.1)

        def loss(weight=weight, made=made):
            made.zero_grad()
            (value := (weight**4).sum()).backward()
            return value

        for _ in range(3):
            made.step(loss)
    assert torch.equal(*weights)
