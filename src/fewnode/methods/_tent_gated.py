"""TENT as the project's default: a training-free classifier whose three adaptations are learned as small residuals."""

import torch
from torch import Tensor, nn

from ..graph import Graph
from ..nn.heads import class_means, one_hot
from ..nn.looks import LOOKS, NEAR, WORDS, Looks
from ..nn.whitening import Whitening
from ..tasks import Tasks
from .method import Method, Training, cross_entropy

Kernel = tuple[Tensor, Tensor]  # inner products of supports with supports [T, S, S], of queries with supports [T, M, S]
LEAST_SPREAD = 0.05  # keeps tau away from zero where the supports of a class coincide
TAU_PULL = 0.1


class GatedTENT(Method):
    """Nearest class mean by a kernel that is a gated sum of inner products, one for each look at the nodes.

    *Node level*: a gate weighs the looks (words or links, near or far), starting at that of the training-free floor.
    *Class level*: the looks at words also come whitened by the covariance within base classes, so that directions in
    which members of a class differ anyway count less; the gate decides how much. *Task level*: scores are divided by
    tau, the spread of a class's supports relative to the task's, to a learned power that starts at zero.
    """

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
        rank: int = 256,
        node_adaptation: bool = True,
        class_adaptation: bool = True,
        task_adaptation: bool = True,
        start: float = 3.0,
        pull: float = 3e-4,
    ) -> None:
        super().__init__()
        self.looks = Looks(in_channels, rank)
        self.whitening = Whitening(len(WORDS), self.looks.rank, base_classes)
        self.used = list(range(len(LOOKS))) if node_adaptation else [NEAR]
        self.whitened = [look for look in self.used if look < len(WORDS)] if class_adaptation else []
        self.first = [start if look == NEAR else 0.0 for look in self.used] + [0.0] * len(self.whitened)
        self.pull = pull
        self.gate = nn.Parameter(torch.tensor(self.first))
        self.power = nn.Parameter(torch.zeros(1), requires_grad=task_adaptation)
        self.sharpness = nn.Parameter(torch.full((1,), 2.3))  # the logarithm of the scores' scale

    def prepare(self, graph: Graph) -> None:
        looks = self.looks.fit(graph)(graph)
        self.whitening.fit(looks[: len(WORDS)], graph.y)

    def embed(self, graph: Graph) -> list[Tensor]:
        return self.looks(graph)

    def score(self, graph: Graph, state: list[Tensor], tasks: Tasks) -> Tensor:
        return self._match(self._plain(state, tasks) + self._whitened(state, tasks), tasks)

    def loss(self, graph: Graph, tasks: Tasks) -> Tensor:
        """The tasks twice: whole, without the whitening that was made from their classes; and within folds of the base
        classes, each whitened by what the other folds taught, as a novel class will be."""
        state = self.embed(graph)
        plain = self._plain(state, tasks)
        loss = cross_entropy(self._match(plain, tasks), tasks)
        if self.whitened:
            loss = (loss + 2 * self._loss_within_folds(graph, state, plain, tasks)) / 3
        away = self.gate - self.gate.new_tensor(self.first)
        return loss + self.pull * away.square().sum() + TAU_PULL * self.power.square().sum()

    def _loss_within_folds(self, graph: Graph, state: list[Tensor], plain: list[Kernel], tasks: Tasks) -> Tensor:
        fold = self.whitening.fold_of_class[graph.y]
        scores = self._match(plain + self._whitened(state, tasks, fold), tasks)
        of_class = torch.zeros_like(tasks.shots()).scatter_(1, tasks.support_y, fold[tasks.support])
        elsewhere = fold[tasks.query][:, :, None] != of_class[:, None, :]
        return cross_entropy(scores.masked_fill(elsewhere, -1e4), tasks)

    def _plain(self, state: list[Tensor], tasks: Tasks) -> list[Kernel]:
        return [_kernel(state[look][tasks.support].float(), state[look][tasks.query].float()) for look in self.used]

    def _whitened(self, state: list[Tensor], tasks: Tasks, fold: Tensor | None = None) -> list[Kernel]:
        kernels = []
        for look in self.whitened:
            z, q = (
                self.whitening(look, state[look][nodes].float(), None if fold is None else fold[nodes])
                for nodes in (tasks.support, tasks.query)
            )
            kernels.append(_kernel(z, q))
        return kernels

    def _match(self, kernels: list[Kernel], tasks: Tasks) -> Tensor:
        """Cosine of each query to the mean of each class's supports in the mixed space, over tau to its power."""
        weight = torch.softmax(self.gate[: len(kernels)], 0)
        among, across = (sum(w * kernel[side] for w, kernel in zip(weight, kernels, strict=True)) for side in (0, 1))
        length = among.diagonal(dim1=1, dim2=2).clamp(min=1e-6).rsqrt()  # every support gets the same say in its mean
        among, across = among * length[:, :, None] * length[:, None], across * length[:, None]
        means = class_means(among, tasks.support_y, tasks.n_way)  # [T, N, S]: class mean times support
        member = one_hot(tasks.support_y, tasks.n_way, means.dtype)
        share = member / member.sum(1, keepdim=True)
        norm = (means * share.transpose(1, 2)).sum(2).clamp(min=1e-4)
        spread = (1 - norm).clamp(min=0).add(LEAST_SPREAD).sqrt()
        tau = spread / spread.mean(1, keepdim=True)
        return (across @ share) / (norm.sqrt() * tau**self.power)[:, None] * self.sharpness.exp()


def _kernel(z: Tensor, q: Tensor) -> Kernel:
    return z @ z.transpose(1, 2), q @ z.transpose(1, 2)
