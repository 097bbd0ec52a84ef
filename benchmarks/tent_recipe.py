"""What each departure of ``tent`` from the paper is worth, on tasks of validation classes only.

    python benchmarks/tent_recipe.py run [data set ...]     adds missing rows to benchmarks/rows/tent_recipe.jsonl
    python benchmarks/tent_recipe.py run FORM [FORM ...]    the same for some forms
    python benchmarks/tent_recipe.py table                  prints all rows
    python benchmarks/tent_recipe.py page                   writes them into docs/tent.md

Each row is one training with seed 0 at the method's own settings, 5-way 5-shot; the checks during training see 100
tasks of the validation classes, the accuracy in the row is that on 500 others.
"""

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

import fewnode
from fewnode.methods.base import Method
from fewnode.methods.pn import PN
from fewnode.methods.tent import TENT
from fewnode.nn.smoothing import start_as_smoothing
from fewnode.tasks import TaskSampler

HERE = Path(__file__).resolve().parent.parent
ROWS = HERE / "benchmarks" / "rows" / "tent_recipe.jsonl"
PAGE, BEGIN, END = HERE / "docs" / "tent.md", "<!-- recipe:begin -->\n", "\n<!-- recipe:end -->"
SEED = 77  # of the tasks of the rows; the checks during training draw theirs from another
DATASETS = (  # from the quickest
    "lastfm_asia_nofeat",
    "amazon_clothing_test20",
    "cora_full_knnfeat",
    "coauthor_cs",
    "email_eu_core_nofeat",
    "nell_partial",
    "amazon_electronics_nofeat",
    "wordnet30_lexnames",
)


class SmoothPN(PN):
    """PN with the start of ``tent``: how much of the gain is the start, and nothing of TENT."""

    def __init__(self, in_channels: int, **options: Any) -> None:
        super().__init__(in_channels, **options)
        start_as_smoothing(self.encoder)  # type: ignore[arg-type]  # a GraphEncoder, unless use_graph is off


SHARED: dict[str, Any] = {  # the equations with what every other method gets, and no departure
    "preset": "printed",
    "features": "reduced",
    "backbone": "gcn",
    "hidden_channels": 256,
    "out_channels": 128,
    "second_channels": 128,
    "dropout": 0.5,
    "learning_rate": 0.001,
    "weight_decay": 5e-4,
    "tasks_per_step": 8,
    "check_every": 10,
    "patience": 10,
}
FORMS: dict[str, tuple[type[Method], dict[str, Any]]] = {
    "pn": (PN, {}),
    "full": (TENT, {}),
    "no mix": (TENT, {"learn_mix": False}),
    "no class adapter": (TENT, {"class_adaptation": False}),
    "no class-ego graph": (TENT, {"node_adaptation": False}),
    "no tau": (TENT, {"task_adaptation": False}),
    "Glorot start": (TENT, {"smoothing_start": False}),
    "not residual": (TENT, {"residual": False, "second_channels": 128}),
    "no sphere": (TENT, {"radius": 0.0}),
    "adapter from Glorot": (TENT, {"adapter_start": 1.0}),
    "tau as printed": (TENT, {"learn_tau": False}),
    "no scale": (TENT, {"learn_scale": False}),
    "equations alone": (TENT, SHARED),
    "pn from smoothing": (SmoothPN, {}),
}


def run(datasets: list[str], forms: list[str]) -> None:
    """Add the rows that are missing."""
    done = {(row["dataset"], row["form"]) for row in read()}
    for form in forms:
        for dataset in datasets:
            if (dataset, form) not in done:
                row = measure(dataset, form)
                with ROWS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(json.dumps(row), flush=True)


def measure(dataset: str, form: str) -> dict[str, Any]:
    """One training and its accuracy on validation tasks."""
    graph, split = fewnode.load_dataset(dataset)
    kind, options = FORMS[form]
    model = fewnode.fit(kind, graph, split, n_way=5, k_shot=5, seed=0, **options)
    sampler = TaskSampler(graph.y, split.validation)
    sizes = sorted(sampler.size.tolist(), reverse=True)
    way = min(5, sum(size > 5 for size in sizes))
    tasks = sampler.draw(way, 5, min(10, sizes[way - 1] - 5), 500, SEED)
    result = fewnode.evaluate(model, graph, tasks=tasks)
    learned = {name: round(float(value.detach()), 4) for name, value in model.named_parameters() if value.numel() == 1}
    return {
        "dataset": dataset,
        "form": form,
        "options": options,
        "seed": 0,
        "validation": round(100 * result.accuracy, 2),
        "interval": round(100 * result.interval, 2),
        "steps": model.card.stopped_at,
        "learned": learned,
    }


def read() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()] if ROWS.exists() else []


def table() -> str:
    """Forms down, data sets across, in percent."""
    rows = {(row["dataset"], row["form"]): row for row in read()}
    shown = [name for name in DATASETS if any(dataset == name for dataset, _ in rows)]
    titles = [name.replace("_nofeat", "").replace("_", " ") for name in shown]
    lines = ["| form | " + " | ".join(titles) + " |", "|---" * (len(shown) + 1) + "|"]
    for form in FORMS:
        found = [rows.get((dataset, form)) for dataset in shown]
        cells = ["–" if row is None else f"{row['validation']:.1f} ± {row['interval']:.1f}" for row in found]
        if any(row is not None for row in found):
            lines.append(f"| {form} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    command, *names = sys.argv[1:] or ["table"]
    if command == "run":
        run(
            [name for name in names if name in DATASETS] or list(DATASETS),
            [name for name in names if name in FORMS] or list(FORMS),
        )
    elif command == "page":
        head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(head + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")
    else:
        print(table())
