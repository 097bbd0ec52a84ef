"""One rule for devices: a model and what it is given are brought to the device of the model."""

from dataclasses import replace

import pytest
import torch

import fewnode
import own_graph
from fewnode.errors import InputError
from fewnode.methods import base, find, names
from fewnode.methods.base import InnerLoopMethod
from fewnode.nn import inner_loop
from stand_in_device import DEVICE, StandIn, marked


def test_the_stand_in_refuses_what_a_gpu_refuses():
    with StandIn() as device:
        here, there = torch.ones(3, device=device), torch.ones(3)
        assert here.device == DEVICE and (here + here).device == DEVICE and here.cpu().device.type == "cpu"
        assert (here * torch.tensor(2.0)).device == DEVICE  # scalars may be anywhere
        with pytest.raises(RuntimeError, match="same device"):
            here + there
        with pytest.raises(RuntimeError, match="same device"):
            there[torch.zeros(1, dtype=torch.long, device=device)]
        with pytest.raises(TypeError, match="numpy"):
            here.numpy()


def looped(function, **_):
    """``torch.func.vmap`` as a loop: inside of torch.func, nobody sees the places of tensors."""

    def each(*given):
        n = len(given[-1])
        parts = [[{k: v[i] for k, v in x.items()} if isinstance(x, dict) else x[i] for x in given] for i in range(n)]
        found = [function(*part) for part in parts]
        return (
            {k: torch.stack([one[k] for one in found]) for k in found[0]}
            if isinstance(found[0], dict)
            else torch.stack(found)
        )

    return each


def differentiated(loss):
    """``torch.func.grad`` by autograd."""

    def gradient(weights, *data):
        with torch.enable_grad():
            own = {name: weight.detach().requires_grad_() for name, weight in weights.items()}
            found = torch.autograd.grad(loss(own, *data), list(own.values()))
        return {name: torch.empty_like(weights[name]).copy_(part) for name, part in zip(own, found, strict=True)}

    return gradient


@pytest.mark.parametrize("method", names())
def test_fit_evaluate_save_and_load_with_a_model_on_another_device(method, tmp_path, monkeypatch):
    if issubclass(find(method), InnerLoopMethod):
        for where in (base, inner_loop):
            monkeypatch.setattr(where, "vmap", looped)
        monkeypatch.setattr(inner_loop, "grad", differentiated)
    graph, split = fewnode.planted(400, 12, features=60, seed=0)
    options = {} if find(method).training_settings is None else {"steps": 2}
    tested = {"n_way": 3, "k_shot": 2, "n_query": 3, "n_tasks": 4}
    plain = fewnode.fit(method, graph, split, n_way=3, k_shot=2, device="cpu", **options)
    with StandIn() as device:
        model = fewnode.fit(method, graph, split, n_way=3, k_shot=2, device=str(device), **options)
        assert all(marked(weight) for weight in model.state_dict().values())
        found = fewnode.evaluate(model, graph, split, **tested)
        again = fewnode.evaluate(fewnode.load(fewnode.save(model, tmp_path)), graph, split, **tested)
    assert found.accuracy == again.accuracy == fewnode.evaluate(plain, graph, split, **tested).accuracy


@pytest.mark.parametrize("method", ["probe", "vantage"])
def test_a_classifier_on_another_device(method, tmp_path):
    options = {"steps": 2} if method == "vantage" else {}

    def walk(device: str) -> list[torch.Tensor]:
        clf = fewnode.FewShotClassifier(method, k_shot=3, device=device, **options).fit(own_graph.graph())
        found = [clf.adapt(own_graph.examples(), among=among).predict_proba() for among in ("new", "all")]
        clf.find("mule", top=3), clf.explain("n0"), clf.expect(found[-1]), clf.suggest(2), clf.find_label_issues()
        clf.partial_adapt(remove={"mule": ["n6"]}).score(["n2", "n3"], ["baker", "baker"])
        whole = own_graph.graph()
        new = whole.subgraph(torch.arange(whole.num_nodes) < 3)
        new = replace(new, node_names=("q0", "q1", "q2"), y=torch.full((3,), -1))
        found.append(clf.predict_proba(new_nodes=new, new_edges=[("q0", "n5"), ("q1", "q0")]))
        clf.save(tmp_path / device.partition(":")[0])
        again = clf.load(tmp_path / device.partition(":")[0])
        found.append(again.adapt(own_graph.examples()).predict_proba())
        clf.grow({"baker": ["n230", "n238"]})
        found.append(clf.adapt(own_graph.examples()).predict_proba())
        return [one.probabilities.cpu() for one in found]

    with StandIn() as device:
        found = walk(str(device))
    for one, other in zip(found, walk("cpu"), strict=True):
        torch.testing.assert_close(one, other)


def test_a_device_that_is_not_there_is_named():
    graph, _ = fewnode.planted(60, 3, seed=0)
    with pytest.raises(InputError, match="device 'cuda:9' cannot be used here"):
        fewnode.fit("probe", graph, device="cuda:9")
