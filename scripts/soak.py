"""Kill commands at random moments and at every write and rename, and see that nothing is lost, doubled, torn or left.

    make soak KILLS=100

Each round starts a command, kills it (SIGKILL), and checks what is on the disk. Half of the kills come after a random
time, half at one of the system calls by which files appear: the command runs with ``FEWNODE_SOAK_AT=n``, under which
``HOOK`` ends the process at the n-th call of os.replace, os.rename, os.fsync, os.write or the exchange of folders.
"""

import argparse
import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import own_graph  # noqa: E402
from fewnode import FewShotClassifier, load, planted  # noqa: E402
from fewnode.experiments import results  # noqa: E402

HOOK = """
import os, signal, sys
at = int(os.environ.get("FEWNODE_SOAK_AT", "0"))
if at and "spawn_main" not in " ".join(sys.orig_argv):
    seen = 0
    def counted(call):
        def do(*args, **kwargs):
            global seen
            seen += 1
            if seen == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **kwargs)
        return do
    for name in ("replace", "rename", "fsync", "write", "link", "unlink"):
        setattr(os, name, counted(getattr(os, name)))
    import ctypes
    class Library(ctypes.CDLL):
        def __getattr__(self, name):
            found = super().__getattr__(name)
            return counted(found) if name == "renameat2" else found
    ctypes.CDLL = Library
"""


class Soak:
    """The folder everything happens in, and how often each command was killed."""

    def __init__(self, home: Path, seed: int) -> None:
        self.home, self.random = home, random.Random(seed)
        self.kills: dict[str, int] = {}
        self.longest = 0.0
        (home / "hook").mkdir()
        (home / "hook" / "sitecustomize.py").write_text(HOOK)

    def start(self, *words: object, at: int = 0) -> "subprocess.Popen[str]":
        path = os.pathsep.join([str(self.home / "hook"), str(ROOT / "src")])
        more = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "FEWNODE_SOAK_AT": str(at)}
        command = [sys.executable, "-m", "fewnode", *map(str, words)]
        return subprocess.Popen(
            command, cwd=self.home, env=os.environ | more, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def run(self, *words: object) -> str:
        """A command to its end, which must be a good one."""
        process = self.start(*words)
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, f"{words}: {process.returncode}\n{err[-2000:]}"
        return out

    def kill(self, name: str, seconds: float, *words: object) -> None:
        """Start a command and kill it: at the n-th write, or after a while."""
        at = self.random.randint(1, 24) if self.random.random() < 0.5 else 0
        process = self.start(*words, at=at)
        if not at:
            time.sleep(self.random.uniform(0.2, 1.0) * seconds)
        else:
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
        children = _children(process.pid)
        was_killed = process.poll() is None or process.returncode == -signal.SIGKILL
        process.kill()
        _, err = process.communicate()
        assert was_killed or process.returncode == 0, f"{words}: {process.returncode}\n{err[-2000:]}"
        self.kills[name] = self.kills.get(name, 0) + was_killed
        self._wait_for(children)

    def _wait_for(self, children: list[int]) -> None:
        started = time.monotonic()
        while any(Path(f"/proc/{child}").exists() and not _is_zombie(child) for child in children):
            assert time.monotonic() - started < 5, "a worker outlived its parent by more than 5 s"
            time.sleep(0.02)
        self.longest = max(self.longest, time.monotonic() - started)


def _children(parent: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    except OSError:
        return []


def _is_zombie(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def leftovers(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob(".*") if path.name.endswith((".new", ".old"))]


def soak_grid(soak: Soak, seconds: float) -> Callable[[], None]:
    """``run --jobs 2``: every row once, whole, and the same as without kills."""
    planted(200, 9, features=30, homophily=0.8, seed=3)[0].save_npz(soak.home / "own.npz")
    (soak.home / "grid.toml").write_text(
        'datasets = ["own.npz"]\nmethods = ["pn"]\nsettings = ["2w1s", "2w2s", "3w1s", "3w2s"]\nn_query = 3\n'
        "seeds = 6\noptions = [{steps = 10, check_every = 5}]\n"
    )
    words = ("run", "grid.toml", "--jobs", 2, "--results", "rows.jsonl")
    soak.run("run", "grid.toml", "--jobs", 2, "--results", "clean.jsonl")
    clean = {row["id"]: row["correct"] for row in results.read(soak.home / "clean.jsonl")}
    seen: set[str] = set()

    def round_() -> None:
        nonlocal seen
        soak.kill("run --jobs 2", seconds, *words)
        path = soak.home / "rows.jsonl"
        if path.exists() and path.stat().st_size:
            found = _rows(path)
            assert seen <= found.keys(), "a row is lost"
            assert all(clean[key] == value for key, value in found.items()), "a row differs"
            seen = set(found)
        if seen == clean.keys():
            path.unlink()
            seen = set()

    return round_


def _rows(path: Path) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a torn row in the middle would be a warning
        found = results.read(path) if b"\n" in path.read_bytes() else []
    lines = [json.loads(line)["id"] for line in path.read_bytes().split(b"\n")[:-1] if line]
    assert len(lines) == len(set(lines)), "a row is doubled"
    assert all(row["status"] == "ok" for row in found), "a run failed"
    return {row["id"]: row["correct"] for row in found}


def soak_training(soak: Soak, seconds: float) -> Callable[[], None]:
    """``train --resume``: the weights are those of a training nobody killed."""
    options = ("--set", "steps=400", "--set", "check_every=20", "--set", "patience=100")
    words = ("train", "pn", "wordnet", "--n-way", 3, "--k-shot", 2, "--n-query", 3, *options, "--out")
    soak.run(*words, "clean")
    clean = (soak.home / "clean" / "model.safetensors").read_bytes()

    def round_() -> None:
        soak.kill("train --resume", seconds, *words, "model", "--resume")
        if (soak.home / "model" / "model.json").exists():
            load(soak.home / "model")
            assert (soak.home / "model" / "model.safetensors").read_bytes() == clean, "other weights"
            assert not leftovers(soak.home / "model"), leftovers(soak.home / "model")
            shutil.rmtree(soak.home / "model")

    return round_


def soak_own(soak: Soak, seconds: float) -> Callable[[], None]:
    """``fit-own --force`` and ``predict``: there is a whole model at every instant, and predictions are never torn."""
    own_graph.write_tables(soak.home)
    tables = ("--edges", "edges.csv", "--nodes", "nodes.csv", "--n-way", 2, "--k-shot", 2, "--set", "steps=5")
    fit = ("fit-own", *tables, "--out", "own", "--force")
    predict = ("predict", "own", "--support", "support.csv", "--out", "predictions.csv", "--force")
    soak.run(*fit)
    soak.run(*predict)
    clean = (soak.home / "predictions.csv").read_bytes()

    def round_() -> None:
        if soak.random.random() < 0.6:
            soak.kill("fit-own --force", seconds, *fit)
        else:
            soak.kill("predict", seconds, *predict)
        classifier = FewShotClassifier.load(soak.home / "own")
        classifier.attach(classifier.read())._open_world()
        assert (soak.home / "predictions.csv").read_bytes() == clean, "predictions are torn"
        with (soak.home / "predictions.csv").open(newline="") as file:
            assert all(len(row) == 6 for row in csv.reader(file))

    return round_


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args()
    print(f"seed {args.seed}")
    with tempfile.TemporaryDirectory(prefix="soak") as folder:
        soak = Soak(Path(folder), args.seed)
        rounds = [soak_grid(soak, 10.0), soak_training(soak, 8.0), soak_own(soak, 8.0)]
        while sum(soak.kills.values()) < args.kills:
            for round_ in rounds:
                round_()
                print(f"{sum(soak.kills.values())} kills: {soak.kills}", flush=True)
        soak.run("run", "grid.toml", "--jobs", 2, "--results", "rows.jsonl")
        soak.run(
            "fit-own", "--edges", "edges.csv", "--nodes", "nodes.csv", "--set", "steps=5", "--out", "own", "--force"
        )
        soak.run("predict", "own", "--support", "support.csv", "--out", "predictions.csv", "--force")
        left = leftovers(Path(folder))
        assert not left, f"left over: {left}"
        print(f"{sum(soak.kills.values())} kills, nothing lost, doubled, torn or left over: {soak.kills}")
        print(f"orphaned workers were gone {soak.longest:.2f} s after their parent")


if __name__ == "__main__":
    main()
