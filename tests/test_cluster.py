"""Ray: two machines simulated on one, one of them lost half-way; the views are those of one, to the last bit."""

import importlib.util
import os
import socket
import sys
import time

import pytest
import torch

import fewnode
from fewnode import store as cluster
from fewnode import store as spaces
from fewnode.classifier import known_classes
from fewnode.classifier.commands import write_predictions
from fewnode.errors import InputError
from fewnode.graph.stored import open_store, save_store
from fewnode.nn.views import COPIES, VIEWS, Views
from ray_cluster import two_machines

HAS_RAY = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not HAS_RAY, reason="needs Ray: pip install 'fewnode[ray]'")
NODES = 600


@pytest.mark.skipif(HAS_RAY, reason="Ray is installed")
def test_without_ray_the_extra_is_named():
    with pytest.raises(InputError, match=r"fewnode\[ray\]"):
        cluster.RayPieces()


def test_only_this_machine_reaches_a_cluster_that_nobody_asked_for(monkeypatch):
    for name in ("RAY_AUTH_MODE", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"):
        monkeypatch.setenv(name, "")  # put back afterwards, whatever happens to it
        monkeypatch.delenv(name)
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    assert cluster._start("head:6379") == {"address": "head:6379"} and "RAY_AUTH_MODE" not in os.environ
    assert cluster._start(None) == {"address": "local", "_node_ip_address": "127.0.0.1"}
    assert (os.environ["RAY_AUTH_MODE"], os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"]) == ("token", "0")


def test_an_address_where_nobody_answers_is_named_at_once():
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InputError, match=rf"address='{address}': nobody answers there .*ray start --head"):
            cluster._check_address(address)
    for wrong in ("head", "head:port", "ray://head", "head:99999"):
        with pytest.raises(InputError, match="write HOST:PORT"):
            cluster._check_address(wrong)


@pytest.fixture(scope="module")
def machines():
    with two_machines(memory=1 << 30) as found:
        yield found


@needs_ray
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_is_fitted_and_asked_as_on_one_machine(machines, tmp_path):
    graph, _ = fewnode.planted(NODES, 6, seed=0)
    graph = graph.with_labels(torch.where(graph.y == 0, -1, graph.y))
    memory = spaces.Space.least(NODES, known_classes.COPIES * 17)
    engine, answers = cluster.RayPieces(memory=memory), []
    for number, who in enumerate((None, engine)):
        save_store(graph, tmp_path / f"{number}.store")
        stored = open_store(tmp_path / f"{number}.store", memory, engine=who)
        classifier = fewnode.FewShotClassifier(steps=2, check_every=2).fit(stored)
        classifier.adapt({"new": (graph.y < 0).nonzero().flatten()[:4].tolist()})
        write_predictions(classifier, classifier.iter_proba(batch_size=100), tmp_path / f"{number}.csv")
        answers.append((tmp_path / f"{number}.csv").read_bytes())
    assert answers[0] == answers[1] and answers[0].count(b"\n") == NODES + 1


@needs_ray
def test_a_lost_machine_changes_no_bit(machines, tmp_path):
    graph, _ = fewnode.planted(NODES, 6, seed=0)
    views = Views(graph.num_features, 64).fit(graph)
    memory = spaces.Space.least(NODES, COPIES * 17)
    for name in ("one.store", "two.store"):
        save_store(graph, tmp_path / name)
    expected = views(open_store(tmp_path / "one.store", memory))
    begun, gone, lost = tmp_path / "begun", tmp_path / "gone", []

    class Slow(cluster.RayPieces):
        def __call__(self, work, pieces):
            def slowly(piece):
                if isinstance(piece, int):  # the number of a block of columns
                    with begun.open("a") as file:
                        file.write(f"{work.args[0].file(piece)}\n")
                    for _ in range(600 if len(begun.read_text().splitlines()) > 1 else 0):
                        if gone.exists():  # all but the first piece are in the middle when the machine is lost
                            break
                        time.sleep(0.1)
                return work(piece)

            return super().__call__(slowly, pieces)

    def progress(what: str, part: float) -> None:
        if begun.exists() and part > 0 and not lost:
            while len(begun.read_text().splitlines()) < 3:  # one is done, and both machines are busy
                time.sleep(0.1)
            lost.append(what)
            machines.remove_node(machines.worker_nodes.copy().pop(), allow_graceful=False)
            gone.touch()

    engine = Slow(memory=memory)
    assert engine.slots == 2
    made = views(open_store(tmp_path / "two.store", engine=engine, progress=progress))
    for name, one, other in zip(VIEWS, expected, made, strict=True):
        assert one.equal(other), name
    lines = begun.read_text().splitlines()
    assert lost and len(lines) > len(set(lines)), "the machine was lost in the middle of a piece, which was done again"
    with pytest.raises(InputError, match=r"memory= 2097152MB: no machine .* has so much"):
        cluster.RayPieces(memory=1 << 41)
