"""Open-set classification: is a node of a known class, of one of a few new ones, or of none of these?"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import count, takewhile
from pathlib import Path

import msgspec
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from ..errors import InputError
from ..files import NAME, Manifest, check_finite, parse_json, write_json, write_tensors
from ..graph import Graph
from ..graph.edge_types import EdgeUse, union
from ..graph.operators import Operator, mean_adjacency, normalized_adjacency, ppr_smooth
from ..methods.base import Method
from ..nn.views import VIEWS, Views, ViewSources, neighbour_lists
from ..store import Space, by_rows
from . import novelty as membership
from . import novelty as priors
from .inputs import KnownClasses, class_name, class_sizes
from .known_classes import SPREADS, Frame, KnownHead, label_matrix, scores
from .novelty import Direction, Membership, Moments
from .predictions import NONE_OF_THESE, OTHER
from .simulation import Expectation, Progress, Rehearsed, Tally, expectation, rehearse, tallied


# --- What one node's row in the open-world model is made from, kept so that it can be made again for that node alone.
@dataclass(frozen=True)
class Recipe:
    """The ``sources`` of the views, the ``frame`` of the coordinates, the ``head`` of the known classes, and
    ``answers [N, C]``: what each node tells the others, its label or what the regression says of it (rounded to half
    precision, in which they are saved)."""

    sources: ViewSources
    frame: Frame
    head: KnownHead
    answers: Tensor

    @classmethod
    def of(
        cls,
        sources: ViewSources,
        frame: Frame,
        head: KnownHead,
        x: Tensor,
        y: Tensor,
        space: Space | None = None,
    ) -> "Recipe":
        """The recipe for nodes with the coordinates ``x [N, d]`` and the labels ``y [N]``."""

        def answered(rows: slice) -> Tensor:
            said = scores(x[rows].float(), head.weights).softmax(1)
            return torch.where((y[rows] >= 0)[:, None], label_matrix(y[rows], said.shape[1]), said).half()

        shape = (len(x), head.weights.shape[1])
        answers = by_rows(space, "answers", shape, torch.half, answered, width=2 * x.shape[1])
        return cls(sources, frame, head, answers.float() if space is None else answers)

    def tensors(self) -> dict[str, Tensor]:
        """All of it by name, for a file."""
        sources = {name: getattr(self.sources, name) for name in ("idf", "centre", "words")}
        sources["columns"] = self.sources.columns()
        means = {f"mean_of_{name}": mean for name, mean in zip(_names(), self.sources.means, strict=False)}
        frame = {"origin": self.frame.centre, "directions": self.frame.directions}
        head = {"weights": self.head.weights, "mix": self.head.mix, "penalty": torch.tensor(self.head.penalty)}
        large = {"links": self.sources.links.half(), "answers": self.answers.half()}
        return sources | means | frame | head | large

    @classmethod
    def from_tensors(cls, parts: Mapping[str, Tensor]) -> "Recipe":
        """What ``tensors`` gave."""
        there = takewhile(parts.__contains__, (f"mean_of_{name}" for name in _names()))
        means = tuple(parts[name] for name in there)
        columns, links = parts["columns"], parts["links"].float()
        sources = ViewSources(parts["idf"], parts["centre"], parts["words"], links, means, lambda: columns)
        head = KnownHead(parts["weights"], parts["mix"], float(parts["penalty"]))
        return cls(sources, Frame(parts["origin"], parts["directions"]), head, parts["answers"].float())


def _names() -> Iterator[str]:
    """Of the six views, then of as many further ones as there are."""
    yield from VIEWS
    yield from (f"further_{number}" for number in count())


# --- What the nodes of a fitted graph hand on to a neighbour that arrives later: their rows in every smoothing.
@dataclass(frozen=True)
class Relay:
    """Rows of all nodes before the views are centred, in half precision: ``words`` and ``links`` as they are, their
    means over the neighbours, and smoothed near and far; and the opinions ``said [N, 2 C + 1]`` far and near: labels,
    answers, and the mass of all nodes."""

    words: Tensor
    words_mean: Tensor
    words_near: Tensor
    words_far: Tensor
    links: Tensor
    links_mean: Tensor
    links_near: Tensor
    said_far: Tensor
    said_near: Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, graph: Graph, views: Sequence[Tensor], sources: ViewSources, y: Tensor, answers: Tensor) -> "Relay":
        """Of the graph with these ``views``, the labels ``y [N]`` and what its nodes answer ``[N, C]``."""
        edges, mean = normalized_adjacency(graph), mean_adjacency(graph)
        six = slice(len(VIEWS))  # further views are made from the words and links of neighbours alone
        words, _, near, far, _, links_near = (
            _uncentred(*parts) for parts in zip(views[six], sources.means[six], sources.lengths[six], strict=True)
        )
        links = neighbour_lists(graph) @ sources.links
        words_mean, links_mean = ((mean @ part.float()).half() for part in (words, links))
        said = torch.cat([label_matrix(y, answers.shape[1]), answers, torch.ones_like(answers[:, :1])], 1)
        far_said, near_said = (_spread(edges, said, *spread) for spread in SPREADS)
        return cls(words, words_mean, near, far, links.half(), links_mean, links_near, far_said, near_said)

    def tensors(self) -> dict[str, Tensor]:
        """All of it by name, for a file."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @classmethod
    def from_tensors(cls, parts: Mapping[str, Tensor]) -> "Relay":
        """What ``tensors`` gave."""
        return cls(**{part.name: parts[part.name] for part in fields(cls)})

    def of_nodes(self, nodes: Tensor) -> "Relay":
        """The rows of some nodes, in single precision."""
        return Relay(**{name: part[nodes].float() for name, part in self.tensors().items()})


def _uncentred(view: Tensor, mean: Tensor, lengths: Tensor) -> Tensor:
    """The rows that ``centred`` was given: empty ones stay empty."""
    return torch.where(lengths[:, None] > 0, view.float() * lengths[:, None] + mean, 0).half()


def _spread(edges: Operator, said: Tensor, restart: float, steps: int) -> Tensor:
    return ppr_smooth(edges, said, steps=steps, restart=restart).half()


# --- The open question: is a node of a known class, of one of a few new ones, or of none of these?
POOL = 20_000  # unlabelled nodes from which the shares of the classes are estimated
USUAL_SHOTS = 3  # taken where there is no example yet
BATCH = 1 << 16  # nodes scored at a time, and ...
ROWS = 1 << 12  # ... rows of coordinates copied at a time, which stay in the processor's cache


@dataclass(frozen=True)
class OpenSetModel:
    """What is known of a graph before any new class is named.

    ``x [N, d]`` are coordinates of the nodes, ``y [N]`` their known classes (-1 where unknown), named by ``classes``;
    ``log_known [N, C]`` says which known class a node is, if it is of one; ``facts`` are those of ``node_facts``. With
    the ``recipe``, which explanations need, all of these can be made again for one node; with the ``relay``, which is
    read when it is needed, they can be made for nodes that arrive later. ``use`` is what edges count.
    """

    classes: tuple[str, ...]
    x: Tensor
    y: Tensor
    log_known: Tensor
    facts: Tensor
    moments: Moments
    rehearsed: tuple[Rehearsed, ...]
    recipe: Recipe | None = None
    relay: Relay | None = None
    use: EdgeUse = field(default_factory=EdgeUse)

    @classmethod
    def fit(
        cls,
        graph: Graph,
        views: Sequence[Tensor],
        y: Tensor,
        classes: tuple[str, ...],
        *,
        sources: ViewSources | None = None,
        use: EdgeUse | None = None,
        space: Space | None = None,
        progress: Progress = lambda what, part: None,
        seed: int = 0,
    ) -> "OpenSetModel":
        """Learn the known ``classes`` from the labels ``y [N]`` (positions in ``classes``; -1: unknown).

        ``sources`` of the views make explanations possible; ``use`` is what the views make of edges; ``space`` is where
        rows of all nodes go, if the graph is on disk. ``progress`` is told what is being done, and which part of it is
        done.
        """
        use = use or EdgeUse()
        edges = normalized_adjacency(union(use.seen(graph)))
        progress("joining the views", 0.0)
        frame = Frame.of(views, space, use.length)
        x = frame.all_coordinates(views, space)
        moments = Moments.of(x, y)
        if space is not None:
            space.release()
        progress("learning the known classes", 0.0)
        head = KnownHead.fit(x, edges, y, seed)
        logits, alone = head.logits(x, edges, y)
        found = rehearse(x, edges, y, head, float((y < 0).float().mean()), progress, seed)
        masses = [membership.spread_mass(edges, part) for part in membership.masses_given(y)]
        facts = membership.all_facts(x, moments, logits, alone, masses, space)
        shape = (len(y), len(classes))
        log_known = by_rows(space, "log_known", shape, torch.float32, lambda rows: logits[rows].log_softmax(1))
        recipe = None if sources is None else Recipe.of(sources, frame, head, x, y, space)
        progress("done", 1.0)
        return cls(classes, x, y, log_known, facts, moments, tuple(found), recipe, use=use)

    def ask(
        self,
        examples: Mapping[str, Tensor],
        *,
        others: Tensor | None = None,
        fixed: Mapping[str, float] | None = None,
        other: str = "other",
        pool: Tensor | None = None,
    ) -> "OpenQuestion":
        """The question with new classes shown by the nodes ``examples``; ``fixed`` shares are not estimated.

        The nodes ``others`` are said to be of no class. The shares of the groups are estimated on the nodes ``pool``,
        by default all that have no label.
        """
        pool = self._pool(pool)
        question = OpenQuestion(self, {}, {}, other, dict(fixed or {}), pool, torch.empty(0), pool[:0])
        return question.with_examples(examples, others)

    def _pool(self, pool: Tensor | None) -> Tensor:
        nodes = (self.y < 0).nonzero().flatten() if pool is None else pool
        nodes = nodes if len(nodes) else torch.arange(len(self.y), device=self.y.device)
        order = torch.randperm(len(nodes), generator=torch.Generator().manual_seed(0)).to(nodes.device)
        return nodes[order[:POOL]]

    def nearest(self, shots: float) -> Rehearsed:
        """What was rehearsed with the number of examples nearest to ``shots``, by ratio."""
        return min(self.rehearsed, key=lambda one: max(one.shots / shots, shots / one.shots))


@dataclass(frozen=True)
class OpenQuestion:
    """New classes beside the known ones: ``examples`` and ``directions`` by name, and the ``shares`` of all groups.

    Groups are: known (all together), each new class, other. Where ``others`` were shown, what is like them has a
    direction too, and a share before that of whatever else is of no class; the answer is the sum of both.
    """

    model: OpenSetModel
    examples: dict[str, Tensor]
    directions: dict[str, Direction]
    other: str
    fixed: dict[str, float]
    pool: Tensor
    shares: Tensor
    others: Tensor
    memberships: list[Membership] = field(default_factory=list)

    @property
    def classes(self) -> tuple[str, ...]:
        """New classes first, then the known ones, then other."""
        known = [name for name in self.model.classes if name not in self.examples]
        return (*self.examples, *known, self.other)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of each class: new, known or other."""
        n_new = len(self.examples)
        return (*["new"] * n_new, *["known"] * (len(self.classes) - n_new - 1), "other")

    def with_examples(self, examples: Mapping[str, Tensor], others: Tensor | None = None) -> "OpenQuestion":
        """The same question with other examples: only classes whose examples changed get a new direction.

        ``others`` replaces the nodes that are said to be of no class, if it is given.
        """
        return self.with_each([examples], others)[0]

    def with_each(self, several: Sequence[Mapping[str, Tensor]], others: Tensor | None = None) -> list["OpenQuestion"]:
        """The same question with each of several other examples; the pool is looked at once for all of them."""
        asked = [self._showing(examples, self.others if others is None else others) for examples in several]
        widths = [2 * len(one.directions) for one in asked]
        projections = self._projections(self.pool, [part for one in asked for part in one.directions.values()])
        facts, found = self.model.facts[self.pool], []
        for one, own in zip(asked, projections.split(widths, 1), strict=True):
            free = ~torch.isin(self.pool, torch.cat([*one.examples.values(), one.others]))
            utilities = one._utilities(facts[free], own[free])
            found.append(replace(one, shares=priors.estimate(utilities, one._assumed(), one._fixed())))
        return found

    def _fixed(self) -> dict[int, float]:
        """The shares that were said, by group; both parts of other have half of it."""
        groups = [None, *self.directions, self.other]
        places = {name: [i for i, one in enumerate(groups) if one == name] for name in self.fixed}
        return {i: self.fixed[name] / len(at) for name, at in places.items() for i in at}

    def _showing(self, examples: Mapping[str, Tensor], others: Tensor) -> "OpenQuestion":
        """The question with these examples, before the shares are estimated."""
        shown = {**examples, self.other: others} if len(others) else dict(examples)
        before = {**self.examples, self.other: self.others}
        directions = {}
        for name, nodes in shown.items():
            same = name in self.directions and torch.equal(before[name], nodes)
            rows = self.model.x[nodes].float()
            directions[name] = self.directions[name] if same else self.model.moments.direction(rows)
        shots = [len(nodes) for nodes in shown.values()]
        usual = sum(shots) / len(shots) if shots else USUAL_SHOTS
        taught = [self.model.nearest(shot).membership for shot in (*shots, usual)]
        return replace(self, examples=dict(examples), others=others, directions=directions, memberships=taught)

    def _projections(self, nodes: Tensor, directions: Sequence[Direction]) -> Tensor:
        """``[B, 2 * directions]``: both weights of each in turn."""
        if not directions:
            return self.model.facts.new_zeros(len(nodes), 0)
        weights = torch.cat([part.weights for part in directions], 1)
        parts = [self.model.x[some].float() @ weights for some in nodes.split(ROWS)]
        return torch.cat(parts) - self.model.moments.mean @ weights

    def utilities(self, nodes: Tensor) -> Tensor:
        """Log odds of the groups against known, ``[B, G]`` (both parts of other), at the shares of rehearsals."""
        return self._utilities(self.model.facts[nodes], self._projections(nodes, list(self.directions.values())))

    def _utilities(self, facts: Tensor, projections: Tensor) -> Tensor:
        columns = []
        for i, (direction, taught) in enumerate(zip(self.directions.values(), self.memberships, strict=False)):
            own = membership.class_facts(projections[:, 2 * i : 2 * i + 2], facts, direction)
            columns.append(taught.utilities(facts, own[:, None])[:, 1])
        other = self.memberships[-1].utilities(facts, facts.new_zeros(len(facts), 0, 4))[:, -1]
        return torch.stack([torch.zeros_like(other), *columns, other], 1)

    def groups(self, nodes: Tensor) -> Tensor:
        """Probabilities ``[B, G]`` of known (all together), each new class, and other."""
        parts = [priors.with_shares(self.utilities(part), self._assumed(), self.shares) for part in nodes.split(BATCH)]
        found = torch.cat(parts) if parts else self.model.facts.new_zeros(0, len(self.directions) + 2)
        n = 1 + len(self.examples)
        return torch.cat([found[:, :n], found[:, n:].sum(1, keepdim=True)], 1)

    def probabilities(self, nodes: Tensor) -> Tensor:
        """Probabilities ``[B, classes]`` in the order of ``classes``."""
        groups = self.groups(nodes)
        return torch.cat([groups[:, 1:-1], groups[:, :1] * self._known(nodes), groups[:, -1:]], 1)

    def expect(self, probabilities: Tensor, accepted: Tensor) -> Expectation:
        """What is to be expected of rows with these probabilities, of which only the ``accepted`` get a label."""
        return self.expectation(self.tally(probabilities, accepted))

    def tally(self, probabilities: Tensor, accepted: Tensor) -> Tally:
        """The sums over some rows that expectations are made from."""
        n_new = len(self.examples)
        known, new, other = probabilities[:, n_new:-1], probabilities[:, :n_new], probabilities[:, -1:]
        best = known.max(1, keepdim=True).values if known.shape[1] else torch.zeros_like(other)
        groups = torch.cat([known.sum(1, keepdim=True), new, other], 1)
        return tallied(torch.cat([best, new, other], 1), groups, accepted.float(), torch.ones_like(other[:, 0]))

    def expectation(self, tally: Tally) -> Expectation:
        """What is to be expected of the rows of a tally."""
        shots = sum(len(nodes) for nodes in self.examples.values())
        taught = self.model.nearest(shots / len(self.examples) if self.examples else USUAL_SHOTS)
        return expectation(tuple(self.examples), tally, taught.gaps, taught.episodes)

    def _known(self, nodes: Tensor) -> Tensor:
        """Which known class, if any; a class that is shown by examples now is no longer among them."""
        log = self.model.log_known[nodes]
        keep = [i for i, name in enumerate(self.model.classes) if name not in self.examples]
        return log.softmax(1) if len(keep) == log.shape[1] else log[:, keep].softmax(1)

    def _assumed(self) -> Tensor:
        """The shares at which the utilities were learned."""
        n_new = len(self.directions)
        parts = [taught.assumed(n_new) for taught in self.memberships]
        shares = torch.stack([parts[-1][0], *(part[1] for part in parts[:-1]), parts[-1][-1]])
        return (shares / shares.sum()).to(self.model.facts)


# --- What the open question needs of a model and its graph: the labels that count, the views, a folder to stay in.
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
def open_world(model: Method, graph: Graph, y: Tensor, classes: tuple[str, ...], progress: Progress) -> OpenSetModel:
    """The open-world model of a graph, on the views of the method, if it has any, else on fresh ones."""
    progress("making the views", 0.0)
    views = _views(model, graph)
    sources = views.sources(graph)
    return OpenSetModel.fit(graph, views(graph), y, classes, sources=sources, use=views.use, progress=progress)


def _views(model: Method, graph: Graph) -> Views:
    own = getattr(model, "views", None)
    return own if isinstance(own, Views) else Views(graph.num_features).to(graph.device).fit(graph)


def relay_of(model: Method, graph: Graph, world: OpenSetModel) -> Relay:
    """What the nodes of the graph hand on to nodes that arrive later."""
    assert world.recipe is not None
    views = _views(model, graph)
    seen = union(world.use.seen(graph))
    return Relay.of(seen, views(graph), views.sources(graph), world.y, world.recipe.answers)


@torch.no_grad()
def open_set_on_disk(
    model: Method, graph: Graph, y: Tensor, classes: tuple[str, ...], progress: Progress
) -> OpenSetModel:
    """The same for a graph on disk: kept in its store, under a name that belongs to the views and the labels."""
    own = getattr(model, "views", None)
    assert graph.space is not None and isinstance(own, Views)
    sha = hashlib.sha256(f"{graph.fingerprint} {own.rank} {classes}".encode())
    for part in (own.features.basis, own.features.idf, y):
        sha.update(part.contiguous().numpy().data)
    space = graph.space.within(f"world-{sha.hexdigest()[:16]}")
    assert space.folder is not None
    if (space.folder / NAME).exists():
        found = load(space.folder, Manifest.read(space.folder), y, classes)
        assert found is not None and found.recipe is not None
        recipe = replace(found.recipe, answers=space.open("answers"), sources=own.sources(graph))
        x, log_known, facts = (space.open(name) for name in ("x", "log_known", "facts"))
        return replace(found, x=x, log_known=log_known, facts=facts, recipe=recipe)
    progress("making the views", 0.0)
    made = OpenSetModel.fit(graph, own(graph), y, classes, sources=own.sources(graph), space=space, progress=progress)
    graph.space.within("scratch").clear()
    assert made.recipe is not None
    none, links = made.facts.new_zeros(0), made.recipe.sources.links[:0]
    bare = replace(made.recipe, answers=none, sources=replace(made.recipe.sources, links=links, columns=lambda: none))
    save(replace(made, x=none, log_known=none, facts=none, recipe=bare), space.folder)
    Manifest.write(space.folder)
    return made


def save(model: OpenSetModel, folder: Path) -> None:
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


def load(folder: Path, manifest: Manifest, y: Tensor, classes: tuple[str, ...]) -> OpenSetModel | None:
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
        return OpenSetModel(classes, x, y, log_known, facts, moments, document.rehearsed, recipe, use=document.edges)


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
