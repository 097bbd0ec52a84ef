"""Task-adaptive network: class-ego graphs, weights adapted to each class, matching adapted to each task.

Wang, Ding, Zhang, Chen, Li: Task-Adaptive Few-shot Node Classification. KDD 2022.
"""

from typing import Any, ClassVar, Literal

from torch import Tensor

from ..errors import one_of
from ..graph import Graph
from ..tasks import Tasks
from ._tent_paper import PaperTENT
from ._tent_released import ReleasedTENT
from .method import Method, Training


class TENT(Method):
    """TENT"""

    training_settings: ClassVar[Training | None] = Training(learning_rate=0.005, weight_decay=1e-4)

    def __init__(
        self,
        in_channels: int,
        *,
        base_classes: tuple[int, ...],
        variant: Literal["paper", "released"] = "paper",
        backbone: Literal["gin", "gcn"] = "gin",
        mlp_layers: int = 1,
        normalize: bool = True,
        hidden_channels: int = 16,
        out_channels: int = 16,
        ego_hops: int = 1,
        query_hops: int = 2,
        node_adaptation: bool = True,
        class_adaptation: bool = True,
        task_adaptation: bool = True,
        gamma: float = 1.0,
        dropout: float = 0.2,
        adapter_start: float = 1.0,
    ) -> None:
        super().__init__()
        one_of("variant", variant, ("paper", "released"))
        one_of("backbone", backbone, ("gin", "gcn"))
        widths = {"hidden_channels": hidden_channels, "out_channels": out_channels}
        if variant == "released":
            self.core: Method = ReleasedTENT(in_channels, base_classes=base_classes, gamma=gamma, **widths)
            return
        self.core = PaperTENT(
            in_channels,
            base_classes=base_classes,
            hidden_channels=hidden_channels,
            out_channels=out_channels,
            backbone=backbone,
            mlp_layers=mlp_layers,
            normalize=normalize,
            ego_hops=ego_hops,
            query_hops=query_hops,
            node_adaptation=node_adaptation,
            class_adaptation=class_adaptation,
            task_adaptation=task_adaptation,
            gamma=gamma,
            dropout=dropout,
            adapter_start=adapter_start,
        )

    def embed(self, graph: Graph) -> Any:
        return self.core.embed(graph)

    def score(self, graph: Graph, state: Any, tasks: Tasks) -> Tensor:
        return self.core.score(graph, state, tasks)

    def loss(self, graph: Graph, tasks: Tasks) -> Tensor:
        return self.core.loss(graph, tasks)
