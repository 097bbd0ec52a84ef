"""Few-shot node classification on graphs: learn on classes with many labels, name a new one with a handful.

Names are loaded when first used, so that ``fewnode --help`` never waits for torch.
"""

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# OpenMP's threads spin while they wait for each other; beside another busy program that makes everything many times
# slower. Those that sleep at once wake up late, so they spin for some microseconds first. Both are read when torch
# loads, and a user's own choice is kept.
if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "passive"
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

_HOMES = {
    "ClassSplit": "tasks",
    "FewShotClassifier": "classifier.classifier",
    "Graph": "graph",
    "InputError": "errors",
    "Method": "methods.base",
    "Tasks": "tasks",
    "Training": "methods.base",
    "draw_tasks": "tasks",
    "evaluate": "training.evaluate",
    "fit": "training.loop",
    "label": "labelling.server",
    "load": "training.checkpoint",
    "load_dataset": "datasets",
    "planted": "datasets",
    "random_split": "tasks",
    "save": "training.checkpoint",
    "training_view": "tasks",
}

__all__ = [
    "ClassSplit",
    "FewShotClassifier",
    "Graph",
    "InputError",
    "Method",
    "Tasks",
    "Training",
    "draw_tasks",
    "evaluate",
    "fit",
    "label",
    "load",
    "load_dataset",
    "planted",
    "random_split",
    "save",
    "training_view",
]

if TYPE_CHECKING:
    from .classifier.classifier import FewShotClassifier
    from .datasets import load_dataset, planted
    from .errors import InputError
    from .graph import Graph
    from .labelling.server import label
    from .methods.base import Method, Training
    from .tasks import ClassSplit, Tasks, draw_tasks, random_split, training_view
    from .training.checkpoint import load, save
    from .training.evaluate import evaluate
    from .training.loop import fit


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
