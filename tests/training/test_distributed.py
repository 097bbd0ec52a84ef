"""Several processes and one: the same steps, the same weights, one writer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fewnode import fit, planted
from fewnode.training import loop as distributed

SOURCE = Path(__file__).parents[2] / "src"


def train(state: Path) -> tuple[list, list[float]]:
    """The validation curve and all weights of a short training."""
    graph, split = planted(300, 9, features=60, homophily=0.8, seed=3)
    options = dict(steps=6, check_every=3, tasks_per_step=4, dropout=0.0)
    model = fit("tent", graph, split, n_way=3, k_shot=2, n_query=4, seed=1, resume=state, **options)
    return model.card.curve, torch.cat([weight.detach().flatten() for weight in model.parameters()]).tolist()


def main(folder: Path) -> None:
    """What each of the processes does."""
    with distributed.ranks() as rank:
        curve, weights = train(folder / "state")
        out = {"place": distributed.place(), "curve": curve, "weights": weights}
        (folder / f"{rank}.json").write_text(json.dumps(out))


def test_two_ranks_reach_the_weights_of_one_process_with_the_joined_tasks(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*launcher, __file__, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert (first["place"], second["place"]) == ([0, 2], [1, 2])
    assert first["weights"] == second["weights"]
    _, alone = train(tmp_path / "alone")
    torch.testing.assert_close(torch.tensor(first["weights"]), torch.tensor(alone), rtol=1e-4, atol=1e-4)
    assert first["curve"] == second["curve"]
    assert [file.name for file in (tmp_path / "state").iterdir()] == ["training.safetensors"]


def test_alone_nothing_is_joined():
    with distributed.ranks() as rank:
        assert rank == 0 and distributed.place() == (0, 1)


def test_tasks_that_cannot_be_shared_evenly_are_refused(tiny, monkeypatch):
    monkeypatch.setattr(distributed, "place", lambda: (0, 2))
    with pytest.raises(ValueError, match=r"tasks_per_step is 3: 2 processes .* make it 2 or 4"):
        fit("pn", *tiny, n_way=3, k_shot=2, n_query=2, tasks_per_step=3)


def test_gradients_are_the_mean_of_all_processes(monkeypatch):
    """Adam hardly sees a factor on the gradient, so two real processes would not show a sum; the clipping would."""
    model = torch.nn.Linear(2, 1, bias=False)
    model.weight.grad = torch.tensor([[1.0, 3.0]])
    monkeypatch.setattr(distributed.dist, "all_reduce", lambda joined: joined.add_(torch.tensor([5.0, 1.0])))
    distributed.average_gradients(model.parameters(), 2)
    assert model.weight.grad.tolist() == [[3.0, 2.0]]


def test_each_process_takes_a_gpu_of_its_own(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "empty", lambda *_, device: asked.append(device) or torch.zeros(0))
    monkeypatch.setenv("LOCAL_RANK", "1")
    distributed._device("auto")
    monkeypatch.delenv("LOCAL_RANK")
    distributed._device("auto")
    distributed._device("cpu")
    assert asked == ["cuda:1", "cuda:0", "cpu"]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
