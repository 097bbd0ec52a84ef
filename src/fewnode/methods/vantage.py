"""The default: several views of every node, weighed by a gate that starts as the training-free floor.

It owes to TENT (Wang, Ding, Zhang, Chen, Li: KDD 2022) the three levels, node, class and task, not the equations.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..graph import Graph
from ..graph.arrays import CacheKey
from ..graph.edge_types import EdgeUse, union
from ..nn.communities import community_view
from ..nn.discriminant import Discriminant
from ..nn.heads import class_means, one_hot, ridge_directions
from ..nn.landmarks import walk_view
from ..nn.pseudo_support import Pool, pool_nodes
from ..nn.views import NEAR, VIEWS, WORDS, Views
from ..nn.whitening import Whitening, within_folds
from ..store import Space, rows_at
from ..tasks import ClassSplit, Tasks
from .base import Draw, Method, Training, cross_entropy

MANY = 20  # classes of a training task
PENALTY = 0.1  # of the ridge regression
PLACES = (0.4, 0.2)  # of a node, on a graph without words, is where its walks go, and which communities it is in
PLACES_TAUGHT = (0.5,)  # ... and with a taught view, which communities blur: where its walks go
REACH, REACH_OF_LINKS = -2.0, 0.0  # where the logit of the distance's part starts: 12 %, and half where links are all
SHOTS = 5  # at which a ridge regression is asked for, or more: with fewer, a task says too little about it
SURE = 2.0  # standard errors that a ridge regression must gain to have a say
TASKS = 64  # scored at a time: a node is eleven views wide
TEACHERS = 30  # base classes that it takes to teach a view: with six the gate closes, with eighteen it gains little
UNTAUGHT = -2.0  # where the gate of the taught view starts: at next to nothing
WORTH = 2.0  # the pseudo-support of a class counts as much as two further examples

SEARCHED = CacheKey[Pool]("views of the nodes searched for pseudo-supports")
TAUGHT = CacheKey[Tensor]("rows in the directions that base classes taught")


class Vantage(Method):
    """Nearest class mean; a node is its views side by side, each as long as the root of its share.

    *Node level*: a gate weighs the views (words or links, near or far, and along the edges of those directions and
    edge types that tell base classes apart), starting at that of the training-free floor.
    *Class level*: the views of words also come whitened by the covariance within base classes, so that directions in
    which members of a class differ anyway count less; and a view is taught by the base classes, in the directions that
    told them apart. The gate decides how much both count. *Task level*: the mean of a class is drawn towards its
    pseudo-support, the nodes of the graph nearest to it, whatever they are labelled; and a learned part of the score is
    the distance to that mean instead of the cosine, by which a class that is spread out reaches further. On a graph
    without ``words`` of its own, half of a node or more is where it stands: where its walks go, and in which
    communities it is; and half of the score is a ridge regression if that is better on known classes.
    """

    reads_edges = ("weights", "types")
    space: Space | None = None  # of the graph that was embedded last, if it is on disk
    training_settings = Training(
        learning_rate=0.05,
        weight_decay=0.0,
        steps=150,
        tasks_per_step=8,
        check_every=25,
        patience=6,
        train_way=MANY,
        train_query=5,
    )

    def __init__(
        self,
        in_channels: int,
        *,
        base_classes: tuple[int, ...],
        edges: Mapping[str, Any] | None = None,
        words: bool = True,
        rank: int = 256,
        node_adaptation: bool = True,
        class_adaptation: bool = True,
        task_adaptation: bool = True,
        start: float = 3.0,
        gate_penalty: float = 3e-4,
        taught: bool = True,
        ridge: bool = True,
        places: bool = True,
    ) -> None:
        super().__init__()
        use = EdgeUse.of(edges)
        use = use if node_adaptation else replace(use, relations=(), types=())
        self.views = Views(in_channels, rank, use)
        self.whitening = Whitening(len(WORDS), self.views.rank, base_classes)
        more = use.n_views  # together they start as one view
        self.used = list(range(len(VIEWS) + more)) if node_adaptation else [NEAR]
        self.whitened = [view for view in self.used if view < len(WORDS)] if class_adaptation else []
        level = [0.0] * len(VIEWS) + [-math.log(max(more, 1))] * more
        self.first = [start if view == NEAR else level[view] for view in self.used] + [0.0] * len(self.whitened)
        self.taught = taught and len(self.whitened) > 0 and len(base_classes) >= TEACHERS
        if self.taught:
            self.first.append(UNTAUGHT)
            self.discriminant = Discriminant(len(self.whitened), self.views.rank, len(base_classes))
        placed = places and not words and node_adaptation
        self.places = (PLACES_TAUGHT if self.taught else PLACES) if placed else ()
        self.gate_penalty = gate_penalty
        self.task_adaptation = task_adaptation
        self.gate = nn.Parameter(torch.tensor(self.first))
        # The logit of the distance's part of the score. A mean of one example is always of length one, so that at one
        # shot the loss, which knows no pseudo-supports, cannot tell: then it stays where it starts.
        self.reach = nn.Parameter(torch.full((1,), REACH if words or self.taught else REACH_OF_LINKS))
        self.sharpness = nn.Parameter(torch.full((1,), 2.3))  # the logarithm of the scores' scale
        asked = ridge and not words and len(base_classes) < TEACHERS  # else base classes do not stand in for new ones
        self.share: Tensor | None  # of a ridge regression in the score: nothing or half
        self.register_buffer("share", torch.zeros(1) if asked else None)

    def prepare(self, graph: Graph) -> None:
        self.space = graph.space
        views = self.views.fit(graph)(graph)
        self.whitening.fit(views[: len(WORDS)], graph.y)
        if self.taught:
            words = [views[view] for view in self.whitened]
            self.discriminant.fit(words, graph.y, self.whitening.base, self.whitening.fold_of_class, graph.space)
        if graph.space is not None:
            graph.space.release()

    def embed(self, graph: Graph) -> list[Tensor]:
        self.space = graph.space
        state: list[Tensor] = list(self.views(graph))
        if self.taught:
            words, taught = [state[view] for view in self.whitened], self.discriminant
            state.append(graph.cache.get(TAUGHT, lambda: taught(words, graph.space), source=taught.matrix))
        if self.places:
            plain, made = union(self.views.use.seen(graph)), (walk_view, community_view)[: len(self.places)]
            state += [view(plain, self.views.rank) for view in made]
        return state

    def score(self, graph: Graph, state: list[Tensor], tasks: Tasks) -> Tensor:
        batches = (tasks[at : at + TASKS] for at in range(0, len(tasks), TASKS))
        if self.share is None or not bool(self.share):
            return torch.cat([self._score(graph, state, batch)[0] for batch in batches])
        return torch.cat([torch.lerp(*self._both(graph, state, batch), self.share) for batch in batches])

    def _score(self, graph: Graph, state: list[Tensor], tasks: Tasks) -> tuple[Tensor, list[Tensor]]:
        """Scores by class means, and the examples these are made of: supports, and pseudo-supports if there are any."""
        examples = [F.normalize(self._joined(self._parts(state, tasks.support)), dim=-1)]
        means = class_means(examples[0], tasks.support_y, tasks.n_way)
        if self.task_adaptation:
            pool = graph.cache.get(SEARCHED, lambda: self._pool(graph, state), source=self.whitening.matrices)
            examples.append(pool.pseudo_supports(means, self._lengths()))
            means = drawn_towards(means, tasks.shots(), examples[1])
        return self._matched(self._inner(self._parts(state, tasks.query), means), means.norm(dim=-1)), examples

    def _both(self, graph: Graph, state: list[Tensor], tasks: Tasks) -> tuple[Tensor, Tensor]:
        """Scores by class means, and by a ridge regression on the same examples."""
        scores, (supports, *pseudo) = self._score(graph, state, tasks)
        classes = torch.arange(tasks.n_way, device=supports.device).expand(len(tasks), -1)
        rows, y = [supports, *pseudo * round(WORTH)], [tasks.support_y, *[classes] * len(pseudo) * round(WORTH)]
        directions, intercepts = ridge_directions(torch.cat(rows, 1), torch.cat(y, 1), tasks.n_way, PENALTY)
        regressed = self._inner(self._parts(state, tasks.query), directions) + intercepts[:, None]
        return scores, regressed * self.sharpness.exp()

    @torch.no_grad()
    def after_fit(self, graph: Graph, split: ClassSplit, draw: Draw) -> None:
        """Whether a ridge regression has half a say. A few validation classes cannot tell. So all known classes are
        asked, in tasks as large as those of the training, and seen without the views that they taught. Nor can a few
        shots, so that the answer is the same for all tasks that have no more than five."""
        if self.share is None:
            return
        known = draw(split.base + split.validation, MANY, max(SHOTS, self.card.k_shot))
        if known is None:
            return
        state, gate, known = self.embed(graph), self.gate.clone(), known.to(graph.device)
        self.gate[len(self.used) :] = -math.inf
        gain = torch.cat([self._gain(graph, state, known[at : at + TASKS]) for at in range(0, len(known), TASKS)])
        self.gate.copy_(gate)
        if gain.mean() > SURE * gain.std() / len(gain) ** 0.5:
            self.share.fill_(0.5)
            note = f"ridge regression is half of the score: {100 * gain.mean():+.1f} points on {len(gain)} known tasks"
            self.card = replace(self.card, notes=(*self.card.notes, note))

    def _gain(self, graph: Graph, state: list[Tensor], tasks: Tasks) -> Tensor:
        """How much more of each task's queries half a ridge regression gets right, ``[T]``."""
        assert tasks.query_y is not None
        alone, regressed = self._both(graph, state, tasks)
        guesses = torch.stack([alone + regressed, alone]).argmax(-1)
        return -guesses.eq(tasks.query_y).float().mean(-1).diff(dim=0).squeeze(0)

    def loss(self, graph: Graph, tasks: Tasks) -> Tensor:
        """The tasks twice: whole, without the whitening that was made from their classes; and within folds of the base
        classes, each whitened by what the other folds taught, as a novel class will be. Without pseudo-supports, for
        speed."""
        fold = self.whitening.fold_of_class[graph.y]
        among, across = self._products(self.views(graph), tasks, fold)
        plain = len(self.used)
        loss = cross_entropy(self._gated(among[:plain], across[:plain], tasks), tasks)
        if self.whitened:
            scores = within_folds(self._gated(among, across, tasks), fold, tasks)
            loss = (loss + 2 * cross_entropy(scores, tasks)) / 3
        away = self.gate - self.gate.new_tensor(self.first)
        return loss + self.gate_penalty * away.square().sum()

    def _parts(self, state: list[Tensor], nodes: Tensor, fold: Tensor | None = None) -> Iterator[Tensor]:
        """Each view of ``nodes [...]``, then those that base classes shaped, ``[..., rank]``; then where a node
        stands; how much that counts is not learned, so that the folds of a training go without."""
        yield from self._given(state, nodes)
        yield from self._learned(state, nodes, fold)
        if fold is None:
            yield from self._placed(state, nodes)

    def _given(self, state: list[Tensor], nodes: Tensor) -> Iterator[Tensor]:
        return (rows_at(state[view], nodes, self.space).float() for view in self.used)

    def _learned(self, state: list[Tensor], nodes: Tensor, fold: Tensor | None = None) -> Iterator[Tensor]:
        """The whitened views of ``nodes [...]``, and the taught one."""
        own = None if fold is None else fold[nodes]
        for view in self.whitened:
            yield self.whitening(view, rows_at(state[view], nodes, self.space).float(), own)
        if self.taught:
            yield (state[-1 - len(self.places)] if fold is None else self.discriminant.fold_rows)[nodes]

    def _placed(self, state: list[Tensor], nodes: Tensor) -> Iterator[Tensor]:
        return (rows_at(view, nodes, self.space) for view in state[len(state) - len(self.places) :])

    def _lengths(self) -> Tensor:
        """Of the parts of a node: the roots of their shares."""
        shares = torch.softmax(self.gate, 0)
        if self.places:
            shares = torch.cat([(1 - sum(self.places)) * shares, shares.new_tensor(self.places)])
        return shares.sqrt()

    def _joined(self, parts: Iterable[Tensor]) -> Tensor:
        """The views side by side."""
        return torch.cat([length * part for length, part in zip(self._lengths(), parts, strict=True)], -1)

    def _inner(self, parts: Iterable[Tensor], means: Tensor) -> Tensor:
        """``joined @ means.mT``, one view at a time: many queries side by side would take ten times the memory."""
        total, at = means.new_zeros(()), 0
        for length, part in zip(self._lengths(), parts, strict=True):
            total = total + length * (part @ means[..., at : at + part.shape[-1]].mT)
            at += part.shape[-1]
        return total

    @torch.no_grad()
    def _pool(self, graph: Graph, state: list[Tensor]) -> Pool:
        return Pool(self._parts(state, pool_nodes(graph.num_nodes).to(graph.device)))

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
        member = one_hot(tasks.support_y, tasks.n_way, among.dtype)
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
            scores = torch.lerp(scores, products - lengths.square() / 2, torch.sigmoid(self.reach))
        return scores * self.sharpness.exp()


def drawn_towards(means: Tensor, shots: Tensor, pseudo: Tensor) -> Tensor:
    """Points between the means of classes and their pseudo-supports: ``shots [T, N]`` examples against ``WORTH``."""
    shots = shots[..., None]
    return (shots * means + WORTH * pseudo) / (shots + WORTH)
