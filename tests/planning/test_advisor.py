"""Advice while it happens: what became real of a tree is kept, and is as good as a new one."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.errors import InputError
from counterplan.planning.model import State
from counterplan.planning.search import kernel as compiled
from counterplan.planning.search import loop as tree
from counterplan.planning.search.planners import BTS, DENTS, MENTS, UCT, TreePlanner
from tests.planning.expectimax import expectimax

from .selling import Selling
from .small_models import BUYING, FAIR, STICKY, Plain, continuous


def after(model: Any, state: State, action: Any, price: float) -> State:
    """The state that follows, with this price's number revealed."""
    rows = (np.atleast_2d(part) for part in (state.exogenous, state.resource, action))
    return State(state.t + 1, np.array([price]), model.step(state.t, *rows)[1][0])


@pytest.mark.parametrize("model", [FAIR, STICKY, BUYING], ids=["fair", "sticky", "buying"])
@pytest.mark.parametrize("planner", [UCT(20_000), BTS(20_000, bellman=True)], ids=["uct", "bts"])
def test_advice_along_every_history_is_the_best(model: Selling, planner: TreePlanner) -> None:
    """All 9 histories of two prices: what is kept of a search leads to the same decisions."""
    for prices in product(range(3), repeat=2):
        advisor, state = cp.Advisor(model, planner), model.start
        for price in (*prices, 0):
            found, exact = advisor.advise(state), expectimax(model, state)
            assert exact.values[found.index] == pytest.approx(exact.value, abs=1e-9)
            assert found.value == pytest.approx(exact.value, abs=0.05)
            assert found.visits.sum() == 20_000 + found.stats["reused"]
            assert found.stats["reused"] > 0 or state.t == 0
            state = after(model, state, found.action, price)


@pytest.mark.parametrize("planner", [UCT(3_000), MENTS(3_000), DENTS(3_000, bellman=True)])
@pytest.mark.parametrize("model", [STICKY, continuous(STICKY)], ids=["finite", "continuous"])
def test_what_is_kept_is_what_was_known(model: Any, planner: TreePlanner) -> None:
    """The new root has the numbers of the node that it was, and so has all below it."""
    session: Any = planner.begin(model)
    found = session.resume(model.start)
    state = after(STICKY, model.start, found.action, 1.0)
    old = session._tree
    from counterplan.planning.search.transplant import find

    node = find(old, state, False)
    assert node is not None
    first, m = old.nodes[node].view(np.uint32)[[tree.FIRST_EDGE, tree.EDGES]]
    before = old.edges[first : first + m].copy(), old.nodes[node, :6].copy()
    session._move(state, node)
    new = session._tree
    first, m = tree.root_edges(new)
    assert np.array_equal(new.edges[first : first + m], before[0])
    assert np.array_equal(new.nodes[0, :6], before[1])
    counts = new.counts[tree.USED]
    links = new.links.view(np.uint32)
    links = links[links[:, tree.EDGE] != tree.NONE]
    assert len(links) == counts[tree.IN_LINKS]
    assert links[:, tree.NODE].max() < counts[tree.IN_NODES] < old.counts[tree.USED, tree.IN_NODES]
    if not planner.bellman:  # every visit of an edge passed one of its links
        passed = np.bincount(links[:, tree.EDGE], links[:, tree.TIMES], counts[tree.IN_EDGES])
        visits = new.edges[: counts[tree.IN_EDGES], compiled.VISITS]
        last = passed == 0
        assert np.array_equal(passed[~last], visits[~last])


def test_what_is_not_in_the_tree_begins_anew() -> None:
    advisor = cp.Advisor(STICKY, UCT(500))
    assert advisor.advise().stats["reused"] == 0
    again = advisor.advise()
    assert (again.stats["reused"], again.visits.sum()) == (500, 1_000)
    for state in (
        State(1, np.array([1.0]), np.array([2.5])),  # a resource that nothing leads to
        State(3, np.array([1.0]), np.array([3.0])),  # two steps ahead
        State(0, np.array([2.0]), np.array([3.0])),  # back, at another price
    ):
        assert advisor.advise(state).stats["reused"] == 0
    over = advisor.advise(State(4, np.zeros(1), np.zeros(1)))
    assert over.status == "over"


def test_asked_again_and_again_it_begins_anew_in_time() -> None:
    advisor = cp.Advisor(continuous(STICKY), UCT(200))
    visits = [int(advisor.advise().visits.sum()) for _ in range(30)]
    assert max(visits) > 200
    nodes = advisor.advise().stats["nodes"]
    assert nodes <= 10 * 200


@pytest.mark.parametrize("model", [STICKY, Plain(STICKY)], ids=["compiled", "methods"])
def test_without_a_tree_to_keep_it_is_plan(model: Any) -> None:
    """The same question has the same answer, and two advisors do not disturb each other."""
    one, other = (cp.Advisor(model, UCT(300), seed=seed, keep=False) for seed in (3, 4))
    state = State(1, np.array([2.0]), np.array([2.0]))
    for _ in range(2):
        for advisor, seed in ((one, 3), (other, 4)):
            found = advisor.advise(state)
            planned = cp.plan(model, state, UCT(300), seed=seed)
            assert (found.value, found.se) == (planned.value, planned.se)
            assert np.array_equal(found.values, planned.values)


def test_plan_takes_a_planner_in_the_place_of_a_state() -> None:
    found = cp.plan(STICKY, UCT(300), seed=1)
    assert found.value == cp.plan(STICKY, planner=UCT(300), seed=1).value
    assert cp.plan(STICKY, STICKY.start, UCT(300), seed=1).value == found.value
    assert cp.plan(STICKY, UCT(300), STICKY.start, seed=1).value == found.value  # type: ignore[arg-type]
    with pytest.raises(InputError, match="two planners"):
        cp.plan(STICKY, UCT(300), UCT(200))


def test_what_may_be_confused_is_named() -> None:
    with pytest.raises(TypeError, match="positional"):
        cp.plan(STICKY, STICKY.start, UCT(20), True)  # type: ignore[misc]
    with pytest.raises(TypeError, match="positional"):
        cp.evaluate(STICKY, UCT(20), 2, None, 1)  # type: ignore[misc]


def test_only_tree_searches_advise() -> None:
    class Other:
        name = "other"

        def begin(self, problem: Any, clip: Any = None, seed: Any = 0) -> Any:
            return lambda state: None

    with pytest.raises(InputError, match="other is no tree search"):
        cp.Advisor(STICKY, Other())
    with pytest.raises(InputError, match="is not a planner"):
        cp.Advisor(STICKY, 5)  # type: ignore[arg-type]


def season(model: Any, simulations: int, steps: int) -> Any:
    """The advisor after some steps of a season."""
    rng, advisor, at = np.random.default_rng(0), cp.Advisor(model, search(simulations)), model.start
    for _ in range(steps):
        found = advisor.advise(at)
        x, d = at.exogenous[None], at.resource[None]
        after = model.step(at.t, x, d, found.action[None])[1][0]
        at = State(at.t + 1, model.draw(at.t, x, rng)[0], after)
    return advisor


def search(simulations: int, **more: Any) -> cp.UCT:
    return cp.UCT(simulations, leaf="rollout", **more)


def test_a_tree_is_used_again_only_where_all_of_it_is_large_enough() -> None:
    """Or what a long season writes lies beyond the arrays of a short one."""
    prices = cp.processes.BinomialLattice(40.0, 0.0, 0.6, 1 / 12)
    for T, start, most, offered in ((4, 300, 60, 21), (60, 5, 1, "extreme")):
        stock, bounds = cp.Resource(start=start), [(0, most)] * T
        model = cp.ExogenousMDP(prices, [[1.0]], stock, bounds, action_set=offered)
        advisor = season(model, 5000 if T == 4 else 1000, 3 if T == 4 else 20)
        assert len(advisor._session._tree.path) == T


def test_children_of_a_tree_that_is_kept_stay_in_their_room() -> None:
    prices = cp.processes.Autoregression(45.0, 0.9, 45.0, 4.0)
    model = cp.ExogenousMDP(prices, [[1.0]], cp.Resource(start=1), [(0, 1)] * 2)
    advisor = cp.Advisor(model, search(100, quantiles=0))
    for _ in range(400):
        advisor.advise()
        used, _, room = advisor._session._tree.counts[:, :6]
        assert (used <= room).all()


class Fails:
    """Its step fails once when it is told to."""

    horizon, sense = 4, "max"
    start = State(0, np.ones(1), np.ones(1))
    fails = False

    def draw(self, t: int, x: Any, generator: Any) -> Any:
        return x

    def successors(self, t: int, x: Any) -> Any:
        return x[None], np.ones(1)

    def actions(self, state: State) -> Any:
        return np.linspace(0.0, 1.0, 9)[:, None]

    def step(self, t: int, x: Any, d: Any, a: Any) -> Any:
        if self.fails:
            self.fails = False
            raise ValueError("once")
        return a[:, 0] * 10.0**t, d + a


def test_what_failed_is_not_known_afterwards() -> None:
    model = Fails()
    advisor = cp.Advisor(model, search(40))
    advisor.advise()
    model.fails = True
    second = State(1, np.ones(1), np.ones(1) + 1.0)
    with pytest.raises(ValueError, match="once"):
        advisor.advise(second)
    found = advisor.advise(second)
    assert found.values.max() <= 10.0 + 100.0 + 1000.0  # no reward of t = 1 is one of t = 2
    assert found.stats["reused"] == 0
