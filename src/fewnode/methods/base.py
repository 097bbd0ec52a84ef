"""``Method``, the base class of all methods, and ``ModelCard``, which describes a fitted one."""

import ast
import inspect
import math
import platform
import re
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points, version
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.nn import functional as F

from ..errors import InputError, one_of
from ..files import Count, Positive, Seconds, Share, parse_json
from ..graph import Graph
from ..nn.features import ReducedFeatures
from ..nn.graph_layers import GraphEncoder, Inputs, renumbered, rows_at
from ..nn.heads import class_means, euclidean_scores
from ..nn.inner_loop import Weights, adapt
from ..tasks import Tasks


@dataclass(frozen=True)
class ModelCard:
    """A record of how a model was fitted: written by ``fit`` and stored by ``save``.

    ``options`` are the arguments of the method's constructor that the user chose, and ``context`` those that ``fit``
    derived from the graph; ``graph`` is the fingerprint of the training graph. ``training`` holds the settings of the
    loop (None if nothing was trained), ``curve`` the validation accuracy at each check, and ``best`` the highest of
    these.
    """

    method: str
    options: Mapping[str, Any]
    context: Mapping[str, Any]
    graph: str
    n_way: Positive
    k_shot: Positive
    n_query: Positive
    seed: int
    feature_names: tuple[str, ...] | None = None
    split: Mapping[str, tuple[Count, ...]] | None = None
    inductive: bool = False
    training: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    curve: tuple[tuple[Count, Share], ...] = ()
    best: Share | None = None
    stopped_at: Count = 0
    training_seconds: Seconds = 0.0
    dataset: str | None = None

    @property
    def title(self) -> str:
        """The name of the method, with its preset if it has presets."""
        return f"{self.method} (preset {self.options['preset']})" if "preset" in self.options else self.method

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped the training; the best weights up to then were kept."""
        return any(note.startswith("interrupted") for note in self.notes)

    def identity(self) -> dict[str, Any]:
        """The fields that identify a training: a state on disk is resumed only if all of them agree."""
        told = {"notes", "versions", "feature_names", "dataset"} | {"curve", "best", "stopped_at", "training_seconds"}
        return {key: value for key, value in vars(self).items() if key not in told}

    @classmethod
    def from_json(cls, data: bytes, where: str) -> "ModelCard":
        """The card in a JSON document of its fields; unknown keys are ignored."""
        return parse_json(data, cls, where)


def versions() -> dict[str, str]:
    """The versions on which a result depends; every row and every saved model records them."""
    from .. import __version__

    found = {name: version(name) for name in ("torch", "numpy", "scipy")}
    return {"fewnode": __version__, "python": platform.python_version(), **found}


@dataclass(frozen=True)
class Training:
    """How a method is trained: the settings of the optimiser, and the shape of training tasks.

    Args:
        learning_rate: of Adam.
        weight_decay: of Adam.
        steps: the maximum number of steps.
        tasks_per_step: tasks in the loss of one step.
        check_every: steps between two validation checks.
        patience: validation checks without improvement after which training ends.
        train_way: classes of a training task; by default as in the test tasks.
        train_shot: supports of each class of a training task; by default as in the test tasks.
        train_query: queries of each class of a training task; by default as in the test tasks.
        clip: the maximum norm of the gradient.
        fused: use the fused implementation of Adam, which is faster for large weights and rounds differently.

    Example:
        >>> import fewnode
        >>> fewnode.Training(steps=100).patience
        10
    """

    learning_rate: float = 0.005
    weight_decay: float = 5e-4
    steps: Count = 500
    tasks_per_step: Positive = 1
    check_every: Positive = 10
    patience: Count = 10
    train_way: Positive | None = None
    train_shot: Positive | None = None
    train_query: Positive | None = None
    clip: float | None = None
    fused: bool = False


class Method(nn.Module):
    """A few-shot node classifier. A subclass defines ``embed`` and ``score``.

    ``embed`` processes the graph once and does not depend on the tasks. ``score`` returns scores ``[T, M, N]`` with a
    row for each query and a column for each class; likelier classes have larger scores. A constructor takes
    ``in_channels``, those of ``base_classes``, ``n_way`` and ``k_shot`` that it needs, and keyword options with the
    paper's values as defaults.

    Example:
        >>> import fewnode, torch
        >>> class Degree(fewnode.Method):
        ...     training_settings = None
        ...     def __init__(self, in_channels):
        ...         super().__init__()
        ...     def embed(self, graph):
        ...         return graph.degree.float()
        ...     def score(self, graph, state, tasks):
        ...         query, support = state[tasks.query], state[tasks.support]
        ...         return -torch.cdist(query.unsqueeze(-1), support.unsqueeze(-1))
        >>> graph = fewnode.Graph.from_edges([[0, 0, 1], [1, 2, 3]])
        >>> model = fewnode.fit(Degree, graph)
        >>> model(graph, fewnode.Tasks([[0, 2]], [[0, 1]], [[1, 3]])).argmax(-1).tolist()
        [[0, 1]]
    """

    training_settings: Training | None = Training()  # None: there is nothing to train; an instance may have its own
    task_transductive: ClassVar[bool] = False  # True: the queries of a task influence each other's scores
    local: ClassVar[bool] = False  # True: ``embed(graph, nodes)`` embeds only these nodes, from their neighbourhoods
    uses_labels: ClassVar[bool] = True  # False: training reads no label, not even of base classes
    reads_edges: ClassVar[tuple[str, ...]] = ()  # what it uses of edges besides their ends: "weights", "types"
    presets: ClassVar[dict[str, dict[str, Any]]] = {}  # options by the name of a preset; the first is the default
    card: ModelCard  # where a fitted model comes from; written by fit, kept by save

    @classmethod
    def key(cls) -> str:
        """The name by which the method is found: the name of its file in this package, the name of an entry point of
        another package, or ``module:Class``."""
        package, _, module = cls.__module__.rpartition(".")
        own = f"{cls.__module__}:{cls.__qualname__}"
        found = (point.name for point in entry_points(group="fewnode.methods") if point.value == own)
        return module if package == __package__ else next(found, own)

    @classmethod
    def context(cls, graph: Graph, options: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Arguments of the constructor that depend on the training graph and the other ``options``, and notes.

        The training graph has only labels of base classes. ``fit`` stores arguments and notes in the model's card. By
        default, a note names the information in the edges that the method does not use.
        """
        there = {"weights": graph.weights is not None, "types": graph.edge_types is not None}
        unread = [f"edge {what}" for what, given in there.items() if given and what not in cls.reads_edges]
        return {}, [f"{cls.key()} does not use the {' and '.join(unread)}; vantage does"] if unread else []

    @property
    def device(self) -> torch.device:
        """The device of the weights and buffers; graphs and tasks are moved to it before they are scored."""
        return next((part.device for part in self.state_dict().values()), torch.device("cpu"))

    def prepare(self, graph: Graph) -> None:
        """Learn what needs no gradient from the training view; called once.

        By default, the parts that reduce the features are prepared.
        """
        for part in self.children():
            if isinstance(part, Inputs | ReducedFeatures):
                part.fit(graph)

    def embed(self, graph: Graph) -> Any:
        raise NotImplementedError

    def score(self, graph: Graph, state: Any, tasks: Tasks) -> Tensor:
        raise NotImplementedError

    def forward(self, graph: Graph, tasks: Tasks) -> Tensor:
        return self.score(graph, self.embed(graph), tasks)

    def loss(self, graph: Graph, tasks: Tasks) -> Tensor:
        """The training loss of a batch of tasks; by default the cross-entropy of the scores of the queries."""
        return cross_entropy(self(graph, tasks), tasks)


def cross_entropy(scores: Tensor, tasks: Tasks) -> Tensor:
    """Mean cross-entropy of ``scores [T, M, N]`` against the classes of the queries."""
    assert tasks.query_y is not None, "training tasks carry the classes of their queries"
    return F.cross_entropy(scores.flatten(0, 1), tasks.query_y.flatten())


class EncoderMethod(Method):
    """A method that embeds all nodes, or only the requested ones, with two graph convolutions.

    By default, a query is assigned to the nearest class mean.

    Args:
        in_channels: number of feature columns.
        hidden_channels, out_channels: widths of the encoder.
        dropout: share of the first layer's output that is dropped during training.
        radius: of the sphere onto which embeddings are projected; None for no projection.
        rank: number of principal directions of the inputs.
    """

    local: ClassVar[bool] = True
    reads_edges: ClassVar[tuple[str, ...]] = ("weights",)

    def __init__(
        self,
        in_channels: int,
        *,
        hidden_channels: int = 256,
        out_channels: int = 128,
        dropout: float = 0.5,
        radius: float | None = 3.0,
        rank: int = 256,
    ) -> None:
        super().__init__()
        self.inputs = Inputs(in_channels, rank)
        widths = (self.inputs.width, hidden_channels, out_channels)
        self.encoder = GraphEncoder(*widths, dropout=dropout, radius=radius)

    def embed(self, graph: Graph, nodes: Tensor | None = None) -> Any:
        """Embeddings [P, d] of ``nodes [P]``, by default of all nodes."""
        return self.encoder(self.inputs, graph, nodes)

    def score(self, graph: Graph, state: Any, tasks: Tasks) -> Tensor:
        """The negative squared distance of each query to the mean of each class's supports."""
        prototypes = class_means(rows_at(state, tasks.support), tasks.support_y, tasks.n_way)
        return euclidean_scores(rows_at(state, tasks.query), prototypes)

    def loss(self, graph: Graph, tasks: Tasks) -> Tensor:
        """The cross-entropy of the scores of the queries; only the nodes of the tasks are embedded."""
        nodes, local = renumbered(tasks)
        return cross_entropy(self.score(graph, self.embed(graph, nodes), local), local)


class InnerLoopMethod(Method):
    """A method whose initial weights take gradient steps on the supports of each task, for all tasks in one batch.

    ``embed`` returns the ``Neighbourhoods`` of the nodes. The loss and the scores of a task are functions of the
    weights and of these rows; ``target [S, N]`` holds the one-hot classes of the supports.

    Args:
        inner_steps, inner_rate: number and size of the gradient steps on the supports.
    """

    encoder: nn.Module

    rows_at_a_time: ClassVar[int] = 1 << 15  # of tasks, and ...
    queries_at_a_time: ClassVar[int] = 256  # ... of a task: both bound the memory

    def __init__(self, inner_steps: int, inner_rate: float) -> None:
        super().__init__()
        self.inner_steps, self.inner_rate = inner_steps, inner_rate

    def start(self, n_way: int) -> Weights:
        """The weights before the first step, by name; by default those of the encoder."""
        return dict(self.encoder.named_parameters())

    def task_loss(self, weights: Weights, *data: Tensor) -> Tensor:
        """The loss on the supports of one task, ``inputs, pool, target``, which the inner loop minimises."""
        inputs, pool, target = data
        return F.cross_entropy(self.task_scores(weights, *data, inputs, pool), target)

    def task_scores(self, weights: Weights, *data: Tensor) -> Tensor:
        """Scores [M, N] of one task, given ``inputs, pool, target`` of the supports and ``inputs, pool`` of the
        queries."""
        raise NotImplementedError

    def score(self, graph: Graph, state: Any, tasks: Tasks) -> Tensor:
        start = self.start(tasks.n_way)
        sizes = state.sizes(tasks.support) + state.sizes(tasks.query[:, : self.queries_at_a_time])
        order = torch.argsort(sizes, stable=True)
        batch = sizes[order].cumsum(0) // self.rows_at_a_time
        each_task, scores = vmap(self.task_scores, randomness="different"), []
        for part in order.split(torch.unique_consecutive(batch, return_counts=True)[1].tolist()):
            inputs, pool = state.rows(tasks.support[part])
            known = (inputs, pool, F.one_hot(tasks.support_y[part], tasks.n_way).to(inputs.dtype))
            weights = adapt(self.task_loss, start, known, steps=self.inner_steps, rate=self.inner_rate)
            groups = tasks.query[part].split(self.queries_at_a_time, dim=1)
            scores.append(torch.cat([each_task(weights, *known, *state.rows(group)) for group in groups], 1))
        return torch.cat(scores)[torch.argsort(order)]


# --- The options of a method, read from its signature: declared once, used by the command line and by grids.
CONTEXT = {"in_channels", "base_classes", "n_way", "k_shot", "edges", "words", "blocks"}  # filled in by fit, not chosen


def constructor_parameters(kind: type[Method]) -> dict[str, Any]:
    """The type of every parameter of a method's constructor; ``**options`` stand for those of its base class."""
    found: dict[str, Any] = {}
    for init in (vars(owner)["__init__"] for owner in kind.__mro__ if "__init__" in vars(owner)):
        hints, parameters = get_type_hints(init, include_extras=True), inspect.signature(init).parameters
        passed_on = [name for name, each in parameters.items() if each.kind is each.VAR_KEYWORD]
        found |= {name: hints.get(name, Any) for name in parameters if name not in {"self", *passed_on, *found}}
        if not passed_on:
            break
    return found


def option_types(kind: type[Method]) -> dict[str, Any]:
    """The type of every option of a method: those of its training, if there is any, and of its constructor."""
    training = {} if kind.training_settings is None else get_type_hints(Training, include_extras=True)
    return training | {name: hint for name, hint in constructor_parameters(kind).items() if name not in CONTEXT}


def checked_options(kind: type[Method], given: Mapping[str, Any]) -> dict[str, Any]:
    """Options converted to the types in the method's signature, also from texts (``{"gamma": "0.5"}``). An unknown
    option is refused, and the closest known one is named."""
    known = option_types(kind)
    for name in given:
        one_of(f"option of {kind.key()}", name, known)
    return {name: option_value(name, value, known[name]) for name, value in given.items()}


def option_value(name: str, given: Any, kind: Any) -> Any:
    """A value or a text, converted to the type ``kind``; the error says which values are valid."""
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    if type(None) in kinds and (given is None or given in ("none", "None")):
        return None
    kind = next(part for part in kinds if part is not type(None))
    if get_origin(kind) is Literal:
        return one_of(name, str(given), get_args(kind))
    limit = ""
    try:
        text = isinstance(given, str)
        value = ast.literal_eval(given) if text and get_origin(kind) is tuple else given
        value = msgspec.convert(value, kind, strict=not text)
        if not isinstance(value, float) or math.isfinite(value):
            return value
    except TypeError:  # a type that only the method itself can check
        return given
    except (ValueError, SyntaxError) as error:  # msgspec's are ValueErrors
        least = re.search(r">= (\d+)", str(error))
        limit = f" of at least {least[1]}" if least else ""
    plain = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    words = {int: "a whole number", float: "a number", bool: "true or false"}
    expected = words.get(plain, f"a value of type {getattr(plain, '__name__', plain)}")
    raise InputError(f"{name}={given!r}: expected {expected}{limit}")
