"""What a plan made by hand would have led to: the observed actions, some of them changed.

Abduction infers the noise behind the episode, the plan's actions replace the observed ones, and the
model is run again under the same noise:

    discrete    the plan is followed whatever state comes about, and under the counterfactual law
                (Eq. 3 of the 2021 paper) value = E[ sum_t R(s_t, a_t) ]
    continuous  s_{t+1} = F_t(s_t, a_t), value = sum_t R(s_t): one trajectory
    executed    d_{t+1} = step_t(x_t, d_t, a_t) along the path that was

Nothing is searched, so nothing is known of better plans: the status is 'heuristic'.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.problem import Problem
from counterplan.core.result import Explanation, Status
from counterplan.core.reward import EpisodeReward, Reward
from counterplan.core.validation import FloatArray
from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation, prepare
from counterplan.counterfactual.discrete.distributions import PolicyProcess
from counterplan.counterfactual.discrete.dynamic_program import (
    PolicyTable,
    Setting,
    evaluate,
    keep_observed,
)
from counterplan.counterfactual.discrete.laws import Law, RowIds
from counterplan.counterfactual.explain import Options, pose
from counterplan.errors import InputError
from counterplan.scm.point import PointSCM, nearest_vectors
from counterplan.scm.tabular import Rows

if TYPE_CHECKING:
    from counterplan.core.doses import Doses
    from counterplan.counterfactual.continuous.claims import SequenceExplanation
    from counterplan.counterfactual.executed.setting import AllocationExplanation
    from counterplan.planning.model import ExogenousModel

METHOD = "by hand"
# Bytes of rows and expectations that a cache holds.
CACHE_BYTES = 128 * 2**20


@overload
def replay(
    scm: PointSCM,
    episode: Episode,
    changes: Mapping[int, Any],
    *,
    actions: ArrayLike | Doses | None = None,
    reward: Reward | EpisodeReward | None = None,
    cache: RowCache | None = None,
) -> SequenceExplanation: ...
@overload
def replay(
    scm: ExogenousModel, episode: Episode, changes: Mapping[int, Any]
) -> AllocationExplanation: ...
@overload
def replay(
    scm: Any, episode: Episode, changes: Mapping[int, Any], *, cache: RowCache | None = None
) -> PolicyExplanation: ...
def replay(
    scm: Any,
    episode: Episode,
    changes: Mapping[int, Any],
    *,
    actions: ArrayLike | Doses | None = None,
    reward: Reward | EpisodeReward | None = None,
    cache: RowCache | None = None,
) -> Explanation:
    """What the observed actions with these `changes`, step -> action, would have led to.

    scm, episode     as in `explain`
    changes          an action is its number; of a discrete model also its label, of a continuous
                     one a vector of `actions`, or of `Doses` any doses within their limits; of
                     a planning problem the amounts that are spent
    actions, reward  continuous models: action vectors and what a state is worth, as in `explain`
    cache            discrete models: makes the next replay of the same episode faster

    The result has `value`, `factual_value`, `improvement`, `states`, `actions`, `changes`, and
    `interval`: the values that other causal models with the same probabilities give the plan, and
    `support`: how far it leaves the data, where the model knows its data.
    """
    if not isinstance(changes, Mapping):
        raise InputError(
            f"changes are a {type(changes).__name__}: pass a mapping from steps to actions"
        )
    anywhere = Constraints(supported=False)
    asked = Options(actions=actions, reward=reward, constraints=anywhere)
    kind, problem = pose(scm, episode, len(changes), asked)
    if kind == "continuous":
        return _replay_sequence(problem, changes)
    if kind == "planning":
        return _replay_allocation(problem, changes)
    return _replay_policy(problem, changes, cache)


def _check_step(t: object, episode: Episode, decisions: int) -> int:
    if isinstance(t, bool) or not isinstance(t, int | np.integer) or not 0 <= t < decisions:
        raise InputError(
            f"{episode.name}: step {t} has no decision to change; there are 0..{decisions - 1}"
        )
    return int(t)


def _check_action(action: object, count: int) -> int:
    whole = isinstance(action, int | np.integer) and not isinstance(action, bool)
    if not whole or not 0 <= action < count:  # type: ignore[operator]
        raise InputError(f"action {action} is unknown; there are 0..{count - 1}")
    return int(action)  # type: ignore[call-overload, no-any-return]


def _replay_sequence(problem: Problem, changes: Mapping[int, Any]) -> SequenceExplanation:
    from counterplan.counterfactual.continuous.setting import prepare_sequence

    if problem.has_doses:
        from counterplan.counterfactual.continuous.doses import replayed_doses

        decisions = len(problem.episode) - 1
        given = {_check_step(t, problem.episode, decisions): one for t, one in changes.items()}
        return replayed_doses(problem, given)
    setting = prepare_sequence(problem)
    listed = np.asarray(problem.actions, dtype=np.float64)
    taken = setting.observed.copy()
    for step, action in changes.items():
        t = _check_step(step, problem.episode, len(taken))
        if np.ndim(action) == 0:
            taken[t] = _check_action(action, setting.n_actions)
        else:
            taken[t] = _listed(action, listed if listed.ndim == 2 else listed[t])
    return setting.explanation(problem.k, taken, math.inf, Status.HEURISTIC, METHOD, {})


def _listed(action: Any, vectors: FloatArray) -> int:
    """The number of an action vector among those of its step, (N, d)."""
    given = np.asarray(action, dtype=np.float64)
    if given.shape != vectors.shape[1:]:
        raise InputError(
            f"action {given.tolist()} has {given.size} components, but actions have "
            f"{vectors.shape[1]}"
        )
    (number,), (is_listed,) = nearest_vectors(given[None], vectors[None])
    if not is_listed:
        raise InputError(
            f"action {given.tolist()} is not in the set; the nearest is {vectors[number].tolist()}"
        )
    return int(number)


def _replay_allocation(problem: Problem, changes: Mapping[int, Any]) -> AllocationExplanation:
    from counterplan.counterfactual.executed.setting import prepare_allocation
    from counterplan.planning.evaluate import carried_out

    setting = prepare_allocation(problem)
    taken = setting.done.actions.copy()
    for step, action in changes.items():
        t = _check_step(step, problem.episode, len(taken))
        try:
            amounts = np.atleast_1d(np.asarray(action, dtype=np.float64))
        except (TypeError, ValueError):
            amounts = np.empty(0)
        if amounts.shape != taken[t].shape or not np.isfinite(amounts).all():
            raise InputError(
                f"{problem.episode.name}: the action {action!r} of step {t} must be "
                f"{taken.shape[1]} finite amounts"
            )
        taken[t] = amounts
    led = carried_out(setting.model, setting.path, taken, setting.state)
    bound = setting.sign * math.inf
    return setting.explanation(problem.k, led, bound, Status.HEURISTIC, METHOD, {})


def _replay_policy(
    problem: Problem, changes: Mapping[int, Any], cache: RowCache | None
) -> PolicyExplanation:
    setting, law = prepare(problem)
    # Nothing is chosen, so no budget is counted: one column of the tables is enough.
    free = replace(setting.constraints, costs=np.zeros_like(setting.constraints.costs))
    setting = replace(setting, constraints=free, k=0)
    table = keep_observed(setting)
    first = len(setting.episode) - 1
    for step, action in changes.items():
        t = _check_step(step, problem.episode, len(setting.episode))
        given = setting.mdp.action_number(action) if isinstance(action, str) else action
        table.actions[t] = _check_action(given, setting.mdp.n_actions)
        first = min(first, t)
    if cache is not None:
        cache.check_model(problem.scm)
    held = RowCache() if cache is None else cache
    known = CachedLaw(law.mdp, law.episode, source=law.source, law=law, cache=held)
    return PolicyExplanation(
        episode=setting.episode,
        k=problem.k,
        value=_expected_value(setting, known, table, first),
        factual_value=setting.mdp.outcome(setting.episode),
        bound=math.inf,
        status=Status.HEURISTIC,
        method=METHOD,
        process=PolicyProcess(setting, known, table),
    )


def _expected_value(setting: Setting, law: CachedLaw, table: PolicyTable, first: int) -> float:
    """What a plan earns that changes nothing before the step `first`: until there it leads where
    the episode led, so only what follows is a matter of chance."""
    episode, T = setting.episode, len(setting.episode)
    rest = Episode(episode.states[first:], episode.actions[first:], episode.id)
    ahead = evaluate(
        replace(setting, episode=rest),
        replace(law, first=first),
        PolicyTable(table.actions[first:]),
    )
    total = float(ahead[0])
    for t in range(first - 1, -1, -1):
        rewards = setting.mdp.rewards_at(t, T)
        total = float(rewards[episode.states[t], episode.actions[t]]) + total
    return total


class RowCache:
    """Counterfactual rows and expectations of earlier replays, up to `max_bytes`; what was not used
    for longest is forgotten first. Threads may share it.

    Nearly all the work of a replay goes into the rows of the actions taken and into expectations
    under them. A plan shares the rows with the one before at every step that was not edited, and
    the expectations behind the last edit.
    """

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self._max_bytes, self.used = max_bytes, 0
        self._entries: OrderedDict[Hashable, list[tuple[Any, int]]] = OrderedDict()
        self._lock = threading.Lock()
        self._model: Any = None

    def check_model(self, model: Any) -> None:
        """Forget everything if it is about another model."""
        with self._lock:
            if model is not self._model:
                self._model, self.used = model, 0
                self._entries.clear()

    def find(self, key: Hashable) -> list[Any]:
        """All that is held under a key."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return [entry for entry, _ in self._entries.get(key, ())]

    def add(self, key: Hashable, entry: Any, size: int) -> None:
        """Hold one more thing of so many bytes under a key."""
        if size > self._max_bytes:
            return
        with self._lock:
            self._entries.setdefault(key, []).append((entry, size))
            self._entries.move_to_end(key)
            self.used += size
            while self.used > self._max_bytes:
                _, forgotten = self._entries.popitem(last=False)
                self.used -= sum(one for _, one in forgotten)


@dataclass(frozen=True, eq=False, kw_only=True)
class CachedLaw(Law):
    """A law whose rows and expectations about one episode are held in a cache.

    first  the step of the episode that is called 0 here: to ask about the rest of it alone
    """

    law: Law
    cache: RowCache
    first: int = 0
    compiled = None

    def expect(self, t: int, rows: RowIds, values: FloatArray) -> FloatArray:
        key = (self.episode, self.first + t, rows.tobytes(), values.shape, values.tobytes())
        for known in self.cache.find(key):
            return np.asarray(known)
        result = super().expect(t, rows, values)
        self.cache.add(key, result, result.nbytes)
        return result

    def rows_at(self, t: int, rows: RowIds) -> Rows:
        key = (self.episode, self.first + t)
        for ids, block in self.cache.find(key):
            known = _select(ids, block, rows)
            if known is not None:
                return known
        found = self.law.rows_at(self.first + t, rows)
        size = rows.nbytes + sum(array.nbytes for array in found.arrays)
        self.cache.add(key, (rows, found), size)
        return found


def _select(ids: RowIds, rows: Rows, wanted: RowIds) -> Rows | None:
    """The wanted of some rows, by their ids in rising order; None if one of them is not here."""
    if np.array_equal(ids, wanted):
        return rows
    places = np.searchsorted(ids, wanted)
    if (places == len(ids)).any() or (ids[places] != wanted).any():
        return None
    return rows.take(places)
