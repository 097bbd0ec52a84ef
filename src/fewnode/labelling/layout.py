"""A map of the nodes in two dimensions: landmarks by t-SNE, every other node between the landmarks it is like.

After van der Maaten, Hinton: Visualizing Data using t-SNE. JMLR 9, 2008.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..storage import read_npz, write_npz

LANDMARKS, LEADING = 3000, 50  # nodes laid out by t-SNE; coordinates with most variance that it sees
NEAREST, SPREAD = 3, 0.35  # landmarks a node lies between; how far from there, in distances of landmarks
FEW = 30  # nodes below which the two principal directions do
ROWS = 4096
MAP = "map.npz"


def layout(x: Tensor, seed: int = 0) -> np.ndarray:
    """Places ``[N, 2]`` from 0 to 1 of nodes with the coordinates ``x [N, d]``; the same for the same input."""
    leading = _leading(x)
    if len(x) < FEW:
        return _within(np.pad(leading[:, -2:].numpy(), ((0, 0), (0, max(0, 2 - leading.shape[1])))))
    from sklearn.manifold import TSNE  # a second that a map drawn before saves

    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    chosen = order[:LANDMARKS]
    marks = leading[chosen]
    start = marks[:, -2:] / marks[:, -1].std().clamp(min=1e-9) * 1e-4
    perplexity = min(30.0, (len(chosen) - 1) / 4)
    tsne = TSNE(2, init=start.numpy(), perplexity=perplexity, random_state=seed, max_iter=500, metric="cosine")
    places = torch.from_numpy(tsne.fit_transform(marks.numpy()).astype(np.float32))
    return _within(_between(leading, marks, places, chosen, seed).numpy())


def kept_layout(x: Tensor, folder: Path | None, say: Callable[[str], None] = lambda _: None) -> np.ndarray:
    """The layout that was kept in a model's folder for these coordinates, or a new one, which is kept."""
    mark = np.array([len(x), float(x[:: max(len(x) // 1000, 1)].double().abs().sum())])
    path = None if folder is None else folder / MAP
    if path is not None and path.exists():
        try:
            parts = read_npz(path)
            if np.array_equal(parts["mark"], mark) and parts["places"].shape == (len(x), 2):
                return parts["places"]
        except (InputError, KeyError):
            pass  # damaged: it is made again
    say("Drawing the map ...")
    places = layout(x)
    if path is not None:
        write_npz(path, {"mark": mark, "places": places}, compress=False)
    return places


def _leading(x: Tensor) -> Tensor:
    """The coordinates with most variance, the largest last, turned to principal directions."""
    sample = x[:: max(len(x) // 20_000, 1)].float().cpu()
    centre = sample.mean(0)
    _, directions = torch.linalg.eigh(((sample - centre).T @ (sample - centre)).double())
    turn = directions[:, -LEADING:].float().to(x.device)
    parts = [(part.float() - centre.to(x.device)) @ turn for part in x.split(ROWS)]
    return torch.cat(parts).cpu()


def _between(leading: Tensor, marks: Tensor, places: Tensor, chosen: Tensor, seed: int) -> Tensor:
    unit = torch.nn.functional.normalize(marks, dim=1)
    near = torch.cdist(places, places).topk(min(5, len(places)), largest=False).values[:, -1]
    found = []
    for part in leading.split(ROWS):
        alike, which = (torch.nn.functional.normalize(part, dim=1) @ unit.T).topk(NEAREST, dim=1)
        weight = (20 * (alike - alike[:, :1])).exp()
        weight = weight / weight.sum(1, keepdim=True)
        found.append(
            torch.cat([(weight[:, :, None] * places[which]).sum(1), (weight * near[which]).sum(1)[:, None]], 1)
        )
    all_ = torch.cat(found)
    noise = torch.randn(len(all_), 2, generator=torch.Generator().manual_seed(seed + 1))
    spread = all_[:, :2] + SPREAD * all_[:, 2:] * noise  # nodes between the same landmarks would hide each other
    spread[chosen] = places
    return spread


def _within(places: np.ndarray) -> np.ndarray:
    """Moved and scaled into the unit square; the two axes keep their proportion."""
    low, high = np.quantile(places, [0.001, 0.999], axis=0)
    size = float((high - low).max()) or 1.0
    centred = (places - (low + high) / 2) / size + 0.5
    clipped: np.ndarray = centred.clip(0, 1).astype(np.float32)
    return clipped
