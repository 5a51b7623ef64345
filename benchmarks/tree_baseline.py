"""UCT and MENTS as a plain Python tree of objects: what the compiled search is compared with.

The same search: UCB with c in units of the range of returns at that depth (Eq. 3.1), or E2W with
soft backups (Eq. 3.3-3.6); finite support or quantiles as chance; a new state is valued by a
rollout of random actions. Written the way one writes it: a node object for every state met, a
dictionary of successors at every edge.
"""

from __future__ import annotations

import math
import random
from typing import Any, Protocol


class ScalarModel(Protocol):
    """A model in plain Python numbers and tuples; rewards are to be maximised."""

    horizon: int
    start: tuple[Any, Any]

    def actions(self, t: int, x: Any, d: Any) -> list[Any]: ...

    def step(self, t: int, x: Any, d: Any, action: Any) -> tuple[float, Any]: ...

    def draw(self, t: int, x: Any, rng: random.Random) -> Any: ...

    def successor(self, t: int, x: Any, rng: random.Random) -> Any: ...


class Node:
    __slots__ = ("d", "edges", "value", "visits", "x")

    def __init__(self, x: Any, d: Any, value: float) -> None:
        self.x, self.d, self.value = x, d, value
        self.visits = 1
        self.edges: list[Edge] | None = None


class Edge:
    __slots__ = ("after", "children", "counts", "reward", "value", "visits", "worth")

    def __init__(self, reward: float, after: Any, guess: float) -> None:
        self.reward, self.after, self.value = reward, after, guess
        self.visits = 0
        self.worth = 0.0
        self.children: dict[Any, Node] = {}
        self.counts: dict[Any, int] = {}


class ObjectTree:
    """What both searches share; a subclass selects and backs up."""

    def __init__(self, model: ScalarModel, seed: int = 0) -> None:
        self.model, self.rng = model, random.Random(seed)

    def plan(self, simulations: int) -> list[float]:
        """The values of the root's actions."""
        x, d = self.model.start
        self.low = [math.inf] * self.model.horizon
        self.high = [-math.inf] * self.model.horizon
        root = Node(x, d, self.rollout(0, x, d))
        for _ in range(simulations):
            self.simulate(root)
        assert root.edges is not None
        return [edge.value for edge in root.edges]

    def rollout(self, t: int, x: Any, d: Any) -> float:
        model, rng, total = self.model, self.rng, 0.0
        while True:
            offered = model.actions(t, x, d)
            action = offered[int(rng.random() * len(offered))]
            reward, d = model.step(t, x, d, action)
            total += reward
            t += 1
            if t == model.horizon:
                return total
            x = model.draw(t - 1, x, rng)

    def simulate(self, root: Node) -> None:
        model, node, t = self.model, root, 0
        path: list[tuple[Node, Edge, Any]] = []
        while True:
            if node.edges is None:
                node.edges = [
                    Edge(*model.step(t, node.x, node.d, action), node.value)
                    for action in model.actions(t, node.x, node.d)
                ]
            edge = self.select(node, t)
            t += 1
            if t == model.horizon:
                path.append((node, edge, None))
                value = 0.0
                break
            x = model.successor(t - 1, node.x, self.rng)
            path.append((node, edge, x))
            child = edge.children.get(x)
            if child is None:
                value = self.rollout(t, x, edge.after)
                edge.children[x] = Node(x, edge.after, value)
                edge.counts[x] = 0
                break
            node = child
        for node, edge, x in reversed(path):
            t -= 1
            value += edge.reward
            self.low[t] = min(self.low[t], value)
            self.high[t] = max(self.high[t], value)
            node.visits += 1
            edge.visits += 1
            self.back_up(node, edge, x, value)

    def select(self, node: Node, t: int) -> Edge:
        raise NotImplementedError

    def back_up(self, node: Node, edge: Edge, x: Any, value: float) -> None:
        raise NotImplementedError


class ObjectUCT(ObjectTree):
    exploration = 0.7

    def select(self, node: Node, t: int) -> Edge:
        assert node.edges is not None
        width = self.exploration * (self.high[t] - self.low[t]) * math.sqrt(math.log(node.visits))
        best, highest = node.edges[0], -math.inf
        for edge in node.edges:
            if edge.visits == 0:
                return edge
            bound = edge.value + width / math.sqrt(edge.visits)
            if bound > highest:
                best, highest = edge, bound
        return best

    def back_up(self, node: Node, edge: Edge, x: Any, value: float) -> None:
        edge.value += (value - edge.value) / edge.visits
        node.value += (value - node.value) / node.visits


class ObjectMENTS(ObjectTree):
    epsilon = 0.1

    def __init__(self, model: ScalarModel, temperature: float, seed: int = 0) -> None:
        super().__init__(model, seed)
        self.temperature = temperature

    def select(self, node: Node, t: int) -> Edge:
        edges = node.edges
        assert edges is not None
        mixed = min(1.0, self.epsilon * len(edges) / math.log(node.visits + 1))
        u = self.rng.random()
        if u < mixed:
            return edges[int(self.rng.random() * len(edges))]
        highest = max(edge.value for edge in edges)
        weights = [math.exp((edge.value - highest) / self.temperature) for edge in edges]
        u = (u - mixed) / (1.0 - mixed) * sum(weights)
        for edge, weight in zip(edges, weights, strict=True):
            u -= weight
            if u < 0.0:
                return edge
        return edges[-1]

    def back_up(self, node: Node, edge: Edge, x: Any, value: float) -> None:
        edge.value = edge.reward
        if x is not None:
            edge.counts[x] += 1
            mean = sum(n * edge.children[at].value for at, n in edge.counts.items())
            edge.value += mean / edge.visits
        edges = node.edges
        assert edges is not None
        highest = max(one.value for one in edges)
        total = sum(math.exp((one.value - highest) / self.temperature) for one in edges)
        node.value = highest + self.temperature * math.log(total)
