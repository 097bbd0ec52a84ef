"""Why TENT collapses at its printed settings: one change at a time, validation accuracy over steps.

python benchmarks/tent_stability.py run [data set ...]     adds missing rows to benchmarks/rows/tent_stability.jsonl
python benchmarks/tent_stability.py diagnose [name ...]    what happens inside in the first 60 steps
python benchmarks/tent_stability.py table                  prints all rows
python benchmarks/tent_stability.py figure                 draws docs/figures/tent_stability.svg
"""

import json
import sys
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

import fewnode
from fewnode.experiments import rows as results
from fewnode.methods.base import constructor_parameters
from fewnode.methods.tent import TENT, tau
from fewnode.report.results import dataset_title
from fewnode.tasks import TaskSampler

HERE = Path(__file__).resolve().parent.parent
RESULTS = HERE / "results" / "tent.jsonl"
ROWS = HERE / "benchmarks" / "rows" / "tent_stability.jsonl"
FIGURE = HERE / "docs" / "figures" / "tent_stability.svg"
DATASETS = (
    "cora_full_knnfeat",
    "coauthor_cs",
    "amazon_clothing_test20",
    "nell_partial",
    "wordnet30_lexnames",
    "amazon_electronics_nofeat",
    "email_eu_core_nofeat",
    "lastfm_asia_nofeat",
)
STEPS, CHECK = 300, 20
DIAGNOSED = ("printed", "printed, H normalised", "steadied", "tuned", "tuned, gamma 1, rate 1e-3")
TUNED: dict[str, dict[str, Any]] = {
    "tuned": {"preset": "tuned"},
    "tuned, gamma 1, rate 1e-3": {"preset": "tuned", "gamma": 1.0, "learning_rate": 1e-3},
}  # diagnosed only
PRINTED: dict[str, Any] = {"preset": "paper"}
STEADIED: dict[str, Any] = PRINTED | {"normalize": True, "learning_rate": 0.005, "clip": 1.0}
SETTINGS: dict[str, dict[str, Any]] = {
    "printed": PRINTED,
    "steadied": STEADIED,
    "printed, learning rate 0.005": PRINTED | {"learning_rate": 0.005},
    "printed, gradient clipped at 1": PRINTED | {"clip": 1.0},
    "printed, no adapter": PRINTED | {"class_adaptation": False},
    "printed, no tau": PRINTED | {"task_adaptation": False},
    "printed, H normalised": PRINTED | {"normalize": True},
    "steadied, H not normalised": STEADIED | {"normalize": False},
    "steadied, learning rate 0.05": STEADIED | {"learning_rate": 0.05},
    "steadied, not clipped": STEADIED | {"clip": None},
}
EVERYWHERE = (
    "printed",
    "steadied",
    "steadied, H not normalised",
    "steadied, learning rate 0.05",
    "steadied, not clipped",
)  # the others on the first data set only


def run(datasets: list[str]) -> None:
    """Add the rows that are missing."""
    done = {(row["dataset"], row["settings"]) for row in read() if "settings" in row}
    for dataset in datasets:
        names = SETTINGS if dataset == DATASETS[0] else EVERYWHERE
        for name in names:
            if (dataset, name) not in done:
                row = measure(dataset, name)
                with ROWS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(describe(row), flush=True)


def measure(dataset: str, name: str) -> dict[str, Any]:
    """One training: its validation curve, how it ended, and accuracy on novel classes if it reached the end."""
    graph, split = fewnode.load_dataset(dataset)
    curve: list[tuple[int, float]] = []
    sampler = TaskSampler(graph.y, split.validation)
    way = min(5, int((sampler.size >= 15).sum()))
    row = {"dataset": dataset, "settings": name, "options": SETTINGS[name], "seed": 0, "chance": round(1 / way, 4)}

    def note(progress: Any) -> None:
        row["last_step"] = progress.step
        if progress.accuracy is not None:
            curve.append((progress.step, round(progress.accuracy, 4)))

    try:
        model = fewnode.fit(
            "tent",
            graph,
            split,
            steps=STEPS,
            check_every=CHECK,
            patience=STEPS,
            callback=note,
            **SETTINGS[name],
        )
        novel = TaskSampler(graph.y, split.novel)
        tasks = novel.draw(min(5, int((novel.size >= 15).sum())), 5, 10, 500, 0)
        result = fewnode.evaluate(model, graph, tasks=tasks)
        row |= {"ended": "well", "novel": round(result.accuracy, 4), "novel_chance": round(1 / tasks.n_way, 4)}
    except FloatingPointError as error:
        row["ended"] = str(error).partition(";")[0]
    return row | {"curve": curve}


def diagnose(names: list[str], dataset: str = DATASETS[0], steps: int = 60) -> None:
    """Train the same way by hand for a few steps, and add rows of what the forward pass looks like then."""
    graph, split = fewnode.load_dataset(dataset)
    view = fewnode.training_view(graph, split)
    for name in names or DIAGNOSED:
        torch.manual_seed(0)
        settings = (SETTINGS | TUNED)[name]
        options = asdict(TENT.training_settings) | TENT.presets[settings["preset"]] | settings
        rate, decay, clip, each = (options[key] for key in ("learning_rate", "weight_decay", "clip", "tasks_per_step"))
        own = {key: value for key, value in options.items() if key in constructor_parameters(TENT)}
        model = TENT(graph.num_features, base_classes=split.base, **own)
        model.prepare(view)
        optimizer = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=decay)
        tasks = fewnode.draw_tasks(view.y, split.base, 5, 5, 10, steps * each, 0)
        rows = [inside(model, view, tasks[:60])]
        for step in range(steps):
            optimizer.zero_grad()
            loss = model.loss(view, tasks[step * each : (step + 1) * each])
            if not torch.isfinite(loss):
                break
            loss.backward()
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
        rows.append(inside(model, view, tasks[:60]))
        with ROWS.open("a", encoding="utf-8") as file:
            for at, row in zip((0, steps), rows, strict=True):
                file.write(json.dumps({"dataset": dataset, "diagnosis": name, "step": at} | row) + "\n")
                print(dataset, name, at, row, flush=True)


@torch.no_grad()
def inside(model: TENT, graph: Any, tasks: Any) -> dict[str, float]:
    """Means over the tasks: length of a prototype, largest tau of a task, cosine between queries of a task."""
    embedded = model.embed_tasks(graph, model.embed(graph), tasks)
    queries = torch.nn.functional.normalize(embedded.q, dim=-1)
    found = {
        "prototype_norm": embedded.s.norm(dim=-1).mean(),
        "largest_tau": tau(embedded.s, embedded.s_k, tasks.support_y).amax(1).mean(),
        "query_cosine": (queries @ queries.transpose(1, 2)).mean(),
    }
    return {name: float(f"{value.item():.3g}") for name, value in found.items()}


def read() -> list[dict[str, Any]]:
    if not ROWS.exists():
        return []
    return [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]


def describe(row: dict[str, Any]) -> str:
    if "diagnosis" in row:
        return json.dumps(row)
    best = max((accuracy for _, accuracy in row["curve"]), default=float("nan"))
    last = row["curve"][-1][1] if row["curve"] else float("nan")
    novel = f"{100 * row['novel']:.1f}" if "novel" in row else f"({row['ended']} after step {row['last_step']})"
    return (
        f"{row['dataset']:26} {row['settings']:42} chance {100 * row['chance']:4.0f}   "
        f"best {100 * best:5.1f}   last {100 * last:5.1f}   novel {novel}"
    )


def table() -> str:
    """Best validation accuracy / accuracy on novel classes, in percent."""
    rows = {(row["dataset"], row["settings"]): row for row in read() if "novel" in row and row["seed"] == 0}
    names = [name for name in dict.fromkeys(settings for _, settings in rows) if (DATASETS[-1], name) in rows]
    lines = [f"| data set | {' | '.join(names)} |", "|---" + "|---:" * len(names) + "|"]
    for dataset in DATASETS:
        found = (rows.get((dataset, name)) for name in names)
        lines.append(f"| {dataset} | {' | '.join('–' if row is None else _both(row) for row in found)} |")
    return "\n".join(lines)


def _both(row: dict[str, Any]) -> str:
    return f"{100 * max(accuracy for _, accuracy in row['curve']):.1f} / {100 * row['novel']:.1f}"


def training() -> str:
    """What training adds to the first weights of ``tent``: validation accuracy before the first step and at best, and
    accuracy on novel classes with the first and with the best weights; from the stored rows of 5-way 5-shot, seed 0."""
    rows = {(row["run"]["dataset"], str(row["run"]["options"])): row for row in results.read(RESULTS) if _compared(row)}
    heads = ["validation, step 0", "validation, best", "at step", "novel, step 0", "novel, best"]
    lines = [f"| data set | {' | '.join(heads)} |", "|---" + "|---:" * len(heads) + "|"]
    for dataset in sorted({dataset for dataset, _ in rows}):
        trained, first = (rows.get((dataset, str(options))) for options in ({}, {"steps": 0}))
        if trained is None or first is None:
            continue
        step, best = max(trained["curve"], key=lambda check: (check[1], -check[0]))
        shares = (first["best"], best, first["accuracy"], trained["accuracy"])
        percent = [f"{100 * share:.1f}" for share in shares]
        lines.append(f"| {dataset_title(dataset)} | {' | '.join([*percent[:2], str(step), *percent[2:]])} |")
    return "\n".join(lines)


def _compared(row: dict[str, Any]) -> bool:
    run = row["run"]
    return row["status"] == "ok" and (run["method"], run["n_way"], run["k_shot"], run["seed"]) == ("tent", 5, 5, 0)


def figure() -> None:
    """One small panel per data set: printed settings against steadied ones."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams |= {"svg.hashsalt": "fewnode", "font.size": 8, "svg.fonttype": "none"}
    from matplotlib import pyplot

    rows = {(row["dataset"], row["settings"]): row for row in read() if "settings" in row}
    shown = [name for name in DATASETS if (name, "steadied") in rows]
    canvas, axes = pyplot.subplots(2, 4, figsize=(9.5, 4.4), sharex=True, sharey=True, layout="constrained")
    for axis, dataset in zip(axes.flat, shown, strict=False):
        for name, style in (("printed", "C1--"), ("steadied", "C0-")):
            row = rows[dataset, name]
            axis.plot(*zip(*row["curve"], strict=True), style, label=name) if row["curve"] else None
            if row["ended"] != "well":
                axis.plot(row["last_step"], row["chance"], "xC1", label="no longer finite")
        axis.axhline(row["chance"], color="0.7", lw=0.8, zorder=0)
        axis.set_title(dataset.replace("_nofeat", ""), fontsize=8)
        axis.set(ylim=(0, 1), xlim=(0, STEPS))
    axes.flat[0].legend(frameon=False, fontsize=7)
    canvas.supxlabel("training steps", fontsize=8)
    canvas.supylabel("validation accuracy, 5-shot (grey: chance)", fontsize=8)
    canvas.savefig(FIGURE, metadata={"Date": None})


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    command, *names = sys.argv[1:] or ["table"]
    if command == "run":
        run(names or list(DATASETS))
    elif command == "diagnose":
        diagnose(names)
    elif command == "figure":
        figure()
    else:
        print("\n".join(describe(row) for row in read()))
