"""A map of the nodes in two dimensions: landmarks by t-SNE, every other node between its nearest landmarks."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
from torch import Tensor

from ..errors import InputError
from ..files import read_npz, write_npz


def kept_layout(x: Tensor, folder: Path | None, say: Callable[[str], None] = lambda _: None) -> np.ndarray:
    """The layout in ``map.npz`` of a model's folder if it is of these coordinates, else a new one, which is saved."""
    mark = np.array([len(x), float(x[:: max(len(x) // 1000, 1)].double().abs().sum())])
    path = None if folder is None else folder / "map.npz"
    if path is not None and path.exists():
        with suppress(InputError, KeyError):  # damaged: it is made again
            parts = read_npz(path)
            if np.array_equal(parts["mark"], mark) and parts["places"].shape == (len(x), 2):
                return parts["places"]
    say("Drawing the map ...")
    places = layout(x)
    if path is not None:
        write_npz(path, {"mark": mark, "places": places}, compress=False)
    return places


def layout(x: Tensor, landmarks: int = 3000) -> np.ndarray:
    """Places ``[N, 2]`` from 0 to 1 of nodes with the coordinates ``x [N, d]``; the same for the same input."""
    from sklearn.decomposition import PCA  # these take a second to import, which a saved map does not need
    from sklearn.manifold import TSNE
    from sklearn.neighbors import KNeighborsRegressor, NearestNeighbors

    pca = PCA(min(50, *x.shape), svd_solver="covariance_eigh")
    pca.fit(x[:: max(len(x) // 20_000, 1)].double().cpu().numpy())
    parts = (pca.transform(part.double().cpu().numpy()).astype(np.float32) for part in x.split(4096))
    leading = np.concatenate([*parts])  # components
    if len(x) < 30:
        return _within(np.pad(leading[:, :2], ((0, 0), (0, max(0, 2 - leading.shape[1])))))
    random = np.random.default_rng(0)
    chosen = random.permutation(len(x))[:landmarks]
    start = 1e-4 * leading[chosen, :2] / max(leading[chosen, 0].std(), 1e-9)
    perplexity = min(30.0, (len(chosen) - 1) / 4)
    tsne = TSNE(2, init=start, perplexity=perplexity, random_state=0, max_iter=500, metric="cosine")
    places = tsne.fit_transform(leading[chosen])
    spacing = NearestNeighbors(n_neighbors=5).fit(places).kneighbors(places)[0][:, -1:]
    unit = leading / np.linalg.norm(leading, axis=1, keepdims=True).clip(1e-9)
    between = KNeighborsRegressor(3, weights=lambda away: np.exp(-10 * (away**2 - away[:, :1] ** 2)))
    found = between.fit(unit[chosen], np.hstack([places, spacing])).predict(unit)
    # Nodes between the same landmarks would hide each other.
    spread = found[:, :2] + 0.35 * found[:, 2:] * random.standard_normal((len(x), 2))
    spread[chosen] = places
    return _within(spread)


def _within(places: np.ndarray) -> np.ndarray:
    """Moved and scaled into the unit square; the two axes keep their proportion."""
    low, high = np.quantile(places, [0.001, 0.999], axis=0)
    size = float((high - low).max()) or 1.0
    centred = (places - (low + high) / 2) / size + 0.5
    clipped: np.ndarray = centred.clip(0, 1).astype(np.float32)
    return clipped
