"""Few-shot node classification on graphs: learn from classes with many labels, define new ones by a few examples.

Names are imported when they are first used, so that ``fewnode --help`` does not load torch.
"""

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# OpenMP's threads spin while they wait for each other, which makes everything many times slower beside another busy
# program. Threads that sleep at once wake up late, so they spin for some microseconds first. torch reads both variables
# when it is loaded; values that the user has set are kept.
if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "passive"
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
# Large tensors use large pages. Rows of neighbours are scattered over them, and with small pages the address lookup
# takes as long as reading the rows.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

_MODULES = {
    "classifier.classifier": ["FewShotClassifier"],
    "datasets.loading": ["load_dataset"],
    "datasets.synthetic": ["planted"],
    "errors": ["InputError"],
    "graph": ["Graph"],
    "labelling.server": ["label"],
    "methods.base": ["Method", "Training"],
    "tasks": ["ClassSplit", "Tasks", "draw_tasks", "random_split", "training_view"],
    "training.checkpoint": ["load", "save"],
    "training.evaluate": ["evaluate"],
    "training.loop": ["fit"],
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_HOMES)

if TYPE_CHECKING:
    from .classifier.classifier import FewShotClassifier as FewShotClassifier
    from .datasets.loading import load_dataset as load_dataset
    from .datasets.synthetic import planted as planted
    from .errors import InputError as InputError
    from .graph import Graph as Graph
    from .labelling.server import label as label
    from .methods.base import Method as Method
    from .methods.base import Training as Training
    from .tasks import ClassSplit as ClassSplit
    from .tasks import Tasks as Tasks
    from .tasks import draw_tasks as draw_tasks
    from .tasks import random_split as random_split
    from .tasks import training_view as training_view
    from .training.checkpoint import load as load
    from .training.checkpoint import save as save
    from .training.evaluate import evaluate as evaluate
    from .training.loop import fit as fit


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
