"""The six views of all nodes by whole passes over the graph, from words and links that are reduced already."""

from torch import Tensor

from fewnode.nn.views import FAR_STEPS, NEAR_STEPS


def six_views(normal: Tensor, mean: Tensor, words: Tensor, links: Tensor) -> list[Tensor]:
    return [
        words,
        mean @ (mean @ words),
        normal.smooth(words, *NEAR_STEPS),
        normal.smooth(words, *FAR_STEPS),
        mean @ (mean @ links),
        normal.smooth(links, *NEAR_STEPS),
    ]
