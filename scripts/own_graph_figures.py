"""Draw the figure of docs/your-graph.md: what the model says of its sureness and how often it is right."""

import sys
import tempfile
from pathlib import Path

import torch
from matplotlib.figure import Figure

from fewnode import FewShotClassifier, Graph
from fewnode.classifier import calibration
from fewnode.training import evaluate as inference

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples"))


def points(p: torch.Tensor, y: torch.Tensor, bins: int = 10) -> list[tuple[float, float, int]]:
    """Mean confidence, share of right answers and number of answers in each bin of confidence."""
    sure, choice = p.flatten(0, 1).max(1)
    right = (choice == y.flatten()).float()
    place = (sure * bins).long().clamp(max=bins - 1)
    inside = [place == i for i in range(bins)]
    return [(float(sure[i].mean()), float(right[i].mean()), int(i.sum())) for i in inside if int(i.sum()) >= 20]


def main() -> None:
    import own_graph

    with tempfile.TemporaryDirectory() as scratch:
        own_graph.write_files(Path(scratch))
        graph = Graph.from_files(Path(scratch) / "edges.csv", Path(scratch) / "nodes.csv")
    classifier = FewShotClassifier("probe").fit(graph)
    drawn = calibration.validation_tasks(graph.y, classifier.known.split(graph), [1, 1, 1])
    assert drawn is not None and classifier.model is not None and classifier.graph is not None
    tasks, n_new = drawn
    scores = inference.score_tasks(classifier.model, classifier.graph, tasks)
    learned, shown = slice(0, None, 2), slice(1, None, 2)  # the figure shows tasks the temperature has not seen
    found = calibration.calibrate(scores[learned], tasks[learned], n_new, "validation")
    scores, tasks = scores[shown], tasks[shown]
    figure = Figure(figsize=(4.6, 3.6), layout="constrained")
    axis = figure.subplots()
    axis.plot([0, 1], [0, 1], color="#999999", linewidth=1, label="perfect")
    for name, p, look in (
        ("scores as they are", scores.softmax(-1), {"color": "#D55E00", "marker": "s"}),
        ("calibrated", found.probabilities(scores, n_new), {"color": "#0072B2", "marker": "o"}),
    ):
        sure, right, _ = zip(*points(p, tasks.query_y), strict=True)
        axis.plot(sure, right, label=name, **look)
    axis.set(xlabel="how sure the model says it is", ylabel="how often it is right", xlim=(0.3, 1.02), ylim=(0.3, 1.02))
    axis.legend(frameon=False)
    figure.savefig(ROOT / "docs/figures/own_graph_calibration.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
