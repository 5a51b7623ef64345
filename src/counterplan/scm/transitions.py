"""Observed transitions (s, a, s') of continuous episodes, ready to be learned from.

A cell that cannot be a measurement (99,999,999, or -999 for a gap) would stretch the units of its
column and rule the likelihood. So a column has a plausible range: of its values v_1 < ... < v_m
those of the outer tenths are outside that lie beyond a gap which is wide against what is inside,

    v_{i+1} - v_i > w (v_i - v_{m/10}),      w = 3, or 1/2 where all beyond are usual codes of gaps,

and likewise below. Heavy tails have no such gaps: a value would have to be about four times the
next one. Transitions with a cell outside are not learned from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from counterplan.core.episode import Episode, listed_episodes
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.errors import InputError
from counterplan.scm.point import taken_vectors

# Gaps that set values apart, relative to the range inside; and fewest values to tell by, if they
# are no usual codes.
APART, CODE_APART = 3.0, 0.5
FEWEST, MANY = 8, 50
# A zero is mostly real: "none". As rare as this, it is a value like others.
RARE_ZERO = 0.01
# Share of the transitions that must be left.
LEAST_KEPT = 0.5


@dataclass(frozen=True, eq=False)
class Transitions:
    """n transitions in physical units.

    before, after  (n, D) states
    actions        (n, d) action vectors
    episode        (n,) which episode each comes from, 0..E-1
    features       (D,) names of the features, None if they have none
    action_names   (d,) names of the components of actions, likewise
    ids            (E,) of the episodes, None unless each has one of its own
    """

    before: FloatArray
    actions: FloatArray
    after: FloatArray
    episode: IntArray
    features: tuple[str, ...] | None = None
    action_names: tuple[str, ...] | None = None
    ids: tuple[str, ...] | None = None

    @classmethod
    def collect(
        cls,
        episodes: Iterable[Episode],
        actions: FloatArray | None = None,
        features: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
    ) -> Transitions:
        """All transitions of the episodes. `actions` are the vectors (N, d) that action indices
        stand for, not needed where episodes hold vectors themselves."""
        every = listed_episodes(episodes)
        for episode in every:
            if episode.states.ndim != 2:
                raise InputError(
                    f"{episode.name}: its states are indices: this model needs features, (T, D) "
                    "numbers"
                )
        vectors = [np.asarray(taken_vectors(one, actions), dtype=np.float64) for one in every]
        for one, taken in zip(every, vectors, strict=True):
            for table, first, what in (
                (one.states, every[0].states, "features"),
                (taken, vectors[0], "action components"),
            ):
                if table.shape[1] != first.shape[1]:
                    raise InputError(
                        f"{one.name} has {table.shape[1]} {what}, but {every[0].name} has "
                        f"{first.shape[1]}: all episodes need the same"
                    )
        if not sum(map(len, vectors)):
            raise InputError(
                f"{len(every)} episodes without a single transition: an episode needs two states; "
                "give longer ones"
            )
        before = np.concatenate([one.states[:-1] for one in every])
        after = np.concatenate([one.states[1:] for one in every])
        taken = np.concatenate(vectors)
        episode_of = np.repeat(np.arange(len(every)), [len(part) for part in vectors])
        columns = names(features, before.shape[1], "features")
        components = names(action_names, taken.shape[1], "action_names")
        ids = tuple(one.id for one in every if one.id is not None)
        own = ids if len(set(ids)) == len(every) else None
        return cls(before, taken, after, episode_of, columns, components, own)

    def __len__(self) -> int:
        return len(self.before)

    @property
    def n_episodes(self) -> int:
        """How many episodes have at least one transition."""
        return len(np.unique(self.episode))

    def of_episodes(self, chosen: IntArray) -> Transitions:
        """Those of some episodes only."""
        return self._those(np.isin(self.episode, chosen))

    def _those(self, kept: BoolArray) -> Transitions:
        tables = {name: getattr(self, name)[kept] for name in ("before", "actions", "after")}
        return replace(self, **tables, episode=self.episode[kept])

    def shuffled(self, rng: np.random.Generator) -> IntArray:
        """The episodes at random: by their ids, where they have some, so that neither the order of
        a table nor what else it holds decides where an episode comes."""
        every = np.unique(self.episode)
        if self.ids is None:
            return rng.permutation(every)
        salt = rng.bytes(16)
        ranks = [blake2b(self.ids[one].encode(), key=salt).digest() for one in every]
        return every[sorted(range(len(every)), key=ranks.__getitem__)]

    def parts(self, count: int, rng: np.random.Generator) -> list[IntArray]:
        """The episodes, shuffled and dealt into `count` parts of nearly equal size."""
        return [np.sort(part) for part in np.array_split(self.shuffled(rng), count)]

    def plausible(self, components: Sequence[int] = ()) -> Transitions:
        """Those whose states, and whose action components with these numbers, lie in the range that
        is plausible for their column; an error if that is the smaller part."""
        columns = [*zip(self.before.T, self.after.T, strict=True)]
        columns += [(self.actions[:, place],) * 2 for place in components]
        kept = np.ones(len(self), dtype=np.bool_)
        for before, after in columns:
            low, high = plausible_range(np.concatenate([before, after]))
            kept &= (before >= low) & (before <= high) & (after >= low) & (after <= high)
        if kept.all():
            return self
        if not can_spare(int(np.sum(~kept)), len(self)):
            raise InputError(
                f"{np.sum(~kept):,} of {len(self):,} transitions hold a value far outside all "
                "others, such as -999: too many to leave them out; empty these cells, or say low, "
                "high, outside = 'missing' and missing = 'carry-forward' for their columns"
            )
        return self._those(kept)

    def without(self, rows: BoolArray) -> Transitions:
        """Those without some rows (n,), all where too few would be left."""
        return self._those(~rows) if can_spare(int(rows.sum()), len(self)) else self

    def feature(self, column: int) -> str:
        """How messages call a feature."""
        return f"feature {column}" + (f" ({self.features[column]})" if self.features else "")

    def check_fixed(self, fixed: int) -> None:
        """Raise if one of the first `fixed` features changes, or if none is left to change."""
        if fixed >= self.before.shape[1]:
            raise InputError(
                f"fixed is {fixed}, but states have {self.before.shape[1]} features: at least one "
                "must be free to change"
            )
        moved = np.argwhere(self.before[:, :fixed] != self.after[:, :fixed])
        if moved.size:
            row, column = (int(i) for i in moved[0])
            raise InputError(
                f"{self.feature(column)} is declared fixed but goes from "
                f"{self.before[row, column]} to {self.after[row, column]} in episode number "
                f"{self.episode[row]}: put the fixed features first and correct `fixed`"
            )


def can_spare(count: int, transitions: int) -> bool:
    """Whether enough is left to learn from without some transitions."""
    return count <= (1.0 - LEAST_KEPT) * transitions


def names(given: Sequence[str] | None, count: int, what: str) -> tuple[str, ...] | None:
    """Names as a tuple: as many as there are columns, each once."""
    if given is None:
        return None
    if isinstance(given, str) or not all(isinstance(name, str) for name in given):
        raise InputError(f"{what} must be a list of names, got {given!r}")
    if len(given) != count:
        raise InputError(f"{len(given)} {what} given, but the data has {count} columns")
    if len(set(given)) != len(given):
        twice = next(name for name in given if list(given).count(name) > 1)
        raise InputError(f"{what}: the name {twice!r} occurs twice")
    return tuple(given)


# --- What a column may hold -------------------------------------------------------------------


def is_code(value: float) -> bool:
    """Whether a number is one that people write for a gap: -999, 9999, 99.9, 888, 1e9."""
    digits = f"{abs(value):.12g}".replace(".", "").lstrip("0")
    is_power = abs(value) >= 1e5 and math.log10(abs(value)).is_integer()
    repeated = len(digits) > 1 and len(set(digits)) == 1 and digits[0] in "789"
    return is_power or repeated


def plausible_range(values: FloatArray) -> tuple[float, float]:
    """The smallest and largest of some finite values once those are left out that lie far from all
    others; everything if there is none."""
    if not len(values):
        return -math.inf, math.inf
    distinct, counts = np.unique(values, return_counts=True)
    low, high = _apart(distinct), -_apart(-distinct[::-1])
    if low > 0.0 and distinct[0] == 0.0 and counts[0] > RARE_ZERO * len(values):
        low = 0.0
    # The one negative number among measurements.
    if low in (-1.0, -9.0) and len(distinct) > FEWEST and distinct[1] >= 0.0:
        low = float(distinct[1]) if (distinct % 1.0).any() else low
    return float(low), float(high)


def _apart(distinct: FloatArray) -> float:
    """The smallest of some ordered values that is not set apart from those above it."""
    m = len(distinct)
    # Among few values a code would be a tenth of them by itself.
    inside = distinct if m > MANY else distinct[[not is_code(value) for value in distinct]]
    if len(inside) < 2:
        return float(distinct[0])
    places = np.arange(min(max(m // 10, 2), m - 2), 0, -1)
    gap, width = np.diff(distinct)[places - 1], inside[-1 - len(inside) // 10] - distinct[places]
    for place in places[gap > CODE_APART * width]:
        are_codes = all(map(is_code, distinct[:place]))
        is_far = m - place >= FEWEST and gap[places == place] > APART * width[places == place]
        if are_codes or is_far:
            return float(distinct[place])
    return float(distinct[0])
