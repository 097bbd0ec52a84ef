"""The default: several views of every node, weighted by a gate that starts as the training-free baseline.

It shares the three levels (node, class and task) with TENT (Wang, Ding, Zhang, Chen, Li: KDD 2022), not the equations.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..graph import Graph
from ..graph.edge_types import EdgeUse
from ..nn.class_shape import LDAView, Whitening, few_shot_accuracy, sample_per_class, within_folds
from ..nn.heads import class_means
from ..nn.views import NEAR, WORDS, Views, walk_view
from ..tasks import Tasks
from .base import Method, Training, cross_entropy

POOL = 10_000  # nodes searched for the pseudo-support of a class: all, or a random sample of a larger graph
SHARE = 0.01  # of the pool is the pseudo-support of a class

SEARCHED = "views of the nodes searched for pseudo-supports"


class Vantage(Method):
    """Nearest class mean on several views of every node, side by side; the length of a view is the root of its share.

    *Node level*: a gate weights the views (words or links, near or far, and the types of edges). It starts at the
    training-free baseline. The weight of an edge type depends on how often it joins base nodes of one class.

    *Class level*: the views of words are also used in whitened form, by the covariance within base classes, so
    directions in which members of a class differ anyway have less weight. An LDA view has the directions that separate
    base classes. The gate learns the weight of both. Each block of feature columns (words, the vectors of a text
    encoder) has its own views; their initial share depends on how well the near view of the block separates base
    classes.

    *Task level*: the mean of a class is combined with its pseudo-support, the nodes of the graph nearest to it,
    whatever their labels, which counts as much as two further examples. A learned part of the score is the distance to
    that mean instead of the cosine, so a class that is spread out extends further. On a graph without ``words``, half
    of a node is its positional view.

    Args:
        in_channels: feature columns of the graph.
        base_classes: the classes with many labels.
        edges: the use of the weights and types of edges (learned by ``context``).
        words: whether the graph has features.
        blocks: the number of feature columns of each kind, in their order.
        rank: columns of each view.
        node_adaptation: False for the view of the training-free baseline alone.
        class_adaptation: False for no whitening and no LDA view.
        task_adaptation: False for no pseudo-supports and no distances.
        start: the baseline's logit in the gate; the other views start at 0.
        gate_penalty: on the squared change of the gate.
        lda_classes: the least number of base classes for an LDA view; with six the gate closes, and eighteen gain
            little.
        positional_view: False for no positional view on a graph without features.
    """

    reads_edges = ("weights", "types")
    training_settings = Training(
        learning_rate=0.05,
        weight_decay=0.0,
        steps=150,
        tasks_per_step=8,
        check_every=25,
        patience=6,
        train_way=20,
        train_query=5,
    )

    def __init__(
        self,
        in_channels: int,
        *,
        base_classes: tuple[int, ...],
        edges: Mapping[str, Any] | None = None,
        words: bool = True,
        blocks: tuple[int, ...] = (),
        rank: int = 256,
        node_adaptation: bool = True,
        class_adaptation: bool = True,
        task_adaptation: bool = True,
        start: float = 3.0,
        gate_penalty: float = 3e-4,
        lda_classes: int = 30,
        positional_view: bool = True,
    ) -> None:
        super().__init__()
        use = msgspec.convert(edges or {}, EdgeUse)
        use = use if node_adaptation else replace(use, types=())
        self.views, n_blocks = Views(in_channels, rank, use, blocks), max(len(blocks), 1)
        n_words, n_others = n_blocks * len(WORDS), 3 if use.types else 2  # of links, and of edge types
        self.whitening = Whitening(n_words, self.views.rank, base_classes)
        self.near = range(NEAR, n_words, len(WORDS))
        self.used = list(range(n_words + n_others)) if node_adaptation else list(self.near)
        self.whitened = [view for view in self.used if view < n_words] if class_adaptation else []
        level = [-math.log(n_blocks)] * n_words + [0.0] * n_others
        self.first = [level[view] + start * (view in self.near) for view in self.used]
        self.first += [level[view] for view in self.whitened]
        self.lda: LDAView | None = None
        if self.whitened and len(base_classes) >= lda_classes:
            self.first.append(-2.0)  # next to nothing
            self.lda = LDAView(len(self.whitened), self.views.rank, len(base_classes))
        self.positional = positional_view and not words and node_adaptation
        self.gate_penalty = gate_penalty
        self.task_adaptation = task_adaptation
        self.gate = nn.Parameter(torch.tensor(self.first))
        # The logit of the distance's part of the score: 12 %, and half where links are all. A mean of one example is
        # always of length one, so that at one shot the loss, which knows no pseudo-supports, cannot change it.
        self.distance_weight = nn.Parameter(torch.full((1,), -2.0 if words or self.lda is not None else 0.0))
        self.logit_scale = nn.Parameter(torch.full((1,), 2.3))  # its logarithm

    @classmethod
    def context(cls, graph: Graph, options: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """The information in the weights and types of edges about base classes, and whether there are features."""
        use, notes = EdgeUse.learned(graph), list[str]()
        if not use.weighted:
            notes.append("edges within base classes weigh no more than edges between them, so the weights are not used")
        if use.weights:
            told = [f"{name} {weight:g}" for name, weight in sorted(use.weights.items(), key=lambda one: -one[1])]
            more = f" and {len(told) - 5} more types" if len(told) > 5 else ""
            notes.append(f"edges count by how often their type joins nodes of one class: {', '.join(told[:5])}{more}")
        blocks = tuple(graph.blocks.values())
        return {"edges": asdict(use), "blocks": blocks, "words": graph.has_features}, notes

    def prepare(self, graph: Graph) -> None:
        views = self.views.fit(graph).split(graph)
        self.whitening.fit(views[: len(self.whitening.matrices)], graph.y)
        if len(self.near) > 1:
            self._share_blocks(views, graph.y)
        if self.lda is not None:
            words = [views[view] for view in self.whitened]
            self.lda.fit(words, graph.y, self.whitening.base, self.whitening.fold_of_class)
        graph.space.release()

    @torch.no_grad()
    def _share_blocks(self, views: list[Tensor], y: Tensor) -> None:
        """Start the gate with shares of the blocks that follow the odds with which their near views alone tell base
        classes apart that are shown by a few examples."""
        nodes = sample_per_class(y, torch.tensor(self.whitening.base, device=y.device), 100)
        found = [few_shot_accuracy(views[view][nodes].float(), y[nodes]) for view in self.near]
        odds = torch.tensor(found).clamp(0.01, 0.99).logit()
        change = (odds.log_softmax(0) + math.log(len(found))).tolist()
        blocks = [view // len(WORDS) for view in (*self.used, *self.whitened)]
        for place, block in enumerate(blocks):
            self.first[place] += change[block] if block < len(found) else 0.0
        self.gate.copy_(self.gate.new_tensor(self.first))

    def embed(self, graph: Graph) -> list[Tensor]:
        state = self.views.split(graph)
        if self.positional:
            state.append(walk_view(self.views.use.seen(graph), self.views.rank))
        return state

    def score(self, graph: Graph, state: list[Tensor], tasks: Tasks) -> Tensor:
        shares = torch.softmax(self.gate, 0)
        if self.positional:
            shares = torch.cat([0.5 * shares, shares.new_tensor([0.5])])
        lengths, scores = shares.sqrt(), []  # of the parts of a node: the roots of their shares

        def pool() -> Pool:
            nodes = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))[:POOL].sort().values
            return Pool(self._parts(state, nodes.to(graph.device)))

        for some in (tasks[at : at + 64] for at in range(0, len(tasks), 64)):  # at a time: a node is eleven views wide
            parts = list(self._parts(state, some.support))
            joined = torch.cat([length * part for length, part in zip(lengths, parts, strict=True)], -1)
            supports = F.normalize(joined, dim=-1)
            means = class_means(supports, some.support_y, some.n_way)
            if self.task_adaptation:
                searched = graph.cache.get(SEARCHED, pool, source=self.whitening.matrices)
                shots, pseudo = some.shots()[..., None], searched.pseudo_supports(means, lengths)
                means = (shots * means + 2 * pseudo) / (shots + 2)
            # One part at a time: many queries with their parts side by side would take ten times the memory.
            products, pieces = means.new_zeros(()), means.split([part.shape[-1] for part in parts], -1)
            for length, part, piece in zip(lengths, self._parts(state, some.query), pieces, strict=True):
                products = products + length * (part @ piece.mT)
            scores.append(self._matched(products, means.norm(dim=-1)))
            graph.space.release()
        return torch.cat(scores)

    def loss(self, graph: Graph, tasks: Tasks) -> Tensor:
        """The loss of the tasks twice: whole, and within folds of the base classes.

        Whole tasks do not use the whitening made from their own classes. Within folds, each fold is whitened by the
        matrices of the other folds, as a novel class is. Pseudo-supports are left out for speed.
        """
        fold = self.whitening.fold_of_class[graph.y]
        among, across = self._products(self.views.split(graph), tasks, fold)
        graph.space.release()
        plain = len(self.used)
        loss = cross_entropy(self._gated(among[:plain], across[:plain], tasks), tasks)
        if self.whitened:
            scores = within_folds(self._gated(among, across, tasks), fold, tasks)
            loss = (loss + 2 * cross_entropy(scores, tasks)) / 3
        away = self.gate - self.gate.new_tensor(self.first)
        return loss + self.gate_penalty * away.square().sum()

    def _parts(self, state: list[Tensor], nodes: Tensor, fold: Tensor | None = None) -> Iterator[Tensor]:
        """Each view of ``nodes [...]``, the whitened ones and the LDA view, ``[..., rank]``; then the position. How
        much that counts is not learned, so that the folds of a training go without."""
        yield from (state[view][nodes].float() for view in self.used)
        for view in self.whitened:
            yield self.whitening(view, state[view][nodes].float(), None if fold is None else fold[nodes])
        if self.lda is not None:
            yield self.lda([state[view] for view in self.whitened], nodes, fold is not None)
        if self.positional and fold is None:
            yield state[-1][nodes]

    @torch.no_grad()
    def _products(self, state: list[Tensor], tasks: Tasks, fold: Tensor) -> tuple[Tensor, Tensor]:
        """For each part, inner products of the supports ``[V, T, S, S]`` and of queries with them ``[V, T, M, S]``."""
        pairs = zip(*(self._parts(state, nodes, fold) for nodes in (tasks.support, tasks.query)), strict=True)
        among, across = zip(*((z @ z.mT, q @ z.mT) for z, q in pairs), strict=True)
        return torch.stack(among), torch.stack(across)

    def _gated(self, among: Tensor, across: Tensor, tasks: Tasks) -> Tensor:
        """The scores without pseudo-supports from inner products: what is learned are a few weights of large products,
        so no gradient has to flow through the nodes."""
        weights = torch.softmax(self.gate[: len(among)], 0)
        among, across = (torch.einsum("v,vtab->tab", weights, part) for part in (among, across))
        shrink = among.diagonal(dim1=1, dim2=2).clamp(min=1e-12).rsqrt()
        member = F.one_hot(tasks.support_y, tasks.n_way).to(among.dtype)
        member = member / member.sum(1, keepdim=True) * shrink[:, :, None]
        lengths = ((among @ member) * member).sum(1).clamp(min=1e-12).sqrt()
        return self._matched(across @ member, lengths)

    def _matched(self, products: Tensor, lengths: Tensor) -> Tensor:
        """Scores from ``products [T, M, N]`` of queries with class means, which are ``lengths [T, N]`` long: the more
        the supports of a class differ the shorter is their mean. The cosine does not see that. Minus half the squared
        distance (up to the query's own length) does: what is near to no class goes to the one that is spread out."""
        lengths = lengths[:, None].clamp(min=1e-6)
        scores = products / lengths
        if self.task_adaptation:
            near = products - lengths.square() / 2
            scores = torch.lerp(scores, near, torch.sigmoid(self.distance_weight))
        return scores * self.logit_scale.exp()


# --- The pseudo-support of a class: the nodes nearest to the mean of its examples, whatever their labels.
class Pool:
    """Nodes as several ``parts [P, d_v]``, whose lengths the caller chooses anew for each search.

    The rows of length one that the parts make side by side are never made: that took as long as a third of a search,
    and the lengths differ at every check of a training.
    """

    def __init__(self, parts: Iterable[Tensor]) -> None:
        self.parts = list(parts)
        self.squares = torch.stack([part.square().sum(-1) for part in self.parts], -1)

    @torch.no_grad()
    def pseudo_supports(self, means: Tensor, lengths: Tensor) -> Tensor:
        """Directions ``[..., d]`` of the mean of the nodes with the largest cosine with each of ``means [..., d]``;
        part ``v`` of a node is ``lengths[v]`` long."""
        shrink = (self.squares @ lengths.square()).clamp(min=1e-24).rsqrt()
        pieces = means.flatten(0, -2).split([part.shape[-1] for part in self.parts], -1)
        products = means.new_zeros(len(pieces[0]), len(shrink))
        for length, piece, part in zip(lengths, pieces, self.parts, strict=True):
            products.addmm_(length * piece, part.t())
        chosen = products.mul_(shrink).topk(max(1, round(SHARE * len(shrink))), sorted=False).indices
        weights = shrink[chosen]
        sums = [F.embedding_bag(chosen, part, mode="sum", per_sample_weights=weights) for part in self.parts]
        together = torch.cat([length * each for length, each in zip(lengths, sums, strict=True)], -1)
        return F.normalize(together, dim=-1).view_as(means)
