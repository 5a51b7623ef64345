"""Questions about continuous episodes that cannot be right: one clear line each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.counterfactual import BudgetDP, LipschitzReward, NoBound, Tightest, oracle
from counterplan.errors import InputError, NotApplicableError

from .sequence_support import Floats, explain, random_question

ACTIONS = [[0.0], [1.0]]
REWARD = cp.LinearReward([1.0, 0.0])


def walk(states: Floats, actions: Floats) -> Floats:
    return 0.5 * states + actions


STATES = np.array([[0.0, 1.0], [0.3, 0.2], [0.1, 0.4]])
EPISODE = cp.Episode(STATES, [0, 1])
SCM = cp.AdditiveNoiseSCM(walk, lipschitz=0.5)
MDP = cp.TabularMDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)))
WIDE = cp.Episode(np.zeros((3, 5)), [0, 1])
FIVE = cp.LinearReward(np.ones(5))
DISCRETE = cp.Episode([0, 1], [0, 0])


def ask(scm: Any = SCM, episode: Any = EPISODE, k: Any = 1, **options: Any) -> Any:
    return cp.explain(scm, episode, k, **{"actions": ACTIONS, "reward": REWARD, **options})


def acting(actions: Any) -> Any:
    return ask(episode=cp.Episode(STATES, actions))


def network(kind: str, **changed: Any) -> Any:
    """A random question to a neural model with something changed about it."""
    problem = random_question(kind, 0, horizon=3, n_actions=2, k=1)
    return explain(replace(problem, constraints=cp.Constraints(), **changed))


def variant(location: Any = walk, **methods: Callable[..., Any]) -> Any:
    """A model some of whose methods are changed: name -> function of the plain method and its
    arguments."""

    def changed(name: str, function: Callable[..., Any]) -> Any:
        plain = getattr(cp.AdditiveNoiseSCM, name)
        return lambda self, *given: function(lambda *g: plain(self, *(g or given)), *given)

    own = {name: changed(name, function) for name, function in methods.items()}
    return type("Own", (cp.AdditiveNoiseSCM,), own)(location, lipschitz=0.5)


def scaled(scale: Any, location: Any = walk, **options: Any) -> Any:
    return ask(cp.LocationScaleSCM(location, scale, lipschitz=(0.5, 0.15)), **options)


def sloped(jacobian: Any, deviation: Any) -> Any:
    def slopes(region: Any, actions: Floats) -> Any:
        return jacobian[: len(actions)], deviation[: len(actions)]

    return ask(cp.AdditiveNoiseSCM(walk, slopes=slopes))


def sloped_at_points_only() -> Any:
    def exact(region: Any, actions: Floats) -> tuple[Floats, Floats]:
        jacobian = np.repeat(0.5 * np.eye(2)[None], len(actions), axis=0)
        return jacobian, np.zeros_like(jacobian)

    class Partial(cp.AdditiveNoiseSCM):
        def slopes(self, region: Any, actions: Floats, noise: Floats) -> Any:
            return None if region.radius > 0.0 else super().slopes(region, actions, noise)

    return ask(Partial(walk, slopes=exact))


def shut_network() -> Any:
    scm = random_question("neural", 0, horizon=3, n_actions=2, k=1).scm
    shut = replace(scm.scale, output_bias=np.full(3, -800.0), output=0.0 * scm.scale.output)
    return network("neural", scm=replace(scm, scale=shut))


class Duck:
    def infer(self, states: Floats, actions: Floats, after: Floats) -> Floats:
        return after - states

    def step(self, states: Floats, actions: Floats, noise: Floats) -> Floats:
        return states + noise


NO_SLOPES, ONES = np.zeros((2, 2, 2)), np.ones((2, 2, 2))
LATE = {"solver": cp.AStar(Tightest((cp.AnchorHeuristic(), NoBound())))}
NO_REWARD = r"reward is a \w+: pass LinearReward\(weights\), or"
NO_BOUND = r"the bound is .*: pass an object such as FirstOrder"
NO_CONSTANT = "lipschitz must give one finite constant from 0 up"
NO_TABLE = r"population must be a table of states, \(n, D\)"

BAD: list[tuple[Callable[[], Any], str]] = [
    # states
    (
        lambda: cp.Episode([[0.0, np.nan], [0.0, 0.0]], [0, 0]),
        "state at t=0, column 1 is nan: must be finite",
    ),
    (
        lambda: cp.Episode([[0.0, 0.0], [np.inf, 0.0]], [0, 0]),
        "state at t=1, column 0 is inf: must be finite",
    ),
    (
        lambda: cp.Episode([[0.0, 0.0], [0.0]], [0, 0]),
        "state table must hold numbers, T rows of the same length",
    ),
    (lambda: ask(episode=WIDE), "reward has 2 weights, but states have 5 features"),
    (lambda: network("neural", episode=WIDE, reward=FIVE), r"5 features|\(2, 5\)"),
    (lambda: network("scaled neural", episode=WIDE, reward=FIVE), r"5 features|\(2, 5\)"),
    (
        lambda: ask(variant(lambda s, a: s @ np.eye(2) + a), WIDE, reward=FIVE),
        "cannot read states of 5 features and action vectors of 1",
    ),
    # actions
    (lambda: network("neural", actions=ACTIONS), r"of 1 components|have 1 components|\(2, 1\)"),
    (lambda: network("scaled neural", actions=ACTIONS), r"of 1 comp|have 1 components|\(2, 1\)"),
    (lambda: acting([0, 2]), "action 2 at t=1 is not in the set: it has the actions 0..1"),
    (
        lambda: acting([[0.0], [0.7]]),
        r"the action \[0.7\] at t=1 is not in the set; the nearest is \[1.0\]",
    ),
    (lambda: acting([[0.0, 1.0], [0.0, 1.0]]), "actions have 2 components, the set's have 1"),
    (lambda: ask(actions=None), r"needs the set of actions: actions=\(N, d\) vectors"),
    (
        lambda: ask(actions=[0.0, 1.0]),
        r"actions have shape \(2,\), expected \(N, d\) or \(2, N, d\)",
    ),
    (
        lambda: ask(actions=np.zeros((3, 2, 1))),
        r"actions have shape \(3, 2, 1\), expected",
    ),
    (lambda: ask(actions=[[np.nan], [1.0]]), "actions must be finite numbers"),
    (lambda: ask(actions=[["low"], ["high"]]), "actions must be numbers of shape"),
    # rewards
    (lambda: ask(reward=None), "needs a reward: e.g. reward=LinearReward"),
    (
        lambda: ask(reward=LipschitzReward(lambda states: states, 1.0)),
        r"the reward has shape \(3, 2\), expected \(3,\)",
    ),
    (
        lambda: ask(reward=LipschitzReward(lambda states: np.full(len(states), np.nan), 1.0)),
        "the reward is not finite for state",
    ),
    (lambda: ask(reward=lambda states: states[:, 0]), NO_REWARD),
    (lambda: ask(reward=cp.LinearReward), NO_REWARD),
    (lambda: ask(reward="sofa"), NO_REWARD),
    (
        lambda: cp.Episode(np.full((3, 2), 1e250), [0, 0]),
        r"at t=0, column 0 is 1e\+250: too far from 0, 1e\+100",
    ),
    (
        lambda: cp.LinearReward([1e80, 0.0])(np.full((3, 2), 1e250)),
        "reward is not finite for state .*: state it in larger",
    ),
    # scales that are not positive: where observed, where an alternative leads, by underflow
    (lambda: scaled(lambda s, a: np.full(s.shape, 0.0)), "scale"),
    (lambda: scaled(lambda s, a: np.full(s.shape, -1.0)), "scale"),
    (lambda: scaled(lambda s, a: np.full(s.shape, np.nan)), "scale"),
    (
        lambda: scaled(
            lambda s, a: 1.0 - 0.15 * np.abs(s),
            lambda s, a: 0.5 * s + 10.0 * a,
            episode=cp.Episode(STATES, [0, 0]),
        ),
        r"the scale of feature 0 is -0\..*must be positive",
    ),
    (shut_network, r"the scale of feature 1 is 0\.0 for state"),
    # constants and slopes
    *[
        (
            lambda solver=solver, constant=constant: ask(  # type: ignore[misc]
                variant(lipschitz=lambda plain, noise: np.full(len(noise), constant)), solver=solver
            ),
            NO_CONSTANT,
        )
        for solver in (cp.AStar(), cp.AStar(cp.AnchorHeuristic()))
        for constant in (np.nan, -1.0, np.inf)
    ],
    (
        lambda: sloped(np.zeros((2, 2, 3)), np.zeros((2, 2, 3))),
        "slopes must be finite and of shape",
    ),
    (lambda: sloped(NO_SLOPES, np.inf * ONES), "deviations of the slopes must be"),
    (lambda: sloped(NO_SLOPES, -ONES), "must not be negative"),
    # models that do not say what happened
    (
        lambda: ask(variant(step=lambda plain, *_: plain() + 0.01)),
        "does not reproduce the episode: replayed, state",
    ),
    (
        lambda: ask(cp.AdditiveNoiseSCM(lambda s, a: 0.5 * s[:, 1:] + a, lipschitz=0.5, fixed=1)),
        "fixed features are fixed",
    ),
    (
        lambda: ask(variant(infer=lambda plain, states, *_: np.full(states.shape, np.inf))),
        "no finite noise explains the transition after t=0",
    ),
    (
        lambda: ask(variant(infer=lambda plain, *_: plain()[:, 0])),
        r"Own: infer returned shape \(2,\).*: \(2, U\)$",
    ),
    # constraints
    *[
        (lambda rules=rules: ask(constraints=cp.Constraints(**rules)), message)  # type: ignore[misc]
        for rules, message in (
            ({"forbidden": [(0, 1)]}, "with continuous states use allowed or max_move"),
            ({"max_move": -1.0}, "max_move is -1.0: give one number from 0 up"),
            ({"max_move": [1.0, 2.0]}, "or 1 of them"),
            ({"max_move": "far"}, "max_move is 'far': give one number from 0 up"),
            ({"fixed_steps": [2]}, "names step 2, but the episode's steps are 0..1"),
            ({"change_costs": [1]}, "change_costs has 1 entries, but there are 2 actions"),
            ({"allowed": np.ones((3, 2), dtype=bool)}, r"shape \(2,\) or \(2, 2\)"),
        )
    ],
    # models and episodes of different kinds
    (lambda: cp.explain(MDP, EPISODE, 1), "is discrete, but the episode has features"),
    (lambda: ask(episode=DISCRETE), "is continuous, but the episode has discrete states"),
    (
        lambda: ask(Duck()),
        r"Duck has infer and step, but is no PointSCM: .* class Duck\(counterplan.scm.PointSCM\)",
    ),
    # searches and bounds
    (lambda: ask(solver=cp.AStar(batch=0)), "batch"),
    (lambda: ask(solver=cp.AStar(memory=0)), "memory"),
    (lambda: ask(solver=cp.AStar(batch=2.5)), "batch"),  # type: ignore[arg-type]
    *[
        (lambda bound=bound, make=make: make(bound), NO_BOUND)  # type: ignore[misc]
        for bound in (NoBound, "none", None, 3)
        for make in (lambda one: ask(solver=cp.AStar(one)), lambda one: Tightest((NoBound(), one)))
    ],
    *[
        (lambda bounds=bounds: Tightest(bounds), "Tightest needs bounds")  # type: ignore[misc]
        for bounds in ((), [], NoBound())
    ],
    *[
        (lambda one=one: cp.AnchorHeuristic("facility-location", population=one), NO_TABLE)  # type: ignore[misc]
        for one in (np.zeros(4), 3.0, [[0.0, 1.0], [0.0]], np.zeros((2, 2, 2)))
    ],
]


@pytest.mark.parametrize(("question", "message"), BAD)
def test_one_clear_line(question: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        question()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (
            lambda: ask(cp.AdditiveNoiseSCM(walk)),
            r"states no Lipschitz constants.*pass lipschitz=\.\.\., or .*solver=AStar\(NoBound",
        ),
        (lambda: ask(cp.AdditiveNoiseSCM(walk), **LATE), "Lipschitz constants"),
        (sloped_at_points_only, "slopes near some states only"),
        (lambda: cp.explain(MDP, DISCRETE, 1, solver=cp.AStar()), r"A\* needs a PointSCM"),
        (lambda: ask(solver=BudgetDP()), "is no discrete causal model"),
    ],
)
def test_what_a_method_does_not_apply_to(question: Callable[[], Any], message: str) -> None:
    with pytest.raises(NotApplicableError, match=message):
        question()


@pytest.mark.parametrize("size", [0.01, 1.0, 25_000.0])
def test_reproduction_is_checked_feature_by_feature(size: float) -> None:
    """An error of 0.4 % in one feature does not hide beside a large one, nor is it too small to be
    seen in small units."""
    episode = cp.Episode(STATES * np.array([25_000.0, size]), [0, 1])
    assert ask(variant(lambda s, a: 0.5 * s), episode).status == "optimal"
    offset = np.array([0.0, 0.004 * size])
    with pytest.raises(InputError, match=r"replayed, state 1 is off by .* in feature 1; check"):
        ask(variant(lambda s, a: 0.5 * s, infer=lambda plain, *_: plain() + offset), episode)


def test_a_feature_that_is_zero_may_be_off_by_rounding_in_others() -> None:
    """x + (0 - x) + y - y is not 0 where x and y are large."""

    def mixed(plain: Any, states: Floats, *_: Floats) -> Floats:
        wave = 1e-9 * np.sin(1e3 * states[:, 0])
        return np.asarray(plain() + np.column_stack([np.zeros(len(states)), wave]))

    states = np.column_stack([[9e4, 7e4, 8e4], np.zeros(3)])
    assert ask(variant(lambda s, a: 0.5 * s, step=mixed), cp.Episode(states, [0, 0]))


def test_a_step_that_explodes_on_an_alternative() -> None:
    """A nan would compare as 'not better' and be dropped unseen."""

    def explodes(plain: Any, states: Floats, actions: Floats, noise: Floats) -> Floats:
        return np.where(actions[:, :1] == 1.0, np.nan, plain())

    for solver in (cp.AStar(), cp.AStar(NoBound()), cp.baselines.Greedy()):
        with pytest.raises(InputError, match=r"step at t=[01] is not finite"):
            ask(variant(step=explodes), cp.Episode(STATES, [0, 0]), solver=solver)


def small_doses(taken: float, **options: Any) -> Any:
    """Doses of 0, 1 and 5 units of 1e-10, as of a hormone in kilograms."""
    strong = cp.AdditiveNoiseSCM(lambda s, a: 0.5 * s + 1e10 * a, lipschitz=0.5)
    episode = cp.Episode(STATES, np.full((2, 1), taken))
    return ask(strong, episode, actions=[[0.0], [1e-10], [5e-10]], **options)


def test_small_doses_are_told_apart() -> None:
    assert small_doses(1e-10).changes[0].observed == 1
    assert small_doses(1e-10 * (1.0 + 1e-9)).changes[0].observed == 1
    with pytest.raises(InputError, match="is not in the set; the nearest is"):
        small_doses(2e-10)


def test_small_doses_move_no_further_than_they_may() -> None:
    best = small_doses(0.0, constraints=cp.Constraints(max_move=1e-10))
    assert {change.alternative for change in best.changes} == {1}
    assert {change.alternative for change in small_doses(0.0).changes} == {2}


def test_doses_in_different_units() -> None:
    """Each component by its own spread: grams beside litres of 1e-6; and a third that never is
    anything but 0."""
    doses = [[500.0, 1e-6, 0.0], [500.0, 2e-6, 0.0], [1000.0, 1e-6, 0.0]]
    scm = cp.AdditiveNoiseSCM(lambda s, a: 0.5 * s + a[:, 1:2] * 1e6, lipschitz=0.5)
    taken = np.array([[500.0004, 2e-6, 0.0], [500.0, 1e-6, 0.0]])
    found = ask(scm, cp.Episode(STATES, taken), actions=doses)
    assert found.observed.tolist() == [1, 0]
    for wrong in ([500.0, 1.5e-6, 0.0], [500.1, 1e-6, 0.0], [500.0, 1e-6, 1e-9]):
        with pytest.raises(InputError, match=r"at t=1 is not in the set"):
            ask(scm, cp.Episode(STATES, np.array([taken[0], wrong])), actions=doses)


def test_a_move_may_exceed_its_limit_by_rounding() -> None:
    tenths = [[0.1], [0.2], [0.1 + 0.2]]
    episode = cp.Episode(STATES, [1, 1])
    found = ask(episode=episode, actions=tenths, constraints=cp.Constraints(max_move=0.1))
    assert abs(tenths[2][0] - tenths[1][0]) > 0.1
    assert {change.alternative for change in found.changes} == {2}


def test_a_budget_beyond_all_changes_is_fine() -> None:
    problem = Problem(SCM, EPISODE, 1, actions=ACTIONS, reward=REWARD)
    assert explain(problem, 10**6).value == explain(problem, 2).value
    costly = cp.Constraints(change_costs=[10**9, 10**9])
    for solver in (
        cp.AStar(),
        cp.AStar(cp.AnchorHeuristic(samples=5)),
        oracle.Exhaustive(),
    ):
        found = explain(problem, 10**9, constraints=costly, solver=solver)
        assert found.value == pytest.approx(explain(problem, 1).value)
