"""Paths between nodes, found where short random walks from both ends meet; and paths from nodes to hubs."""

from typing import NamedTuple

import torch
from torch import Tensor

from ..graph import Graph
from ..graph.operators import random_walks


class Reach(NamedTuple):
    """What the walks of each node reach: distinct nodes, each with the shortest way there that a walk found.

    ``walks [..., W, L + 1]``, the start first; ``node [..., R]`` ascending, filled up with ``absent``; node ``r`` is
    reached by walk ``walk [..., r]`` after ``steps [..., r]`` steps.
    """

    walks: Tensor
    node: Tensor
    walk: Tensor
    steps: Tensor
    absent: int


class Paths(NamedTuple):
    """Node ids ``node [..., P]`` of paths of at most P nodes, and how many they are, ``length [...]``; 0: no path."""

    node: Tensor
    length: Tensor


def reach(graph: Graph, nodes: Tensor, n_walks: int, steps: int, seed: int = 0) -> Reach:
    """The reach of ``nodes``, of any shape, by ``n_walks`` walks of ``steps`` steps each; the same in any company."""
    walks = random_walks(graph, nodes.flatten(), n_walks, steps, seed)
    early_first = walks.transpose(1, 2).flatten(1)
    width, absent = early_first.shape[1], graph.num_nodes
    place = torch.arange(width, device=nodes.device)
    keys = (early_first * width + place).sort(1).values
    node = keys // width
    again = torch.zeros_like(node, dtype=torch.bool)
    again[:, 1:] = node[:, 1:] == node[:, :-1]
    keys = torch.where(again, absent * width, keys).sort(1).values[:, : n_walks * steps + 1]
    node, place = keys // width, keys % width
    walks, node, place = (part.unflatten(0, nodes.shape) for part in (walks, node, place))
    return Reach(walks, node, place % n_walks, place // n_walks, absent)


def join(here: Reach, there: Reach, n_paths: int) -> Paths:
    """The shortest ``n_paths`` paths from each node of ``here [T, M]`` to each of ``there [T, S]``, where walks meet.

    Only meetings half-way count (the two ways differ by at most a step): the same path also meets at its other
    nodes. Every second path is read backwards. Nodes ``[T, M, S, n_paths, 2L + 1]``.
    """
    (tasks, many, size), others = here.node.shape, there.node.shape[1]
    wanted = here.node.flatten(1)[:, None].expand(tasks, others, many * size).contiguous()
    place = torch.searchsorted(there.node, wanted).clamp_(max=size - 1)
    met = (there.node.gather(2, place) == wanted) & (wanted < here.absent)
    a, b = here.steps.flatten(1)[:, None], there.steps.gather(2, place)
    same = here.walks[:, None, :, 0, 0] == there.walks[:, :, None, 0, 0]
    good = met & ((a - b).abs() <= 1)
    good = good.unflatten(2, (many, size)) & ~same[..., None]
    cost = (a + b).unflatten(2, (many, size)) * size + torch.arange(size, device=wanted.device)
    most = torch.iinfo(cost.dtype).max
    cost, chosen = torch.where(good, cost, most).topk(min(n_paths, size), -1, largest=False)
    a, b, walk_a, walk_b = (
        part.gather(-1, chosen).transpose(1, 2)
        for part in (
            here.steps[:, None].expand(-1, others, -1, -1),
            there.steps.gather(2, place).unflatten(2, (many, size)),
            here.walk[:, None].expand(-1, others, -1, -1),
            there.walk.gather(2, place).unflatten(2, (many, size)),
        )
    )
    task, row, column = (torch.arange(n, device=chosen.device) for n in (tasks, many, others))
    out = here.walks[task[:, None, None, None], row[:, None, None], walk_a]
    back = there.walks[task[:, None, None, None], column[:, None], walk_b]
    length = torch.where(cost.transpose(1, 2) < most, a + b + 1, 0)
    return _splice(out, back, a, length)


def _splice(out: Tensor, back: Tensor, turn: Tensor, length: Tensor) -> Paths:
    """The walk ``out [..., L + 1]`` up to its step ``turn [...]``, then the walk ``back [..., L + 1]`` backwards."""
    last = out.shape[-1] - 1
    position = torch.arange(2 * last + 1, device=out.device).expand(*out.shape[:-1], -1)
    end = (length - 1).clamp(min=0)[..., None]
    backwards = (torch.arange(out.shape[-2], device=out.device) % 2 == 1)[:, None]
    position = torch.where(backwards, end - position, position)
    first = out.gather(-1, position.clamp(0, last))
    second = back.gather(-1, (end - position).clamp(0, last))
    return Paths(torch.where(position <= turn[..., None], first, second), length)


def to_hubs(here: Reach, is_hub: Tensor, n_hubs: int) -> Paths:
    """Paths from each node of ``here [T, M]`` to the nearest hubs it reaches, ``[T, M, n_hubs, L + 1]``."""
    hub = torch.cat([is_hub, is_hub.new_zeros(1)])[here.node] & (here.steps > 0)
    size = here.node.shape[-1]
    cost = here.steps * size + torch.arange(size, device=hub.device)
    most = torch.iinfo(cost.dtype).max
    cost, chosen = torch.where(hub, cost, most).topk(min(n_hubs, size), -1, largest=False)
    walk, steps = here.walk.gather(-1, chosen), here.steps.gather(-1, chosen)
    index = walk[..., None].expand(*walk.shape, here.walks.shape[-1])
    return Paths(here.walks.gather(2, index), torch.where(cost < most, steps + 1, 0))


class Listed(NamedTuple):
    """The paths of each task that exist, in one list, and how nodes read it.

    Those that are no longer than a way to a hub come first, ``brief [T, B, L]``, then the others, ``node [T, P - B,
    2L - 1]``; ``length [T, P]`` is 0 where the list is filled up. ``pool [T, M, N, P]`` averages, for each node and
    class, the paths to each support and then the supports that have any (all zero: none has); ``hub [T, M, H]`` are
    places of the paths to hubs, ``near [T, M, H]`` which of them exist.
    """

    brief: Tensor
    node: Tensor
    length: Tensor
    pool: Tensor
    hub: Tensor
    near: Tensor


def enlist(paths: Paths, ways: Paths, target: Tensor) -> Listed:
    """List paths to supports ``[T, M, S, K]`` and ways to hubs ``[T, M, H]``; classes ``target [T, S, N]``, one-hot.

    Most pairs of nodes have no path: a list holds a tenth of what a box for each pair would. Most paths are brief, and
    what attention does grows with the square of their length.
    """
    longest, step = paths.node.shape[-1], ways.node.shape[-1]
    ways_node = torch.nn.functional.pad(ways.node, (0, longest - step))
    length = torch.cat([paths.length.flatten(1), ways.length.flatten(1)], 1)
    node = torch.cat([paths.node.flatten(1, -2), ways_node.flatten(1, -2)], 1)
    there = length > 0
    brief = there & (length <= step)
    short, long = (max(1, int(part.sum(1).max())) for part in (brief, there & ~brief))
    place = torch.where(brief, brief.cumsum(1), short + (there & ~brief).cumsum(1)) - 1
    place, most = torch.where(there, place, 0), short + long
    task, at = there.nonzero().unbind(1)
    listed = node.new_zeros(len(node), most, longest).index_put((task, place[task, at]), node[task, at])
    lengths = length.new_zeros(len(node), most).index_put((task, place[task, at]), length[task, at])
    hub = place[:, -ways.length[0].numel() :].view_as(ways.length)
    pool = _pool(paths.length > 0, place, target, most)
    return Listed(listed[:, :short, :step], listed[:, short:], lengths, pool, hub, ways.length > 0)


def _pool(there: Tensor, place: Tensor, target: Tensor, most: int) -> Tensor:
    """``Listed.pool`` from which paths exist, ``there [T, M, S, K]``, and their places in the list."""
    joined = there.any(-1).to(target.dtype)
    supports = joined @ target  # how many supports of each class a node has paths to, [T, M, N]
    task, node, support, path = there.nonzero().unbind(1)
    y = target.argmax(-1)[task, support]
    weight = 1 / (there.sum(-1)[task, node, support] * supports[task, node, y])
    where = place[:, : there[0].numel()].view_as(there)[task, node, support, path]
    return target.new_zeros(*supports.shape, most).index_put((task, node, y, where), weight.to(target.dtype))
