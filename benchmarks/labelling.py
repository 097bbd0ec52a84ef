"""How many questions "ask me" saves: a person is played on graphs whose labels are hidden; and how long answers take.

In a draw four classes are new (all their members lose their labels, one of each is shown at the start) and a fifth is
there that nobody names ("none of these"); 30 % of the other labels are blanked. Half of the nodes without a label may
be asked about, the other half is what accuracy is measured on. A question is one node; the answer is the truth. Rows
are appended as they finish; what is there already is not run again.

    python benchmarks/labelling.py [--draws 1000,1001]
    python benchmarks/labelling.py --table | --figure docs/figures/label-answers.svg
    python benchmarks/labelling.py --speed 20000,170000,1000000

How to ask was chosen on draws 1 and 2 (and email_eu_core_nofeat), which are not among the rows. The data sets are
looked for in the folder that FEWNODE_DATA names.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch

import fewnode
from fewnode.classifier.classifier import FewShotClassifier

GRAPHS = ("lastfm_asia_nofeat", "amazon_clothing_test20", "coauthor_cs", "cora_full_knnfeat")
ROWS = Path(__file__).parent / "rows" / "labelling.jsonl"
STEPS, NEW, BLANKED, LEAST = (0, 5, 10, 20, 40), 4, 0.3, 20
WAYS = ("teach", "random", "margin")
TITLES = {"teach": "ask me", "random": "random", "margin": "least margin"}


def drawn(graph: fewnode.Graph, seed: int) -> dict[str, Any]:
    """Labels that are left, the truth by name, the nodes to test on and to ask about, and one example of each class."""
    y, rng = graph.y.numpy(), np.random.default_rng(seed)
    picked = rng.permutation(np.flatnonzero(np.bincount(y[y >= 0]) >= LEAST))[: NEW + 1]
    left = np.where(np.isin(y, picked), -1, y)
    known = np.flatnonzero(left >= 0)
    left[rng.permutation(known)[: int(BLANKED * len(known))]] = -1
    names = np.array([f"known {c}" for c in range(graph.num_classes)], dtype=object)
    names[picked[:NEW]] = [f"new {c}" for c in picked[:NEW]]
    names[picked[NEW:]] = "other"
    free = rng.permutation(np.flatnonzero((left < 0) & (y >= 0)))
    test, ask = free[: len(free) // 2], free[len(free) // 2 :]
    examples = {f"new {c}": [int(ask[y[ask] == c][0])] for c in picked[:NEW]}
    return {"left": left, "truth": names[y], "test": test, "ask": ask, "examples": examples}


def fitted(graph: fewnode.Graph, left: np.ndarray) -> FewShotClassifier:
    names = tuple(f"known {c}" for c in range(graph.num_classes))
    seen = replace(graph, y=torch.from_numpy(left), class_names=names)
    return FewShotClassifier("probe").fit(seen)


def play(classifier: FewShotClassifier, draw: dict[str, Any], by: str, seed: int) -> dict[str, Any]:
    """Accuracy after each number of answers, and how many of these were of a new class."""
    examples = {name: list(nodes) for name, nodes in draw["examples"].items()}
    answered = [node for nodes in examples.values() for node in nodes]
    order = np.random.default_rng(seed).permutation(np.setdiff1d(draw["ask"], answered)).tolist()
    found: dict[str, Any] = {"accuracy": {}, "expected": {}, "new": 0}
    for step in range(STEPS[-1] + 1):
        classifier.adapt(examples)
        if step in STEPS:
            told = classifier.predict_proba(draw["test"].tolist())
            right = np.array(told.labels(), dtype=object) == draw["truth"][draw["test"]]
            found["accuracy"][step] = round(float(right.mean()), 5)
            found["expected"][step] = round(float(classifier.expect(told).right.value or 0), 5)
        if step == STEPS[-1]:
            return found
        node = order[step] if by == "random" else asked(classifier, draw, by, answered)
        answered.append(node)
        label = draw["truth"][node]
        found["new"] += label.startswith("new")
        examples.setdefault(label, []).append(node)
    return found


def asked(classifier: FewShotClassifier, draw: dict[str, Any], by: str, answered: list[int]) -> int:
    return int(classifier.suggest(1, by, among=draw["ask"].tolist(), told=answered).nodes[0])


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []


def keep(row: dict[str, Any]) -> None:
    with ROWS.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


def run(graphs: list[str], draws: list[int]) -> None:
    done = {(row["graph"], row["draw"], row["by"], row["repeat"]) for row in rows() if row["kind"] == "answers"}
    for seed in draws:
        for name in graphs:
            wanted = [(by, r) for by in WAYS for r in range(3 if by == "random" else 1)]
            wanted = [key for key in wanted if (name, seed, *key) not in done]
            if not wanted:
                continue
            graph = fewnode.load_dataset(name)[0]
            draw = drawn(graph, seed)
            classifier = fitted(graph, draw["left"])
            for by, repeat in wanted:
                row = {"kind": "answers", "graph": name, "draw": seed, "by": by, "repeat": repeat}
                keep(row | play(classifier, draw, by, 100 * seed + repeat))


def curve(by: str, graph: str | None = None) -> list[float]:
    """Mean accuracy in percent at each of ``STEPS``: repeats, then draws, then graphs."""
    mine = [row for row in rows() if row["kind"] == "answers" and row["by"] == by and graph in (None, row["graph"])]
    means = []
    for name in sorted({row["graph"] for row in mine}):
        parts = [[row["accuracy"][str(step)] for step in STEPS] for row in mine if row["graph"] == name]
        means.append(np.mean(parts, axis=0))
    return [100 * float(value) for value in np.mean(means, axis=0)]


def needed(values: list[float], accuracy: float) -> float | None:
    """Answers until a curve reaches an accuracy, between its steps by the straight line; None if it does not."""
    if accuracy <= values[0]:
        return 0.0
    for i in range(1, len(STEPS)):
        if values[i] >= accuracy:
            part = (accuracy - values[i - 1]) / (values[i] - values[i - 1])
            return STEPS[i - 1] + part * (STEPS[i] - STEPS[i - 1])
    return None


def worth(answers: str) -> str:
    """How many questions of ours bring the accuracy of so many random ones."""
    return f"{needed(curve('teach'), curve('random')[STEPS.index(int(answers))]):.1f}"


def table() -> str:
    lines = ["| accuracy after ... answers | " + " | ".join(map(str, STEPS)) + " |", "|---" * (len(STEPS) + 1) + "|"]
    for name in (*GRAPHS, None):
        for by in WAYS:
            values = " | ".join(f"{value:.1f}" for value in curve(by, name))
            lines.append(f"| {name or 'mean'}, {TITLES[by]} | {values} |")
    ask, random = curve("teach"), curve("random")
    lines += ["", "| accuracy of random questions | after | ask me needs |", "|---|---|---|"]
    for step, value in zip(STEPS[1:], random[1:], strict=True):
        n = needed(ask, value)
        lines.append(f"| {value:.1f} | {step} answers | {'more than 40' if n is None else f'{n:.1f}'} |")
    speed = [row for row in rows() if row["kind"] == "speed"]
    lines += [
        "",
        "| nodes | known classes | a change, until the whole map is there | the next question |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {row['nodes']:,} | {row['classes']} | {row['change_s']:.2f} s | {row['question_s']:.2f} s |"
        for row in speed
    ]
    return "\n".join(lines)


def figure(path: str) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "fewnode"
    from matplotlib import pyplot

    drawing, axes = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")
    for by, style in zip(WAYS, ("-o", "--s", ":^"), strict=True):
        axes.plot(STEPS, curve(by), style, color={"teach": "#0072b2", "random": "#555555", "margin": "#d55e00"}[by])
        axes.annotate(TITLES[by], (STEPS[-1], curve(by)[-1]), xytext=(6, 0), textcoords="offset points", va="center")
    axes.set(xlabel="answers", ylabel="accuracy in percent, mean of four graphs", xlim=(-1, 52))
    axes.spines[["top", "right"]].set_visible(False)
    drawing.savefig(path, metadata={"Date": None})


def many(nodes: int) -> tuple[FewShotClassifier, np.ndarray, list[int]]:
    """A classifier on so many nodes: copies of a planted graph, so that the fit is a short one."""
    copies = -(-nodes // 20_000)
    graph, split = fewnode.planted(nodes // copies, 50, seed=0)
    view = fewnode.training_view(graph, split)
    one = FewShotClassifier("probe").fit(view)
    n, world = graph.num_nodes, one.open_set_model()
    edges = torch.stack([torch.repeat_interleave(torch.arange(n), graph.degree), graph.indices.long()])
    edges = torch.cat([edges + i * n for i in range(copies)], 1)
    large = fewnode.Graph.from_edges(edges, torch.zeros(n * copies, 1), view.y.repeat(copies))
    tiled = {name: getattr(world, name).repeat(copies, 1) for name in ("x", "log_known", "features")}
    one.graph, one._open_set_model = large, replace(world, y=world.y.repeat(copies), **tiled)
    return one, graph.y.repeat(copies).numpy(), list(split.novel)


def speed(nodes: int) -> None:
    """Seconds of one core from a step to all classes and counts, and to the next question."""
    from fewnode.labelling.server import Guard, LabelServer
    from fewnode.labelling.session import LabelSession

    torch.set_num_threads(1)
    classifier, y, novel = many(nodes)
    session = LabelSession(classifier)
    places = np.random.default_rng(0).random((len(y), 2), dtype=np.float32)
    page = LabelServer(session, places, Guard("127.0.0.1", 0))
    times: dict[str, list[float]] = {"change": [], "question": [], "wall": []}
    for c in novel[:4]:
        for node in np.flatnonzero(y == c)[:3].tolist():
            body = json.dumps({"do": "label", "ids": [node], "class": f"new {c}"}).encode()
            started, clock = time.process_time(), time.perf_counter()
            page.step({"who": "", "body": body})
            page.scores({})
            times["change"].append(time.process_time() - started)
            times["wall"].append(time.perf_counter() - clock)
            started = time.process_time()
            session.suggest(12)
            times["question"].append(time.process_time() - started)
    row = {"kind": "speed", "nodes": len(y), "classes": len(session.labels.known)}
    keep(row | {f"{name}_s": round(mean(part), 3) for name, part in times.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--draws", default="1000,1001,1002")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--figure", metavar="FILE")
    parser.add_argument("--speed", metavar="NODES", help="numbers of nodes, with commas")
    args = parser.parse_args()
    if args.table:
        print(table())
    elif args.figure:
        figure(args.figure)
    elif args.speed:
        for nodes in map(int, args.speed.split(",")):
            speed(nodes)
    else:
        run(args.graphs.split(","), [int(seed) for seed in args.draws.split(",")])


if __name__ == "__main__":
    main()
