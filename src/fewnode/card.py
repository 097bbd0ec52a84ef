"""The card of a fitted model: where it comes from, how it was trained, and what happened during training."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import version
from typing import Any

from .files import Count, Positive, Seconds, Share, parse_json

STORY = ("curve", "best", "stopped_at", "training_seconds")  # what only a training has


@dataclass(frozen=True)
class ModelCard:
    """Written by ``fit``, kept by ``save``, read by everything that works with a fitted model.

    ``options`` went to the method's constructor, ``context`` is what it was told of the problem; ``graph`` is the
    fingerprint of the training graph. ``training`` holds the settings of the loop (None: nothing was trained),
    ``curve`` the validation accuracy at each check, ``best`` the highest of them.
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
        """The method, with its preset where it has presets."""
        return f"{self.method} (preset {self.options['preset']})" if "preset" in self.options else self.method

    @property
    def interrupted(self) -> bool:
        """Whether the training was stopped by hand; the best weights until then were kept."""
        return any(note.startswith("interrupted") for note in self.notes)

    def identity(self) -> dict[str, Any]:
        """What makes a training this one and no other: a state on disk is only resumed if all of it agrees."""
        told = ("notes", "versions", "feature_names", "dataset", *STORY)
        return {key: value for key, value in _plain(self).items() if key not in told}

    def with_head(self, options: Mapping[str, Any], context: Mapping[str, Any]) -> "ModelCard":
        """The card of the model after its head was replaced."""
        return replace(self, options={**self.options, **options}, context={**self.context, **context})

    def to_json(self) -> dict[str, Any]:
        """A JSON document; what a model without training does not have is left out."""
        document = _plain(self)
        absent = {key for key in ("training", "dataset") if document[key] is None}
        absent |= set(STORY) if self.training is None else set()
        return {key: value for key, value in document.items() if key not in absent}

    @classmethod
    def from_json(cls, data: bytes, where: str) -> "ModelCard":
        """The card in a document that ``to_json`` made; keys it does not know are left out."""
        found = parse_json(data, cls, where)
        free = ("options", "context", "training")  # what their values are is the method's own business
        return replace(found, **{key: _frozen(getattr(found, key)) for key in free})


def _plain(card: ModelCard) -> dict[str, Any]:
    return {field.name: getattr(card, field.name) for field in fields(card)}


def _frozen(value: Any) -> Any:
    """JSON's lists as tuples, to any depth."""
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return value


def versions() -> dict[str, str]:
    """The versions a result depends on, as every row and every saved model carries them."""
    from . import __version__

    found = {name: version(name) for name in ("torch", "numpy", "scipy")}
    return {"fewnode": __version__, "python": platform.python_version(), **found}
