"""One model of one episode of continuous states, in the model's own units.

The counterfactual is deterministic (Eq. 6, 7 of the 2023 paper): from state s at step t the action
a leads to F_t(s, a). An alternative is a sequence of T-1 actions; its outcome is the sum of R(s)
over all T states, with what the last state and the actions earn besides (`EpisodeReward`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.problem import Problem
from counterplan.core.reward import EpisodeReward, Reward
from counterplan.core.validation import FloatArray, IntArray
from counterplan.errors import CounterplanError, InputError
from counterplan.scm.point import PointSCM, Replay, Scaling, action_indices, action_vectors

# What limits may be missed by, of the size of a state: observed ones may lie beyond them.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Member:
    """A model: the only one that is asked, or one of several.

    states    (T, D) observed
    vectors   (T-1, N, d) action vectors
    observed  (T-1,) which of them were taken
    noise     (T-1, U) abducted
    reward    of a state
    last      of the last state
    bonus     (T-1, N) what each action earns
    given     the model as it was given, in the units of the episode
    """

    scm: PointSCM
    replay: Replay
    reward: Reward
    last: Reward
    bonus: FloatArray
    states: FloatArray
    vectors: FloatArray
    observed: IntArray
    noise: FloatArray
    scaling: Scaling | None
    given: PointSCM

    @cached_property
    def step_constants(self) -> FloatArray | None:
        """(T-1,) Lipschitz constants of the steps, None where the model states none."""
        if len(self.states) == 1:
            return np.empty(0)
        given = self.scm.lipschitz(self.noise)
        if given is None:
            return None
        constants = np.asarray(given, dtype=np.float64)
        usable = np.isfinite(constants) & (constants >= 0.0)
        if constants.shape != (len(self.noise),) or not usable.all():
            raise InputError(
                f"{type(self.scm).__name__}: lipschitz must give one finite constant from 0 up for "
                f"each of {len(self.noise)} noise vectors, got {constants.tolist()}"
            )
        return constants

    @cached_property
    def terms(self) -> float:
        """The size of what the observed outcome is the sum of."""
        weights = np.abs(self.last.gradient(self.states.shape[1]))
        if self.last is not self.reward:
            weights = weights + np.abs(self.reward.gradient(self.states.shape[1]))
        terms = np.abs(self.last(self.states)) + np.abs(self.states) @ weights
        return float(terms.sum() + np.abs(self.bonus).max(axis=1, initial=0.0).sum())

    def most(self, reward: Reward) -> FloatArray:
        """(T-1,) the most that the state after each step can be worth, where the model keeps it;
        infinite where it, or the reward, does not say."""
        if not hasattr(self.scm, "ranges") or reward.remainder > 0.0:
            return np.full(len(self.noise), np.inf)
        slope = reward.gradient(self.states.shape[1])[self.scm.fixed :]
        moved = self.scm.ranges(self.noise) - self.states[0, self.scm.fixed :, None]
        counts = slope != 0.0
        gained = (slope[counts, None] * moved[:, counts]).max(axis=2).sum(axis=1)
        return np.asarray(reward(self.states[:1])[0] + gained)

    def in_episode_units(self, states: FloatArray) -> FloatArray:
        """States as the episode gives them; rounding leads no further than limits do."""
        if self.scaling is None:
            return states
        found = self.scaling.decode_states(states)
        held = self.given.held(found) if hasattr(self.given, "held") else found
        return np.where(np.abs(held - found) <= ROUNDING * (1.0 + np.abs(found)), held, found)

    def path(self, t: int, states: FloatArray, actions: IntArray) -> FloatArray:
        """(n, m + 1, D) states (n, D) of step t and those after m actions (n, m) from there."""
        if hasattr(self.replay, "path"):
            return np.asarray(self.replay.path(t, states, actions))
        path = [states]
        for step in range(actions.shape[1]):
            path.append(self.replay.follow(t + step, path[-1], actions[:, step]))
        return np.stack(path, axis=1)

    def trajectories(self, sequences: IntArray) -> FloatArray:
        """(n, T, D) the states along sequences (n, T-1) of actions."""
        return self.path(0, np.repeat(self.states[:1], len(sequences), axis=0), sequences)

    def under(self, sequence: IntArray, noises: FloatArray) -> FloatArray:
        """(n,) what a sequence (T-1,) earns under noises (n, T-1, U)."""
        n, every = len(noises), np.repeat(sequence[None], len(noises), axis=0)
        # Up to the first step that differs nothing does.
        differs = (sequence != self.observed) | (noises != self.noise).any(axis=(0, 2))
        first = int(differs.argmax()) if differs.any() else len(sequence)
        before = [np.repeat(state[None], n, axis=0) for state in self.states[: first + 1]]
        if hasattr(self.replay, "under"):
            path = self.replay.under(first, before[-1], every[:, first:], noises[:, first:])
            return self.earned(np.concatenate([np.stack(before, 1), path[:, 1:]], axis=1), every)
        for t in range(first, len(sequence)):
            vectors = np.broadcast_to(self.vectors[t, sequence[t]], (n, self.vectors.shape[2]))
            before.append(self.scm.step(before[-1], vectors, noises[:, t]))
        return self.earned(np.stack(before, axis=1), every)

    def earned(self, states: FloatArray, sequences: IntArray, t: int = 0) -> FloatArray:
        """(n,) what states (n, T-t, D) and the sequences (n, T-1-t) that lead through them earn,
        from step t on."""
        n, m, D = states.shape
        rewards = self.reward(states.reshape(n * m, D)).reshape(n, m)
        if self.last is not self.reward:
            rewards[:, -1] = self.last(states[:, -1])
        steps = np.arange(t, t + m - 1)
        return np.asarray(rewards.sum(axis=1) + self.bonus[steps, sequences].sum(axis=1))


def prepare_member(problem: Problem, scm: PointSCM) -> Member:
    """Check a model against a problem and bring the problem into its own units."""
    episode, (own, scaling) = problem.episode, scm.internal()
    if problem.actions is None:
        raise InputError("a continuous problem needs the set of actions: actions=(N, d) vectors")
    vectors = action_vectors(problem.actions, len(episode) - 1)
    observed = action_indices(episode, vectors)
    states, given = episode.states, _accepted(problem.reward)
    reward, last = given.state, given.last
    bonus = given.of_actions(*vectors.shape[:2])
    if scaling is not None:
        _check_widths(states, vectors, scaling, episode)
        states, vectors = scaling.encode_states(states), scaling.encode_actions(vectors)
        reward = scaling.encode_reward(reward, scm.fixed)
        last = scaling.encode_reward(last, scm.fixed) if given.final else reward
    last.gradient(states.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(reward(states).sum() + last(states[-1:])[0] + bonus.sum())
    if not np.isfinite(total):
        raise InputError(
            f"{episode.name}: its rewards add up to {total}: state them in larger units"
        )
    own = own.admitting(states)
    taken = vectors[np.arange(len(observed)), observed]
    noise = _inferred(own, episode, states, taken)
    replay = own.replay(vectors, noise, states[0])
    states = _replayed(replay, states, observed)
    own_units = states, vectors, observed, noise
    return Member(own, replay, reward, last, bonus, *own_units, scaling, scm)


def _accepted(given: Reward | EpisodeReward | None) -> EpisodeReward:
    if given is None:
        raise InputError("a continuous problem needs a reward: e.g. reward=LinearReward(weights)")
    whole = given if isinstance(given, EpisodeReward) else EpisodeReward(given)
    for reward in (whole.state, *whole.final):
        if isinstance(reward, type) or not isinstance(reward, Reward):
            raise InputError(
                f"reward is a {type(reward).__name__}: pass LinearReward(weights), or a function "
                "of yours as LipschitzReward(function, constant)"
            )
    return whole


def _inferred(scm: PointSCM, episode: Episode, states: FloatArray, taken: FloatArray) -> FloatArray:
    """The noise of the episode; what the model cannot read is the episode's fault, not a crash."""
    widths = f"{states.shape[1]} features and action vectors of {taken.shape[1]} components"
    try:
        noise = np.asarray(scm.infer(states[:-1], taken, states[1:]), dtype=np.float64)
    except CounterplanError:
        raise
    except (ValueError, IndexError) as problem:
        raise InputError(
            f"{episode.name}: the model cannot read states of {widths}: {problem}"
        ) from None
    if noise.ndim != 2 or len(noise) != len(taken):
        raise InputError(
            f"{type(scm).__name__}: infer returned shape {noise.shape}, expected one row of noise "
            f"for each transition: ({len(taken)}, U)"
        )
    unknown = np.flatnonzero(~np.isfinite(noise).all(axis=1))
    if unknown.size:
        t = int(unknown[0])
        raise InputError(
            f"{episode.name}: no finite noise explains the transition after t={t}: the model "
            "rules it out"
        )
    return noise


def _replayed(replay: Replay, states: FloatArray, observed: IntArray) -> FloatArray:
    """The observed states as the model replays them: the same but for rounding, and exactly what a
    search reaches by changing nothing."""
    if hasattr(replay, "path"):
        result = np.asarray(replay.path(0, states[:1], observed[None])[0])
    else:
        result = states.copy()
        for t in range(len(states) - 1):
            result[t + 1] = replay.follow(t, result[t : t + 1], observed[t : t + 1])[0]
    # Each feature in its own units, beside what rounding in others can do to it.
    sizes = np.abs(states).max(axis=0)
    allowed = 1e-6 * sizes + 1e-10 * sizes.max()
    off = np.abs(result - states)
    if not (off <= allowed).all():
        t, feature = (int(i) for i in np.argwhere(~(off <= allowed))[0])
        raise InputError(
            f"the model does not reproduce the episode: replayed, state {t} is off by "
            f"{off[t, feature]:.3g} in feature {feature}; check that infer and step are inverse to "
            "each other and that fixed features are fixed"
        )
    return result


def _check_widths(
    states: FloatArray, vectors: FloatArray, scaling: Scaling, episode: Episode
) -> None:
    features, components = len(scaling.state_offset), len(scaling.action_offset)
    if states.shape[1] != features:
        raise InputError(
            f"{episode.name}: states have {states.shape[1]} features, the model has {features}"
        )
    if vectors.shape[2] != components:
        raise InputError(
            f"action vectors have {vectors.shape[2]} components, the model takes {components}"
        )
