"""Checks of structurally decomposed MDPs: the project's own and yours."""

from __future__ import annotations

import numpy as np

from counterplan.core.validation import FloatArray, Seed, generator
from counterplan.exogenous.model import (
    Compiled,
    ExogenousModel,
    HasHindsight,
    SamplesPaths,
    State,
)
from counterplan.testing.exogenous_chance import check_chance
from counterplan.testing.exogenous_compiled import check_compiled

EPISODES = 8
TRIES = 4
TOLERANCE = 1e-9


def check_model(model: ExogenousModel, *, seed: Seed = 0) -> None:
    """Check a model along random episodes.

    * shapes are as the protocol says, and many states at once give what each gives alone;
    * a step is deterministic, its reward linear in the action (D2);
    * chance: `draw`, `successors`, `sample_paths` and `mean_path`, as far as the model has them,
      are one law (see `testing.exogenous_chance`);
    * hindsight replays to its value and is never beaten by a feasible sequence on the same path;
    * the compiled model, if there is one, does what the Python methods do.
    """
    assert isinstance(model, ExogenousModel), (
        f"{type(model).__name__} needs horizon, sense, start, draw, actions and step"
    )
    assert model.sense in ("max", "min"), f"sense is {model.sense!r}, not 'max' or 'min'"
    assert model.horizon >= 1, f"horizon is {model.horizon}: there is nothing to decide"
    start = model.start
    for name, numbers in (("exogenous", start.exogenous), ("resource", start.resource)):
        assert np.ndim(numbers) == 1, f"start.{name} must have one dimension: {np.shape(numbers)}"
    rng = generator(seed)
    episodes = [_episode(model, rng) for _ in range(EPISODES)]
    states = [state for visited in episodes for state in visited]
    for state in states:
        _check_step(model, state)
    check_chance(model, states, rng)
    if isinstance(model, HasHindsight):
        for visited in episodes:
            _check_hindsight(model, visited, rng)
    if isinstance(model, Compiled):
        check_compiled(model, states, rng)


def _episode(model: ExogenousModel, rng: np.random.Generator) -> list[State]:
    """The states of an episode played at random."""
    state, states = model.start, []
    for t in range(model.horizon):
        assert state.t == t, f"the state before decision {t} says t={state.t}"
        states.append(state)
        actions = _actions(model, state)
        action = actions[rng.integers(len(actions))][None]
        _, resource = _step(model, t, state.exogenous[None], state.resource[None], action)
        if t + 1 < model.horizon:
            drawn = np.asarray(model.draw(t, state.exogenous[None], rng))
            shape = (1, len(state.exogenous))
            assert drawn.shape == shape, f"draw at t={t} gives {drawn.shape}, expected {shape}"
            state = State(t + 1, drawn[0], resource[0])
    return states


def _played(
    model: ExogenousModel, path: FloatArray, state: State, rng: np.random.Generator
) -> float:
    """What random actions earn along a path from a state on."""
    total, resource = 0.0, state.resource
    for s, x in enumerate(path):
        actions = _actions(model, State(state.t + s, x, resource))
        action = actions[rng.integers(len(actions))][None]
        reward, after = _step(model, state.t + s, x[None], resource[None], action)
        total, resource = total + float(reward[0]), after[0]
    return total


def _actions(model: ExogenousModel, state: State) -> FloatArray:
    actions = np.asarray(model.actions(state))
    assert actions.ndim == 2, f"actions at t={state.t} must be (m, A), got {actions.shape}"
    assert len(actions) > 0, f"there is no action at t={state.t} with {_where(state)}"
    assert np.isfinite(actions).all(), f"actions at t={state.t} are not finite: {actions.tolist()}"
    return actions


def _step(
    model: ExogenousModel, t: int, x: FloatArray, d: FloatArray, actions: FloatArray
) -> tuple[FloatArray, FloatArray]:
    rewards, after = (np.asarray(part) for part in model.step(t, x, d, actions))
    n = len(actions)
    assert rewards.shape == (n,), f"step at t={t} gives rewards {rewards.shape}, expected ({n},)"
    assert after.shape == d.shape, f"step at t={t} gives {after.shape}, expected {d.shape}"
    return rewards, after


def _check_step(model: ExogenousModel, state: State) -> None:
    """All actions at once, each alone, again, and halfway between two."""
    actions = _actions(model, state)
    m, t = len(actions), state.t
    x, d = np.repeat(state.exogenous[None], m, axis=0), np.repeat(state.resource[None], m, axis=0)
    rewards, after = _step(model, t, x, d, actions)
    again, after_again = model.step(t, x, d, actions)
    assert np.array_equal(rewards, again), f"step at t={t} gives other rewards the second time"
    assert np.array_equal(after, after_again), f"step at t={t} gives other levels the second time"
    for i in range(m):
        alone, level = model.step(t, x[i : i + 1], d[i : i + 1], actions[i : i + 1])
        assert _close(alone[0], rewards[i]), (
            f"action {actions[i].tolist()} at t={t} earns {rewards[i]} among others but "
            f"{alone[0]} alone"
        )
        assert _close(level[0], after[i]), (
            f"action {actions[i].tolist()} at t={t} leads to {after[i].tolist()} among others but "
            f"to {np.asarray(level[0]).tolist()} alone"
        )
    halfway = (actions[:1] + actions[-1:]) / 2
    between, _ = model.step(t, x[:1], d[:1], halfway)
    expected = (rewards[0] + rewards[-1]) / 2
    scale = 1.0 + np.abs(rewards).max()
    assert abs(between[0] - expected) <= TOLERANCE * scale, (
        f"the reward at t={t} is not linear in the action (D2): halfway between "
        f"{actions[0].tolist()} and {actions[-1].tolist()} it is {between[0]}, not {expected}"
    )


def _check_hindsight(model: HasHindsight, visited: list[State], rng: np.random.Generator) -> None:
    """Along the path of an episode, from its start and from its middle."""
    assert isinstance(model, ExogenousModel)
    path = np.stack([state.exogenous for state in visited])
    sign = 1.0 if model.sense == "max" else -1.0
    for state in (visited[0], visited[len(visited) // 2]):
        futures = path[None, state.t :]
        if isinstance(model, SamplesPaths):
            futures = np.concatenate([futures, model.sample_paths(3, rng, state)])
        found = model.allocate(futures, state)
        n, steps, _ = futures.shape
        assert np.shape(found.values) == (n,), f"allocate gives values {np.shape(found.values)}"
        assert np.shape(found.actions)[:2] == (n, steps), (
            f"allocate gives actions {np.shape(found.actions)}, expected ({n}, {steps}, A)"
        )
        replayed = _replay(model, futures, found.actions, state)
        assert _close(replayed, found.values), (
            f"hindsight from t={state.t} is said to be worth {found.values.tolist()}, but replayed "
            f"its actions are worth {replayed.tolist()}"
        )
        for _ in range(TRIES):
            played = _played(model, futures[0], state, rng)
            slack = 1e-7 * (1.0 + abs(played))
            assert sign * (found.values[0] - played) >= -slack, (
                f"hindsight from t={state.t} is worth {found.values[0]}, but actions that the "
                f"model offers are worth {played} on the same path"
            )


def _replay(
    model: ExogenousModel, futures: FloatArray, actions: FloatArray, state: State
) -> FloatArray:
    resource = np.repeat(state.resource[None], len(futures), axis=0)
    total = np.zeros(len(futures))
    for s in range(futures.shape[1]):
        reward, resource = model.step(state.t + s, futures[:, s], resource, actions[:, s])
        total += reward
    return total


def _close(found: object, expected: object) -> bool:
    return bool(np.allclose(np.asarray(found), np.asarray(expected), rtol=1e-9, atol=1e-9))


def _where(state: State) -> str:
    return f"x = {state.exogenous.tolist()} and resource {state.resource.tolist()}"
