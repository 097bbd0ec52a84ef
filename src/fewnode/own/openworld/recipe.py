"""What one node's row in the open-world model is made from, kept so that it can be made again for that node alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count, takewhile

import torch
from torch import Tensor

from ...nn.views import VIEWS, ViewSources
from ...store.rows import by_rows
from ...store.space import Space
from .coordinates import Frame
from .known_head import KnownHead, label_matrix, scores


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
