"""What the open question needs of a model and its graph: the labels that count, the views, a folder to stay in."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path

import msgspec
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from ...errors import InputError
from ...graph import Graph
from ...graph.edge_use import EdgeUse
from ...graph.relations import union
from ...methods.base import Method
from ...nn.views import Views
from ...storage import write_json
from ...storage.documents import parse_json
from ...storage.manifest import NAME, Manifest
from ...storage.tensors import check_finite, write_tensors
from ..classes import KnownClasses, class_name, class_sizes
from ..predictions import NONE_OF_THESE, OTHER
from .moments import Moments
from .question import OpenWorldModel
from .recipe import Recipe
from .rehearsal import Progress, Rehearsed
from .relay import Relay

MODEL, TENSORS, RELAY = "open_world.json", "open_world.safetensors", "relay.safetensors"


def known_labels(graph: Graph, known: KnownClasses | None) -> tuple[Tensor, tuple[str, ...]]:
    """The labels ``y [N]`` that count (-1: none) and the names of their classes: every labelled class, or of a data
    set's model only those it ``known``."""
    ids = [int(c) for c in class_sizes(graph).nonzero()[0]]
    ids = [c for c in ids if known is None or class_name(graph, c) in known.names()]
    if not ids:
        raise InputError(
            "this graph has no labelled node of a class the model knows, so only the new classes can be offered "
            "(among 'new')"
        )
    number = torch.full((graph.num_classes + 1,), -1, device=graph.device)  # the last is looked up by the unknown -1
    number[ids] = torch.arange(len(ids), device=graph.device)
    return number[graph.y], tuple(class_name(graph, c) for c in ids)


def other_name(classes: Sequence[str]) -> str:
    """What a node of no class is called."""
    return NONE_OF_THESE if OTHER in classes else OTHER


@torch.no_grad()
def open_world(model: Method, graph: Graph, y: Tensor, classes: tuple[str, ...], progress: Progress) -> OpenWorldModel:
    """The open-world model of a graph, on the views of the method, if it has any, else on fresh ones."""
    progress("making the views", 0.0)
    views = _views(model, graph)
    sources = views.sources(graph)
    return OpenWorldModel.fit(graph, views(graph), y, classes, sources=sources, use=views.use, progress=progress)


def _views(model: Method, graph: Graph) -> Views:
    own = getattr(model, "views", None)
    return own if isinstance(own, Views) else Views(graph.num_features).to(graph.device).fit(graph)


def relay_of(model: Method, graph: Graph, world: OpenWorldModel) -> Relay:
    """What the nodes of the graph hand on to nodes that arrive later."""
    assert world.recipe is not None
    views = _views(model, graph)
    seen = union(world.use.seen(graph))
    return Relay.of(seen, views(graph), views.sources(graph), world.y, world.recipe.answers)


@torch.no_grad()
def open_world_on_disk(
    model: Method, graph: Graph, y: Tensor, classes: tuple[str, ...], progress: Progress
) -> OpenWorldModel:
    """The same for a graph on disk: kept in its store, under a name that belongs to the views and the labels."""
    own = getattr(model, "views", None)
    assert graph.space is not None and isinstance(own, Views)
    sha = hashlib.sha256(f"{graph.fingerprint} {own.rank} {classes}".encode())
    for part in (own.features.basis, own.features.idf, y):
        sha.update(part.contiguous().numpy().data)
    space = graph.space.within(f"world-{sha.hexdigest()[:16]}")
    if space.brought(NAME, MODEL, TENSORS):
        found = load(space.folder, Manifest.read(space.folder), y, classes)
        assert found is not None and found.recipe is not None
        recipe = replace(found.recipe, answers=space.open("answers"), sources=own.sources(graph))
        x, log_known, facts = (space.open(name) for name in ("x", "log_known", "facts"))
        return replace(found, x=x, log_known=log_known, facts=facts, recipe=recipe)
    progress("making the views", 0.0)
    made = OpenWorldModel.fit(graph, own(graph), y, classes, sources=own.sources(graph), space=space, progress=progress)
    graph.space.within("scratch").clear()
    assert made.recipe is not None
    none, links = made.facts.new_zeros(0), made.recipe.sources.links[:0]
    bare = replace(made.recipe, answers=none, sources=replace(made.recipe.sources, links=links, columns=lambda: none))
    save(replace(made, x=none, log_known=none, facts=none, recipe=bare), space.folder)
    Manifest.write(space.folder)
    space.share(MODEL, TENSORS, NAME)
    return made


def save(model: OpenWorldModel, folder: Path) -> None:
    """Write the model so that nothing has to be made again; the relay in a file that is read only when it is needed."""
    if model.relay is not None:
        write_tensors(folder / RELAY, model.relay.tensors())
    parts = {"x": model.x.half(), "y": model.y, "log_known": model.log_known, "facts": model.facts}
    parts |= {f"moments.{part.name}": getattr(model.moments, part.name) for part in fields(Moments)}
    if model.recipe is not None:
        parts |= {f"recipe.{name}": part for name, part in model.recipe.tensors().items()}
    write_tensors(folder / TENSORS, parts)
    written = {"classes": model.classes, "rehearsed": [one.to_json() for one in model.rehearsed]}
    write_json(folder / MODEL, written | {"edges": asdict(model.use)})


class Document(msgspec.Struct, frozen=True):
    """What ``open_world.json`` holds."""

    classes: tuple[str, ...]
    rehearsed: tuple[Rehearsed, ...]
    edges: EdgeUse = msgspec.field(default_factory=EdgeUse)


def load(folder: Path, manifest: Manifest, y: Tensor, classes: tuple[str, ...]) -> OpenWorldModel | None:
    """The model that was kept for these labels, or None if there is none or the labels have changed."""
    if MODEL not in manifest:
        return None
    document = parse_json(manifest.read_bytes(folder, MODEL), Document, str(folder / MODEL))
    if document.classes != classes:
        return None
    with manifest.checking(folder, TENSORS) as path:
        parts = load_file(path, device=str(y.device))
        if not torch.equal(parts["y"], y):
            return None
        check_finite(parts)
        moments = Moments(*(parts[f"moments.{part.name}"] for part in fields(Moments)))
        kept = {name.removeprefix("recipe."): part for name, part in parts.items() if name.startswith("recipe.")}
        recipe = Recipe.from_tensors(kept) if kept else None
        x, log_known, facts = parts["x"].float(), parts["log_known"], parts["facts"]
        return OpenWorldModel(classes, x, y, log_known, facts, moments, document.rehearsed, recipe, use=document.edges)


def changed_labels(folder: Path, manifest: Manifest, y: Tensor, classes: tuple[str, ...]) -> str | None:
    """How labels differ from those that were kept, in words; None if they do not, or nothing was kept."""
    if MODEL not in manifest:
        return None
    old = parse_json(manifest.read_bytes(folder, MODEL), Document, str(folder / MODEL)).classes
    with safe_open(folder / TENSORS, "pt") as parts:
        before = parts.get_tensor("y")
    number = {name: at for at, name in enumerate(dict.fromkeys((*old, *classes)))}
    then, now = (
        torch.tensor([*(number[name] for name in names), -1])[ids] for names, ids in ((old, before), (classes, y.cpu()))
    )
    if len(then) != len(now) or bool((then == now).all()):
        return None
    counts = {
        "more": int(((then < 0) & (now >= 0)).sum()),
        "fewer": int(((then >= 0) & (now < 0)).sum()),
        "another": int(((then >= 0) & (now >= 0) & (then != now)).sum()),
    }
    words = {"more": "{:,} nodes more have one", "fewer": "{:,} have none any more", "another": "{:,} have another"}
    return ", ".join(words[what].format(count) for what, count in counts.items() if count)


def load_relay(folder: Path, manifest: Manifest, device: torch.device) -> Relay | None:
    """The relay that was kept, or None if there is none. Its rows come from the disk when they are asked for."""
    if RELAY not in manifest:
        return None
    with manifest.checking(folder, RELAY) as path:
        return Relay.from_tensors(load_file(path, device=str(device)))
