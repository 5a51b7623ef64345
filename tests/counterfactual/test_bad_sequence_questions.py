"""Questions about continuous episodes that cannot be right: one clear line each."""

from __future__ import annotations

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


def ask(scm: Any = SCM, episode: Any = EPISODE, k: Any = 1, **options: Any) -> Any:
    return cp.explain(scm, episode, k, **{"actions": ACTIONS, "reward": REWARD, **options})


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([[0.0, np.nan], [0.0, 0.0]], "state at t=0, column 1 is nan: must be finite"),
        ([[0.0, 0.0], [np.inf, 0.0]], "state at t=1, column 0 is inf: must be finite"),
        ([[0.0, 0.0], [0.0]], "state table must hold numbers, T rows of the same length"),
    ],
)
def test_states_that_are_no_numbers(states: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        cp.Episode(states, [0, 0])


def test_states_of_the_wrong_width() -> None:
    """Against the reward, a network, a scaling and a user's own function."""
    wide = cp.Episode(np.zeros((3, 5)), [0, 1])
    with pytest.raises(InputError, match="reward has 2 weights, but states have 5 features"):
        ask(episode=wide)
    for kind in ("neural", "scaled neural"):
        problem = random_question(kind, 0, horizon=3, n_actions=2, k=1)
        wrong = replace(problem, episode=wide, reward=cp.LinearReward(np.ones(5)))
        with pytest.raises(InputError, match=r"5 features|\(2, 5\)"):
            explain(wrong)
    fussy = cp.AdditiveNoiseSCM(lambda s, a: s @ np.eye(2) + a, lipschitz=1.0)
    with pytest.raises(
        InputError, match="cannot read states of 5 features and action vectors of 1"
    ):
        ask(fussy, wide, reward=cp.LinearReward(np.ones(5)))


@pytest.mark.parametrize("kind", ["neural", "scaled neural"])
def test_action_vectors_of_the_wrong_width(kind: str) -> None:
    problem = random_question(kind, 0, horizon=3, n_actions=2, k=1)
    with pytest.raises(InputError, match=r"of 1 components|have 1 components|\(2, 1\)"):
        explain(replace(problem, actions=[[0.0], [1.0]], constraints=cp.Constraints()))


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([0, 2], "action 2 at t=1 is not in the set: it has the actions 0..1"),
        ([[0.0], [0.7]], r"the action \[0.7\] at t=1 is not in the set; the nearest is \[1.0\]"),
        ([[0.0, 1.0], [0.0, 1.0]], "actions have 2 components, the set's have 1"),
    ],
)
def test_actions_that_are_not_in_the_set(actions: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ask(episode=cp.Episode(STATES, actions))


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (None, r"needs the set of actions: actions=\(N, d\) vectors"),
        ([0.0, 1.0], r"actions have shape \(2,\), expected \(N, d\) or \(2, N, d\)"),
        (np.zeros((3, 2, 1)), r"actions have shape \(3, 2, 1\), expected"),
        ([[np.nan], [1.0]], "actions must be finite numbers"),
        ([["low"], ["high"]], "actions must be numbers of shape"),
    ],
)
def test_sets_of_actions_that_are_none(actions: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ask(actions=actions)


def test_missing_reward() -> None:
    with pytest.raises(InputError, match=r"needs a reward: e.g. reward=LinearReward"):
        ask(reward=None)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda states: states, r"the reward has shape \(3, 2\), expected \(3,\)"),
        (lambda states: np.full(len(states), np.nan), "the reward is not finite for state"),
    ],
)
def test_rewards_that_are_none(function: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ask(reward=LipschitzReward(function, 1.0))


@pytest.mark.parametrize("reward", [lambda states: states[:, 0], cp.LinearReward, "sofa", 1.0])
def test_rewards_of_another_kind(reward: Any) -> None:
    with pytest.raises(InputError, match=r"reward is a \w+: pass LinearReward\(weights\), or"):
        ask(reward=reward)


def test_rewards_that_overflow() -> None:
    with pytest.raises(InputError, match=r"at t=0, column 0 is 1e\+250: too far from 0, 1e\+100"):
        cp.Episode(np.full((3, 2), 1e250), [0, 0])
    with pytest.raises(InputError, match=r"reward is not finite for state .*: state it in larger"):
        cp.LinearReward([1e80, 0.0])(np.full((3, 2), 1e250))


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan])
def test_a_scale_that_is_not_positive(scale: float) -> None:
    scm = cp.LocationScaleSCM(walk, lambda s, a: np.full(s.shape, scale), lipschitz=(0.5, 0.0))
    with pytest.raises(InputError, match="scale"):
        ask(scm)


def test_a_scale_that_is_not_positive_somewhere_else() -> None:
    """Not at any observed state, but where an alternative leads."""
    scm = cp.LocationScaleSCM(
        lambda s, a: 0.5 * s + 10.0 * a, lambda s, a: 1.0 - 0.15 * np.abs(s), lipschitz=(0.5, 0.15)
    )
    with pytest.raises(InputError, match=r"the scale of feature 0 is -0\..*must be positive"):
        ask(scm, cp.Episode(STATES, [0, 0]))


def test_a_scale_network_that_underflows() -> None:
    problem = random_question("neural", 0, horizon=3, n_actions=2, k=1)
    shut = replace(
        problem.scm.scale, output_bias=np.full(3, -800.0), output=0.0 * problem.scm.scale.output
    )
    with pytest.raises(InputError, match=r"the scale of feature 1 is 0\.0 for state"):
        explain(replace(problem, scm=replace(problem.scm, scale=shut)))


def test_missing_constants_say_what_to_provide() -> None:
    silent = cp.AdditiveNoiseSCM(walk)
    message = (
        r"states no Lipschitz constants.*pass lipschitz=\.\.\., or .*solver=AStar\(NoBound\(\)\)"
    )
    with pytest.raises(NotApplicableError, match=message):
        ask(silent)
    with pytest.raises(NotApplicableError, match="Lipschitz constants"):
        ask(
            silent,
            solver=cp.AStar(Tightest((cp.AnchorHeuristic(), NoBound()))),
        )
    assert ask(silent, solver=cp.AStar(NoBound())).status == "optimal"


@pytest.mark.parametrize("constant", [np.nan, -1.0, np.inf])
def test_constants_that_are_none(constant: float) -> None:
    class Wrong(cp.AdditiveNoiseSCM):
        def lipschitz(self, noise: Floats) -> Floats:
            return np.full(len(noise), constant)

    for solver in (cp.AStar(), cp.AStar(cp.AnchorHeuristic())):
        with pytest.raises(InputError, match="lipschitz must give one finite constant from 0 up"):
            ask(Wrong(walk), solver=solver)


def test_slopes_somewhere_and_constants_nowhere() -> None:
    class Partial(cp.AdditiveNoiseSCM):
        def slopes(self, region: Any, actions: Floats, noise: Floats) -> Any:
            if region.radius > 0.0:
                return None
            return super().slopes(region, actions, noise)

    def exact(region: Any, actions: Floats) -> tuple[Floats, Floats]:
        jacobian = np.repeat(0.5 * np.eye(2)[None], len(actions), axis=0)
        return jacobian, np.zeros_like(jacobian)

    with pytest.raises(NotApplicableError, match="slopes near some states only"):
        ask(Partial(walk, slopes=exact))


@pytest.mark.parametrize(
    ("slopes", "message"),
    [
        ((np.zeros((2, 2, 3)), np.zeros((2, 2, 3))), r"slopes must be finite and of shape"),
        ((np.zeros((2, 2, 2)), np.full((2, 2, 2), np.inf)), "deviations of the slopes must be"),
        ((np.zeros((2, 2, 2)), np.full((2, 2, 2), -1.0)), "must not be negative"),
    ],
)
def test_slopes_that_are_none(slopes: Any, message: str) -> None:
    def cut(region: Any, actions: Floats) -> Any:
        return tuple(part[: len(actions)] for part in slopes)

    with pytest.raises(InputError, match=message):
        ask(cp.AdditiveNoiseSCM(walk, slopes=cut))


def test_a_model_that_does_not_reproduce_the_episode() -> None:
    class Sloppy(cp.AdditiveNoiseSCM):
        def step(self, states: Floats, actions: Floats, noise: Floats) -> Floats:
            return super().step(states, actions, noise) + 0.01

    with pytest.raises(InputError, match="does not reproduce the episode: replayed, state"):
        ask(Sloppy(walk, lipschitz=0.5))
    fixed = cp.AdditiveNoiseSCM(lambda s, a: 0.5 * s[:, 1:] + a, lipschitz=0.5, fixed=1)
    with pytest.raises(InputError, match="fixed features are fixed"):
        ask(fixed)


@pytest.mark.parametrize("size", [0.01, 1.0, 25_000.0])
def test_reproduction_is_checked_feature_by_feature(size: float) -> None:
    """An error of 0.4 % in one feature does not hide beside a large one, nor is it too small to be
    seen in small units."""

    class Offset(cp.AdditiveNoiseSCM):
        def infer(self, states: Floats, actions: Floats, after: Floats) -> Floats:
            return super().infer(states, actions, after) + np.array([0.0, 0.004 * size])

    states = STATES * np.array([25_000.0, size])
    scm = {"location": lambda s, a: 0.5 * s, "lipschitz": 0.5}
    assert ask(cp.AdditiveNoiseSCM(**scm), cp.Episode(states, [0, 1])).status == "optimal"
    with pytest.raises(InputError, match=r"replayed, state 1 is off by .* in feature 1; check"):
        ask(Offset(**scm), cp.Episode(states, [0, 1]))


def test_a_feature_that_is_zero_may_be_off_by_rounding_in_others() -> None:
    """x + (0 - x) + y - y is not 0 where x and y are large."""

    class Mixed(cp.AdditiveNoiseSCM):
        def step(self, states: Floats, actions: Floats, noise: Floats) -> Floats:
            after = super().step(states, actions, noise)
            after[:, 1] += 1e-9 * np.sin(1e3 * states[:, 0])
            return after

    states = np.column_stack([[9e4, 7e4, 8e4], np.zeros(3)])
    assert ask(Mixed(lambda s, a: 0.5 * s, lipschitz=0.5), cp.Episode(states, [0, 0]))


def test_a_step_that_explodes_on_an_alternative() -> None:
    """A nan would compare as 'not better' and be dropped unseen."""

    class Explodes(cp.AdditiveNoiseSCM):
        def step(self, states: Floats, actions: Floats, noise: Floats) -> Floats:
            after = super().step(states, actions, noise)
            after[actions[:, 0] == 1.0] = np.nan
            return after

    episode = cp.Episode(STATES, [0, 0])
    for solver in (cp.AStar(), cp.AStar(NoBound()), cp.baselines.Greedy()):
        with pytest.raises(InputError, match="step at t=0 is not finite"):
            ask(Explodes(walk, lipschitz=0.5), episode, solver=solver)


def test_noise_that_is_not_finite() -> None:
    class Blind(cp.AdditiveNoiseSCM):
        def infer(self, states: Floats, actions: Floats, after: Floats) -> Floats:
            return np.full(states.shape, np.inf)

    with pytest.raises(InputError, match="no finite noise explains the transition after t=0"):
        ask(Blind(walk, lipschitz=0.5))


def test_noise_of_another_shape() -> None:
    class Short(cp.AdditiveNoiseSCM):
        def infer(self, states: Floats, actions: Floats, after: Floats) -> Floats:
            return super().infer(states, actions, after)[:, 0]

    with pytest.raises(InputError, match=r"Short: infer returned shape \(2,\).*: \(2, U\)$"):
        ask(Short(walk, lipschitz=0.5))


def test_noise_may_be_a_plain_list() -> None:
    class Listed(cp.AdditiveNoiseSCM):
        def infer(self, states: Floats, actions: Floats, after: Floats) -> Any:
            return super().infer(states, actions, after).tolist()

    assert ask(Listed(walk, lipschitz=0.5)).value == ask().value


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (cp.Constraints(forbidden=[(0, 1)]), "with continuous states use allowed or max_move"),
        (cp.Constraints(max_move=-1.0), "max_move is -1.0: give one number from 0 up"),
        (cp.Constraints(max_move=[1.0, 2.0]), "or 1 of them"),
        (cp.Constraints(max_move="far"), "max_move is 'far': give one number from 0 up"),  # type: ignore[arg-type]
        (cp.Constraints(fixed_steps=[2]), "names step 2, but the episode's steps are 0..1"),
        (cp.Constraints(change_costs=[1]), "change_costs has 1 entries, but there are 2 actions"),
        (cp.Constraints(allowed=np.ones((3, 2), dtype=bool)), r"shape \(2,\) or \(2, 2\)"),
    ],
)
def test_constraints_that_do_not_fit(constraints: cp.Constraints, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ask(constraints=constraints)


def test_models_and_episodes_of_different_kinds() -> None:
    mdp = cp.TabularMDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)))
    with pytest.raises(InputError, match="is discrete, but the episode has features"):
        cp.explain(mdp, EPISODE, 1)
    with pytest.raises(InputError, match="is continuous, but the episode has discrete states"):
        ask(episode=cp.Episode([0, 1], [0, 0]))
    with pytest.raises(NotApplicableError, match="A\\* needs a PointSCM"):
        cp.explain(mdp, cp.Episode([0, 1], [0, 0]), 1, solver=cp.AStar())
    with pytest.raises(NotApplicableError):
        ask(solver=BudgetDP())


def test_a_model_that_only_looks_like_one() -> None:
    class Duck:
        def infer(self, states: Floats, actions: Floats, after: Floats) -> Floats:
            return after - states

        def step(self, states: Floats, actions: Floats, noise: Floats) -> Floats:
            return states + noise

    message = (
        r"Duck has infer and step, but is no PointSCM: .* class Duck\(counterplan.scm.PointSCM\)"
    )
    with pytest.raises(InputError, match=message):
        ask(Duck())


@pytest.mark.parametrize("options", [{"batch": 0}, {"memory": 0}, {"batch": 2.5}])
def test_searches_that_cannot_run(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"batch|memory"):
        ask(solver=cp.AStar(**options))


@pytest.mark.parametrize("bound", [NoBound, "none", None, 3])
def test_bounds_that_are_none(bound: Any) -> None:
    """A class, a word."""
    with pytest.raises(InputError, match=r"the bound is .*: pass an object such as FirstOrder"):
        ask(solver=cp.AStar(bound))
    with pytest.raises(InputError, match=r"the bound is .*: pass an object such as FirstOrder"):
        Tightest((NoBound(), bound))


@pytest.mark.parametrize("bounds", [(), [], NoBound()])
def test_the_tightest_of_nothing(bounds: Any) -> None:
    with pytest.raises(InputError, match="Tightest needs bounds"):
        Tightest(bounds)


@pytest.mark.parametrize("population", [np.zeros(4), 3.0, [[0.0, 1.0], [0.0]], np.zeros((2, 2, 2))])
def test_populations_that_are_no_tables(population: Any) -> None:
    with pytest.raises(InputError, match=r"population must be a table of states, \(n, D\)"):
        cp.AnchorHeuristic("facility-location", population=population)


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


def test_last_action_given_or_not_is_the_same_question() -> None:
    with_last = cp.Episode(STATES, [0, 1, 0])
    assert ask(episode=with_last).value == ask().value
    vectors = cp.Episode(STATES, [[0.0], [1.0]])
    assert ask(episode=vectors).value == ask().value


def test_episodes_of_different_lengths_are_fine() -> None:
    for length in range(1, 6):
        states = np.random.default_rng(length).normal(size=(length, 2))
        found = ask(episode=cp.Episode(states, np.zeros(length, dtype=int)), k=2)
        assert found.status == "optimal"
        assert len(found.actions) == length - 1


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
