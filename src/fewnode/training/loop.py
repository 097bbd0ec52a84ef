"""The training loop: draw tasks, take a step, validate, keep the best weights, stop when accuracy no longer rises."""

import hashlib
import json
import math
import os
import socket
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors import safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from .. import methods
from ..errors import InputError, refused
from ..files import PathLike, check_finite, readable, reading, write_tensors
from ..graph import Graph
from ..methods.base import Method, ModelCard, Training, checked_options, constructor_parameters, versions
from ..nn.optimizers import Adam
from ..store import one_thread
from ..tasks import ClassSplit, Tasks, TaskSampler, random_bits, training_view
from .evaluate import correct, score_tasks
from .progress import shown


class Episodes:
    """The tasks of one training.

    If the classes are too small for the requested sizes, the sizes are reduced, and ``notes`` say so.
    """

    def __init__(self, card: ModelCard, settings: Training, view: Graph, graph: Graph, split: ClassSplit) -> None:
        self.graph, self.seed, self.n_way = graph, card.seed, card.n_way
        self.notes: list[str] = []
        self.base, validation = TaskSampler(view.y, split.base), TaskSampler(graph.y, split.validation)
        tested = card.n_way, card.k_shot, card.n_query
        trained = settings.train_way, settings.train_shot, settings.train_query
        way, shot, query = (given or usual for given, usual in zip(trained, tested, strict=True))
        if (shape := self._feasible("training", self.base, way, shot, query)) is None:
            raise InputError(f"training needs two base classes with at least {shot + 1} labelled nodes")
        self.shape = shape
        self.pool: Tasks | None = None
        if shape := self._feasible("validation", validation, *tested):
            self.pool = validation.draw(*shape, 100, seed=10**6)  # another stream than any training seed's
        else:
            self._note(
                "there are no two validation classes large enough: nothing is selected, the last weights are kept"
            )

    def training_tasks(self, block: int, n_tasks: int) -> Tasks:
        """The tasks of a block of steps.

        The seed of the block also seeds torch, for dropout and other draws. A training that is resumed between two
        blocks therefore gives the same result as an uninterrupted one.
        """
        seed = (block + 1 << 64) + self.seed  # two halves of one Philox key: no two blocks of any trainings are alike
        torch.manual_seed(int(random_bits(seed, 1)[0]) >> 1)
        return self.base.draw(*self.shape, n_tasks, seed)

    def validate(self, model: Method) -> float | None:
        """The accuracy on the validation tasks.

        With several processes, it is the accuracy of the first one, so that all stop at the same step even if rounding
        differs.
        """
        if self.pool is None:
            return None
        accuracy = correct(score_tasks(model, self.graph, self.pool), self.pool).mean(1).mean()
        if place()[1] > 1:
            dist.broadcast(accuracy, src=0)
        return float(accuracy)

    def _feasible(
        self, what: str, sampler: TaskSampler, way: int, shot: int, query: int
    ) -> tuple[int, int, int] | None:
        """The shape asked for, or the nearest the classes can give: fewer queries first, then fewer ways. A note says
        if it is another."""
        sizes = sorted(sampler.size.tolist(), reverse=True)
        ways = min(way, sum(size > shot for size in sizes))
        if ways < 2:
            return None
        queries = min(query, sizes[ways - 1] - shot)
        if (ways, queries) != (way, query):
            self._note(
                f"{what} tasks are {ways}-way with {queries} queries per class instead of {way}-way with {query}: "
                f"that is what the {len(sizes)} classes can give (sizes {sizes[-1]} to {sizes[0]})",
                quiet=what == "training" and ways >= self.n_way,  # more ways than are tested are optional
            )
        return ways, shot, queries

    def _note(self, text: str, quiet: bool = False) -> None:
        self.notes.append(text)
        if not quiet:
            warnings.warn(text, stacklevel=2)


@contextmanager
def ranks() -> Iterator[int]:
    """Join the processes that torchrun started, and yield the number of this one. A single process yields 0."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        yield 0
        return
    if os.environ.get("LOCAL_WORLD_SIZE") == os.environ["WORLD_SIZE"]:  # one machine: no other needs to reach them
        loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
    dist.init_process_group("gloo")
    try:
        yield dist.get_rank()
    finally:
        dist.destroy_process_group()


def place() -> tuple[int, int]:
    """The number of this process, and the number of processes that train together."""
    joined = dist.is_available() and dist.is_initialized()
    return (dist.get_rank(), dist.get_world_size()) if joined else (0, 1)


def average_gradients(weights: Iterable[nn.Parameter], n: int) -> None:
    """Replace the gradients of every process by the mean over all ``n`` processes."""
    for weight in weights:
        weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
        dist.all_reduce(weight.grad)
        weight.grad /= n


@dataclass(frozen=True)
class TrainingProgress:
    """The argument of a callback: the loss after every step, and at every check also the validation accuracy."""

    step: int
    steps: int
    loss: float
    accuracy: float | None
    best: float | None
    steps_per_second: float


Callback = Callable[[TrainingProgress], None]


class TensorBoardLog:
    """Writes the loss and speed of every step and the validation accuracy of every check into a folder (extra ``log``).

    ``fit(..., callback=TensorBoardLog("runs/log"))``; then ``tensorboard --logdir runs/log``.
    """

    def __init__(self, folder: PathLike) -> None:
        with refused("a log for TensorBoard needs it installed", ImportError, remedy="pip install 'fewnode[log]'"):
            from torch.utils.tensorboard import SummaryWriter
        self.writer = SummaryWriter(str(folder))

    def __call__(self, progress: TrainingProgress) -> None:
        self.writer.add_scalar("loss", progress.loss, progress.step)
        self.writer.add_scalar("steps_per_second", progress.steps_per_second, progress.step)
        if progress.accuracy is not None:
            self.writer.add_scalar("validation_accuracy", progress.accuracy, progress.step)
            self.writer.flush()  # a check is what should survive a kill


class TrainingState:
    """The model with its card, its optimiser and its best weights. With a folder, it is written at every check."""

    def __init__(self, model: Method, settings: Training, folder: str | Path | None) -> None:
        self.model, self.weights = model, [weight for weight in model.parameters() if weight.requires_grad]
        self.optimizer = Adam(
            self.weights,
            settings.learning_rate,
            weight_decay=settings.weight_decay,
            foreach=not settings.fused,  # all weights in one call: the same as one after the other, to the bit
            fused=settings.fused,
        )
        self.best_weights: dict[str, Tensor] = {}
        self.file = None if folder is None else Path(folder) / "training.safetensors"
        if self.file is not None and self.file.exists():
            with reading(self.file, "delete it to start anew"):
                self._read(self.file)

    def take_step(self, loss: Tensor, clip: float | None) -> float:
        """Take one step of the optimiser.

        Gradients are the mean over all processes. Each has the same number of tasks, so this is the gradient of all
        tasks.
        """
        if not math.isfinite(value := float(loss.detach())):
            raise FloatingPointError(f"the training loss became {value}; try a smaller learning_rate or clip=1.0")
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if (n := place()[1]) > 1:
            average_gradients(self.weights, n)
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(self.weights, clip)
        self.optimizer.step()
        return value

    @property
    def waited(self) -> int:
        """The number of checks since the best one."""
        found = [accuracy for _, accuracy in self.model.card.curve]
        return len(found) - 1 - found.index(max(found)) if found else 0

    def check(self, step: int, accuracy: float | None) -> None:
        """Record a validation accuracy (None if there is nothing to select on) and write the state."""
        card = self.model.card
        if accuracy is None or card.best is None or accuracy > card.best:
            card = replace(card, best=accuracy)
            self.best_weights = {key: value.detach().clone() for key, value in self.model.state_dict().items()}
        curve = card.curve if accuracy is None else (*card.curve, (step, accuracy))
        self.model.card = replace(card, curve=curve, stopped_at=step)
        if self.file is not None and place()[0] == 0:
            self._write(self.file)

    def _write(self, file: Path) -> None:
        """All of it in safetensors' format. It has its own hash, no manifest: it is one file, replaced in one step."""
        parts = {"weights": self.model.state_dict(), "best": self.best_weights}
        parts |= {f"optimizer/{number}": moments for number, moments in self.optimizer.state_dict()["state"].items()}
        values = ((f"{part}/{key}", value) for part, entries in parts.items() for key, value in entries.items())
        tensors = {key: torch.as_tensor(value).detach().cpu().contiguous() for key, value in values}
        card = json.dumps(vars(self.model.card)).encode()
        tensors["card"] = torch.frombuffer(bytearray(card), dtype=torch.uint8)
        write_tensors(file, tensors, {"sha256": hashlib.sha256(to_bytes(tensors)).hexdigest()})

    def _read(self, file: Path) -> None:
        with safe_open(readable(file), "pt") as stored:
            tensors = {key: stored.get_tensor(key) for key in stored.keys()}  # noqa: SIM118 - not a dict
            if (stored.metadata() or {}).get("sha256") != hashlib.sha256(to_bytes(tensors)).hexdigest():
                raise InputError(f"{file} is damaged: its SHA-256 is not the one that was written")
        found = ModelCard.from_json(tensors.pop("card").numpy().tobytes(), "its card")
        theirs, ours = (json.loads(json.dumps(card.identity())) for card in (found, self.model.card))
        for key, value in ours.items():
            if theirs[key] != value:
                raise InputError(
                    f"{file} belongs to another training: its {key} is {theirs[key]!r}, this one's is {value!r}. "
                    f"Use another folder, or delete it to start anew"
                )
        check_finite(tensors)
        parts: defaultdict[str, dict[str, Tensor]] = defaultdict(dict)
        for path, value in tensors.items():
            part, _, key = path.rpartition("/")
            parts[part][key] = value
        _restore(self.model, parts.pop("weights"))
        self.model.card = replace(self.model.card, curve=found.curve, best=found.best, stopped_at=found.stopped_at)
        self.best_weights = parts.pop("best")
        moments = {int(part.partition("/")[2]): entries for part, entries in parts.items()}
        self.optimizer.load_state_dict(self.optimizer.state_dict() | {"state": moments})


@torch.no_grad()
def _restore(model: Method, weights: dict[str, Tensor]) -> None:
    """Put weights back, touching only those that differ: values cached for an unchanged basis stay valid."""
    for key, value in model.state_dict().items():
        if not torch.equal(value, weights[key].to(value.device)):
            value.copy_(weights[key])


@one_thread
def fit(
    method: str | type[Method],
    graph: Graph,
    split: ClassSplit | None = None,
    *,
    n_way: int = 5,
    k_shot: int = 5,
    n_query: int = 10,
    seed: int = 0,
    device: str = "auto",
    inductive: bool = False,
    resume: str | Path | None = None,
    callback: Callback | None = None,
    **options: Any,
) -> Method:
    """Train a method on the base classes of a graph and return the weights that are best on validation classes.

    The random state of the caller does not change, and the same seed gives the same weights.

    Args:
        method: a name of ``fewnode ls methods``, or a class of your own.
        graph: the whole graph; labels outside ``split.base`` are not used for training.
        split: the classes to train on and to select on; a training-free method needs none.
        n_way: classes of a validation task, and of a training task unless ``train_way`` is given.
        k_shot: supports of each class, likewise (``train_shot``).
        n_query: queries of each class, likewise (``train_query``).
        seed: of the initial weights and the training tasks.
        device: "auto", "cpu", "cuda", ...
        inductive: remove all nodes of novel classes from the training graph.
        resume: a folder for the state of the training; an interrupted training continues from it to the same weights.
        callback: called with a ``TrainingProgress`` after every step; by default, a terminal shows a bar.
        options: options of the method's constructor and of ``Training``.

    Returns:
        The fitted model, in eval mode; ``model.card`` records how it was fitted.

    Example:
        >>> import fewnode
        >>> graph, split = fewnode.planted(300, 6, seed=0)
        >>> model = fewnode.fit("pn", graph, split, n_way=2, k_shot=3, steps=20)
        >>> model.card.method, model.card.seed
        ('pn', 0)
    """
    kind = methods.find(method) if isinstance(method, str) else method
    options = checked_options(kind, options)
    if kind.presets:
        preset = options.get("preset", next(iter(kind.presets)))
        options = kind.presets[preset] | {"preset": preset} | options
    own = constructor_parameters(kind)
    build = {name: value for name, value in options.items() if name in own}
    if split is None and kind.training_settings is not None:
        raise InputError(f"{kind.__name__} learns from base classes: give a split, for example random_split(graph.y)")
    if split is None and inductive:
        raise InputError("inductive training leaves the novel classes' nodes out: it needs a split that names them")
    graph = graph.to(_device(device))
    named = split or ClassSplit(())
    if absent := [c for c in (*named.base, *named.validation, *named.novel) if c >= graph.num_classes]:
        raise InputError(
            f"the split names class {absent[0]}, but the classes of this graph are 0 to {graph.num_classes - 1}; give "
            "the split of this graph"
        )
    if split is not None and inductive:
        graph = graph.subgraph(~torch.isin(graph.y, torch.tensor(split.novel, device=graph.device)))
    view = graph if split is None else training_view(graph, split)
    known = {"in_channels": graph.num_features, "base_classes": named.base, "n_way": n_way, "k_shot": k_shot}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        found, notes = kind.context(view, build)
        context = {name: value for name, value in {**known, **found}.items() if name in own}
        model = kind(**context, **build).to(graph.device)
        model.card = ModelCard(
            kind.key(),
            build,
            context,
            graph.fingerprint,
            n_way,
            k_shot,
            n_query,
            seed,
            feature_names=graph.feature_names,
            split=None if split is None else asdict(split),
            inductive=inductive,
            versions=versions(),
            notes=tuple(notes),
        )
        model.prepare(view)
        if model.training_settings is not None and split is not None:
            overrides = {name: value for name, value in options.items() if name not in own}
            settings = replace(model.training_settings, **overrides)
            model.card = replace(model.card, training=asdict(settings))
            episodes = Episodes(model.card, settings, view, graph, split)
            _train(model, view, settings, episodes, TrainingState(model, settings, resume), callback)
    return model.eval()


def _train(
    model: Method, view: Graph, settings: Training, episodes: Episodes, state: TrainingState, callback: Callback | None
) -> None:
    """Blocks of steps, each ended by a check; every process takes its share of a step's tasks. Without a callback a
    person at a terminal sees a bar."""
    started, notes = time.perf_counter(), [*model.card.notes, *episodes.notes]
    first = step = model.card.stopped_at
    per_step, (rank, n) = settings.tasks_per_step, place()
    if per_step % n:
        raise InputError(f"tasks_per_step is {per_step}: {n} processes cannot share that; make it {n} or {2 * n}")
    try:
        with shown("auto" if callback is None and rank == 0 else None) as tell:
            if not model.card.curve:  # what training has to beat is where it starts
                state.check(step, episodes.validate(model))
            while step < settings.steps and state.waited < settings.patience:
                steps = min(settings.check_every, settings.steps - step)
                tasks = episodes.training_tasks(step // settings.check_every, steps * per_step).to(view.device)
                model.train()
                for at in range(0, len(tasks), per_step):
                    loss = state.take_step(model.loss(view, tasks[at + rank : at + per_step : n]), settings.clip)
                    step, accuracy = step + 1, None
                    if at + per_step == len(tasks):
                        accuracy = episodes.validate(model)
                        state.check(step, accuracy)
                    best = model.card.best
                    told = "" if best is None else f", validation {100 * best:.1f} %"
                    tell(f"training, loss {loss:.3f}{told}", step / settings.steps)
                    if callback is not None:
                        speed = (step - first) / (time.perf_counter() - started)
                        callback(TrainingProgress(step, settings.steps, loss, accuracy, best, speed))
    except KeyboardInterrupt:
        notes.append(f"interrupted at step {step} of {settings.steps}; the best weights so far are kept")
    if state.best_weights:
        _restore(model, state.best_weights)
    seconds = round(time.perf_counter() - started, 3)
    model.card = replace(model.card, notes=tuple(notes), stopped_at=step, training_seconds=seconds)


def _device(name: str) -> torch.device:
    """The device of that name. "auto" is a GPU, if there is one: of the processes of torchrun, each takes its own."""
    if name == "auto":
        name = f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu"
    absent = RuntimeError, AssertionError  # torch's answers to a misspelt or absent device
    with refused(f"device {name!r} cannot be used here", *absent, remedy="try 'auto' or 'cpu'"):
        return torch.empty(0, device=name).device
