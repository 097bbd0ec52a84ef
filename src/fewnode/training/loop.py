"""The one training loop: draw tasks, step, check on validation tasks, keep the best, stop when it no longer rises."""

import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from .. import methods
from ..card import ModelCard, versions
from ..errors import InputError
from ..graph import Graph
from ..graph.edge_use import EdgeUse
from ..graph.relations import weights_tell
from ..methods.base import Method, Training, unread_edges
from ..methods.options import check_option, constructor_parameters, own_options
from ..nn.edge_choice import choose_edges
from ..tasks import ClassSplit, Tasks, training_view
from ..tasks.bits import random_bits
from . import distributed
from .callbacks import Callback, TrainingProgress, shown
from .episodes import Episodes, mix
from .state import TrainingState

RANK = 256  # of the views on which the use of edges is chosen, unless the method has its own


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
    """Train a method on the base classes of a graph, select on its validation classes, return the best weights.

    The caller's random state is left as it was, and the same seed gives the same weights.

    Args:
        method: a name of ``fewnode ls methods``, or a class of your own.
        graph: the whole graph; labels outside ``split.base`` never reach the training.
        split: the classes to learn from and to select on; a training-free method needs none.
        n_way: classes of a validation task, and of a training task unless ``train_way`` says otherwise.
        k_shot: supports of each class, likewise (``train_shot``).
        n_query: queries of each class, likewise (``train_query``).
        seed: of the first weights and the training tasks.
        device: "auto", "cpu", "cuda", ...
        inductive: take all nodes of novel classes out of the training graph.
        resume: a folder that keeps the state of the training; an interrupted one goes on from it to the same weights.
        callback: told a ``TrainingProgress`` after every step; without one, a terminal shows a bar.
        options: those of the method's constructor and of ``Training``.

    Returns:
        The fitted model, in eval mode; ``model.card`` says how it came about.

    Example:
        >>> import fewnode
        >>> graph, split = fewnode.planted(300, 6, seed=0)
        >>> model = fewnode.fit("pn", graph, split, n_way=2, k_shot=3, steps=20)
        >>> model.card.method, model.card.seed
        ('pn', 0)
    """
    kind = methods.find(method) if isinstance(method, str) else method
    build, overrides = _sort_options(kind, options)
    if split is None and kind.training_settings is not None:
        raise InputError(f"{kind.__name__} learns from base classes: give a split, for example random_split(graph.y)")
    graph = graph.to(_device(device))
    seen = _training_graph(graph, split, inductive)
    shape = {"n_way": n_way, "k_shot": k_shot, "n_query": n_query, "seed": seed, "inductive": inductive}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        context, notes = _context(kind, seen, split, n_way, k_shot, build.get("rank", RANK))
        model = kind(**context, **build).to(graph.device)
        model.card = _card(kind, seen, split, build, context, shape)
        model.card = replace(model.card, notes=(*unread_edges(kind, seen), *notes))
        view = seen if split is None else training_view(seen, split)
        model.prepare(view)
        if model.training_settings is not None and split is not None:
            settings = replace(model.training_settings, **overrides)
            model.card = replace(model.card, training=asdict(settings))
            episodes = Episodes(model.card, settings, view, seen, split)
            with shown(callback) as told:
                _train(model, view, settings, episodes, TrainingState(model, settings, resume), told)
            model.settle(seen, split, episodes.drawn)
    return model.eval()


def _train(
    model: Method,
    view: Graph,
    settings: Training,
    episodes: Episodes,
    state: TrainingState,
    callback: Callback | None,
) -> None:
    """Blocks of steps, each ended by a check. A block's randomness comes from its own seed, so that a training resumed
    at a check does what an undisturbed one does."""
    started, first, notes = time.perf_counter(), state.step, [*model.card.notes, *episodes.notes]
    try:
        if not state.curve:  # what training has to beat is where it starts
            state.check(distributed.agreed(episodes.validate(model)))
        while state.step < settings.steps and state.waited < settings.patience:
            block = min(settings.check_every, settings.steps - state.step)
            for loss, steps_done in _block(model, view, settings, episodes, state, block):
                accuracy = None
                if steps_done == block:
                    accuracy = distributed.agreed(episodes.validate(model))
                    state.check(accuracy)
                if callback is not None:
                    speed = (state.step - first) / (time.perf_counter() - started)
                    callback(TrainingProgress(state.step, settings.steps, loss, accuracy, state.best, speed))
    except KeyboardInterrupt:
        notes.append(f"interrupted at step {state.step} of {settings.steps}; the best weights so far are kept")
    state.finish()
    model.card = replace(
        model.card,
        notes=tuple(notes),
        curve=tuple(state.curve),
        best=state.best,
        stopped_at=state.step,
        training_seconds=round(time.perf_counter() - started, 3),
    )


def _block(
    model: Method, view: Graph, settings: Training, episodes: Episodes, state: TrainingState, steps: int
) -> Iterator[tuple[float, int]]:
    number = state.step // settings.check_every
    tasks = episodes.training_tasks(number, steps * settings.tasks_per_step).to(view.device)
    torch.manual_seed(int(random_bits(mix(model.card.seed, number), 1)[0]) >> 1)  # dropout and what else is drawn
    model.train()
    for step in range(steps):
        at = step * settings.tasks_per_step
        loss = _step(model, view, tasks[at : at + settings.tasks_per_step], state.optimizer, settings.clip)
        state.step += 1
        yield loss, step + 1


def _step(model: Method, view: Graph, tasks: Tasks, optimizer: torch.optim.Optimizer, clip: float | None) -> float:
    loss = model.loss(view, distributed.share(tasks))
    value = float(loss.detach())
    if value != value or abs(value) == float("inf"):
        raise FloatingPointError(f"the training loss became {value}; try a smaller learning_rate or clip=1.0")
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    distributed.average_gradients(model)
    if clip is not None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return value


def _sort_options(kind: type[Method], options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of the constructor, and of the training; an unknown one is answered with the closest."""
    own = own_options(kind)
    for name, value in options.items():
        check_option(kind, name, value)
    build = {name: value for name, value in options.items() if name in own}
    return build, {name: value for name, value in options.items() if name not in own}


def _training_graph(graph: Graph, split: ClassSplit | None, inductive: bool) -> Graph:
    if not inductive:
        return graph
    if split is None:
        raise InputError("inductive training leaves the novel classes' nodes out: it needs a split that names them")
    novel = torch.tensor(split.novel, device=graph.device)
    return graph.subgraph(~torch.isin(graph.y, novel))


def _context(
    kind: type[Method], graph: Graph, split: ClassSplit | None, n_way: int, k_shot: int, rank: int
) -> tuple[dict[str, Any], list[str]]:
    """The facts about the problem that a constructor's signature asks for, and notes on them."""
    base, wanted = split.base if split is not None else (), constructor_parameters(kind)
    known: dict[str, Any] = {"in_channels": graph.num_features, "base_classes": base, "n_way": n_way, "k_shot": k_shot}
    if not graph.has_features:
        known["words"] = False
    notes: list[str] = []
    if "edges" in wanted and split is not None:
        use, notes = _edge_use(training_view(graph, split), rank)
        known |= {} if use == EdgeUse() else {"edges": asdict(use)}
    return {name: known[name] for name in wanted if name in known}, notes


def _edge_use(view: Graph, rank: int) -> tuple[EdgeUse, list[str]]:
    """What to make of weights, directions and kinds of edges, by the labels of the base classes."""
    weighted = weights_tell(view)
    aside = "edges within base classes weigh no more than edges between them, so the weights are not used"
    choice = choose_edges(view, rank, weighted=weighted)
    return choice.use, [*([] if weighted else [aside]), *choice.notes()]


def _card(
    kind: type[Method],
    graph: Graph,
    split: ClassSplit | None,
    options: dict[str, Any],
    context: dict[str, Any],
    shape: dict[str, Any],
) -> ModelCard:
    return ModelCard(
        kind.key(),
        options,
        context,
        graph.fingerprint,
        **shape,
        feature_names=graph.feature_names,
        split=None if split is None else asdict(split),
        versions=versions(),
    )


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:  # torch's answers to a misspelt or absent device
        reason = str(error).splitlines()[0]
        raise InputError(f"device {name!r} cannot be used here ({reason}); try 'auto' or 'cpu'") from error
