"""Beside other programs: do the default settings keep up with the best thread setting picked by hand?

    python benchmarks/busy.py run [--idle]     adds one row for each command to rows/busy.jsonl
    python benchmarks/busy.py table            prints them as Markdown

While one busy process for each core spins, every command is run with the default settings and with each number of
threads (OpenMP's waiting threads asleep, and spinning). Only ratios within one run mean anything: the goal is a default
that takes at most 1.5 times as long as the best. ``--idle`` starts no busy processes.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fewnode

ROWS = Path(__file__).resolve().parent / "rows" / "busy.jsonl"
GRAPH = "planted_mixed"
CORES = os.cpu_count() or 1
REPEATS = 3  # in turn, so that what else happens on the machine meets every setting
LIMIT = 60.0  # seconds; threads that spin beside busy cores may take many minutes: they count as this, and once
NODES, CLASSES = 2000, 12
SETTINGS: dict[str, dict[str, str]] = {"default": {}} | {
    f"{n} threads, {policy}": {"OMP_NUM_THREADS": str(n), "OMP_WAIT_POLICY": policy}
    for n in range(1, CORES + 1)
    for policy in ("passive", "active")[:n]  # a single thread waits for nobody
}


def write_tables(folder: Path) -> None:
    """An own graph with words: edges, nodes with labels (those of two classes left out) and examples of the two."""
    graph, _ = fewnode.planted(NODES, CLASSES, seed=0)
    y, rng = graph.y.numpy(), np.random.default_rng(0)
    target = np.repeat(np.arange(NODES), graph.degree.numpy())
    source = graph.indices.numpy()
    once = source < target
    pd.DataFrame({"source": source[once], "target": target[once]}).to_csv(folder / "edges.csv", index=False)
    words = rng.integers(0, 40, (NODES, 12)) + 30 * y[:, None]
    text = [" ".join(f"w{word}" for word in row) for row in words]
    label = [f"c{c}" if c > 1 else "" for c in y]
    pd.DataFrame({"id": np.arange(NODES), "label": label, "text": text}).to_csv(folder / "nodes.csv", index=False)
    shown = [(int(node), f"c{c}") for c in (0, 1) for node in np.flatnonzero(y == c)[:5]]
    pd.DataFrame(shown, columns=["id", "label"]).to_csv(folder / "support.csv", index=False)


def commands(folder: Path) -> dict[str, list[str]]:
    """In an order in which each finds what it needs; all of them can be repeated."""
    examples = ["--support", f"{folder}/support.csv"]
    own = ["--edges", f"{folder}/edges.csv", "--nodes", f"{folder}/nodes.csv", "--text-column", "text"]
    training = {
        f"train {method}": ["train", method, GRAPH, "--out", "OUT", "--set", "steps=50"]
        for method in ("tent", "vantage", "pn")
    }
    return {
        "fit": ["fit", *own, "--out", f"{folder}/own", "--force"],
        "predict": ["predict", f"{folder}/own", *examples, "--out", f"{folder}/p.csv", "--force"],
        **training,
        "evaluate": ["evaluate", f"{folder}/model"],
    }


@contextmanager
def busy_cores(processes: int) -> Iterator[None]:
    """So many processes that do nothing but spin."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def seconds(arguments: list[str], setting: dict[str, str]) -> float:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    with tempfile.TemporaryDirectory() as out:
        arguments = [f"{out}/model" if part == "OUT" else part for part in arguments]
        started = time.perf_counter()
        line = [sys.executable, "-W", "ignore", "-m", "fewnode", *arguments]
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(line, env=clean | setting, check=True, capture_output=True, timeout=LIMIT)
        return time.perf_counter() - started


def run(idle: bool) -> None:
    with tempfile.TemporaryDirectory() as name, busy_cores(0 if idle else CORES):
        folder = Path(name)
        write_tables(folder)
        seconds(["train", "vantage", GRAPH, "--out", f"{folder}/model", "--set", "steps=25"], {})  # for evaluate
        for command, arguments in commands(folder).items():
            taken: dict[str, list[float]] = {setting: [] for setting in SETTINGS}
            for _ in range(REPEATS):
                for setting, variables in SETTINGS.items():
                    if max(taken[setting], default=0.0) < LIMIT:
                        taken[setting].append(seconds(arguments, variables))
            keep({"command": command, "cores": CORES, "busy": 0 if idle else CORES} | summary(taken))


def summary(taken: dict[str, list[float]]) -> dict[str, Any]:
    medians = {setting: round(statistics.median(values), 2) for setting, values in taken.items()}
    by_hand = {setting: value for setting, value in medians.items() if setting != "default"}
    best = min(by_hand, key=lambda setting: by_hand[setting])
    return {"seconds": medians, "best": best, "ratio": round(medians["default"] / medians[best], 2)}


def keep(row: dict[str, Any]) -> None:
    with ROWS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


def table() -> str:
    lines = ["| command | cores | busy processes | default | best by hand | ratio |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    for row in map(json.loads, ROWS.read_text(encoding="utf-8").splitlines()):
        best = f"{row['seconds'][row['best']]:.1f} s ({row['best']})"
        lines.append(
            f"| {row['command']} | {row['cores']} | {row['busy']} | {row['seconds']['default']:.1f} s | {best} "
            f"| {row['ratio']:.2f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        run("--idle" in sys.argv)
    elif sys.argv[1:] == ["table"]:
        print(table(), end="")
    else:
        sys.exit(__doc__)
