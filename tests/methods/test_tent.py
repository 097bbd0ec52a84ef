"""TENT and its residual variant, equation by equation, against an oracle that runs layers node by node."""

from dataclasses import asdict, dataclass
from functools import partial

import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import sparse as sp
from torch import Tensor
from torch.nn import functional as F

from fewnode import draw_tasks, fit
from fewnode.errors import InputError
from fewnode.graph import Graph, operators
from fewnode.methods.base import Training, constructor_parameters
from fewnode.methods.pn import PN
from fewnode.methods.tent import GIN, TENT, EmbeddedTasks, tau
from fewnode.methods.tent_released import TENTReleased
from fewnode.methods.tent_residual import SmoothingEncoder, TENTResidual
from fewnode.nn.ego import grouped_linear, reads_most
from fewnode.nn.graph_layers import Inputs
from fewnode.nn.heads import class_means, cosine_scores
from fewnode.tasks import Tasks
from oracles import tent_released
from oracles.tent import Oracle


@dataclass
class Case:
    """A model in float64 with random weights, a graph and a batch of tasks on it."""

    model: TENT
    graph: Graph
    tasks: Tasks

    def embedded(self) -> EmbeddedTasks:
        return self.model.embed_tasks(self.graph, self.model.embed(self.graph), self.tasks)

    def oracles(self) -> list[Oracle]:
        return [Oracle(self.model, self.graph, self.tasks, task) for task in range(len(self.tasks))]


def make_case(edges, supports, supports_y, queries, *, nodes=12, seed=0, kind=TENT, **options) -> Case:
    """A case from node ids; every node has one of three base classes and three features."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(nodes, 3, generator=random)
    x[torch.rand(nodes, generator=random) < 0.2] = 0  # some nodes say nothing about themselves
    y = torch.randint(3, (nodes,), generator=random) * 2 + 1
    graph = Graph.from_edges(torch.tensor(list(edges)).reshape(-1, 2).t(), x, y, num_nodes=nodes)
    query_y = torch.randint(max(supports_y[0]) + 1, (len(queries), len(queries[0])), generator=random)
    tasks = Tasks(*(torch.tensor(part) for part in (supports, supports_y, queries)), query_y)
    widths = {"hidden_channels": 3, "out_channels": 2}
    if kind is not TENTReleased:
        widths |= {"hidden_channels": 4, "out_channels": 3, "second_channels": 2}
    model = kind(3, base_classes=(1, 3, 5), **widths | options)
    model.prepare(graph)
    model = model.double().eval()  # at rest, nothing is dropped
    if getattr(model, "inputs", None) is not None:
        model.inputs.float()  # as the features are
    with torch.no_grad():
        for parameter in model.parameters():
            spread = 0.03 if parameter.numel() == 1 else 0.7  # numbers on their own count many times
            parameter.copy_(torch.randn(parameter.shape, generator=random, dtype=torch.float64) * spread)
    return Case(model, graph, tasks)


@st.composite
def cases(draw, **options) -> Case:
    nodes = draw(st.integers(9, 14))
    pairs = [(a, b) for a in range(nodes) for b in range(a)]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=3 * nodes, unique=True))
    n_way = draw(st.integers(2, 3))
    extra = draw(st.integers(0, 3))
    supports, supports_y, queries = [], [], []
    for _ in range(draw(st.integers(1, 2))):
        order = draw(st.permutations(range(nodes)))
        more = draw(st.lists(st.integers(0, n_way - 1), min_size=extra, max_size=extra))
        supports_y.append(draw(st.permutations([*range(n_way), *more])))
        supports.append(order[: n_way + extra])
        queries.append(order[-3:])
    seed = draw(st.integers(0, 1000))
    return make_case(edges, supports, supports_y, queries, nodes=nodes, seed=seed, **options)


TWO_WAY = {"supports": [[0, 1, 2, 3]], "supports_y": [[0, 0, 1, 1]], "queries": [[4, 5, 6]]}


PAPER = {name: value for name, value in TENT.presets["paper"].items() if name in constructor_parameters(TENT)}
FORMS = {
    "tuned": {"kind": TENT},
    "paper": {"kind": TENT} | {name: value for name, value in PAPER.items() if "channels" not in name},
    "residual": {"kind": TENTResidual},
}


def situations(form: dict) -> dict[str, Case]:
    def case(*args, **options) -> Case:
        return make_case(*args, **form, **options)

    return {
        "no edges at all": case([], **TWO_WAY),
        "supports of one class are neighbours": case([(0, 1), (1, 4), (2, 5)], **TWO_WAY),
        "supports of two classes are neighbours": case([(0, 2), (1, 3), (0, 5), (2, 6)], **TWO_WAY),
        "one neighbour shared by two supports": case([(0, 7), (1, 7), (7, 8), (2, 6)], **TWO_WAY),
        "one neighbour shared by two classes": case([(0, 7), (2, 7), (7, 8), (8, 0)], **TWO_WAY),
        "neighbours are joined": case([(0, 7), (1, 8), (7, 8), (7, 9), (4, 7), (4, 9)], **TWO_WAY),
        "a query is a neighbour of a support": case([(0, 4), (4, 5), (5, 2)], **TWO_WAY),
        "everything is joined": case([(a, b) for a in range(12) for b in range(a)], **TWO_WAY),
        "one shot": case([(0, 7), (1, 7), (4, 8)], [[0, 1, 2]], [[2, 0, 1]], [[4, 5]]),
        "unequal shots": case([(0, 7), (1, 7), (2, 3)], [[0, 1, 2, 3]], [[1, 0, 1, 1]], [[4, 5]]),
    }


SITUATIONS = {name: situations(form) for name, form in FORMS.items()}


def everywhere(test):
    """Run a test on the named situations and on random graphs and tasks."""
    forms = st.sampled_from(list(FORMS.values()))
    random = settings(max_examples=10, deadline=None)(given(case=forms.flatmap(lambda form: cases(**form)))(test))
    for named in SITUATIONS.values():
        for case in named.values():
            random = example(case=case)(random)
    return random


def rows(values: list[list[Tensor]]) -> Tensor:
    return torch.stack([torch.stack(row) for row in values])


def close(actual: Tensor, expected: Tensor, size: float = 1.0) -> None:
    """Equal up to rounding, relative to the largest number: small ones may be differences of large ones. Degrees are
    kept in single precision, which rounds to 6e-8, and enter several times."""
    size = max(size, float(expected.detach().abs().max()))
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-6 * size)


# --- one test per equation ----------------------------------------------------------------------------------


@everywhere
def test_first_step_embedding(case: Case) -> None:
    """H = GNN_phi(V, E, X)."""
    oracle = case.oracles()[0]
    close(case.model.embed(case.graph)[0], torch.stack([oracle.h[v] for v in range(case.graph.num_nodes)]))


@everywhere
def test_prototype_is_the_centroid_of_the_class_ego_graph(case: Case) -> None:
    """h_c = MEAN(h_v), theta_i = (alpha_i + 1) o theta + beta_i, s_i = Centroid(GNN_theta_i(G_i))."""
    close(case.embedded().s, rows([[s for s, _ in oracle.classes] for oracle in case.oracles()]))


@everywhere
def test_supports_in_the_class_ego_graph(case: Case) -> None:
    """s_i^k, the output of GNN_theta_i(G_i) at support k."""
    close(
        case.embedded().s_k,
        rows([[oracle.classes[i][1][k] for i, k in oracle.order] for oracle in case.oracles()]),
    )


@everywhere
def test_query_is_the_centroid_of_its_subgraph(case: Case) -> None:
    """theta_q = (alpha_q + 1) o theta + beta_q, from all supports; q = Centroid(GNN_theta_q(2-hop subgraph))."""
    close(case.embedded().q, rows([[oracle.query_embedding(v) for v in oracle.query] for oracle in case.oracles()]))


@everywhere
def test_tau(case: Case) -> None:
    """tau_i = N sum_k |s_i^k - s_i| / sum_j sum_k |s_j^k - s_j|."""
    _, s, s_k, *_ = case.embedded()
    close(tau(s, s_k, case.tasks.support_y), rows([oracle.tau() for oracle in case.oracles()]))


@everywhere
def test_score(case: Case) -> None:
    """q . s_j / tau_j, both normalised."""
    scores = case.model.match(case.embedded(), case.tasks)
    close(scores, rows([[torch.stack(oracle.score(v)) for v in oracle.query] for oracle in case.oracles()]))


@everywhere
def test_prediction(case: Case) -> None:
    """argmax_j q_i . s_j / tau_i as printed; with ``tau_at_test``, as of the scores of the loss."""
    scores = case.model(case.graph, case.tasks)
    close(scores, rows([[torch.stack(oracle.prediction(v)) for v in oracle.query] for oracle in case.oracles()]))


@everywhere
def test_loss_and_all_gradients(case: Case) -> None:
    """L = L_N + gamma L_CE, and its derivative in every weight."""
    same_with_gradients(case, mean_loss(case))


@everywhere
def test_base_class_loss(case: Case) -> None:
    """L_CE = -sum y log softmax(MLP(h_q)), mean over the queries."""
    query = case.tasks.query.flatten()
    loss = case.model.classifier.loss(case.model.embed(case.graph)[0][query], case.graph.y[query])
    oracles = case.oracles()
    close(loss, torch.stack([oracle.base_class_loss() for oracle in oracles]).mean())


def test_class_adapter_reaches_every_weight_and_bias() -> None:
    """alpha_i, beta_i in R^d_theta: one number per parameter of GNN_theta."""
    core = SITUATIONS["paper"]["one shot"].model
    assert core.alpha is not None
    oracle = SITUATIONS["paper"]["one shot"].oracles()[0]
    context = torch.stack([oracle.virtual_class_node(i) for i in range(3)])
    close(core.adapted(context), torch.stack([oracle.class_weights(i) for i in range(3)]))
    assert core.adapted(context).shape[1] == sum((rows + 1) * columns for rows, columns in core.gnn.shapes)


# --- switches -----------------------------------------------------------------------------------------------

SWITCHES = [
    form | options
    for form in FORMS.values()
    for options in (
        {"node_adaptation": False},
        {"class_adaptation": False},
        {"task_adaptation": False},
        {"gamma": 0.25},
    )
] + [
    {"kind": TENT, "normalize": True},
    FORMS["paper"] | {"normalize": True},
    FORMS["paper"] | {"features": "reduced"},
    FORMS["paper"] | {"aggregation": "mean"},
    {"kind": TENT, "aggregation": "sum"},
]


@pytest.mark.parametrize("options", SWITCHES, ids=str)
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_every_switch_against_the_oracle(options: dict, data: st.DataObject) -> None:
    case = data.draw(cases(**options))
    same_with_gradients(case, mean_loss(case), 1.0 if options.get("task_adaptation", True) else rounding(case))


def rounding(case: Case) -> float:
    """How much larger the rounding of squared distances is than that of cosines: they are not normalised, and the
    softmax compares them, in the oracle as in the method. Classes with the same class-ego graph tie."""
    with torch.no_grad():
        found = case.model.embed_tasks(case.graph, case.model.embed(case.graph), case.tasks)
    norms = torch.linalg.vector_norm(found.s, dim=-1).max(), torch.linalg.vector_norm(found.q, dim=-1).max()
    assume(all(bool((torch.pdist(classes) > 1e-6 * norms[0]).all()) for classes in found.s))
    return max(1.0, float(max(norms)) ** 2)


@settings(max_examples=30, deadline=None)
@given(case=cases(kind=TENTReleased))
def test_released_against_dense_matrices(case: Case) -> None:
    same_with_gradients(case, tent_released.loss(case.model, case.graph, case.tasks))


def test_released_scores_are_a_logistic_regression_on_the_embedding() -> None:
    from sklearn.linear_model import LogisticRegression

    edges = [(0, 7), (1, 7), (2, 3), (4, 2)]
    case = make_case(edges, [[0, 1, 2, 3]], [[0, 1, 2, 1]], [[4, 5, 6]], kind=TENTReleased)
    h = torch.nn.functional.normalize(case.model.embed(case.graph), dim=1).detach().numpy()
    sklearn = LogisticRegression(C=1.0, tol=1e-8).fit(h[case.tasks.support[0]], case.tasks.support_y[0])
    expected = sklearn.predict_proba(h[case.tasks.query[0]])
    actual = case.model(case.graph, case.tasks)[0].softmax(-1).detach().numpy()
    assert abs(actual - expected).max() < 1e-4


def mean_loss(case: Case) -> Tensor:
    losses = [oracle.loss() for oracle in case.oracles()]
    return sum(losses[1:], losses[0]) / len(losses)


def same_with_gradients(case: Case, expected: Tensor, rounding: float = 1.0) -> None:
    parameters = list(case.model.parameters())
    slow = torch.autograd.grad(expected, parameters, materialize_grads=True)
    for most in (True, False):  # embedding the whole graph, and what is read of it
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fewnode.nn.ego.reads_most", lambda graph, near, most=most: most)
            loss = case.model.loss(case.graph, case.tasks)
        close(loss, expected)
        size = rounding * max(float(gradient.abs().max()) for gradient in slow)
        for one, other in zip(torch.autograd.grad(loss, parameters, materialize_grads=True), slow, strict=True):
            close(one, other, size)


# --- corners ------------------------------------------------------------------------------------------------


def test_tau_at_equal_shots_is_the_printed_ratio_of_sums() -> None:
    random = torch.Generator().manual_seed(0)
    prototypes, supports = torch.randn(1, 3, 4, generator=random), torch.randn(1, 6, 4, generator=random)
    y = torch.tensor([[2, 0, 1, 1, 0, 2]])
    sums = torch.zeros(3).index_add(0, y[0], (supports - prototypes[:, y[0]]).norm(dim=-1)[0])
    torch.testing.assert_close(tau(prototypes, supports, y)[0], 3 * sums / sums.sum())


def test_tau_is_one_where_no_class_is_scattered() -> None:
    prototypes = torch.randn(1, 3, 4, requires_grad=True)
    y = torch.tensor([[2, 0, 1]])
    found = tau(prototypes, prototypes[:, y[0]] * (1 + 1e-7), y)
    assert torch.equal(found, torch.ones(1, 3))
    assert torch.isfinite(torch.autograd.grad(found.sum(), prototypes)[0]).all()


def test_tau_is_never_smaller_than_a_hundredth() -> None:
    """The supports of the first class coincide with its prototype, those of the second do not."""
    prototypes = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    supports = torch.tensor([[[1.0, 0.0], [0.0, 3.0]]])
    torch.testing.assert_close(tau(prototypes, supports, torch.tensor([[0, 1]])), torch.tensor([[0.01, 2.0]]))


def test_a_network_that_says_nothing_gives_finite_scores_and_gradients() -> None:
    case = make_case([(0, 7), (1, 7)], **TWO_WAY)
    with torch.no_grad():
        for parameter in case.model.parameters():
            parameter.zero_()
    loss = case.model.loss(case.graph, case.tasks)
    gradients = torch.autograd.grad(loss, list(case.model.parameters()), materialize_grads=True)
    assert torch.isfinite(loss)
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


def test_scoring_in_several_batches_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = [(a, b) for a in range(12) for b in range(a) if (a + b) % 3]
    case = make_case(edges, [[0, 1, 2]] * 5, [[0, 1, 0], [1, 0, 0]] * 2 + [[1, 1, 0]], [[4, 5]] * 5)
    whole = case.model(case.graph, case.tasks)
    monkeypatch.setattr("fewnode.methods.tent.TENT.rows_at_a_time", 1)
    close(case.model(case.graph, case.tasks), whole)
    monkeypatch.undo()
    monkeypatch.setattr("fewnode.nn.ego.grouped_linear", partial(grouped_linear, few=0))
    close(case.model(case.graph, case.tasks), whole)


def test_tasks_that_read_little_are_told_from_those_that_read_most() -> None:
    path = Graph.from_edges([list(range(99)), list(range(1, 100))], num_nodes=100)
    star = Graph.from_edges([[0] * 99, list(range(1, 100))], num_nodes=100)
    assert not reads_most(path, torch.tensor([4, 5, 6, 50])) and reads_most(star, torch.tensor([0, 5]))


def test_training_tasks_may_differ_in_way_shot_and_query() -> None:
    case = make_case([(0, 7), (1, 7)], **TWO_WAY)
    other = Tasks([[0, 1, 2, 3]], [[0, 1, 2, 3]], [[5]], [[1]])
    assert torch.isfinite(case.model.loss(case.graph, other))
    assert case.model(case.graph, other).shape == (1, 1, 4)


def test_base_class_loss_leaves_out_nodes_without_a_base_label() -> None:
    case = make_case([(0, 7), (1, 7)], **TWO_WAY)
    y = case.graph.y.clone()
    y[4], y[5] = -1, 4
    core, h = case.model, case.model.embed(case.graph)[0]
    close(core.classifier.loss(h[4:7], y[4:7]), core.classifier.loss(h[6:7], y[6:7]))
    assert core.classifier.loss(h[4:6], y[4:6]) == 0


# --- presets ------------------------------------------------------------------------------------------------


def test_at_the_start_it_is_nearest_class_mean_on_smoothed_inputs(tiny) -> None:
    graph, split = tiny
    model = fit("tent_residual", graph, split, n_way=3, k_shot=2, steps=0)
    tasks = draw_tasks(graph.y, split.novel, 3, 2, 4, 5, 0)
    smooth = operators.normalized_adjacency(graph)
    kept = min(128, model.inputs.width)
    h = 3 * F.normalize((smooth @ model.inputs.smoothed(graph))[:, :kept], dim=1)
    sizes = 1 + graph.degree[:, None]
    once = (h + operators.adjacency(graph) @ h) / sizes
    h = (h + (once + operators.adjacency(graph) @ once) / sizes) / 2
    means = class_means(h[tasks.support], tasks.support_y, 3)
    with torch.no_grad():
        torch.testing.assert_close(model(graph, tasks), 10 * cosine_scores(h[tasks.query], means), atol=1e-2, rtol=1e-3)


def test_the_preset_paper_is_the_printed_settings(tiny) -> None:
    model = fit("tent", *tiny, n_way=3, k_shot=2, preset="paper", steps=0)
    columns = tiny[0].num_features
    assert isinstance(model.phi, GIN) and model.phi.dropout == 0.2
    assert model.phi.weight.shape == (columns, 16) and model.phi.outer.weight.shape == (16, 16)
    assert model.inputs is None and not model.normalize and model.gamma == 1.0
    assert model.gnn.shapes == [(16, 16), (16, 16)] and model.alpha[2].weight.abs().max() > 0
    assert model.tau_at_test
    settings = Training(**{name: value for name, value in TENT.presets["paper"].items() if name not in PAPER})
    assert (settings.learning_rate, settings.weight_decay, settings.clip) == (0.05, 1e-4, None)
    assert (settings.tasks_per_step, settings.steps) == (1, 500)
    assert settings.steps // settings.check_every <= settings.patience, "the best of all checks is kept"
    assert model.card.training == asdict(settings) | {"steps": 0}


def test_the_preset_tuned_is_the_documented_settings(tiny) -> None:
    model = fit("tent", *tiny, n_way=3, k_shot=2, steps=0)
    assert model.gamma == 100 and model.phi.dropout == 0 and not model.normalize and not model.tau_at_test
    assert model.inputs.centre is not None and model.inputs.width <= 128
    assert model.phi.weight.shape[1] == 256 and model.phi.outer.weight.shape == (128, 256)
    assert model.gnn.shapes == [(128, 256), (256, 128)]
    settings = Training(**model.card.training)
    assert (settings.learning_rate, settings.weight_decay, settings.clip) == (1e-4, 5e-4, None)
    assert (settings.tasks_per_step, settings.check_every, settings.patience) == (4, 10, 4)


@pytest.mark.parametrize("form", [{}, PAPER], ids=["tuned", "paper"])
def test_it_learns_nothing_that_the_paper_does_not(form: dict) -> None:
    names = {name.partition(".")[0] for name, _ in TENT(7, base_classes=(0, 1), **form).named_parameters()}
    assert names == {"phi", "gnn", "alpha", "beta", "classifier"}


def test_the_tuned_start_is_linear_and_not_adapted(tiny) -> None:
    """relu(x) - relu(-x) = x: before the first step both networks are projections of means of means."""
    graph, split = tiny
    model = fit("tent", graph, split, n_way=3, k_shot=2, steps=0, rank=8, hidden_channels=16, out_channels=8)
    x, sizes = model.inputs.unit(graph), 1 + graph.degree[:, None]
    torch.testing.assert_close(x.norm(dim=1), torch.ones(len(x)))
    for _ in range(2):
        x = (x + operators.adjacency(graph) @ x) / sizes
    h = model.embed(graph)[0]
    torch.testing.assert_close(h @ h.t(), x @ x.t(), atol=1e-5, rtol=1e-4)  # an orthogonal map keeps inner products
    theta = model.adapted(torch.randn(5, 8))
    torch.testing.assert_close(theta, model.gnn.theta.expand_as(theta))


def test_centred_inputs_keep_the_mean_of_the_training_graph(tiny) -> None:
    inputs = Inputs(tiny[0].num_features, 8, centred=True)
    inputs.fit(tiny[0])
    plain = F.normalize(inputs.reduced(tiny[0]), dim=1)
    torch.testing.assert_close(inputs.unit(tiny[0]), F.normalize(plain - plain.mean(0), dim=1))
    part = tiny[0].subgraph(torch.arange(tiny[0].num_nodes) < 20)
    torch.testing.assert_close(inputs.unit(part), inputs.unit(tiny[0])[:20])


def test_the_residual_variant_is_trained_as_the_others_are() -> None:
    assert TENTResidual(7, base_classes=(0, 1)).training_settings == PN.training_settings
    model = TENTResidual(400, base_classes=(0, 1))
    assert (model.gamma, model.phi.dropout) == (1.0, 0.5)
    assert isinstance(model.phi, SmoothingEncoder) and model.phi.weight.shape == PN(400).encoder.weight.shape


def test_an_option_wins_over_its_preset(tiny) -> None:
    given = {"features": "reduced", "dropout": 0.0, "learning_rate": 0.01}
    model = fit("tent", *tiny, n_way=3, k_shot=2, steps=0, preset="paper", **given)
    assert model.phi.dropout == 0.0 and model.inputs is not None and model.gnn.shapes[0] == (16, 16)
    assert model.card.training["learning_rate"] == 0.01 and model.card.training["weight_decay"] == 1e-4


def test_the_card_names_the_preset_and_its_options(tiny) -> None:
    for preset, name in (({}, "tuned"), ({"preset": "paper"}, "paper")):
        card = fit("tent", *tiny, n_way=3, k_shot=2, steps=0, **preset).card
        assert card.title == f"tent (preset {name})"
        assert card.options.items() >= {k: v for k, v in TENT.presets[name].items() if k in PAPER}.items()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"preset": "papper"}, "paper"),
        ({"features": "rare"}, "raw"),
        ({"rank": 0}, "rank=0: expected a whole number of at least 1"),
        ({"second_channels": 0}, "second_channels=0"),
    ],
)
def test_options_that_make_no_sense(tiny, options: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        fit("tent", *tiny, n_way=3, k_shot=2, **options)


# --- GNN_phi ------------------------------------------------------------------------------------------------


def path_graph(sparse_features: bool) -> Graph:
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(0)).relu().numpy()
    edges = [[0, 1, 2, 0], [1, 2, 3, 3]]  # node 4 and 5 are alone
    return Graph.from_edges(edges, sp.csr_matrix(x) if sparse_features else x, num_nodes=6)


@pytest.mark.parametrize("sparse_features", [False, True])
def test_gin_sums_over_closed_neighbourhoods(sparse_features: bool) -> None:
    graph = path_graph(sparse_features)
    gin = GIN(5, 4, 3).double()
    x = graph.x.to_dense() if sparse_features else graph.x
    closed = torch.from_numpy(graph.to_scipy().toarray()).double() + torch.eye(6)
    h = torch.relu(closed @ x.double() @ gin.weight + gin.bias)
    torch.testing.assert_close(gin(None, graph), gin.outer(closed @ h))


def test_gin_drops_only_while_training() -> None:
    graph, gin = path_graph(False), GIN(5, 16, 3, dropout=0.5)
    torch.manual_seed(0)
    assert not torch.equal(gin(None, graph), gin(None, graph))
    gin.eval()
    assert torch.equal(gin(None, graph), gin(None, graph))


def test_gin_at_some_nodes_is_gin_at_all_of_them() -> None:
    graph, nodes, gin = path_graph(True), torch.tensor([3, 0, 5]), GIN(5, 4, 3).double()
    torch.testing.assert_close(gin(None, graph, nodes), gin(None, graph)[nodes])
    some = torch.autograd.grad(gin(None, graph, nodes).square().sum(), list(gin.parameters()))
    whole = torch.autograd.grad(gin(None, graph)[nodes].square().sum(), list(gin.parameters()))
    for one, other in zip(some, whole, strict=True):
        torch.testing.assert_close(one, other)
