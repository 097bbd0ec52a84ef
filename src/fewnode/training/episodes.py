"""Where training and validation tasks come from: drawn from the classes of a split, in shapes they can give."""

import warnings

from ..card import ModelCard
from ..errors import InputError
from ..evaluation import evaluate
from ..graph import Graph
from ..methods.base import Method, Training
from ..tasks import ClassSplit, Tasks, TaskSampler, draw_tasks

VALIDATION_TASKS = 100
SETTLING_TASKS = 300  # for what is decided once
VALIDATION_SEED = 10**6  # another stream than any training seed's


class Episodes:
    """The tasks of one training. Asked-for sizes that the classes cannot give are reduced to what they have, and
    ``notes`` say so."""

    def __init__(self, card: ModelCard, settings: Training, view: Graph, graph: Graph, split: ClassSplit) -> None:
        self.seed, self.n_way, self.n_query = card.seed, card.n_way, card.n_query
        self.notes: list[str] = []
        self.graph = graph
        self.base = TaskSampler(view.y, split.base)
        way, shot, query = settings.train_way, settings.train_shot, settings.train_query
        asked = (way or card.n_way, shot or card.k_shot, query or card.n_query)
        shape = self._feasible("training", self.base, *asked)
        if shape is None:
            raise InputError(f"training needs two base classes with at least {asked[1] + 1} labelled nodes")
        self.shape = shape
        self.pool = self._validation_pool(split, card.n_way, card.k_shot, card.n_query)

    def training_tasks(self, block: int, n_tasks: int) -> Tasks:
        return self.base.draw(*self.shape, n_tasks, mix(self.seed, block))

    def drawn(self, classes: tuple[int, ...], way: int, shot: int) -> Tasks | None:
        """Tasks of base or validation ``classes``, ``way`` to a task or the nearest shape that they can give."""
        shape = _possible(TaskSampler(self.graph.y, classes), way, shot, self.n_query)
        return shape and draw_tasks(self.graph.y, classes, *shape, SETTLING_TASKS, VALIDATION_SEED)

    def validate(self, model: Method) -> float | None:
        return None if self.pool is None else evaluate(model, self.graph, tasks=self.pool).accuracy

    def _validation_pool(self, split: ClassSplit, n_way: int, k_shot: int, n_query: int) -> Tasks | None:
        sampler = TaskSampler(self.graph.y, split.validation)
        shape = self._feasible("validation", sampler, n_way, k_shot, n_query)
        if shape is None:
            self._say(
                "there are no two validation classes large enough: nothing is selected, the last weights are kept"
            )
            return None
        return draw_tasks(self.graph.y, split.validation, *shape, VALIDATION_TASKS, VALIDATION_SEED)

    def _feasible(
        self, what: str, sampler: TaskSampler, way: int, shot: int, query: int
    ) -> tuple[int, int, int] | None:
        """The shape that is possible; a note says if it is not the one asked for."""
        shape = _possible(sampler, way, shot, query)
        if shape is not None and shape != (way, shot, query):
            (ways, _, queries), sizes = shape, sorted(sampler.size.tolist(), reverse=True)
            kind = "base" if what == "training" else what
            self._say(
                f"{what} tasks are {ways}-way with {queries} queries per class instead of {way}-way with {query}: "
                f"that is what the {len(sizes)} {kind} classes can give (sizes {sizes[-1]} to {sizes[0]})",
                warn=what == "validation" or ways < self.n_way,  # training with more ways than are tested is optional
            )
        return shape

    def _say(self, note: str, warn: bool = True) -> None:
        self.notes.append(note)
        if warn:
            warnings.warn(note, stacklevel=2)


def _possible(sampler: TaskSampler, way: int, shot: int, query: int) -> tuple[int, int, int] | None:
    """The shape asked for, or the nearest the classes can give: fewer queries first, then fewer ways."""
    sizes = sorted(sampler.size.tolist(), reverse=True)
    ways = min(way, sum(size > shot for size in sizes))
    return None if ways < 2 else (ways, shot, min(query, sizes[ways - 1] - shot))


def mix(seed: int, block: int) -> int:
    """A seed for each block of each run: two 64-bit halves of one Philox key, so no two are alike."""
    return (block + 1 << 64) + seed
