"""Real doses, against dense enumeration, random courses, listed levels and replays by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.core.reward import EpisodeReward, LogisticReward, Reward
from counterplan.counterfactual.continuous.dose_bounds import highest
from counterplan.errors import InputError, NotApplicableError
from counterplan.scm import PointSCM
from counterplan.scm.support import Seen
from counterplan.testing.continuous import COMPONENTS, FEATURES, FIXED, MODELS, MOVING, smooth_model

KINDS = ("constants", "neural", "scaled neural", "smooth", "held")
# What units of doses earn or cost.
WORTH = np.linspace(0.4, -0.6, COMPONENTS)


def by_constants(rng: np.random.Generator) -> PointSCM:
    """s' = 0.6 tanh(s) + effect sin(a) + (0.3 + 0.1 tanh(s + a)) u, with its true constants."""
    effect = rng.normal(size=(MOVING, COMPONENTS)) / 4
    return cp.LocationScaleSCM(
        lambda s, a: 0.6 * np.tanh(s[:, FIXED:]) + np.sin(a) @ effect.T,
        lambda s, a: 0.3 + 0.1 * np.tanh(s[:, FIXED:] + a[:, :1]),
        lipschitz=(0.6, 0.1),
        fixed=FIXED,
        action_lipschitz=(float(np.linalg.norm(effect, 2)), 0.1 * np.sqrt(MOVING)),
    )


def question(kind: str, seed: int, T: int = 5, reward: Reward | EpisodeReward | None = None) -> Any:
    """A model, an episode by it with doses in [-1, 1], and a reward."""
    rng = np.random.default_rng([seed, *kind.encode()])
    scm = by_constants(rng) if kind == "constants" else MODELS[kind](rng)
    doses = rng.uniform(-1.0, 1.0, size=(T - 1, COMPONENTS))
    states = [rng.normal(size=FEATURES)]
    for t in range(T - 1):
        noise = 0.5 * rng.normal(size=(1, MOVING))
        states.append(scm.step(states[-1][None], doses[t][None], noise)[0])
    given = cp.LinearReward(rng.normal(size=FEATURES)) if reward is None else reward
    return scm, cp.Episode(np.stack(states), doses), given


def outcomes(
    scm: PointSCM, episode: cp.Episode, reward: Any, doses: np.ndarray, worth: Any = 0.0
) -> np.ndarray:
    """(n,) what courses (n, T-1, d) earn, step by step through the model itself, and what a unit of
    a dose is worth."""
    model = scm.admitting(episode.states)
    noise = model.infer(episode.states[:-1], episode.actions, episode.states[1:])
    states = np.repeat(episode.states[:1], len(doses), axis=0)
    whole = reward if isinstance(reward, EpisodeReward) else EpisodeReward(reward)
    total = (doses * worth).sum(axis=(1, 2))
    for t in range(len(noise)):
        total += whole.state(states)
        states = model.step(states, doses[:, t], np.repeat(noise[t : t + 1], len(doses), axis=0))
    return np.asarray(total + whole.last(states))


def changed(episode: cp.Episode, changes: Any, values: np.ndarray) -> np.ndarray:
    """Courses with the doses of some steps replaced by values (n, steps, d)."""
    doses = np.repeat(episode.actions[None], len(values), axis=0)
    doses[:, list(changes)] = values
    return doses


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_one_change_is_as_good_as_dense_enumeration(kind: str, seed: int) -> None:
    scm, episode, reward = question(kind, seed)
    gap, worth = 0.05 if kind == "constants" else 0.01, seed * WORTH
    doses = cp.Doses(-1, 1, worth=worth)
    found = cp.explain(scm, episode, 1, actions=doses, reward=reward, limits=cp.Limits(gap=gap))
    line = np.linspace(-1.0, 1.0, 13)
    grid = np.stack([one.ravel() for one in np.meshgrid(*[line] * COMPONENTS)], axis=1)
    best = max(
        outcomes(scm, episode, reward, changed(episode, [t], grid[:, None]), worth).max()
        for t in range(len(episode) - 1)
    )
    assert best <= found.bound + 1e-9
    assert found.value >= best - gap - 1e-9
    assert found.gap <= gap + 1e-9
    assert found.value >= found.factual_value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [2, 3])
def test_no_course_beats_the_bound_nor_any_listed_one_the_value(kind: str, k: int) -> None:
    scm, episode, reward = question(kind, 7 + k)
    worth = (k - 2) * WORTH
    asked = {"actions": cp.Doses(-1, 1, levels=3, worth=worth), "reward": reward}
    found = cp.explain(scm, episode, k, **asked, limits=cp.Limits(nodes=60))
    rng, steps = np.random.default_rng(k), len(episode) - 1
    for _ in range(40):
        places = rng.choice(steps, k, replace=False)
        values = rng.uniform(-1.0, 1.0, (50, k, COMPONENTS))
        values[:25] = np.round(values[:25])
        drawn = outcomes(scm, episode, reward, changed(episode, places, values), worth)
        assert drawn.max() <= found.bound + 1e-9
    line = np.linspace(-1.0, 1.0, 3)
    levels = np.stack([one.ravel() for one in np.meshgrid(*[line] * COMPONENTS)], axis=1)
    listed = np.concatenate([episode.actions[:, None], np.repeat(levels[None], steps, axis=0)], 1)
    earning = EpisodeReward(reward, actions=listed @ worth)
    best = cp.explain(scm, episode, k, actions=listed, reward=earning)
    assert found.value >= best.value - 1e-9
    # Its value is that of a replay of its changes, which are doses within their limits.
    again = cp.replay(scm, episode, {t: new for t, _, new in found.changes}, **asked)
    assert again.value == pytest.approx(found.value, abs=1e-12)
    replayed = outcomes(scm, episode, reward, found.actions[None], worth)[0]
    assert replayed == pytest.approx(found.value)
    assert len(found.changes) <= k
    assert np.abs(found.actions).max() <= 1.0


@pytest.mark.parametrize("seed", range(20))
def test_a_quadratic_over_a_box_stays_below_its_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    H, rest = rng.normal(size=(n, n)), rng.random((n, n)) * rng.random()
    g, H, rest = rng.normal(size=n) * 2, H + H.T, rest + rest.T
    low, high = -rng.random(n), rng.random(n)
    bound, x, _ = highest(g, H, rest, low, high)
    points = rng.uniform(low, high, (4000, n))
    points[:2000] = np.where(rng.random((2000, n)) < 0.5, low, high)

    def height(p: np.ndarray) -> np.ndarray:
        curve = np.einsum("ni,ij,nj->n", p, H, p) + np.einsum("ni,ij,nj->n", abs(p), rest, abs(p))
        return np.asarray(p @ g + curve / 2)

    assert height(points).max() <= bound + 1e-12
    assert ((low <= x) & (x <= high)).all()
    concave = highest(g, -H @ H, 0 * rest, low, high)  # nothing is lost
    curve = np.einsum("i,ij,j->", concave[1], -H @ H, concave[1]) / 2
    assert concave[0] == pytest.approx(concave[1] @ g + curve, rel=1e-3, abs=1e-3)


def test_a_dose_is_near_that_of_the_last_row() -> None:
    """A dose whose effect nobody saw is there all the same: what comes before it may not jump."""
    scm, episode, reward = question("constants", 1)
    last = np.array([[0.9, -0.9]])
    whole = cp.Episode(episode.states, np.concatenate([episode.actions, last]))
    asked: Any = {"actions": cp.Doses(-1, 1, step=[0.5, 3.0]), "reward": reward}
    only = cp.Constraints(fixed_steps=range(len(episode) - 2))
    free, held = (
        cp.explain(scm, one, 1, constraints=only, limits=cp.Limits(nodes=400), **asked)
        for one in (episode, whole)
    )
    assert free.actions[-1, 0] < 0.4 - 1e-9
    assert free.changes
    assert not held.changes
    kept = cp.Doses([-1, None], [1, None], step=0.5).room(whole, cp.Constraints())
    assert (kept.low[:, 1] == kept.high[:, 1]).all()
    assert kept.low[-1, 0] == pytest.approx(0.4)


LIMITS = {
    "step": {"step": 0.4},
    "total": {"total": 0.5},
    "both": {"step": [0.5, 0.3], "total": [-0.5, 0.2]},
}


@pytest.mark.parametrize("name", LIMITS)
def test_steps_and_totals_are_kept_and_bounds_hold_under_them(name: str) -> None:
    scm, episode, reward = question("neural", 3)
    doses = cp.Doses(-1, 1, **LIMITS[name])
    limits = cp.Limits(nodes=150)
    found = cp.explain(scm, episode, 2, actions=doses, reward=reward, limits=limits)
    room = doses.room(episode, cp.Constraints())
    assert room.admits(found.actions[None])[0]
    rng, steps = np.random.default_rng(0), len(episode) - 1
    best = -np.inf
    for _ in range(300):
        places = rng.choice(steps, 2, replace=False)
        drawn = changed(episode, places, rng.uniform(-1.0, 1.0, (200, 2, COMPONENTS)))
        drawn = drawn[room.admits(drawn)]
        if len(drawn):
            best = max(best, outcomes(scm, episode, reward, drawn).max())
    assert best <= found.bound + 1e-9
    assert found.value >= min(best, found.bound - 0.05) - 0.02
    free = cp.explain(scm, episode, 2, actions=cp.Doses(-1, 1), reward=reward, limits=limits)
    assert found.value <= free.bound + 1e-9


def test_what_may_not_change_stays_and_the_rest_moves_no_farther_than_it_may() -> None:
    scm, episode, reward = question("scaled neural", 5)
    kept = cp.Constraints(fixed_steps=[0, -1], max_move=[0.2, 0.5])
    low, high = [-1.0, None], [1.0, None]
    asked = {"reward": reward, "constraints": kept, "limits": cp.Limits(nodes=50)}
    found = cp.explain(scm, episode, 3, actions=cp.Doses(low, high), **asked)
    moved = np.abs(found.actions - episode.actions)
    assert found.changes
    assert not moved[[0, -1]].any()
    assert not moved[:, 1].any()
    assert moved[:, 0].max() <= 0.2 + 1e-12


def test_members_are_judged_by_their_worst_share_and_claims_have_an_interval() -> None:
    rng = np.random.default_rng(4)
    first = smooth_model(rng)
    draws = first._weights + 0.05 * rng.normal(size=(4, *first._weights.shape))
    scm = replace(first, draws=draws, form=np.full(MOVING, 0.1))
    _, episode, reward = question("smooth", 4)
    asked = {"actions": cp.Doses(-1, 1), "reward": reward}
    found = cp.explain(scm, episode, 2, **asked, risk=0.5, limits=cp.Limits(nodes=80))
    places, steps = np.random.default_rng(1), len(episode) - 1
    for _ in range(30):
        some = changed(
            episode, places.choice(steps, 2, replace=False), places.uniform(-1, 1, (50, 2, 2))
        )
        each = np.stack([outcomes(one, episode, reward, some) for one in scm.members])
        assert np.sort(each, axis=0)[:2].mean(axis=0).max() <= found.bound + 1e-9
    each = [outcomes(one, episode, reward, found.actions[None])[0] for one in scm.members]
    assert np.sort(each)[:2].mean() == pytest.approx(found.value)
    assert found.interval is not None
    assert found.interval.low < found.improvement < found.interval.high
    assert 0.0 <= found.harm <= 1.0
    assert cp.sensitivity(scm, episode, found, draws=10).tipping_gamma >= 0.0


def test_rewards_that_are_not_linear_are_bounded_too() -> None:
    linear = cp.LinearReward(np.ones(FEATURES))
    reward = EpisodeReward(cp.LinearReward(np.arange(FEATURES)), (LogisticReward(linear, 3.0),))
    scm, episode, _ = question("neural", 8)
    asked = {"actions": cp.Doses(-1, 1), "reward": reward, "limits": cp.Limits(nodes=60)}
    found = cp.explain(scm, episode, 1, **asked)
    values = np.random.default_rng(0).uniform(-1.0, 1.0, (2000, 1, COMPONENTS))
    for t in range(len(episode) - 1):
        drawn = outcomes(scm, episode, reward, changed(episode, [t], values))
        assert drawn.max() <= found.bound + 1e-9


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "empty": ({"actions": cp.Doses(1, -1)}, "low 1 is above high -1"),
    "shape": ({"actions": cp.Doses([0, 0, 0], [1, 1, 1])}, "doses: low has shape"),
    "half": ({"actions": cp.Doses([0, None], [1, 1])}, "no high either"),
    "step": ({"actions": cp.Doses(0, 1, step=-1)}, "step must be one number from 0 up"),
    "allowed": ({"constraints": cp.Constraints(allowed={0: [1]})}, "allowed names listed actions"),
    "earned": (
        {"reward": EpisodeReward(cp.LinearReward(np.ones(FEATURES)), actions=[0.0])},
        "what actions earn is a list",
    ),
    "solver": ({"solver": cp.baselines.Greedy()}, "Greedy is for listed actions"),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_one_line(name: str) -> None:
    scm, episode, reward = question("neural", 0)
    given, words = BAD[name]
    with pytest.raises((InputError, NotApplicableError), match=words):
        cp.explain(scm, episode, 1, **{"actions": cp.Doses(-1, 1), "reward": reward, **given})


def test_a_model_that_does_not_know_its_slope_in_the_dose_says_so() -> None:
    scm, episode, reward = question("constants", 0)
    assert isinstance(scm, cp.LocationScaleSCM)
    plain = cp.LocationScaleSCM(scm.location, scm.scale, lipschitz=(0.6, 0.1), fixed=FIXED)
    with pytest.raises(NotApplicableError, match="give lipschitz= and action_lipschitz="):
        cp.explain(plain, episode, 1, actions=cp.Doses(-1, 1), reward=reward)
    for given in ({0: (2.0, 0.0)}, {0: (0.1, 0.2, 0.3)}, {9: (0.0, 0.0)}):
        with pytest.raises(InputError):
            cp.replay(scm, episode, given, actions=cp.Doses(-1, 1), reward=reward)
    indexed = cp.Episode(episode.states, np.zeros(len(episode) - 1, dtype=int))
    with pytest.raises(InputError, match="indices of a list"):
        cp.explain(scm, indexed, 1, actions=cp.Doses(-1, 1), reward=reward)


def test_doses_stay_inside_the_data_and_bounds_are_about_those_that_do() -> None:
    scm, episode, reward = question("smooth", 6)
    rng = np.random.default_rng(6)
    states = episode.states[rng.integers(len(episode), size=400)] + 0.3 * rng.normal(size=(400, 4))
    seen = Seen(
        states.astype(np.float32),
        rng.uniform(-1.0, 0.0, (400, COMPONENTS)).astype(np.float32),
        typical=0.5,
        far=1.0,
    )
    scm = replace(scm, seen=seen)
    asked = {"actions": cp.Doses(-1, 1), "reward": reward, "limits": cp.Limits(nodes=150)}
    found = cp.explain(scm, episode, 1, **asked)

    def is_inside(t: int, doses: np.ndarray, path: np.ndarray) -> bool:
        away = np.linalg.norm(seen.states - path[t], axis=1)
        alike = (np.abs(seen.actions - doses[t]) <= 0.25 + 1e-6).all(axis=1)
        near = [np.linalg.norm(seen.states - one, axis=1).min() <= seen.far for one in path[t:]]
        return bool(alike[np.argsort(away)[:50]].sum() >= 3 and all(near))

    noise = scm.infer(episode.states[:-1], episode.actions, episode.states[1:])
    for t in range(len(episode) - 1):
        for value in rng.uniform(-1.0, 1.0, (60, COMPONENTS)):
            doses = changed(episode, [t], value[None, None])[0]
            path = [episode.states[0]]
            for u, dose in enumerate(doses):
                path.append(scm.step(path[-1][None], dose[None], noise[u : u + 1])[0])
            if is_inside(t, doses, np.stack(path)):
                earned = outcomes(scm, episode, reward, doses[None])[0]
                assert earned <= found.bound + 1e-9
    for t, _, _ in found.changes:
        assert is_inside(t, found.actions, found.states)
    assert found.support.supported is not False
    free = cp.explain(scm, episode, 1, **asked, constraints=cp.Constraints(supported=False))
    assert found.bound <= free.bound + 1e-9
    assert found.gap <= 0.02 * found.improvement


def test_a_course_without_room_and_limits_of_step_is_what_was() -> None:
    """Nothing to climb: no change allowed, or none that the step admits."""
    rng = np.random.default_rng(0)
    scm, doses = MODELS["neural"](rng), rng.uniform(-1.0, 1.0, (3, 2))
    states = [rng.normal(size=4)]
    for dose in doses:
        noise = 0.5 * rng.normal(size=(1, 3))
        states.append(scm.step(states[-1][None], dose[None], noise)[0])
    episode, reward = cp.Episode(np.stack(states), doses), cp.LinearReward(rng.normal(size=4))
    for k, given in ((0, cp.Doses(-1, 1, step=0.5)), (2, cp.Doses(None, None))):
        found = cp.explain(scm, episode, k, actions=given, reward=reward)
        assert found.changes == ()
        assert found.value == pytest.approx(found.factual_value, abs=1e-9)
    front = cp.frontier(scm, episode, 1, actions=cp.Doses(-1, 1, step=0.3), reward=reward)
    assert front[0].value <= front[1].value
