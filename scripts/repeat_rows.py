"""Repeat stored runs with the present source, and tell in how many tasks the results are the same.

    python scripts/repeat_rows.py results/standard.jsonl --each 3                  # three runs of every method
    python scripts/repeat_rows.py results/standard.jsonl --methods pn --out rows.jsonl

With ``--out``, the new rows are written as runs finish; the same command continues after an interruption.
"""

import argparse
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from fewnode.experiments.grid import Run
from fewnode.experiments.rows import Row, append, latest, read
from fewnode.experiments.runners import Workers


def chosen(rows: list[Row], methods: list[str] | None, each: int | None, seed: int) -> list[Row]:
    """The rows to repeat: those of ``methods``, of each at most ``each``, in the order of their data sets."""
    groups = defaultdict(list)
    for row in rows:
        if not methods or row["run"]["method"] in methods:
            groups[row["run"]["method"]].append(row)
    draw = np.random.default_rng(seed)
    found = [group[i] for group in groups.values() for i in draw.permutation(len(group))[:each]]
    return sorted(found, key=lambda row: (row["run"]["dataset"], row["run"]["method"]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--each", type=int, help="repeat at most this many runs of a method")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of runs")
    parser.add_argument("--without-commit", action="store_true", help="only rows that do not name their commit")
    parser.add_argument("--out", type=Path, help="write the new rows to this file")
    args = parser.parse_args()
    stored = [row for row in latest(read(args.rows)) if row["status"] == "ok"]
    stored = [row for row in stored if not (args.without_commit and row.get("commit"))]
    done = {row["id"] for row in read(args.out)} if args.out and args.out.exists() else set()
    todo = [row for row in chosen(stored, args.methods, args.each, args.seed) if row["id"] not in done]
    equal, all_runs, workers = Counter[str](), Counter[str](), Workers()
    for at, row in enumerate(todo):
        run = Run(**row["run"])
        again = workers.submit(run).result()
        method = row["run"]["method"]
        all_runs[method] += 1
        if again["status"] != "ok":
            print(f"[{at + 1}/{len(todo)}] {run}: failed, {again['reason']}", flush=True)
            continue
        same = again["correct"] == row["correct"]
        equal[method] += same
        gap = 100 * (again["accuracy"] - row["accuracy"])
        told = "equal in every task" if same else f"{gap:+.2f} points"
        print(f"[{at + 1}/{len(todo)}] {run}: {told}, {again['seconds']['total']:.1f} s", flush=True)
        if args.out:
            append(args.out, again)
    workers.close()
    print("\n".join(f"{method}: {equal[method]} of {count} equal in every task" for method, count in all_runs.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
