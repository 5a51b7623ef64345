"""Tables from Gymnasium environments: what a policy does in them, one row per step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.validation import whole_number
from counterplan.errors import InputError, not_installed
from counterplan.io.frames import frame_from_arrays

if TYPE_CHECKING:
    import polars as pl


def roll_out(
    environment: Any,
    policy: Callable[[Any], Any] | None = None,
    *,
    episodes: int = 100,
    longest: int = 1_000,
    seed: int = 0,
) -> pl.DataFrame:
    """Play episodes in a Gymnasium environment and write down what happens.

    environment  one, or the name of one, such as "CartPole-v1"
    policy       the action for an observation; None draws actions at random
    longest      steps after which an episode ends in any case

    The columns are episode_id, t, obs_0, obs_1, ..., action (or action_0, ...) and reward; nothing
    is done in the last row of an episode.
    """
    whole_number(episodes, "episodes", minimum=1)
    whole_number(longest, "longest", minimum=1)
    whole_number(seed, "seed")
    made = _made(environment) if isinstance(environment, str) else environment
    for name in ("reset", "step", "action_space"):
        if not hasattr(made, name):
            raise InputError(f"{type(made).__name__} is no Gymnasium environment: it has no {name}")
    made.action_space.seed(seed)
    found: list[tuple[Any, ...]] = []
    try:
        for number in range(episodes):
            found.append(_episode(made, policy, longest, seed + number))
    finally:
        if isinstance(environment, str):
            made.close()
    observations, actions, rewards = zip(*found, strict=True)
    return frame_from_arrays(observations, actions, rewards)


def _episode(
    environment: Any, policy: Callable[[Any], Any] | None, longest: int, seed: int
) -> tuple[Any, Any, Any]:
    observation, _ = environment.reset(seed=seed)
    observations, actions, rewards = [_flat(observation)], [], []
    for _ in range(longest):
        action = environment.action_space.sample() if policy is None else policy(observation)
        observation, reward, terminated, truncated, _ = environment.step(action)
        observations.append(_flat(observation))
        actions.append(_flat(action))
        rewards.append(float(reward))
        if terminated or truncated:
            break
    return np.array(observations), np.array(actions), np.array(rewards)


def _flat(value: Any) -> Any:
    try:
        return np.asarray(value, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise InputError(
            f"observations and actions must be numbers, got {type(value).__name__}; wrap the "
            "environment with gymnasium.wrappers.FlattenObservation"
        ) from None


def _made(name: str) -> Any:
    try:
        import gymnasium
    except ImportError:
        needed = "environments by name need gymnasium"
        raise InputError(not_installed(needed, "gymnasium")) from None
    try:
        return gymnasium.make(name)
    except gymnasium.error.Error as problem:
        reason = str(problem).splitlines()[0]
        raise InputError(f"there is no environment {name!r}: {reason}") from None
