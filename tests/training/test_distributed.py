"""Several processes and one: the same steps, the same weights, one writer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fewnode.tasks import draw_tasks
from fewnode.training import distributed

SOURCE = Path(__file__).parents[2] / "src"

PROGRAM = """
import json, sys
from pathlib import Path
import torch
from fewnode import fit, planted
from fewnode.training.distributed import is_first, ranks, world

torch.set_num_threads(1)
graph, split = planted(300, 9, features=60, homophily=0.8, seed=3)
with ranks() as rank:
    options = dict(steps=6, check_every=3, tasks_per_step=4, dropout=0.0)
    model = fit("tent", graph, split, n_way=3, k_shot=2, n_query=4, seed=1, resume=sys.argv[1], **options)
    weights = torch.cat([weight.detach().flatten() for weight in model.parameters()]).tolist()
    out = {"world": world(), "first": is_first(), "curve": model.card.curve, "weights": weights}
    Path(sys.argv[2], f"{rank}.json").write_text(json.dumps(out))
"""


def trained(folder: Path, launcher: list[str]) -> list[dict]:
    folder.mkdir()
    (folder / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launcher, str(folder / "program.py"), str(folder / "state"), str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(file.read_text()) for file in sorted(folder.glob("?.json"))]


def test_two_ranks_reach_the_weights_of_one_process_with_the_joined_tasks(tmp_path):
    (alone,) = trained(tmp_path / "one", [])
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    first, second = trained(tmp_path / "two", launcher)
    assert (alone["world"], first["world"], first["first"], second["first"]) == (1, 2, True, False)
    assert first["weights"] == second["weights"]
    torch.testing.assert_close(torch.tensor(first["weights"]), torch.tensor(alone["weights"]), rtol=1e-4, atol=1e-5)
    assert first["curve"] == second["curve"]
    assert [file.name for file in (tmp_path / "two" / "state").iterdir()] == ["training.safetensors"]


def test_alone_nothing_is_shared_or_changed(tiny):
    graph, split = tiny
    tasks = draw_tasks(graph.y, split.base, 3, 2, 2, 3)
    weight = torch.nn.Linear(2, 2)
    with distributed.ranks() as rank:
        assert rank == 0 and distributed.world() == 1 and distributed.is_first()
        assert distributed.share(tasks) is tasks
        distributed.average_gradients(weight)
    assert weight.weight.grad is None and distributed.agreed(0.25) == 0.25 and distributed.agreed(None) is None


def test_tasks_that_cannot_be_shared_evenly_are_refused(tiny, monkeypatch):
    graph, split = tiny
    monkeypatch.setattr(distributed, "world", lambda: 2)
    with pytest.raises(ValueError, match=r"tasks_per_step is 3: 2 processes .* make it 2 or 4"):
        distributed.share(draw_tasks(graph.y, split.base, 3, 2, 2, 3))


def test_gradients_are_the_mean_of_all_processes(monkeypatch):
    """Adam hardly sees a factor on the gradient, so two real processes would not show a sum; the clipping would."""
    model = torch.nn.Linear(2, 1, bias=False)
    model.weight.grad = torch.tensor([[1.0, 3.0]])
    monkeypatch.setattr(distributed, "world", lambda: 2)
    monkeypatch.setattr(distributed.dist, "all_reduce", lambda joined: joined.add_(torch.tensor([5.0, 1.0])))
    distributed.average_gradients(model)
    assert model.weight.grad.tolist() == [[3.0, 2.0]]


def test_on_one_machine_gradients_go_over_loopback():
    assert distributed._loopback().startswith("lo")
