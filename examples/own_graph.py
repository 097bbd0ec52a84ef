"""From two CSV files to a labelled table: the whole way of `fewnode fit`, `predict` and `explain`, in Python.

The files are written here first: people who send each other money, nine known trades, and two new kinds of account
that only a handful of examples exist of. Give a folder to keep them: python examples/own_graph.py my_folder
What is made of them goes into my_folder/python, so that the commands can be tried beside it.
"""

import csv
import sys
import tempfile
from pathlib import Path

import numpy as np

import fewnode
from fewnode.classifier.inputs import TableSource
from fewnode.tables import write_columns

TRADES = ["baker", "barber", "carpenter", "courier", "farmer", "florist", "grocer", "plumber", "tailor"]
NEW = ["mule", "phisher"]
COLUMNS = ["age", "balance", "payments_per_week", "mean_amount", "night_share", "countries", "cash_share", "cards"]


def write_files(folder: Path, each: int = 60, seed: int = 0) -> dict[str, str]:
    """Write accounts.csv, transfers.csv and suspects.csv as a bank would export them, and new accounts with their
    transfers; returns the true class of every person, to check against."""
    rng = np.random.default_rng(seed)
    kinds = TRADES + NEW
    kind = rng.permutation(np.repeat(np.arange(len(kinds)), each))
    typical = rng.normal(size=(len(kinds), len(COLUMNS)))
    typical *= 2.5 / np.linalg.norm(typical, axis=1, keepdims=True)  # no kind is the average person
    unit = np.array([12, 900, 6, 40, 0.1, 1.5, 0.2, 1])  # columns come in any unit: euros beside shares
    values = (typical[kind] + 2.5 * rng.normal(size=(len(kind), len(COLUMNS)))) * unit + 5 * unit
    names = [f"p{i:04d}" for i in range(len(kind))]
    labels = [kinds[k] if k < len(TRADES) and rng.random() < 0.7 else "" for k in kind]
    pairs = []
    for person in range(len(kind)):
        own = np.flatnonzero(kind == kind[person])
        pairs += [(person, int(rng.choice(own))) for _ in range(3)]
        pairs += [(person, int(rng.integers(len(kind)))) for _ in range(2)]
    rows = [[names[i], labels[i], *np.round(values[i], 3)] for i in range(len(kind))]
    examples = [[names[i], kinds[k]] for k in (9, 10) for i in np.flatnonzero(kind == k)[: 4 if k == 9 else 3]]
    new = {names[i]: f"q{i:04d}" for i in range(0, len(kind), 33)}  # twins of some, added after the fit
    joined = [[names[a], names[b]] for a, b in pairs]
    for name, header, body in (
        ("accounts.csv", ["account no", "trade", *COLUMNS], rows),
        ("transfers.csv", ["payer", "payee"], joined),
        ("suspects.csv", ["account no", "kind"], examples),
        ("new_accounts.csv", ["account no", *COLUMNS], [[new[row[0]], *row[2:]] for row in rows if row[0] in new]),
        ("new_transfers.csv", ["payer", "payee"], [[new[a], b] for a, b in joined if a in new and b not in new]),
    ):
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=";").writerows([header, *body])
    return {name: kinds[k] for name, k in zip(names, kind, strict=True)}


def main(folder: Path) -> None:
    truth = write_files(folder)
    made = folder / "python"
    made.mkdir(exist_ok=True)

    # fewnode fit --edges transfers.csv --nodes accounts.csv --label-column trade --out model
    source = TableSource.of(folder / "transfers.csv", folder / "accounts.csv", label_column="trade")
    graph, source = source.infer()
    classifier = fewnode.FewShotClassifier("vantage", seed=0).fit(graph, source=source)
    print("learned from", ", ".join(classifier.known.base), "| checked on", ", ".join(classifier.known.validation))
    classifier.save(made / "model", force=True)

    # fewnode predict model --support suspects.csv --out predictions.csv
    loaded = fewnode.FewShotClassifier.load(made / "model")
    loaded.adapt(folder / "suspects.csv")
    found = loaded.predict_proba(loaded.unlabelled())
    write_columns(made / "predictions.csv", found.table(), force=True)
    labels = found.labels()
    right = np.mean([label == truth[name] for label, name in zip(labels, found.names, strict=True)])
    expected = loaded.expect(found)
    print(f"{len(found)} people: {100 * right:.1f} % right, expected {100 * (expected.right.value or 0):.1f} %")
    for kind in NEW:
        called = [truth[name] == kind for label, name in zip(labels, found.names, strict=True) if label == kind]
        told = expected.classes[kind].precision
        print(f"{kind}: {len(called)} people, {100 * np.mean(called):.1f} % of them are", end="")
        print(
            f", expected {100 * (told.value or 0):.1f} % ({100 * (told.low or 0):.0f} to {100 * (told.high or 0):.0f})"
        )

    # fewnode find model --support suspects.csv --class mule --top 20 --out candidates.csv
    candidates = loaded.find("mule", top=20)
    hits = sum(truth[name] == "mule" for name in candidates.names)
    print(f"the 20 likeliest mules: {hits} are, {candidates.expected(20):.1f} expected")

    # fewnode predict model --support suspects.csv --new-nodes new_accounts.csv --new-edges new_transfers.csv --out new
    added = loaded.predict_proba(new_nodes=folder / "new_accounts.csv", new_edges=folder / "new_transfers.csv")
    same = sum(label == truth[f"p{name[1:]}"] for label, name in zip(added.labels(), added.names, strict=True))
    print(f"{len(added)} new people: {same} right")

    # fewnode explain model --support suspects.csv --node p0003
    why = loaded.explain(candidates.names[0])
    print(f"{why.node} is {why.label} ({100 * why.probability:.0f} %), most like", end=" ")
    print(", ".join(f"{example.node} ({example.label})" for example in why.examples[:3]))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        target = Path(sys.argv[1])
        target.mkdir(parents=True, exist_ok=True)
        main(target)
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(Path(scratch))
