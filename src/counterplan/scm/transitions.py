"""Observed transitions (s, a, s') of continuous episodes, ready to be learned from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from counterplan.core.episode import Episode, listed_episodes
from counterplan.core.validation import FloatArray, IntArray
from counterplan.errors import InputError
from counterplan.scm.point import taken_vectors


@dataclass(frozen=True, eq=False)
class Transitions:
    """n transitions in physical units.

    before, after  (n, D) states
    actions        (n, d) action vectors
    episode        (n,) which episode each comes from, 0..E-1
    features       (D,) names of the features, None if they have none
    action_names   (d,) names of the components of actions, likewise
    """

    before: FloatArray
    actions: FloatArray
    after: FloatArray
    episode: IntArray
    features: tuple[str, ...] | None = None
    action_names: tuple[str, ...] | None = None

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
        return cls(before, taken, after, episode_of, columns, components)

    def __len__(self) -> int:
        return len(self.before)

    @property
    def n_episodes(self) -> int:
        """How many episodes have at least one transition."""
        return len(np.unique(self.episode))

    def of_episodes(self, chosen: IntArray) -> Transitions:
        """Those of some episodes only."""
        kept = np.isin(self.episode, chosen)
        tables = {name: getattr(self, name)[kept] for name in ("before", "actions", "after")}
        return replace(self, **tables, episode=self.episode[kept])

    def parts(self, count: int, rng: np.random.Generator) -> list[IntArray]:
        """The episodes, shuffled and dealt into `count` parts of nearly equal size."""
        shuffled = rng.permutation(np.unique(self.episode))
        return [np.sort(part) for part in np.array_split(shuffled, count)]

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
