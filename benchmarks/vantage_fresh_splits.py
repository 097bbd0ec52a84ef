"""Does the design of vantage hold where it was not chosen? Other splits of every graph's classes, other planted graphs.

    python benchmarks/vantage_fresh_splits.py run [graph ...]   adds missing rows to rows/vantage_fresh_splits.jsonl
    python benchmarks/vantage_fresh_splits.py whole [graph ...] only those of the whole method
    python benchmarks/vantage_fresh_splits.py positions         without where walks go, if there are no words
    python benchmarks/vantage_fresh_splits.py untouched         those of a graph that played no part in any choice
    python benchmarks/vantage_fresh_splits.py table             prints them as Markdown

Each row is one training at 5-way (fewer where a split has fewer novel classes), tested on 500 tasks of novel classes.
"""

import json
import os
import statistics
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterable
from math import isnan, nan
from pathlib import Path
from typing import Any

from torch import Tensor

import fewnode
from fewnode.graph import Graph
from fewnode.methods.vantage import Vantage
from fewnode.tasks import ClassSplit, TaskSampler, draw_tasks, random_split

ROWS = Path(__file__).resolve().parent / "rows" / "vantage_fresh_splits.jsonl"
MADE: dict[str, dict[str, Any]] = {
    "made, 30% within": {"n": 6000, "classes": 30, "homophily": 0.3, "difficulty": 0.5, "tail": 0.5, "seed": 11},
    "made, 60% within": {"n": 10000, "classes": 60, "homophily": 0.6, "difficulty": 0.75, "features": 800, "seed": 12},
    "made, 10% within": {"n": 5000, "classes": 20, "homophily": 0.1, "difficulty": 0.4, "avg_degree": 16, "seed": 13},
    "made, 80% within": {"n": 4000, "classes": 25, "homophily": 0.8, "difficulty": 0.9, "avg_degree": 4, "seed": 14},
}
REAL = (
    "amazon_clothing_test20",
    "coauthor_cs",
    "cora_full_knnfeat",
    "lastfm_asia_nofeat",
    "email_eu_core_nofeat",
    "nell_partial",
    "wordnet30_lexnames",
    "amazon_electronics_nofeat",
)
UNTOUCHED = "fb15k237_types"  # opened when the method was finished; here without the kinds of its edges
SPLITS, SHOTS, QUERIES, TASKS = (1, 2, 3), (1, 5), 10, 500
TRAINED: dict[str, dict[str, Any]] = {
    "vantage": {},
    "without node level": {"node_adaptation": False},
    "without class level": {"class_adaptation": False},
    "without LDA view": {"lda_classes": 10**9},
    "without task level": {"task_adaptation": False},
    "cosines only": {},
    "gate starts level": {"start": 0.0},
}
POSITIONS = "without positions"  # the same as the whole wherever there are words: no column of the table
FLOORS: dict[str, dict[str, Any]] = {
    f"floor {head}{'' if smooth else ' without graph'}": {"head": head, "smooth": smooth}
    for head in ("mean", "ridge", "logistic")
    for smooth in (True, False)
}


class Cosines(Vantage):
    """How far the supports of a class lie apart does not count."""

    def _matched(self, products: Tensor, lengths: Tensor) -> Tensor:
        return products / lengths[:, None] * self.logit_scale.exp()


def run(graphs: list[str], wanted: Iterable[str] = (*FLOORS, *TRAINED)) -> None:
    """Add the rows that are missing."""
    done = {(row["graph"], row["split"], row["shots"], row["what"]) for row in read()}
    for name in graphs:
        graph = load(name)
        for number in SPLITS:
            split = random_split(graph.y, min_size=max(SHOTS) + QUERIES, seed=number)
            for shots in SHOTS:
                for what in wanted:
                    if (name, number, shots, what) not in done:
                        row = {"graph": name, "split": number, "shots": shots, "what": what}
                        keep(row | measure(graph, split, shots, what))


def load(name: str) -> Graph:
    if name in MADE:
        return fewnode.planted(**MADE[name])[0]
    if name != UNTOUCHED:
        return fewnode.load_dataset(name)[0]
    whole = Graph.from_npz(Path(os.environ["FEWNODE_DATA"]) / f"{name}.npz")
    return Graph.from_edges(whole.edge_arrays()["edge_index"], whole.features_scipy(), whole.y.numpy())


def measure(graph: Graph, split: ClassSplit, shots: int, what: str) -> dict[str, Any]:
    n_way = min(5, int((TaskSampler(graph.y, split.novel).size >= shots + QUERIES).sum()))
    tasks = draw_tasks(graph.y, split.novel, n_way, shots, QUERIES, TASKS, 0)
    kind = Cosines if what == "cosines only" else Vantage
    variants: dict[str, dict[str, Any]] = TRAINED | {POSITIONS: {"positional_view": False}}
    method, options = (kind, variants[what]) if what in variants else ("probe", FLOORS[what])
    model = fewnode.fit(method, graph, split, n_way=n_way, k_shot=shots, **options)
    result = fewnode.evaluate(model, graph, tasks=tasks)
    return {
        "ways": n_way,
        "accuracy": round(result.accuracy, 5),
        "interval": round(result.interval, 5),
        "validation": model.card.best,
        "classes": [len(split.base), len(split.validation), len(split.novel)],
    }


def keep(row: dict[str, Any]) -> None:
    with ROWS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    print(
        f"{row['graph']}, split {row['split']}, {row['shots']} shots, {row['what']}: {row['accuracy']:.3f}", flush=True
    )


def read() -> list[dict[str, Any]]:
    if not ROWS.exists():
        return []
    return [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]


def table() -> str:
    """Means over the splits; changes against the whole method."""
    found: dict[tuple[str, int, int], dict[str, float]] = defaultdict(dict)
    for row in read():
        found[row["graph"], row["shots"], row["split"]][row["what"]] = 100 * row["accuracy"]
    changes = [what for what in TRAINED if what != "vantage"]
    lines = ["| graph | shots | vantage | gain over the best floor | " + " | ".join(changes) + " |"]
    lines.append("| --- | ---: | ---: | ---: |" + " ---: |" * len(changes))
    every = defaultdict(list)
    for name in (*REAL, *MADE, UNTOUCHED):
        for shots in SHOTS:
            cells = [found[name, shots, split] for split in SPLITS]
            if not all(what in cell for cell in cells for what in (*FLOORS, "vantage")):
                continue
            gains = [mean(cell["vantage"] - max(cell[floor] for floor in FLOORS) for cell in cells)]
            gains += [mean(cell.get(what, nan) - cell["vantage"] for cell in cells) for what in changes]
            if name != UNTOUCHED:  # a check, not one of the graphs the means are about
                every[shots].append(gains)
            lines.append(_line(name, shots, f"{mean(cell['vantage'] for cell in cells):.1f}", gains))
    lines += [_line("mean", shots, "", map(mean, zip(*rows, strict=True))) for shots, rows in sorted(every.items())]
    return "\n".join(lines) + "\n"


def gains(graph: str, shots: str) -> str:
    """From the least to the largest gain over the best floor, over the splits."""
    found: dict[int, dict[str, float]] = defaultdict(dict)
    for row in read():
        if (row["graph"], row["shots"]) == (graph, int(shots)):
            found[row["split"]][row["what"]] = 100 * row["accuracy"]
    each = sorted(cell["vantage"] - max(cell[floor] for floor in FLOORS) for cell in found.values())
    return f"{each[0]:.1f} to {each[-1]:.1f}"


def _line(name: str, shots: int, whole: str, gains: Iterable[float]) -> str:
    cells = ["–" if isnan(gain) else f"{gain:+.1f}" for gain in gains]  # a dash: not all rows are there
    return f"| {name} | {shots} | {whole} | " + " | ".join(cells) + " |"


def mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # tasks that had to be made smaller
    if sys.argv[1:2] == ["run"]:
        run(sys.argv[2:] or [*MADE, *REAL])
    elif sys.argv[1:2] == ["whole"]:
        run(sys.argv[2:] or [*REAL, *MADE], ["vantage"])
    elif sys.argv[1:] == ["positions"]:
        run([name for name in REAL if name.endswith("_nofeat")], [POSITIONS])
    elif sys.argv[1:] == ["untouched"]:
        run([UNTOUCHED], [*FLOORS, "vantage"])
    elif sys.argv[1:] == ["table"]:
        print(table(), end="")
    else:
        sys.exit(__doc__)
