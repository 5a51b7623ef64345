"""Markov decision processes with finitely many states and actions, P(s' | s, a) and R(s, a).

Different (state, action) pairs often share one transition row: absorbing states, estimates without
data, inadmissible actions. A model holds each distinct row once, compressed, and what depends on a
row alone is computed once for each of them. Everything that users or files give is checked, with
errors that name the offending place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplan.core.episode import Episode
from counterplan.core.shown import Drawn
from counterplan.core.validation import LARGEST, BoolArray, FloatArray, IntArray
from counterplan.errors import InputError

# Sums of single-precision rows miss 1 by about 1e-7: such rows are normalised, worse ones refused.
SUM_TOLERANCE = 1e-6
# Stored rows were normalised when the model was made: what is left is rounding.
STORED_SUM_TOLERANCE = 1e-9
ROUNDING = 1e-12
# Rows that are compared at a time, so that memory stays small.
AT_ONCE = 1_000_000
# Rows are turned where they have together at least so many entries for each state, and not more
# than memory and a second allow.
LONG, MOST_TURNED = 8, 20_000_000
# Labels that are listed where none of them was meant.
MOST_SHOWN = 12


@dataclass(frozen=True, eq=False)
class Rows:
    """Row r holds probabilities[indptr[r]:indptr[r + 1]] at the states indices[same range].

    indptr         (R + 1,) where each row starts
    indices        (nnz,) next states, ascending within a row
    probabilities  (nnz,) positive
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    probabilities: FloatArray

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int32], FloatArray]:
        """The three arrays, as compiled functions take them."""
        return self.indptr, self.indices, self.probabilities

    def slice(self, row: int) -> tuple[NDArray[np.int32], FloatArray]:
        start, end = self.indptr[row], self.indptr[row + 1]
        return self.indices[start:end], self.probabilities[start:end]

    def take(self, chosen: IntArray) -> Rows:
        """Some of the rows, in that order."""
        starts, lengths = self.indptr[chosen], np.diff(self.indptr)[chosen]
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        places = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], lengths)
        return Rows(indptr, self.indices[places], self.probabilities[places])

    def dense(self, row: int, n_states: int) -> FloatArray:
        indices, probabilities = self.slice(row)
        vector = np.zeros(n_states)
        vector[indices] = probabilities
        return vector


Turned = tuple[NDArray[np.int64], NDArray[np.int32], FloatArray]
NOT_TURNED: Turned = np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0)


def turned_rows(rows: Rows, n_states: int) -> Turned:
    """The entries of rows by state: (S + 1,) where those of each state begin, the rows that they
    are of, rising, and their probabilities. Empty where rows are short."""
    indptr, indices, probabilities = rows.arrays
    if not LONG * n_states <= len(indices) <= MOST_TURNED:
        return NOT_TURNED
    owners = np.repeat(np.arange(len(rows), dtype=np.int32), np.diff(indptr))
    order = np.argsort(indices, kind="stable")
    begins = np.concatenate([[0], np.cumsum(np.bincount(indices, minlength=n_states))])
    return begins, owners[order], probabilities[order]


@dataclass(frozen=True, eq=False, init=False)
class TabularMDP(Drawn):
    """P(s' | s, a), R(s, a) and what is known about the states and actions.

    rows           distinct transition rows, each summing to 1
    row_of         (S, A) which row belongs to a pair
    rewards        (S, A) earned when the action is taken; -inf bars a pair
    admissible     (S, A) alternatives that may be chosen in a state (keeping what was done is
                   always possible), None for all
    initial        (S,) distribution of the first state, None if unknown
    final_rewards  (S,), or by action (S, A): earned on top in an episode's last state, e.g. what is
                   expected to follow
    state_labels   S names, None to use the numbers
    action_labels  A names, None to use the numbers
    visits         (S, A) how often each pair was seen in the data that the model was estimated
                   from, None if unknown; it tells what an explanation rests on
    counts         (m, 4) the transitions seen in it: state, action, next state, and how often
    mass           (S, A) of the Dirichlet posterior of a row, of which the row is the mean: prior
                   pseudo-counts and counts together
    about          plain values about the data, such as the schema of its table
    """

    rows: Rows
    row_of: NDArray[np.int32]
    rewards: FloatArray
    admissible: BoolArray | None
    initial: FloatArray | None
    final_rewards: FloatArray | None
    state_labels: tuple[str, ...] | None
    action_labels: tuple[str, ...] | None
    visits: IntArray | None
    counts: IntArray | None
    mass: FloatArray | None
    about: Mapping[str, Any]

    def __init__(
        self,
        transitions: ArrayLike | Sequence[Any],
        rewards: ArrayLike,
        *,
        admissible: ArrayLike | None = None,
        initial: ArrayLike | None = None,
        final_rewards: ArrayLike | None = None,
        state_labels: Sequence[str] | None = None,
        action_labels: Sequence[str] | None = None,
    ) -> None:
        """`transitions`: (S, A, S), or a list of A scipy.sparse matrices of shape (S, S); or rows
        and which of them each pair has, `(model.rows, model.row_of)`: checked, but not normalised
        again, so that what was saved is what is loaded, bit for bit."""
        rows, row_of = _given_rows(transitions)
        S, A = row_of.shape

        def given(check: Callable[..., Any], values: Any, *rest: Any) -> Any:
            return None if values is None else check(values, *rest)

        self.__dict__.update(
            rows=rows,
            row_of=row_of,
            rewards=_checked_rewards(rewards, "rewards", (S, A)),
            admissible=given(_checked_array, admissible, "admissible", np.bool_, (S, A)),
            initial=given(_checked_distribution, initial, S),
            final_rewards=given(_final_rewards, final_rewards, (S, A)),
            state_labels=given(_checked_labels, state_labels, S, "state"),
            action_labels=given(_checked_labels, action_labels, A, "action"),
            visits=None,
            counts=None,
            mass=None,
            about={},
        )

    def with_data(
        self,
        visits: ArrayLike | None = None,
        about: Mapping[str, Any] | None = None,
        counts: ArrayLike | None = None,
        mass: ArrayLike | None = None,
    ) -> Self:
        """The same model, knowing of the data that it was estimated from."""
        S, A = self.row_of.shape
        known: dict[str, Any] = {"about": dict(self.about if about is None else about)}
        if visits is not None:
            known["visits"] = _checked_array(visits, "visits", np.int64, (S, A))
        if counts is not None:
            given = np.asarray(counts)
            known["counts"] = _checked_array(given, "counts", np.int64, (given[..., 0].size, 4))
            if (given[:, :3] >= (S, A, S)).any() or (given[:, 3] < 1).any():
                raise InputError(
                    f"counts must name states below {S} and actions below {A}, each at least once"
                )
        if mass is not None:
            known["mass"] = array = _shaped(mass, "mass", (S, A))
            if not (np.isfinite(array) & (array > 0.0)).all():
                raise InputError("mass must be positive numbers: prior pseudo-counts and counts")
        return self._with(**known)

    def _with(self, **parts: Any) -> Self:
        """The same model with other parts, which are taken as they are."""
        other = copy(self)
        for derived in ("_last_rewards", "largest_reward", "turned", "_rules", "_entries"):
            other.__dict__.pop(derived, None)
        other.__dict__.update(parts)
        return other

    def with_rows(self, rows: Rows, row_of: NDArray[np.int32]) -> Self:
        """The same model with other rows, which are taken as they are."""
        return self._with(rows=rows, row_of=row_of)

    def without_data(self) -> Self:
        """The same model with nothing of its data, such as to be passed on."""
        return self._with(visits=None, counts=None, mass=None)

    def with_rewards(self, rewards: ArrayLike, final_rewards: ArrayLike | None) -> Self:
        """The same process with other rewards."""
        shape = self.row_of.shape
        final = None if final_rewards is None else _final_rewards(final_rewards, shape)
        return self._with(rewards=_checked_rewards(rewards, "rewards", shape), final_rewards=final)

    def _facts(self) -> dict[str, object]:
        return {"states": self.n_states, "actions": self.n_actions}

    @property
    def n_states(self) -> int:
        return int(self.row_of.shape[0])

    @property
    def n_actions(self) -> int:
        return int(self.row_of.shape[1])

    def row(self, state: int | str, action: int | str) -> FloatArray:
        """P(. | state, action), dense (S,)."""
        pair = self.state_number(state), self.action_number(action)
        return self.rows.dense(self.row_of[pair], self.n_states)

    def probability(self, state: int | str, action: int | str, next_state: int | str) -> float:
        """P(next_state | state, action)."""
        pair = self.state_number(state), self.action_number(action)
        after = self.state_number(next_state)
        indices, probabilities = self.rows.slice(self.row_of[pair])
        position = int(np.searchsorted(indices, after))
        found = position < len(indices) and indices[position] == after
        return float(probabilities[position]) if found else 0.0

    def rewards_at(self, t: int, horizon: int) -> FloatArray:
        """(S, A) rewards at step t of `horizon` steps: the last adds the final ones."""
        return self._last_rewards if t == horizon - 1 else self.rewards

    def outcome(self, episode: Episode) -> float:
        """The sum of rewards along an episode."""
        total = 0.0
        # From the last step back, as solvers add: a policy that changes nothing earns exactly this.
        for reward in self.rewards_along(episode.states, episode.actions)[::-1].tolist():
            total += reward
        return total

    def rewards_along(self, states: IntArray, actions: IntArray) -> FloatArray:
        """(T,) what each step of a path earns."""
        found = self.rewards[states, actions]
        found[-1] = self._last_rewards[states[-1], actions[-1]]
        return found

    def state_name(self, state: int) -> str:
        """Its label, or its number where states have none."""
        return self.state_labels[state] if self.state_labels else str(state)

    def action_name(self, action: int) -> str:
        """Its label, or its number where actions have none."""
        return self.action_labels[action] if self.action_labels else str(action)

    def state_number(self, state: int | str) -> int:
        """The number of a state, which may be given by its label."""
        return index_of(state, self.n_states, "state", self.state_labels)

    def action_number(self, action: int | str) -> int:
        """The number of an action, which may be given by its label."""
        return index_of(action, self.n_actions, "action", self.action_labels)

    def episode(
        self, states: Iterable[int | str], actions: Iterable[int | str], id: str | None = None
    ) -> Episode:
        """An episode by the labels of its states and actions."""
        numbered = [*map(self.state_number, states)], [*map(self.action_number, actions)]
        return Episode(*numbered, id=id)

    def check_episode(self, episode: Episode) -> None:
        """Raise unless every state, action and transition of the episode is possible here."""
        episode.check_range(self.n_states, self.n_actions)
        if len(self.entries_of(episode)) < len(episode) - 1:
            states, actions = episode.states, episode.actions
            steps = zip(states, actions, states[1:], strict=False)
            t = next(t for t, step in enumerate(steps) if not self.probability(*step))
            raise InputError(
                f"{episode.name}: the transition at t={t} (state {states[t]}, action {actions[t]} "
                f"-> state {states[t + 1]}) has probability zero in the model, so nothing can be "
                "inferred from it; check the data or estimate the model with a prior"
            )

    def entries_of(self, episode: Episode) -> IntArray:
        """Of each transition of an episode that is possible, in order, its entry of `rows`."""
        known: tuple[Any, IntArray] | None = self.__dict__.get("_entries")
        if known is not None and known[0] is episode:
            return known[1]
        states, (indptr, indices, _) = episode.states, self.rows.arrays
        rows = self.row_of[states[:-1], episode.actions[: len(states) - 1]]
        lengths = indptr[rows + 1] - indptr[rows]
        places = np.arange(lengths.sum()) + np.repeat(indptr[rows + 1] - lengths.cumsum(), lengths)
        found: IntArray = places[indices[places] == np.repeat(states[1:], lengths)]
        self.__dict__["_entries"] = episode, found
        return found

    @cached_property
    def turned(self) -> Turned:
        """The rows by state, see `turned_rows`."""
        return turned_rows(self.rows, self.n_states)

    @cached_property
    def largest_reward(self) -> float:
        """The size of the largest finite reward: rounding is measured against it."""
        both = (self.rewards, self._last_rewards)
        return max(float(np.abs(r[np.isfinite(r)]).max(initial=0.0)) for r in both)

    @cached_property
    def _last_rewards(self) -> FloatArray:
        if self.final_rewards is None:
            return self.rewards
        return self.rewards + self.final_rewards.reshape(self.n_states, -1)


def index_of(value: object, count: int, what: str, labels: Sequence[str] | None = None) -> int:
    """The number of one of a model's states or actions, by its label or as it is."""
    if isinstance(value, int | np.integer) and 0 <= value < count:
        return int(value)
    if not isinstance(value, str) or not labels:
        named = ", which have no labels" if isinstance(value, str) else ""
        raise InputError(f"unknown {what} {value}: the model has {what}s 0..{count - 1}{named}")
    if value not in labels:
        some = ", ".join(labels[:MOST_SHOWN]) + (", ..." if count > MOST_SHOWN else "")
        raise InputError(f"unknown {what} {value!r}: the model has {what}s {some}")
    return labels.index(value)


def numbers(values: ArrayLike, name: str) -> FloatArray:
    """`values` as a new array of floats, or an error that names it."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of numbers") from None


def _given_rows(transitions: ArrayLike | Sequence[Any]) -> tuple[Rows, NDArray[np.int32]]:
    """Distinct normalised rows, and the (S, A) table of which pair has which; stored ones, a pair
    of `Rows` and such a table, are checked only."""
    if isinstance(transitions, tuple) and transitions and isinstance(transitions[0], Rows):
        rows, table = transitions
        return rows, _checked_row_of(rows, table)
    matrices = _matrices(transitions)
    S = matrices[0].shape[0]
    parts = [_stochastic(given, action, S) for action, given in enumerate(matrices)]
    indices = np.concatenate([one.indices.astype(np.int32, copy=False) for one in parts])
    probabilities = np.concatenate([one.data for one in parts])
    lengths = np.concatenate([np.diff(one.indptr) for one in parts]).astype(np.int64)
    del parts
    every = Rows(np.concatenate([[0], np.cumsum(lengths)]), indices, probabilities)
    kept, row_of = distinct_rows(every)
    if len(kept) < len(every):
        every = every.take(kept)
    return every, np.ascontiguousarray(row_of.reshape(len(matrices), S).T)


def distinct_rows(rows: Rows) -> tuple[IntArray, NDArray[np.int32]]:
    """The first of all rows that are equal, and which of them every row is."""
    marks = np.empty(len(rows), dtype=np.uint64)
    for start in range(0, len(rows), AT_ONCE):
        part = slice(start, min(start + AT_ONCE, len(rows)))
        begin, end = rows.indptr[part.start], rows.indptr[part.stop]
        mixed = _mixed(rows.probabilities[begin:end].view(np.uint64))
        mixed = _mixed(mixed ^ rows.indices[begin:end].astype(np.uint64))
        marks[part] = np.add.reduceat(mixed, rows.indptr[part] - begin)
    _, first, group = np.unique(marks, return_index=True, return_inverse=True)
    original = first[group]
    # Equal marks of different rows are next to impossible; such rows are kept apart.
    lengths, copies = np.diff(rows.indptr), np.flatnonzero(original != np.arange(len(rows)))
    apart = copies[lengths[copies] != lengths[original[copies]]]
    original[apart] = apart
    for start in range(0, len(copies), AT_ONCE):
        some = copies[start : start + AT_ONCE]
        one, other = rows.take(some), rows.take(original[some])
        differ = (one.indices != other.indices) | (one.probabilities != other.probabilities)
        apart = some[np.logical_or.reduceat(differ, one.indptr[:-1])]
        original[apart] = apart
    kept, row_of = np.unique(original, return_inverse=True)
    return kept, row_of.astype(np.int32)


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64: every bit depends on all."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))


def _matrices(transitions: ArrayLike | Sequence[Any]) -> Sequence[Any]:
    """One (S, S) matrix per action, from either input form."""
    if isinstance(transitions, list | tuple) and any(hasattr(m, "tocsr") for m in transitions):
        for action, matrix in enumerate(transitions):
            if not hasattr(matrix, "tocsr"):
                raise InputError(
                    f"transitions of action {action} are a {type(matrix).__name__}, others are "
                    "sparse: give one scipy.sparse (S, S) matrix for each action"
                )
        return transitions
    try:
        dense = np.asarray(transitions, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            "transitions must be an (S, A, S) array or a list of A scipy.sparse (S, S) matrices"
        ) from None
    if dense.ndim != 3 or dense.shape[0] != dense.shape[2] or 0 in dense.shape:
        raise InputError(f"transitions have shape {dense.shape}, expected (S, A, S)")
    return [dense[:, action, :] for action in range(dense.shape[1])]


def _stochastic(given: Any, action: int, n_states: int) -> Any:
    """`given` as a CSR matrix whose rows sum to 1, or an error that says which does not."""
    from scipy.sparse import csr_array

    if getattr(given, "shape", None) != (n_states, n_states) or n_states == 0:
        raise InputError(
            f"transitions of action {action}: expected an ({n_states}, {n_states}) matrix, got "
            f"{getattr(given, 'shape', type(given).__name__)}"
        )
    matrix = csr_array(given, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    state_of = np.repeat(np.arange(n_states), np.diff(matrix.indptr))
    bad = np.flatnonzero(~(matrix.data >= 0.0) | np.isinf(matrix.data))
    if bad.size:
        entry = int(bad[0])
        raise InputError(
            f"transitions: P(state {matrix.indices[entry]} | state {state_of[entry]}, action "
            f"{action}) is {matrix.data[entry]}: probabilities must be finite and not negative"
        )
    sums = np.bincount(state_of, weights=matrix.data, minlength=n_states)
    wrong = np.flatnonzero(np.abs(sums - 1.0) > SUM_TOLERANCE)
    if wrong.size:
        state = int(wrong[0])
        more = f" (and {wrong.size - 1} more states of this action)" if wrong.size > 1 else ""
        raise InputError(
            f"transitions of state {state}, action {action} sum to {sums[state]:.9g}, not 1{more}: "
            "normalise the rows"
        )
    matrix.data /= sums[state_of]
    return matrix


def _checked_row_of(rows: Rows, row_of: ArrayLike) -> NDArray[np.int32]:
    """The (S, A) table of rows that come from outside, such as a file; raises unless they are
    distributions over the states and every pair has one."""
    table = np.asarray(row_of)
    if table.ndim != 2 or 0 in table.shape or not np.issubdtype(table.dtype, np.integer):
        raise InputError(f"row_of must hold whole numbers (S, A), got {table.dtype} {table.shape}")
    for flaw in _flaws(rows, n_states=table.shape[0]):
        raise InputError(f"rows: {flaw}")
    for state, action in np.argwhere((table < 0) | (table >= len(rows))):
        raise InputError(
            f"row_of names row {table[state, action]} for state {state}, action {action}, but "
            f"rows are 0..{len(rows) - 1}"
        )

    def pair(row: int) -> str:
        """The first pair that has the row, in words."""
        for state, action in np.argwhere(table == row):
            return f"state {state}, action {action}"
        return f"the unused row {row}"

    for bad in np.flatnonzero(~((rows.probabilities > 0.0) & (rows.probabilities <= 1.0))):
        row = int(np.searchsorted(rows.indptr, bad, side="right")) - 1
        raise InputError(
            f"transitions: P(state {rows.indices[bad]} | {pair(row)}) is "
            f"{rows.probabilities[bad]}: stored probabilities lie above 0 and up to 1"
        )
    sums = np.add.reduceat(rows.probabilities, rows.indptr[:-1])
    for wrong in np.flatnonzero(np.abs(sums - 1.0) > STORED_SUM_TOLERANCE):
        raise InputError(f"transitions of {pair(int(wrong))} sum to {sums[wrong]:.9g}, not 1")
    return table.astype(np.int32)


def _flaws(rows: Rows, n_states: int) -> Iterator[str]:
    """How rows are not compressed as `Rows` says, the first of which is to be told."""
    indptr, indices, probabilities = rows.arrays
    if any(array.ndim != 1 for array in rows.arrays):
        yield "indptr, indices and probabilities must have one dimension"
    if len(indices) != len(probabilities):
        yield f"{len(indices)} indices but {len(probabilities)} probabilities"
    if len(indptr) < 2 or indptr[0] != 0 or indptr[-1] != len(indices):
        yield f"indptr must run from 0 to the {len(indices)} entries"
    for row in np.flatnonzero(np.diff(indptr) < 1):
        yield f"row {row} has no entries"
    for state in indices[(indices < 0) | (indices >= n_states)]:
        yield f"next state {state} is not one of the states 0..{n_states - 1}"
    row_of = np.repeat(np.arange(len(rows)), np.diff(indptr))
    for place in np.flatnonzero((np.diff(row_of) == 0) & (np.diff(indices) <= 0)):
        yield f"the next states of row {row_of[place]} are not in ascending order"


def _shaped(values: ArrayLike, name: str, shape: tuple[int, ...]) -> FloatArray:
    array = numbers(values, name)
    if array.shape != shape:
        have = "have" if name.endswith("s") else "has"
        raise InputError(f"{name} {have} shape {array.shape}, but the transitions ask for {shape}")
    return array


def _checked_rewards(values: ArrayLike, name: str, shape: tuple[int, ...]) -> FloatArray:
    """Numbers, -inf for pairs that must not occur."""
    rewards = _shaped(values, name, shape)
    bad = np.argwhere(~((np.abs(rewards) <= LARGEST) | (rewards == -np.inf)))
    if bad.size:
        place = tuple(bad[0].tolist())
        where = f"state {place[0]}" + "".join(f", action {action}" for action in place[1:])
        raise InputError(
            f"{name[:-1].replace('_', ' ')} of {where} is {rewards[place]}: rewards are numbers up "
            f"to {LARGEST:g}, or -inf for what must not occur"
        )
    return rewards


def _final_rewards(values: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    return _checked_rewards(values, "final_rewards", shape[: 2 if np.ndim(values) == 2 else 1])


def _checked_array(
    values: ArrayLike, name: str, dtype: type[np.generic], shape: tuple[int, int]
) -> NDArray[Any]:
    """Booleans, or whole numbers from 0 up."""
    array = np.array(values)
    if array.dtype != dtype or array.shape != shape or not (array >= 0).all():
        wanted = "booleans" if dtype is np.bool_ else "whole numbers from 0 up"
        raise InputError(
            f"{name} must be {wanted} of shape {shape}, got {array.dtype} {array.shape}"
        )
    return array


def _checked_distribution(values: ArrayLike, n_states: int) -> FloatArray:
    initial = _shaped(values, "initial", (n_states,))
    total = initial.sum()
    if not (initial >= 0).all() or abs(total - 1.0) > SUM_TOLERANCE:
        raise InputError(
            f"initial is not a distribution: smallest entry {initial.min()}, sum {total}; "
            "normalise it"
        )
    # What is normalised already stays as it is, so that a stored model is loaded bit for bit.
    return initial if abs(total - 1.0) <= ROUNDING else np.asarray(initial / total)


def _checked_labels(values: Sequence[str], count: int, what: str) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(f"{what} labels must be a list of names, got {values!r}")
    labels = tuple(str(value) for value in values)
    if len(labels) != count:
        raise InputError(f"{len(labels)} {what} labels given for {count} {what}s")
    if len(set(labels)) < count:
        twice = next(label for label in labels if labels.count(label) > 1)
        raise InputError(f"two {what}s have the label {twice!r}: give each its own")
    return labels
