"""The six views of all nodes by whole passes over the graph, from words and links that are reduced already."""

from torch import Tensor

from fewnode.graph.operators import ppr_smooth
from fewnode.nn.views import FAR_STEPS, NEAR_STEPS


def six_views(normal: Tensor, mean: Tensor, words: Tensor, links: Tensor) -> list[Tensor]:
    return [
        words,
        mean @ (mean @ words),
        ppr_smooth(normal, words, *NEAR_STEPS),
        ppr_smooth(normal, words, *FAR_STEPS),
        mean @ (mean @ links),
        ppr_smooth(normal, links, *NEAR_STEPS),
    ]
