"""Kill commands at random moments and at every write and rename, and see that nothing is lost, doubled, torn or left.

    make soak KILLS=100

Each round forks a process that runs a command, kills it (SIGKILL), and checks what is on the disk. Half of the kills
come after a random time, half at one of the calls by which files appear: the process ends itself at the n-th call of
os.replace, os.rename, os.fsync, os.write, os.link, os.unlink or the exchange of folders.
"""

import argparse
import csv
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import own_graph  # noqa: E402
from fewnode import FewShotClassifier, load, planted  # noqa: E402
from fewnode import files as folders  # noqa: E402
from fewnode.cli import main  # noqa: E402
from fewnode.experiments import rows as results  # noqa: E402
from fewnode.graph.stored import open_store  # noqa: E402

TABLES = ("--edges", "edges.csv", "--nodes", "nodes.csv")
FIT = ("fit", *TABLES, "--n-way", 2, "--k-shot", 2, "--set", "steps=5", "--out", "own", "--force")
CALLS = ("replace", "rename", "fsync", "write", "link", "unlink")


def end_at(number: int) -> None:
    """Let this process be killed at the n-th of the calls by which files appear or go."""
    seen = 0

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def do(*args: Any, **kwargs: Any) -> Any:
            nonlocal seen
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **kwargs)

        return do

    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))
    folders._exchange = counted(folders._exchange)


class Soak:
    """The folder everything happens in, and how often each command was killed."""

    def __init__(self, home: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.kills: dict[str, int] = {}
        self.seconds: dict[str, float] = {}
        self.longest, self.loads = 0.0, 0
        os.chdir(home)

    def start(self, *words: object, at: int = 0) -> int:
        """Fork a process that runs a command; returns its id."""
        sys.stdout.flush()
        if child := os.fork():
            return child
        code = 70
        try:
            with Path("output.txt").open("w") as out:
                os.dup2(out.fileno(), 1)
                os.dup2(out.fileno(), 2)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            sys.modules["__main__"] = ModuleType("__main__")  # workers shall not import this script
            if at:
                end_at(at)
            code = main([str(word) for word in words])
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)

    def run(self, *words: object) -> None:
        """A command to its end, which must be a good one."""
        began = time.monotonic()
        _, status = os.waitpid(self.start(*words), 0)
        assert status == 0, f"{words}: {status}\n{Path('output.txt').read_text()[-2000:]}"
        self.seconds[str(words[0])] = time.monotonic() - began

    def kill(self, *words: object, meanwhile: Callable[[], Any] = lambda: None) -> None:
        """Start a command and kill it: at the n-th write, or after a while. ``meanwhile`` is done again and again."""
        at = self.random.randint(1, 30) if self.random.random() < 0.5 else 0
        longest = self.seconds[str(words[0])]
        until = time.monotonic() + (20 * longest if at else self.random.uniform(0, 1.1) * longest)
        child, status = self.start(*words, at=at), None
        workers: list[int] = []
        while status is None and time.monotonic() < until:
            workers = _children(child) or workers
            meanwhile()
            ended, found = os.waitpid(child, os.WNOHANG)
            status = found if ended else None
            time.sleep(0.005)
        if status is None:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        assert killed or status == 0, f"{words}: {status}\n{Path('output.txt').read_text()[-2000:]}"
        self.kills[str(words[0])] = self.kills.get(str(words[0]), 0) + killed
        self._wait_for(workers)

    def _wait_for(self, workers: list[int]) -> None:
        started = time.monotonic()
        while any(_alive(worker) for worker in workers):
            late = 5 * max(1, os.getloadavg()[0] / (os.cpu_count() or 1))  # on a machine that has other work to do
            assert time.monotonic() - started < late, "a worker outlived its parent by more than 5 s"
            time.sleep(0.02)
        self.longest = max(self.longest, time.monotonic() - started)


def _children(parent: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    except OSError:
        return []


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def leftovers(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob(".*") if path.name.endswith((".new", ".old"))]


def soak_grid(soak: Soak) -> Callable[[], None]:
    """``run --jobs 2``: every row once, whole, and the same as without kills."""
    planted(200, 9, features=30, homophily=0.8, seed=3)[0].save_npz("own.npz")
    Path("grid.toml").write_text(
        'datasets = ["own.npz"]\nmethods = ["pn"]\nsettings = ["2w1s", "2w2s", "3w1s", "3w2s"]\nn_query = 3\n'
        "seeds = 2\noptions = [{steps = 10, check_every = 5}]\n"
    )
    soak.run("run", "grid.toml", "--jobs", 2, "--results", "clean.jsonl")
    clean, path = _rows(Path("clean.jsonl")), Path("rows.jsonl")
    seen: set[str] = set()

    def round_() -> None:
        nonlocal seen
        soak.kill("run", "grid.toml", "--jobs", 2, "--results", path)
        found = _rows(path) if path.exists() else {}
        assert seen <= found.keys(), "a row is lost"
        assert all(clean[key] == value for key, value in found.items()), "a row differs"
        seen = set(found)
        if seen == clean.keys():
            path.unlink()
            seen = set()

    return round_


def _rows(path: Path) -> dict[str, Any]:
    if b"\n" not in path.read_bytes():
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a torn row would be a warning
        found = results.read(path)
    lines = [json.loads(line)["id"] for line in path.read_bytes().split(b"\n")[:-1]]
    assert len(lines) == len(set(lines)), "a row is doubled"
    assert all(row["status"] == "ok" for row in found), "a run failed"
    return {row["id"]: row["correct"] for row in found}


def soak_training(soak: Soak) -> Callable[[], None]:
    """``train --resume``: the weights are those of a training nobody killed."""
    options = ("--set", "steps=60", "--set", "check_every=5", "--set", "patience=100")
    words = ("train", "pn", "planted_homophilous", "--n-way", 3, "--k-shot", 2, "--n-query", 3, *options, "--out")
    soak.run(*words, "clean")
    clean, model = Path("clean/model.safetensors").read_bytes(), Path("model")

    def round_() -> None:
        soak.kill(*words, model, "--resume")
        if (model / "model.json").exists():
            load(model)
            assert (model / "model.safetensors").read_bytes() == clean, "other weights"
            shutil.rmtree(model)

    def last() -> None:
        soak.run(*words, model, "--resume")
        assert (model / "model.safetensors").read_bytes() == clean, "other weights"

    round_.last = last  # type: ignore[attr-defined]
    return round_


def soak_own(soak: Soak) -> Callable[[], None]:
    """``fit --force`` and ``predict``: there is a whole model at every instant, and predictions are never torn."""
    own_graph.write_tables(Path())
    predict = ("predict", "own", "--support", "support.csv", "--out", "predictions.csv", "--force")
    soak.run(*FIT)
    soak.run(*predict)
    clean = Path("predictions.csv").read_bytes()

    def round_() -> None:
        soak.kill(*(FIT if soak.random.random() < 0.6 else predict))
        FewShotClassifier.load("own").open_set_model()
        assert Path("predictions.csv").read_bytes() == clean, "predictions are torn"
        with Path("predictions.csv").open(newline="") as file:
            assert all(len(row) == 6 for row in csv.reader(file))

    def last() -> None:
        soak.run(*FIT)
        soak.run(*predict)
        assert Path("predictions.csv").read_bytes() == clean

    round_.last = last  # type: ignore[attr-defined]
    return round_


def soak_import(soak: Soak) -> Callable[[], None]:
    """``import``: there is no store or a whole one, and the next import goes on to the same arrays."""
    words = ("import", *TABLES, "--out")
    soak.run(*words, "clean.store")
    clean, store = Path("clean.store/manifest.json").read_bytes(), Path("killed.store")

    def round_() -> None:
        soak.kill(*words, store)
        if store.exists():
            open_store(store)  # compares the hashes
            assert (store / "manifest.json").read_bytes() == clean, "other arrays"
            shutil.rmtree(store)

    def last() -> None:
        soak.run(*words, store)
        assert (store / "manifest.json").read_bytes() == clean, "other arrays"

    round_.last = last  # type: ignore[attr-defined]
    return round_


def soak_swap(soak: Soak) -> Callable[[], None]:
    """A model that is loaded while another process replaces it: every load is the old one or the new one."""

    def load_it() -> None:
        soak.loads += bool(FewShotClassifier.load("own").known)

    return lambda: soak.kill(*FIT, meanwhile=load_it)


def soak_all() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="soak") as folder:
        soak = Soak(Path(folder), args.seed)
        grid, training, own = soak_grid(soak), soak_training(soak), soak_own(soak)
        stores, swap = soak_import(soak), soak_swap(soak)
        while sum(soak.kills.values()) < args.kills:
            for round_ in (own, training, stores, own, swap, training, stores, own, grid):  # workers take long to start
                round_()
            print(f"{sum(soak.kills.values())} kills: {soak.kills}", flush=True)
        soak.run("run", "grid.toml", "--jobs", 2, "--results", "rows.jsonl")
        for round_ in (training, own, stores):  # what a killed command left is swept by the next one that writes there
            round_.last()  # type: ignore[attr-defined]
        left = leftovers(Path())
        assert not left, f"left over: {left}"
        print(f"{sum(soak.kills.values())} kills, nothing lost, doubled, torn or left over: {soak.kills}")
        print(f"{soak.loads} loads of a model while it was replaced, each whole")
        print(f"orphaned workers were gone {soak.longest:.2f} s after their parent")
        os.chdir("/")


if __name__ == "__main__":
    soak_all()
