"""Tables of ICU stays that a neural model can be learned from, and how each is laid out.

    CohortLayout   the sepsis cohort of the AI Clinician's pipeline (`domains.sepsis`)
    IcuLayout      four-hour steps as they were recorded, gaps and all (`domains.icu_episodes`)

Actions of both are five levels each of vasopressors and fluids, numbered 5 * vasopressor + fluids;
the reward is -SOFA. Tables of any other kind are laid out by a schema: `io.schema_layout`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplan.core.episode import Episode
from counterplan.core.reward import LinearReward
from counterplan.core.validation import FloatArray
from counterplan.domains import icu_episodes, sepsis
from counterplan.domains.sepsis import DoseEdges
from counterplan.domains.sepsis_table import BLOC, HOURS, STAY
from counterplan.errors import FileError
from counterplan.files.parquet import parquet_columns
from counterplan.io.episode_parts import Recorded
from counterplan.scm.scaling import Scaling

UNDERSTOOD = (
    "discrete episodes (episode_id, t, state, action, reward), a sepsis cohort (icustayid, bloc, "
    "...) or ICU stays in four-hour steps (episode_id, t, a_vaso, a_iv, ...)"
)


@dataclass(frozen=True, eq=False)
class Stays:
    """What a table holds.

    hours    for each episode (T,): when its rows begin, in the table's unit
    summary  one line about the table
    edges    which doses make which level, None if the table has levels instead of doses
    dropped  why each stay that is left out is left out
    died     whether each patient died, none if the table does not say
    filled   how many missing values of each episode were filled in, none if none were
    """

    episodes: tuple[Episode, ...]
    hours: tuple[NDArray[Any], ...]
    summary: str
    edges: DoseEdges | None = None
    dropped: Mapping[str, str] = field(default_factory=dict)
    died: Sequence[bool] = ()
    filled: Sequence[int] = ()

    def recorded(self) -> list[Recorded]:
        """The stays as cohort runs take them."""
        died: list[tuple[tuple[str, str], ...]] = [(("died", str(int(one))),) for one in self.died]
        died = died or [()] * len(self.episodes)
        filled = list(self.filled) or [0] * len(self.episodes)
        hours = [np.asarray(times, dtype=np.float64) for times in self.hours]
        rows = zip(self.episodes, hours, filled, died, strict=True)
        return [Recorded(episode, times, int(count), what) for episode, times, count, what in rows]


class Layout(ABC):
    """A kind of table, and the problem that its stays pose.

    features   names of the columns of states
    actions    names of the components of action vectors
    fixed      leading features that never change
    has_doses  whether it holds doses, whose levels depend on edges
    """

    features: tuple[str, ...]
    actions: tuple[str, ...]
    fixed: int
    has_doses: bool = False

    @abstractmethod
    def matches(self, columns: set[str]) -> bool:
        """Whether a table with these columns is meant to be of this kind."""

    @abstractmethod
    def read(self, path: str | Path, edges: DoseEdges | None) -> Stays:
        """The stays of a table."""

    @abstractmethod
    def scaling(self, episodes: Sequence[Episode]) -> Scaling | None:
        """Physical units, None for the range of each column."""

    @abstractmethod
    def action_set(self, episode: Episode) -> FloatArray:
        """What could have been given."""

    @abstractmethod
    def reward(self) -> LinearReward:
        """What a state is worth."""


class CohortLayout(Layout):
    """See `domains.sepsis`."""

    features = sepsis.FEATURES
    actions = sepsis.ACTIONS
    fixed = len(sepsis.FIXED)
    has_doses = True

    def matches(self, columns: set[str]) -> bool:
        return bool(columns & {STAY, BLOC})

    def read(self, path: str | Path, edges: DoseEdges | None) -> Stays:
        cohort = sepsis.read_cohort(path, edges)
        return Stays(
            cohort.episodes,
            cohort.hours,
            cohort.summary(),
            cohort.edges,
            cohort.dropped,
            cohort.died.tolist(),
        )

    def scaling(self, episodes: Sequence[Episode]) -> Scaling | None:
        return sepsis.scaling_of(episodes)

    def action_set(self, episode: Episode) -> FloatArray:
        return sepsis.action_set(episode)

    def reward(self) -> LinearReward:
        return sepsis.reward()


class IcuLayout(Layout):
    """See `domains.icu_episodes`."""

    features = icu_episodes.FEATURES
    actions = icu_episodes.ACTIONS
    fixed = len(icu_episodes.FIXED)

    def matches(self, columns: set[str]) -> bool:
        return set(icu_episodes.ACTIONS) <= columns

    def read(self, path: str | Path, edges: DoseEdges | None) -> Stays:
        found = icu_episodes.read_episodes_4h(path)
        hours = tuple(HOURS * np.arange(len(episode)) for episode in found.episodes)
        died, filled = found.died.tolist(), found.filled.tolist()
        return Stays(found.episodes, hours, found.summary(), died=died, filled=filled)

    def scaling(self, episodes: Sequence[Episode]) -> Scaling | None:
        return None

    def action_set(self, episode: Episode) -> FloatArray:
        return icu_episodes.action_set()

    def reward(self) -> LinearReward:
        return icu_episodes.reward()


LAYOUTS: tuple[Layout, ...] = (CohortLayout(), IcuLayout())


def layout_of(path: str | Path) -> Layout | None:
    """The kind of a table by its columns, None if it is no table of stays."""
    columns = set(columns_of(path))
    return next((layout for layout in LAYOUTS if layout.matches(columns)), None)


def columns_of(path: str | Path) -> list[str]:
    """The columns of a .csv or .parquet file; none if it cannot be read, which is for whoever needs
    its rows to say."""
    suffix = Path(path).suffix.lower()
    # Opening a pipe would wait for whoever writes into it.
    if suffix not in (".csv", ".parquet") or not Path(path).is_file():
        return []
    if suffix == ".parquet":
        return _parquet_columns(path)
    try:
        with Path(path).open("rb") as file:
            header = file.readline(100_000).decode("utf-8-sig", errors="replace")
    except (OSError, ValueError):
        return []
    return [name.strip().strip('"') for name in header.split(",")]


def _parquet_columns(path: str | Path) -> list[str]:
    try:
        return parquet_columns(path)
    except (OSError, FileError):
        return []
