"""Some of the transitions that a model was learned from, kept to tell what lies outside them.

How far a state is from them is a distance in the model's own units, beside how far apart the states
of different episodes are themselves: `typical`, the median over them of the distance to the nearest
state of another episode, and `far`, which 99 in 100 of them do not exceed; where features are
written down in steps, as scores are, states half a step apart are not far.

The nearest are found by looking at blocks of them that lie close together, the one whose box is
nearest first, until every other box is farther away than what was found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterplan.core.compiled import njit, within
from counterplan.core.episode import Episode
from counterplan.core.validation import BoolArray, FloatArray, IntArray, Seed, generator
from counterplan.errors import InputError
from counterplan.scm.point import Scaling, number_array
from counterplan.scm.transitions import Transitions

# A search among so many takes about a millisecond, and a file of them about a megabyte.
LARGEST = 20_000
# Of so many states the distances to other episodes are taken.
COMPARED = 2_000
FAR_QUANTILE = 0.99
# In the model's units, where what it has learned from lies between -0.5 and 0.5: beyond that by
# more than the whole range.
FAR = 1.5

# Kept states that are looked at together: their coordinates stay in the fastest cache.
BLOCK = 64

SingleArray = NDArray[np.float32]


@within(error_model="numpy")
def _put(squares: Any, who: Any, square: float, number: int) -> None:
    """Put another in the place of the largest in a heap, which is on top."""
    place, count = 0, len(squares)
    while 2 * place + 1 < count:
        below = 2 * place + 1
        if below + 1 < count and squares[below + 1] > squares[below]:
            below += 1
        if not squares[below] > square:
            break
        squares[place], who[place] = squares[below], who[below]
        place = below
    squares[place], who[place] = square, number


@within(error_model="numpy")
def _enough_for(state: Any, blocks: Any, who: Any) -> float:
    """More than the squared distance of a state (D,) to all of some kept states, -1 for none."""
    most = 0.0
    for number in who:
        square = np.inf if number < 0 else 0.0
        for j in range(len(state)):
            square += (blocks[number // BLOCK, j, number % BLOCK] - state[j]) ** 2
        if not square <= most:
            most = square
    return most * (1.0 + 1e-12) + 1e-300 if most < np.inf else np.inf


@within(error_model="numpy")
def _squares(state: Any, blocks: Any, block: int, most: float, away: Any) -> int:
    """Write the squared distances of a block (BLOCK,), added up in the order of features (four at a
    time are read and written once), and count those below the most."""
    away[:] = 0.0
    D, fours, closer = len(state), len(state) // 4 * 4, 0
    for j in range(0, fours, 4):
        a, b, c, d = state[j], state[j + 1], state[j + 2], state[j + 3]
        for m in range(BLOCK):
            square = away[m] + (blocks[block, j, m] - a) ** 2
            square += (blocks[block, j + 1, m] - b) ** 2
            square += (blocks[block, j + 2, m] - c) ** 2
            away[m] = square + (blocks[block, j + 3, m] - d) ** 2
    for j in range(fours, D):
        for m in range(BLOCK):
            away[m] += (blocks[block, j, m] - state[j]) ** 2
    for m in range(BLOCK):
        closer += away[m] < most
    return closer


@njit(cache=True, nogil=True, error_model="numpy")
def look_around(
    states: Any, blocks: Any, boxes: Any, cells: Any, n_cells: int, count: int, enough: float
) -> tuple[Any, Any]:
    """(n,) how far the nearest kept state is, and (n, n_cells) how many of the `count` nearest are
    in each cell; a search ends once it has `count` of them no farther than `enough`. Those of the
    state before are about as near: no other one that is farther than they are is looked at.

    states (n, D); blocks (b, D, BLOCK), and their boxes (2, D, b): where features begin and end;
    cells (b, BLOCK), -1 for none
    """
    n, D = states.shape
    many = blocks.shape[0]
    nearest, taken = np.empty(n), np.zeros((n, n_cells), dtype=np.int64)
    away, squares, who = np.empty(BLOCK), np.empty(count), np.full(count, -1)
    gaps = np.empty(many)
    for i in range(n):
        squares[:] = _enough_for(states[i], blocks, who)
        who[:] = -1
        # Added up as distances are: never more than that of a state inside, rounding included.
        gaps[:] = 0.0
        for j in range(D):
            x, low, high = states[i, j], boxes[0, j], boxes[1, j]
            for b in range(many):
                before, after = low[b] - x, x - high[b]
                gap = before if before > after else after
                gaps[b] += gap * gap if gap > 0.0 else 0.0
        first, least = 0, np.inf
        for b in range(many):
            if gaps[b] < least:
                first, least = b, gaps[b]
        for turn in range(many):
            # The nearest box first; after it they lie on both sides, the close ones soon.
            block = (first + (turn + 1) // 2 * (1 if turn % 2 else -1)) % many
            if not squares[0] > enough * abs(enough):
                break
            # Nor where it is not a number.
            if gaps[block] < squares[0] and _squares(states[i], blocks, block, squares[0], away):
                for m in range(BLOCK):
                    if away[m] < squares[0]:
                        _put(squares, who, away[m], block * BLOCK + m)
        nearest[i] = np.sqrt(squares.min())
        for number in who:
            cell = -1 if number < 0 else cells[number // BLOCK, number % BLOCK]
            if 0 <= cell < n_cells:
                taken[i, cell] += 1
    return nearest, taken


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

    def nearest(self, states: FloatArray, enough: float = -1.0) -> FloatArray:
        """(n,) how far the nearest kept state is from each of the states (n, D); where one is no
        farther than `enough`, how far such a one is."""
        order, blocks, boxes = self._blocks
        return np.asarray(look_around(states, blocks, boxes, order, 0, 1, enough)[0])

    def taken(
        self,
        states: FloatArray,
        options: FloatArray,
        count: int,
        tolerance: FloatArray | None = None,
    ) -> tuple[FloatArray, IntArray]:
        """(n,) how far the nearest kept state is from each of the states (n, D), and (n, N) how
        many of the `count` nearest took each of the options (N, d): a dose half way to the next
        counts as that one, anything where all options have the same; or within a tolerance (d,),
        infinite for what is not chosen, where the first option gets what no other has."""
        order, blocks, boxes = self._blocks
        chosen = np.flatnonzero(
            np.ptp(options, axis=0) > 0.0 if tolerance is None else np.isfinite(tolerance)
        )
        levels = options[:, chosen]
        key = chosen.tobytes(), levels.tobytes()
        if key in self._cells:
            laid = self._cells[key]
        else:
            within = np.array([np.diff(np.unique(x)).min(initial=np.inf) / 2 for x in levels.T])
            if tolerance is not None:
                within = tolerance[chosen] * (1.0 + 1e-6)
            off = np.abs(self.actions[:, None, chosen] - levels)
            same: BoolArray = np.all(off <= within, axis=2)
            if tolerance is not None:
                same[:, 0] &= ~same[:, 1:].any(axis=1)
            cells = np.where(same.any(axis=1), same.argmax(axis=1), -1)
            laid = np.where(order < 0, -1, cells[order])
            if tolerance is None:
                self._cells[key] = laid
        count = min(count, len(self.states))
        found = look_around(states, blocks, boxes, laid, len(options), count, -1.0)
        return found[0], found[1]

    @cached_property
    def _cells(self) -> dict[tuple[bytes, bytes], IntArray]:
        """By components that are chosen and their options: which option each kept transition took,
        laid out as the blocks are."""
        return {}

    @cached_property
    def _blocks(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """The numbers of the kept states (b, BLOCK), -1 where a block has no more, these states
        (b, D, BLOCK), and where each feature of a block begins and ends (2, D, b)."""
        states = self.states.astype(np.float64)
        whole, parts = [np.arange(len(states))], list[IntArray]()
        while whole:
            part = whole.pop()
            if len(part) <= BLOCK:
                parts.append(np.append(part, np.full(BLOCK - len(part), -1)))
                continue
            # In two, by the feature that varies most, the first of them in full blocks.
            feature = int(np.ptp(states[part], axis=0).argmax())
            part = part[np.argsort(states[part, feature], kind="stable")]
            half = BLOCK * (-(-len(part) // BLOCK) // 2)
            whole += [part[half:], part[:half]]
        order = np.stack(parts)
        blocks = np.where(order[..., None] < 0, np.inf, states[order])
        most = np.where(order[..., None] < 0, -np.inf, blocks).max(axis=1)
        boxes = np.ascontiguousarray(np.stack([blocks.min(axis=1).T, most.T]))
        return order, np.ascontiguousarray(np.swapaxes(blocks, 1, 2)), boxes

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
    rounded = _rounding(states)
    far = max(float(np.quantile(distances, FAR_QUANTILE, method="higher")), rounded)
    typical = float(np.median(distances)) or rounded
    return Seen(states, actions.astype(np.float32), typical, far)


def _rounding(states: SingleArray) -> float:
    """How far a state can be from one like it because features are written down in steps, such as
    whole numbers: half a step in each that has more than two values."""
    distinct = [np.unique(column) for column in states.T]
    return float(np.linalg.norm([np.median(np.diff(x)) / 2 for x in distinct if len(x) > 2]))


def _to_other_episodes(
    states: FloatArray, episode: IntArray, rng: np.random.Generator
) -> FloatArray:
    """Of some states, how far the nearest one of another episode is; inf if there is no other."""
    from scipy.spatial.distance import cdist

    found = []
    for few in np.array_split(rng.permutation(len(states))[:COMPARED], 1 + COMPARED // 100):
        apart = cdist(states[few], states)
        apart[episode[few][:, None] == episode] = np.inf
        found.append(apart.min(axis=1))
    return np.concatenate(found)


class Outlier(NamedTuple):
    """A state at step `t` that is not as what a model has learned from, `low` to `high`."""

    stay: str | None
    t: int
    column: str
    value: float
    low: float
    high: float

    @property
    def is_far(self) -> bool:
        """Whether it is beyond by more than the whole range."""
        return max(self.low - self.value, self.value - self.high) > self.high - self.low


def outliers(
    scaling: Scaling | None,
    features: Sequence[str],
    episode: Episode,
    implausible: FloatArray | None = None,
) -> list[Outlier]:
    """For each feature with states far outside what the model has learned from, the farthest;
    likewise where a state is up to or from an end of `implausible` (D, 2) on, which the model left
    out when it was learned."""
    if scaling is None:
        return []
    distance = np.abs((episode.states - scaling.state_offset) / scaling.state_range)
    is_odd = (distance > FAR) & (np.asarray(scaling.state_categories) == 0)
    if implausible is not None:
        is_odd |= (episode.states <= implausible[:, 0]) | (episode.states >= implausible[:, 1])
    found = []
    for column in np.flatnonzero(is_odd.any(axis=0)).tolist():
        t = int(np.where(is_odd, distance, -1.0)[:, column].argmax())
        middle, half = scaling.state_offset[column], scaling.state_range[column] / 2
        value = float(episode.states[t, column])
        ends = float(middle - half), float(middle + half)
        found.append(Outlier(episode.id, t, features[column], value, *ends))
    return found
