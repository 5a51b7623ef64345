"""The tree itself: what it holds, how it grows, and that parts can be one's own."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from numba import njit

from counterplan.core.validation import FloatArray
from counterplan.planning.search import kernel as compiled
from counterplan.planning.search import loop as tree
from counterplan.planning.search import parts as part
from counterplan.planning.search.planners import BTS, DENTS, MENTS, UCT, Parts, TreePlanner, plan
from tests.planning.expectimax import expectimax

from .selling import Selling
from .small_models import CERTAIN, FAIR, STICKY, continuous

PLANNERS = [UCT(2_000), MENTS(2_000), BTS(2_000), DENTS(2_000)]


def reachable(model: Selling) -> int:
    """Histories of x with each resource that some actions lead to; the root included."""
    levels, total = {float(model.stock)}, 0
    for t in range(model.horizon):
        histories = [
            history
            for history in product(range(len(model.prices)), repeat=t)
            if all(model.matrix[before, after] > 0.0 for before, after in pairwise((0, *history)))
        ]
        total += len(histories) * len(levels)
        levels = {
            level - float(action[0])
            for level in levels
            for action in model.actions(model.start._replace(t=t, resource=np.array([level])))
        }
    return total


@pytest.mark.parametrize("model", [FAIR, CERTAIN], ids=["fair", "certain"])
def test_transpositions_meet_in_one_node(model: Selling) -> None:
    """Selling 1 then 0 and 0 then 1 lead to the same node: no more nodes than states."""
    found = plan(model, planner=BTS(50_000, temperature=10.0, epsilon=1.0))
    assert found.stats["nodes"] == reachable(model)
    assert found.stats["transpositions"] > 0
    assert found.stats["depth"] == model.horizon
    if model is FAIR:  # exogenous nodes are histories of x, whatever is done
        assert found.stats["exogenous_nodes"] == sum(3**t for t in range(FAIR.horizon))


@pytest.mark.parametrize("model", [STICKY, continuous(STICKY)], ids=["finite", "continuous"])
@pytest.mark.parametrize("planner", PLANNERS, ids=lambda one: one.name)
def test_growing_changes_nothing(model: Selling, planner: TreePlanner) -> None:
    """A tree that begins with room for one simulation ends like one with room for all."""
    kernel, parts, results = model.compiled(), planner.parts(), []
    settings = np.zeros(compiled.OWN)
    settings[compiled.WIDENING], settings[compiled.WIDENING_POWER] = planner.widening
    for place, number in parts.settings.items():
        settings[place] = number
    for simulations in (1, 5_000):
        arrays, grown = tree.allocate(kernel, 50, False, simulations), 0
        tree.plant(arrays, model.start)
        engine, _ = part.engine(kernel, parts.select, parts.backup, compiled.ROLLOUT, settings)
        rng = np.random.default_rng(3)
        while tree.search(engine, arrays, 0, 2_000, rng) < 2_000:
            arrays = tree.grown(arrays)
            grown += 1
        results.append((arrays, grown))
    (small, often), (large, never) = results
    assert often > 0
    assert never == 0
    assert np.array_equal(small.counts[tree.USED], large.counts[tree.USED])
    used = small.counts[tree.USED, tree.IN_NODES]
    assert np.array_equal(small.nodes[:used, :6], large.nodes[:used, :6])


@pytest.mark.parametrize("model", [STICKY, continuous(STICKY)], ids=["finite", "continuous"])
def test_simulations_that_walk_together_are_the_same_search(model: Selling) -> None:
    """One at a time it is the same to the last digit; eight at a time every visit is counted once,
    growing changes nothing, and the values are those of the other search but for chance."""
    kernel, planner, results = model.compiled(), UCT(), []
    settings = np.zeros(compiled.OWN)
    settings[compiled.WIDENING], settings[compiled.WIDENING_POWER] = planner.widening
    settings[compiled.EXPLORATION] = planner.exploration
    parts = (part.ucb, part.mean, compiled.ROLLOUT, settings)
    for run, room, together in (
        (tree.search, 1_000, False),
        (tree.search_together, 1_000, False),
        (tree.search_together, 5_000, True),
        (tree.search_together, 20_000, True),
    ):
        arrays = tree.allocate(kernel, 50, False, room, together)
        tree.plant(arrays, model.start)
        engine, _borrowed = part.engine(kernel, *parts)
        rng, grown = np.random.default_rng(3), 0
        while run(engine, arrays, 0, 10_001, rng) < 10_001:
            arrays, grown = tree.grown(arrays), grown + 1
        assert (grown > 0) == (room < 20_000 and model is not STICKY)
        assert len(arrays.walks) == (tree.WALKERS if together else 1)
        first, m = tree.root_edges(arrays)
        assert arrays.edges[first : first + m, compiled.VISITS].sum() == 10_001
        assert arrays.nodes[0, compiled.VISITS] == 10_002
        results.append(arrays)
    for one, other in (results[:2], results[2:]):
        assert np.array_equal(one.counts[tree.USED], other.counts[tree.USED])
        used = one.counts[tree.USED, tree.IN_NODES]
        assert np.array_equal(one.nodes[:used, :6], other.nodes[:used, :6])
    if model is STICKY:  # whose root has the same successors in both
        alone, eight = (
            one.edges[: tree.root_edges(one)[1], compiled.VALUE] for one in results[1:3]
        )
        assert alone.argmax() == eight.argmax()
        assert eight.max() == pytest.approx(alone.max(), rel=0.03)


def test_resources_that_differ_by_rounding_are_one() -> None:
    arrays = tree.allocate(FAIR.compiled(), 1, False, 10)
    tree.plant(arrays, FAIR.start)
    number = njit(lambda tree_, level: tree.resource_number(tree_, level))
    numbers = [
        number(arrays, np.array([level]))
        for level in (0.1 + 0.2, 0.3, -0.0, 0.0, 0.3 + 1e-9, 1e300)
    ]
    assert numbers[0] == numbers[1]
    assert numbers[2] == numbers[3]
    assert len(set(numbers)) == 4


@njit(compiled.SELECT)
def in_turn(settings: Any, spread: Any, node: Any, edges: Any, generator: Any) -> Any:
    """Every action as often as any other."""
    return np.argmin(edges[:, compiled.VISITS])


@njit(compiled.LEAF_SIGNATURE)
def constant(model: Any, settings: Any, t: Any, x: Any, d: Any, generator: Any) -> Any:
    """The number that the user has put into the settings."""
    return settings[compiled.OWN]


@dataclass(frozen=True)
class InTurn(TreePlanner):
    """A composition of one's own: two new parts and a shipped one."""

    def parts(self) -> Parts:
        return Parts(in_turn, part.highest, {compiled.OWN: 5.0, compiled.TEMPERATURE: 1})


def test_parts_of_ones_own() -> None:
    model = Selling(np.array([2.0]), np.ones((1, 1)), horizon=2, stock=2, least=0)
    few = plan(model, planner=InTurn(3, leaf=constant))
    assert few.visits.tolist() == [1, 1, 1]
    assert few.values.tolist() == [5.0, 7.0, 9.0]
    many = plan(model, planner=InTurn(300, leaf=constant))
    assert many.visits.tolist() == [100, 100, 100]
    assert many.values == pytest.approx(expectimax(model).values, abs=1e-9)


def rows(visits: float, edges: int, **settings: float) -> tuple[FloatArray, ...]:
    """Settings by name, a node, and its edges, each visited once."""
    numbers, node = np.zeros(compiled.OWN), np.zeros(6)
    for name, value in settings.items():
        numbers[getattr(compiled, name)] = value
    node[compiled.VISITS] = visits
    below = np.zeros((edges, 4))
    below[:, compiled.VISITS] = 1.0
    return numbers, node, below


@pytest.mark.parametrize(
    ("values", "bounds", "mean"),
    [
        ((1.0, 9.0), ((0.0, 4.0), (2.0, 6.0)), 5.0),  # within: one value makes up for the other
        ((7.0, 9.0), ((0.0, 4.0), (2.0, 6.0)), 5.0),
        ((-7.0, 9.0), ((0.0, 4.0), (2.0, 6.0)), 1.0),
        ((1.0, 9.0), ((-np.inf, np.inf), (2.0, 6.0)), 3.5),
        ((-7.0, 9.0), ((0.0, np.inf), (2.0, np.inf)), 1.0),
        ((1.0, 9.0), ((-np.inf, np.inf), (-np.inf, np.inf)), 5.0),
    ],
)
def test_the_mean_over_chance_stays_within_the_mean_bounds(
    values: tuple[float, float], bounds: tuple[tuple[float, float], ...], mean: float
) -> None:
    arrays = tree.allocate(FAIR.compiled(), 1, False, 10)
    arrays.nodes[:2, compiled.VALUE] = 100.0
    arrays.nodes[:2, [tree.LOWEST, tree.HIGHEST]] = bounds
    arrays.links[:2] = 0.0
    arrays.links.view(np.uint32)[:2, tree.NODE] = 0, 1

    @njit
    def renewed(arrays: Any, before: float, weight: float) -> Any:
        for link in range(2):
            tree.renew(arrays, 0, link, before, weight)
        return tree.bounded_mean(arrays.sums[0])

    renewed(arrays, 0.0, 1.0)  # what a link contributed before is forgotten
    arrays.nodes[:2, compiled.VALUE] = values
    assert renewed(arrays, 1.0, 2.0) == pytest.approx(mean, abs=1e-12)


def test_ucb_by_hand() -> None:
    settings, node, edges = rows(4.0, 2, EXPLORATION=0.5)
    edges[1, compiled.VISITS] = 3.0
    edges[:, compiled.VALUE] = 1.0, 2.0
    rng = np.random.default_rng(0)
    # The bounds cross where 0.5 s sqrt(log 4) (1 - 1 / sqrt 3) = 1: s = 4.0197.
    assert part.ucb(settings, 4.0, node, edges, rng) == 1
    assert part.ucb(settings, 4.1, node, edges, rng) == 0
    settings[compiled.SCALE] = 4.1
    assert part.ucb(settings, 0.0, node, edges, rng) == 0
    edges[1, compiled.VISITS] = 0.0
    assert part.ucb(settings, 0.0, node, edges, rng) == 1


def test_boltzmann_by_its_law() -> None:
    """10,000 draws: frequencies within 4 standard errors (at most 0.02)."""
    settings, node, edges = rows(100.0, 3, EPSILON=0.2)
    edges[:, compiled.WEIGHT] = 1.0, 2.0, 5.0
    rng = np.random.default_rng(0)
    drawn = [part.boltzmann(settings, 0.0, node, edges, rng) for _ in range(10_000)]
    mixed = 0.2 * 3 / np.log(101.0)
    law = (1.0 - mixed) * np.array([1.0, 2.0, 5.0]) / 8.0 + mixed / 3.0
    assert np.bincount(drawn) / 10_000 == pytest.approx(law, abs=0.02)


def test_entropy_by_hand() -> None:
    """Two equal actions, nothing known below: log 2."""
    settings, node, edges = rows(3.0, 2, TEMPERATURE=1.0)
    edges[:, compiled.VALUE] = 6.0
    part.entropy(settings, node, edges)
    assert node[compiled.VALUE] == 6.0
    assert node[compiled.ENTROPY] == pytest.approx(np.log(2.0), abs=1e-12)
    edges[:, compiled.ENTROPY] = 0.5
    part.entropy(settings, node, edges)
    assert node[compiled.ENTROPY] == pytest.approx(0.5 + np.log(2.0), abs=1e-12)
