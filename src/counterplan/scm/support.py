"""Some of the transitions that a model was learned from, kept to tell what lies outside them.

How far a state is from them is a distance in the model's own units, beside how far apart the states
of different episodes are themselves: `typical`, the median over them of the distance to the nearest
state of another episode, and `far`, which 99 in 100 of them do not exceed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterplan.core.episode import Episode
from counterplan.core.validation import FloatArray, IntArray, Seed, generator
from counterplan.errors import InputError
from counterplan.scm.point import Scaling, number_array
from counterplan.scm.transitions import Transitions

if TYPE_CHECKING:
    from scipy.spatial import KDTree

# A search among so many takes about a millisecond, and a file of them about a megabyte.
LARGEST = 20_000
# Of so many states the distances to other episodes are taken.
COMPARED = 2_000
FAR_QUANTILE = 0.99
# In the model's units, where what it has learned from lies between -0.5 and 0.5: beyond that by
# more than the whole range.
FAR = 1.5

SingleArray = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Seen:
    """Transitions in the model's own units.

    states   (n, D)
    actions  (n, d) what was done in them
    typical  how far apart states of different episodes are, in the middle
    far      and at the most, but for one in a hundred
    """

    states: SingleArray
    actions: SingleArray
    typical: float
    far: float

    def __post_init__(self) -> None:
        for name in ("states", "actions"):
            array = getattr(self, name)
            if array.ndim != 2 or 0 in array.shape or not np.isfinite(array).all():
                raise InputError(f"seen {name}: expected a table of finite numbers")
        if len(self.states) != len(self.actions):
            raise InputError(
                f"seen: {len(self.states)} states but {len(self.actions)} actions in them"
            )
        if not 0.0 <= self.typical <= self.far:
            raise InputError(
                f"seen: distances {self.typical} and {self.far} are not in order, from 0 up"
            )

    @cached_property
    def tree(self) -> KDTree:
        """The states, to be searched."""
        from scipy.spatial import KDTree

        return KDTree(self.states.astype(np.float64))

    def check(self, n_features: int, n_components: int) -> None:
        """Raise unless it is made for so many features and action components."""
        widths = self.states.shape[1], self.actions.shape[1]
        if widths != (n_features, n_components):
            raise InputError(
                f"seen: {widths[0]} features and {widths[1]} action components, but the model has "
                f"{n_features} and {n_components}"
            )


def collect_seen(transitions: Transitions, scaling: Scaling | None, seed: Seed = 0) -> Seen:
    """At most LARGEST of the transitions, drawn at random, and how far apart their states are."""
    rng = generator(seed)
    chosen = np.arange(len(transitions))
    if len(chosen) > LARGEST:
        chosen = np.sort(rng.choice(chosen, LARGEST, replace=False))
    before, actions = transitions.before[chosen], transitions.actions[chosen]
    if scaling is not None:
        before, actions = scaling.encode_states(before), scaling.encode_actions(actions)
    states = before.astype(np.float32)
    distances = _to_other_episodes(number_array(states, "states"), transitions.episode[chosen], rng)
    typical, far = np.median(distances), np.quantile(distances, FAR_QUANTILE, method="higher")
    return Seen(states, actions.astype(np.float32), float(typical), float(far))


def _to_other_episodes(
    states: FloatArray, episode: IntArray, rng: np.random.Generator
) -> FloatArray:
    """Of some states, how far the nearest one of another episode is; inf if there is no other."""
    from scipy.spatial import KDTree

    tree = KDTree(states)
    open_ones = rng.permutation(len(states))[:COMPARED]
    found = np.full(len(open_ones), np.inf)
    places = np.arange(len(open_ones))
    wanted = 2
    while len(places):
        wanted = min(wanted, len(states))
        asked = open_ones[places]
        distance, neighbour = map(np.asarray, tree.query(states[asked], k=range(1, wanted + 1)))
        other = episode[neighbour] != episode[asked][:, None]
        known = other.any(axis=1)
        nearest = distance[np.arange(len(asked)), other.argmax(axis=1)]
        found[places[known]] = nearest[known]
        if wanted == len(states):
            break
        places, wanted = places[~known], 4 * wanted
    return found


class Outlier(NamedTuple):
    """A state far outside what a model has learned from, `low` to `high`."""

    stay: str | None
    column: str
    value: float
    low: float
    high: float


def outliers(scaling: Scaling | None, features: Sequence[str], episode: Episode) -> list[Outlier]:
    """For each feature with states far outside what the model has learned from, the farthest."""
    if scaling is None:
        return []
    distance = np.abs((episode.states - scaling.state_offset) / scaling.state_range)
    is_number = np.asarray(scaling.state_categories) == 0
    found = []
    for column in np.flatnonzero((distance.max(axis=0) > FAR) & is_number).tolist():
        middle, half = scaling.state_offset[column], scaling.state_range[column] / 2
        value = float(episode.states[distance[:, column].argmax(), column])
        ends = float(middle - half), float(middle + half)
        found.append(Outlier(episode.id, features[column], value, *ends))
    return found
