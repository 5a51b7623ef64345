"""Checks of causal models of continuous states and of sequences of actions, and small random
problems about every kind of model that is shipped."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.problem import Problem
from counterplan.core.result import Explanation
from counterplan.core.reward import (
    EpisodeReward,
    LinearReward,
    LipschitzReward,
    LogisticReward,
    Reward,
)
from counterplan.core.validation import FloatArray, Seed, generator
from counterplan.counterfactual.continuous.claims import SequenceExplanation
from counterplan.counterfactual.oracle import SequenceWorld
from counterplan.errors import InputError
from counterplan.scm.cosine import CosineNetwork
from counterplan.scm.learned import NeuralSCM
from counterplan.scm.point import (
    AdditiveNoiseSCM,
    ElementwiseSCM,
    LocationScaleSCM,
    PointSCM,
    PostNonlinearSCM,
    Region,
    Scaling,
    taken_vectors,
)
from counterplan.scm.smooth import SmoothSCM

# Relative to the size of what is compared, where that is large.
TOLERANCE = 1e-9
# Sizes of random models.
FEATURES, COMPONENTS, FIXED = 4, 2, 1
MOVING = FEATURES - FIXED


def close(one: float, other: float) -> bool:
    """Equal but for rounding, or the same infinity."""
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


@dataclass(frozen=True, eq=False)
class _Transitions:
    """Observed transitions in the model's own units, with the noise that explains them.

    states (n, D), actions (n, d), noise (n, U)
    """

    scm: PointSCM
    states: FloatArray
    actions: FloatArray
    noise: FloatArray

    def steps(self, row: int, states: FloatArray, actions: FloatArray) -> FloatArray:
        """From states (m, D) with the noise of one transition."""
        noise = np.broadcast_to(self.noise[row], (len(states), self.noise.shape[1]))
        return self.scm.step(states, actions, noise)

    def near(
        self, row: int, count: int, rng: np.random.Generator, alike: bool = False
    ) -> FloatArray:
        """(count, D) states around an observed one, close to it or as far as the data reach; if
        `alike`, all of them about as far. Where the model refuses such states, because its process
        never reaches them, they lie between observed ones."""
        here = self.states[row]

        def around(away: FloatArray) -> FloatArray:
            scale = 10.0 ** rng.uniform(-4.0, 0.0, size=(1 if alike else count, 1))
            return np.asarray(here + scale * away * (np.arange(len(here)) >= self.scm.fixed))

        spread = np.maximum(np.ptp(self.states, axis=0), 1e-3)
        states = around(rng.normal(size=(count, len(here))) * spread)
        try:
            self.steps(row, states, np.repeat(self.actions[row][None], count, axis=0))
        except InputError:
            return around(self.states[rng.integers(len(self.states), size=count)] - here)
        return states

    def any_actions(self, count: int, rng: np.random.Generator) -> FloatArray:
        """(count, d) action vectors that were taken somewhere."""
        return np.asarray(self.actions[rng.integers(len(self.actions), size=count)])


def check_point_scm(
    scm: PointSCM,
    episodes: Sequence[Episode],
    actions: ArrayLike | None = None,
    trials: int = 50,
    seed: Seed = 0,
) -> None:
    """Check a causal model with point abduction on observed episodes.

    * the noise that `infer` reads off a transition makes `step` reproduce it;
    * the same rows lead to the same states;
    * features said to be fixed stay, whatever the action;
    * `replay` agrees with `step`;
    * stated Lipschitz constants hold for random pairs of states;
    * stated slopes hold for random states of random regions;
    * an element-wise model moves feature i by its own noise only, and always the same way.
    """
    rng = generator(seed)
    vectors = None if actions is None else np.asarray(actions, dtype=np.float64)
    moving = [episode for episode in episodes if len(episode) > 1]
    if not moving:
        raise InputError("none of the episodes has a transition: pass one with two states or more")
    for episode in moving:
        _check_reproduction(scm, episode, vectors)
    data = _transitions(scm, moving, vectors)
    checks = [_check_same, _check_fixed, _check_constant, _check_slopes]
    if isinstance(data.scm, ElementwiseSCM):
        checks.append(_check_elementwise)
    for row in rng.integers(len(data.states), size=trials).tolist():
        for check in checks:
            check(data, row, rng)
    _check_replay(data, rng)


def _transitions(
    scm: PointSCM, episodes: Sequence[Episode], actions: FloatArray | None
) -> _Transitions:
    inner, scaling = scm.internal()
    before = np.concatenate([episode.states[:-1] for episode in episodes])
    after = np.concatenate([episode.states[1:] for episode in episodes])
    taken = np.concatenate([taken_vectors(episode, actions) for episode in episodes])
    if scaling is not None:
        before, after = scaling.encode_states(before), scaling.encode_states(after)
        taken = scaling.encode_actions(taken)
    return _Transitions(inner, before, taken, inner.infer(before, taken, after))


def _check_reproduction(scm: PointSCM, episode: Episode, actions: FloatArray | None) -> None:
    taken, states = taken_vectors(episode, actions), episode.states
    scm = scm.admitting(states)
    noise = scm.infer(states[:-1], taken, states[1:])
    again = np.asarray(scm.step(states[:-1], taken, noise))
    assert again.shape == states[1:].shape, (
        f"{episode.name}: step returns shape {again.shape}, expected {states[1:].shape}"
    )
    error = np.abs(again - states[1:]) / np.maximum(1.0, np.abs(states[1:]))
    t, feature = np.unravel_index(np.argmax(error), error.shape)
    assert error[t, feature] <= TOLERANCE, (
        f"{episode.name}: the abducted noise at t={t} leads to {again[t, feature]} in feature "
        f"{feature}, but {states[t + 1, feature]} was observed"
    )


def _check_fixed(data: _Transitions, row: int, rng: np.random.Generator) -> None:
    states = data.near(row, 4, rng)
    after = data.steps(row, states, data.any_actions(4, rng))
    fixed = data.scm.fixed
    assert np.array_equal(after[:, :fixed], states[:, :fixed]), (
        f"the first {fixed} features are said to be fixed, but a step changes them"
    )


def _check_constant(data: _Transitions, row: int, rng: np.random.Generator) -> None:
    constants = data.scm.lipschitz(data.noise[row : row + 1])
    if constants is None:
        return
    one, other = data.near(row, 20, rng), data.near(row, 20, rng)
    actions = data.any_actions(20, rng)
    moved = np.linalg.norm(data.steps(row, one, actions) - data.steps(row, other, actions), axis=1)
    apart = np.linalg.norm(one - other, axis=1)
    largest = constants[0] * apart * (1.0 + TOLERANCE) + 1e-12 * (1.0 + np.abs(one).max())
    worst = int(np.argmax(moved - largest))
    assert moved[worst] <= largest[worst], (
        f"two states {apart[worst]:.4g} apart lead to states {moved[worst]:.4g} apart: more than "
        f"the stated Lipschitz constant {constants[0]:.6g} allows"
    )


def _check_slopes(data: _Transitions, row: int, rng: np.random.Generator) -> None:
    centre, fixed = data.states[row], data.scm.fixed
    others = data.near(row, 30, rng, alike=True)
    # A region cut by its ball, by its box or by both; the states are those inside.
    box = np.abs(others - centre).max(axis=0) * rng.uniform(0.3, 1.0)
    radius = float(np.linalg.norm(others - centre, axis=1).max() * rng.uniform(0.3, 1.0))
    inside = (np.abs(others - centre) <= box).all(axis=1)
    inside &= np.linalg.norm(others - centre, axis=1) <= radius
    actions = data.any_actions(3, rng)
    slopes = data.scm.slopes(Region(centre, radius, box), actions, data.noise[row])
    if slopes is None or not inside.any():
        return
    away = others[inside] - centre
    for i, action in enumerate(actions):
        vectors = np.repeat(action[None], len(away) + 1, axis=0)
        after = data.steps(row, np.concatenate([centre[None], others[inside]]), vectors)
        rest = after[1:] - after[0] - away @ slopes.jacobian[i].T
        allowed = np.abs(away) @ slopes.deviation[i].T
        rounding = 1e-12 * (1.0 + np.abs(after).max())
        assert (np.abs(rest)[:, fixed:] <= (allowed + rounding)[:, fixed:]).all(), (
            f"a state within {radius:.4g} of the centre moves by more than the stated slopes allow"
        )
        direction = rng.normal(size=len(centre)) * (np.arange(len(centre)) >= fixed)
        directions = np.repeat(direction[None], len(actions), axis=0)
        along = np.abs(away) @ slopes.remainder(directions)[i]
        assert (np.abs(rest @ direction) <= along + rounding * len(centre)).all(), (
            "the stated remainder of the slopes in a direction is too small"
        )


def _check_same(data: _Transitions, row: int, rng: np.random.Generator) -> None:
    """Answers are replayed, so what a row leads to may not depend on those beside it."""
    states, actions = data.near(row, 4, rng), data.any_actions(4, rng)
    together = data.steps(row, states, actions)
    alone = np.concatenate([
        data.steps(row, states[i : i + 1], actions[i : i + 1]) for i in range(len(states))
    ])  # fmt: skip
    off = float(np.abs(together - alone).max())
    assert off <= TOLERANCE * (1.0 + float(np.abs(together).max())), (
        f"the same state and action lead elsewhere, by {off:.2g}, beside other rows: predict "
        "without chance, and in 64 bits (of PyTorch: module.double().eval())"
    )


def _check_elementwise(data: _Transitions, row: int, rng: np.random.Generator) -> None:
    scm, count = data.scm, 5
    features = data.states.shape[1] - scm.fixed
    assert data.noise.shape[1] == features, (
        f"an element-wise model has one noise variable for each of {features} moving features, "
        f"not {data.noise.shape[1]}"
    )
    states = np.repeat(data.near(row, 1, rng), count, axis=0)
    actions = np.repeat(data.any_actions(1, rng), count, axis=0)
    i = int(rng.integers(features))
    noise = np.repeat(data.noise[row][None], count, axis=0)
    noise[:, i] += np.linspace(-1.0, 1.0, count) * max(float(np.ptp(data.noise[:, i])), 1e-3)
    after = scm.step(states, actions, noise)
    others = np.delete(after, scm.fixed + i, axis=1)
    assert np.allclose(others, others[:1], rtol=TOLERANCE, atol=TOLERANCE), (
        f"noise {i} moves other features than number {scm.fixed + i}"
    )
    rises = np.diff(after[:, scm.fixed + i])
    if getattr(scm, "limits", None) is not None:
        rises = rises[rises != 0.0]
    assert (rises > 0.0).all() or (rises < 0.0).all(), (
        f"feature {scm.fixed + i} is not strictly monotone in its noise"
    )


def _check_replay(data: _Transitions, rng: np.random.Generator) -> None:
    """All transitions as one episode, whose steps offer a few of the actions each."""
    n, N = len(data.states), 3
    vectors = np.stack([data.any_actions(N, rng) for _ in range(n)])
    replay = data.scm.replay(vectors, data.noise, data.states[0])
    for row in range(min(n, 20)):
        states = data.near(row, 4, rng)
        after = replay.children(row, states)
        for action in range(N):
            chosen = np.full(len(states), action)
            expected = data.steps(row, states, vectors[row][chosen])
            size = np.maximum(1.0, np.abs(expected))
            for found in (after[:, action], replay.follow(row, states, chosen)):
                worst = float((np.abs(found - expected) / size).max())
                assert worst <= TOLERANCE, f"replay misses step by {worst:.3g}"


def follow_sequence(
    problem: Problem, k: int, explanation: Explanation
) -> tuple[float, Callable[[], float]]:
    """What a sequence earns by replaying it, its rules checked; and what brute force finds."""
    assert isinstance(explanation, SequenceExplanation), "a continuous solver must give a sequence"
    world = SequenceWorld(problem)
    value = world.value_of(explanation.actions)
    taken = world.bonus[np.arange(world.decisions), explanation.actions]
    stated = float(world.reward.by_step(explanation.states, taken).sum())
    assert close(value, stated), f"k={k}: the stated states earn {stated}, not {value}"
    spent = sum(world.price(t, int(action)) for t, action in enumerate(explanation.actions))
    assert spent <= k, f"the sequence spends {spent} > {k}"
    for t, observed, alternative in explanation.changes:
        assert observed == world.observed[t], f"t={t}: {observed} was not observed"
        assert world.rules.alternatives[t, alternative], (
            f"the sequence takes action {alternative} at t={t}, where it is not allowed"
        )
    changed = np.flatnonzero(np.array(world.observed) != explanation.actions)
    assert changed.tolist() == [change.t for change in explanation.changes], (
        "the changes are not where the actions differ from the observed ones"
    )
    return value, lambda: world.best((0, world.states[0], k)).value


def random_sequence_problems(
    count: int, seed: Seed = 0, *, horizon: int = 5, n_actions: int = 3, k: int = 3
) -> list[Problem]:
    """Problems of up to `horizon` states, `n_actions` actions and budget `k`, the kinds of models
    in turn, with constraints of every sort here and there."""
    rng = generator(seed)
    least, most = (1, 2, 0), (horizon + 1, n_actions + 1, k + 1)
    problems = []
    for kind in islice(cycle(MODELS.values()), count):
        scm = kind(rng)
        T, N, budget = (int(size) for size in rng.integers(least, most))
        problems.append(random_sequence_problem(scm, rng, horizon=T, n_actions=N, k=budget))
    return problems


def random_sequence_problem(
    scm: PointSCM, rng: np.random.Generator, *, horizon: int, n_actions: int, k: int
) -> Problem:
    """A problem about an episode that the model itself has made."""
    vectors = rng.uniform(-1.0, 1.0, size=(n_actions, COMPONENTS))
    if rng.random() < 0.3:  # the last component is replayed from the episode
        vectors = np.repeat(vectors[None], horizon - 1, axis=0)
        vectors[:, :, -1] = rng.uniform(-1.0, 1.0, size=(horizon - 1, 1))
    taken = rng.integers(n_actions, size=horizon - 1)
    states = [rng.normal(size=FEATURES)]
    for t in range(horizon - 1):
        vector = vectors[t, taken[t]] if vectors.ndim == 3 else vectors[taken[t]]
        noise = 0.5 * rng.normal(size=(1, MOVING))
        states.append(scm.step(states[-1][None], vector[None], noise)[0])
    return Problem(
        scm,
        Episode(np.stack(states), taken),
        k,
        _random_constraints(rng, horizon - 1, n_actions),
        actions=vectors,
        reward=_random_episode_reward(rng, horizon - 1, n_actions),
    )


def _random_constraints(rng: np.random.Generator, decisions: int, n_actions: int) -> Constraints:
    def some(probability: float) -> bool:
        return bool(rng.random() < probability) and decisions > 0

    return Constraints(
        allowed=rng.random((decisions, n_actions)) < 0.8 if some(0.3) else None,
        fixed_steps=[int(rng.integers(decisions))] if some(0.2) else (),
        change_costs=rng.integers(1, 3, size=n_actions) if some(0.3) else None,
        max_move=float(rng.uniform(0.5, 2.0)) if some(0.2) else None,
    )


def _random_episode_reward(
    rng: np.random.Generator, decisions: int, n_actions: int
) -> Reward | EpisodeReward:
    """In two of three problems of states only."""
    state, rng = _random_reward(rng), rng.spawn(1)[0]
    if rng.random() < 0.67:
        return state
    shape = (decisions, n_actions) if rng.random() < 0.5 else (n_actions,)
    linear = LinearReward(rng.normal(size=FEATURES), float(rng.normal()))
    parts: list[Reward] = [linear, LogisticReward(linear, float(3.0 * rng.normal()))]
    final = parts[: rng.integers(3)]
    return EpisodeReward(state, final, rng.normal(size=shape))


def _random_reward(rng: np.random.Generator) -> Reward:
    weights = rng.normal(size=FEATURES)
    if rng.random() < 0.6:
        return LinearReward(weights, float(rng.normal()))
    target = float(rng.normal())
    steepness = float(np.linalg.norm(weights)) * (1.0 + 1e-12)
    return LipschitzReward(lambda states: -np.abs(states @ weights - target), steepness)


def _matrix(rng: np.random.Generator, rows: int, columns: int, norm: float) -> FloatArray:
    drawn = rng.normal(size=(rows, columns))
    return np.asarray(norm * drawn / np.linalg.norm(drawn, 2))


def linear_model(rng: np.random.Generator) -> PointSCM:
    """s' = own s + dose a + u, slopes known exactly."""
    own, dose = _matrix(rng, MOVING, FEATURES, 0.9), rng.normal(size=(MOVING, COMPONENTS))

    def slopes(region: Region, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        exact = np.repeat(own[None], len(actions), axis=0)
        return exact, np.zeros_like(exact)

    return AdditiveNoiseSCM(
        lambda states, actions: states @ own.T + actions @ dose.T,
        lipschitz=0.9 * (1.0 + 1e-12),
        fixed=FIXED,
        slopes=slopes,
    )


def waves_model(rng: np.random.Generator) -> PointSCM:
    """s' = own s + outward sin(inward s + dose a) + u, whose slopes over a region are
    own + outward diag(cos) inward."""
    own, outward = _matrix(rng, MOVING, FEATURES, 0.5), _matrix(rng, MOVING, 5, 1.0)
    inward, dose = _matrix(rng, 5, FEATURES, 1.0), rng.normal(size=(5, COMPONENTS))

    def slopes(region: Region, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        angle = region.centre @ inward.T + actions @ dose.T
        turn = np.minimum(
            np.linalg.norm(inward, axis=1) * region.radius, np.abs(inward) @ region.box
        )
        jacobian = own + (outward * np.cos(angle)[:, None, :]) @ inward
        deviation = (np.abs(outward) * np.minimum(turn, 2.0)) @ np.abs(inward) + 1e-12
        return jacobian, np.repeat(deviation[None], len(actions), axis=0)

    return AdditiveNoiseSCM(
        lambda states, actions: (
            states @ own.T + np.sin(states @ inward.T + actions @ dose.T) @ outward.T
        ),
        lipschitz=1.5 * (1.0 + 1e-12),
        fixed=FIXED,
        slopes=slopes,
    )


def location_scale_model(rng: np.random.Generator) -> PointSCM:
    """s' = outward sin(inward s + dose a) + (1 + 0.8 tanh(spread s)) * u, constants only."""
    outward, inward = _matrix(rng, MOVING, 5, 1.0), _matrix(rng, 5, FEATURES, 1.1)
    dose, spread = rng.normal(size=(5, COMPONENTS)), _matrix(rng, MOVING, FEATURES, 0.5)
    return LocationScaleSCM(
        lambda states, actions: np.sin(states @ inward.T + actions @ dose.T) @ outward.T,
        lambda states, actions: 1.0 + 0.8 * np.tanh(states @ spread.T),
        lipschitz=(1.1 * (1.0 + 1e-12), 0.4 * (1.0 + 1e-12)),
        fixed=FIXED,
    )


def post_nonlinear_model(rng: np.random.Generator) -> PointSCM:
    """s' = 2 arsinh(own s + outward sin(dose a) + u), constants only."""
    own, outward = _matrix(rng, MOVING, FEATURES, 0.6), rng.normal(size=(MOVING, 5))
    dose = rng.normal(size=(5, COMPONENTS))
    return PostNonlinearSCM(
        lambda states, actions: states @ own.T + np.sin(actions @ dose.T) @ outward.T,
        link=lambda values: 2.0 * np.arcsinh(values),
        inverse=lambda values: np.sinh(0.5 * values),
        lipschitz=(0.6 * (1.0 + 1e-12), 2.0),
        fixed=FIXED,
    )


def neural_model(rng: np.random.Generator) -> NeuralSCM:
    """Random weights, about as nonlinear as a trained model."""

    def network(norm: float) -> dict[str, Any]:
        return {
            "state": _matrix(rng, 12, FEATURES, norm),
            "bias": 0.5 * rng.normal(size=12),
            "action": rng.normal(size=(12, COMPONENTS)),
            "output": _matrix(rng, MOVING, 12, norm),
            "output_bias": 0.3 * rng.normal(size=MOVING),
        }

    return NeuralSCM.from_weights(network(1.1), network(0.6), np.eye(MOVING), fixed=FIXED)


def smooth_model(rng: np.random.Generator) -> SmoothSCM:
    """Random weights, as units of one and of two inputs have them."""

    def network(units: int, norm: float) -> CosineNetwork:
        rows = rng.normal(size=(units, FEATURES + COMPONENTS))
        rows *= rng.random(rows.shape) < 0.4
        return CosineNetwork(
            state=rows[:, :FEATURES],
            bias=rng.uniform(0.0, 6.0, units),
            action=rows[:, FEATURES:],
            output=norm * rng.normal(size=(MOVING, units)) / np.sqrt(max(units, 1)),
            output_bias=0.3 * rng.normal(size=MOVING),
            skip=_matrix(rng, MOVING, FEATURES, norm),
            action_skip=0.3 * rng.normal(size=(MOVING, COMPONENTS)),
        )

    scale = network(int(rng.integers(2)) * 6, 0.4)
    return SmoothSCM(network(15, 0.6), scale, np.eye(MOVING), fixed=FIXED)


def scaled_neural_model(rng: np.random.Generator) -> NeuralSCM:
    """The same in physical units."""
    states = rng.normal(size=FEATURES), rng.uniform(0.5, 5.0, size=FEATURES)
    actions = rng.normal(size=COMPONENTS), rng.uniform(0.5, 2.0, size=COMPONENTS)
    return replace(neural_model(rng), scaling=Scaling(*states, *actions))


def held_model(rng: np.random.Generator) -> SmoothSCM | NeuralSCM:
    """Features that cannot leave a range, which is so narrow that many would."""
    kind = scaled_neural_model if rng.random() < 0.5 else smooth_model
    found: SmoothSCM | NeuralSCM = kind(rng)
    low, wide = rng.uniform(-1.0, 0.0, MOVING), rng.uniform(0.2, 2.0, MOVING)
    limits = np.column_stack([np.where(rng.random(MOVING) < 0.2, -np.inf, low), low + wide])
    if found.scaling is not None:
        limits = limits * found.scaling.state_range[FIXED:, None]
        limits += found.scaling.state_offset[FIXED:, None]
    return replace(found, limits=limits)


MODELS: dict[str, Callable[[np.random.Generator], PointSCM]] = {
    "linear": linear_model,
    "waves": waves_model,
    "location-scale": location_scale_model,
    "post-nonlinear": post_nonlinear_model,
    "neural": neural_model,
    "scaled neural": scaled_neural_model,
    "smooth": smooth_model,
    "held": held_model,
}
