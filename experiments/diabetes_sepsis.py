"""The diabetes-sepsis simulator (Oberst & Sontag 2019): a program with random numbers of its own.

Heart rate (low, normal, high), blood pressure (low, normal, high), oxygen (low, normal) and glucose
(five levels, the middle one normal) move in steps; antibiotics, vasopressors and ventilation are
on or off; one patient in five is diabetic. In one step, in this order,

    antibiotics    on: high heart rate becomes normal with probability 0.5, and so does pressure
                   withdrawn: a normal one becomes high with probability 0.1
    ventilation    on: low oxygen becomes normal with 0.7;  withdrawn: normal becomes low with 0.1
    vasopressors   on: pressure goes up one level with 0.7; of diabetics from normal with 0.9, from
                   low by one level with 0.5 and by two with 0.4, and glucose goes up with 0.5
                   withdrawn: pressure goes down with 0.1 (diabetics 0.05)
    fluctuation    what no treatment touched in this step goes down with 0.1 and up with 0.1; the
                   glucose of diabetics with 0.3 each. In others the published program has "up"
                   end at low glucose at most, and so has its MDP: kept as it is

and stays within its levels. Three or more abnormal vitals are death (-1); none, and no treatment,
is discharge (+1). Both end the episode.

The transition probabilities do not say what would have happened otherwise; the random numbers do,
and they can be drawn in more than one way that gives the same probabilities:

    draws    every line of the program that draws has a number of its own in each step
    vitals   every vital has one number in each step, for whichever line comes to draw for it (two
             for pressure, whose antibiotics and vasopressors may both draw)

Each is a causal model of one MDP. A vital depends on its own numbers only, so what they still can
be, knowing what happened, is found vital by vital: numbers matter by the intervals between the
probabilities above, and those that explain the observed step are counted with their lengths
(`Program.counterfactual_row`, exact).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from itertools import product
from typing import NamedTuple

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.validation import FloatArray, IntArray, Seed, generator
from counterplan.scm.tabular import TabularMDP

NORMAL = (1, 1, 1, 2)
SHAPE = (2, 3, 3, 2, 5, 2, 2, 2)  # diabetic, the four vitals, the three treatments
# All combinations, of which some are ends, and what follows an end.
OVER = int(np.prod(SHAPE))
N_STATES, N_ACTIONS, HORIZON = OVER + 1, 8, 20
DIABETIC = 0.2


class Treated(NamedTuple):
    """What is given in a step and what was given before it, and whether the patient is diabetic."""

    antibiotics: int
    vasopressors: int
    ventilation: int
    had_antibiotics: int
    had_vasopressors: int
    had_ventilation: int
    diabetic: int


def _fluctuates(level: int, highest: int, u: float, chance: float = 0.1) -> int:
    if u < chance:
        return max(0, level - 1)
    return min(highest, level + 1) if u < 2 * chance else level


def heart_rate(level: int, given: Treated, u: FloatArray) -> int:
    """After one step; u: of antibiotics given, of antibiotics withdrawn, of fluctuation."""
    if given.antibiotics:
        return 1 if level == 2 and u[0] < 0.5 else level
    if given.had_antibiotics:
        return 2 if level == 1 and u[1] < 0.1 else level
    return _fluctuates(level, 2, u[2])


def pressure(level: int, given: Treated, u: FloatArray) -> int:
    """u: of antibiotics given and withdrawn, of vasopressors given and withdrawn, fluctuation."""
    if given.antibiotics:
        level = 1 if level == 2 and u[0] < 0.5 else level
    elif given.had_antibiotics:
        level = 2 if level == 1 and u[1] < 0.1 else level
    if given.vasopressors:
        return _pressed(level, given.diabetic, u[2])
    if given.had_vasopressors:
        return max(0, level - 1) if u[3] < (0.05 if given.diabetic else 0.1) else level
    if given.antibiotics or given.had_antibiotics:
        return level
    return _fluctuates(level, 2, u[4])


def _pressed(level: int, diabetic: int, u: float) -> int:
    if not diabetic:
        return min(2, level + 1) if u < 0.7 else level
    if level == 1:
        return 2 if u < 0.9 else 1
    if level == 0:
        return 1 if u < 0.5 else 2 if u < 0.9 else 0
    return level


def oxygen(level: int, given: Treated, u: FloatArray) -> int:
    """u: of ventilation given, of ventilation withdrawn, of fluctuation."""
    if given.ventilation:
        return 1 if u[0] < 0.7 else level
    if given.had_ventilation:
        return 0 if u[1] < 0.1 else level
    return _fluctuates(level, 1, u[2])


def glucose(level: int, given: Treated, u: FloatArray) -> int:
    """u: of vasopressors given, of fluctuation."""
    if given.vasopressors:
        return min(4, level + 1) if given.diabetic and u[0] < 0.5 else level
    return _fluctuates(level, 4, u[1], 0.3) if given.diabetic else _fluctuates(level, 1, u[1])


class Vital(NamedTuple):
    """How a vital moves.

    cuts     for each line that draws: the numbers at which it makes a difference
    numbers  by version, which number of the vital each line reads
    """

    step: Callable[[int, Treated, FloatArray], int]
    levels: int
    cuts: tuple[tuple[float, ...], ...]
    numbers: dict[str, tuple[int, ...]]


_GIVEN, _WITHDRAWN, _MOVES = (0.5,), (0.1,), (0.1, 0.2)
VITALS = (
    Vital(heart_rate, 3, (_GIVEN, _WITHDRAWN, _MOVES), {"draws": (0, 1, 2), "vitals": (0, 0, 0)}),
    Vital(
        pressure,
        3,
        (_GIVEN, _WITHDRAWN, (0.5, 0.7, 0.9), (0.05, 0.1), _MOVES),
        {"draws": (0, 1, 2, 3, 4), "vitals": (0, 0, 1, 1, 0)},
    ),
    Vital(oxygen, 2, ((0.7,), _WITHDRAWN, _MOVES), {"draws": (0, 1, 2), "vitals": (0, 0, 0)}),
    Vital(glucose, 5, (_GIVEN, (0.1, 0.2, 0.3, 0.6)), {"draws": (0, 1), "vitals": (0, 0)}),
)
# Numbers of one step: of each vital as many as `draws` needs.
N_NUMBERS = sum(len(vital.numbers["draws"]) for vital in VITALS)


def treatments(action: int) -> tuple[int, int, int]:
    """Antibiotics, vasopressors and ventilation, 0 or 1 each: actions are numbered as the MDP of
    the literature has them."""
    return action >> 2 & 1, action & 1, action >> 1 & 1


@cache
def decode(state: int) -> tuple[int, tuple[int, ...], int]:
    """Whether diabetic, the vitals and the action that gives what is being given."""
    diabetic, *levels, antibiotics, vasopressors, ventilation = (
        int(one) for one in np.unravel_index(state, SHAPE)
    )
    return diabetic, tuple(levels), antibiotics * 4 + ventilation * 2 + vasopressors


def encode(diabetic: int, vitals: Iterable[int], action: int) -> int:
    """The number of a state."""
    return int(np.ravel_multi_index((diabetic, *vitals, *treatments(action)), SHAPE))


def _ends() -> FloatArray:
    """(N_STATES,) -1 where a state is death, 1 where it is discharge."""
    result = np.zeros(N_STATES)
    for state in range(OVER):
        _, vitals, action = decode(state)
        abnormal = sum(level != usual for level, usual in zip(vitals, NORMAL, strict=True))
        result[state] = -1.0 if abnormal >= 3 else float(abnormal == 0 and action == 0)
    return result


ENDS = _ends()


@cache
def _after(diabetic: int, action: int) -> IntArray:
    """(90,) the states of all combinations of vitals under this action."""
    every = product(*(range(vital.levels) for vital in VITALS))
    return np.array([encode(diabetic, vitals, action) for vitals in every])


@cache
def _cells(version: str, vital: int) -> tuple[FloatArray, FloatArray]:
    """(m, n) numbers of a vital that stand for all, and (m,) how likely each is."""
    reads, cuts = VITALS[vital].numbers[version], VITALS[vital].cuts
    edges = [
        sorted({0.0, 1.0}.union(*(own for own, read in zip(cuts, reads, strict=True) if read == n)))
        for n in range(max(reads) + 1)
    ]
    middles = [np.convolve(one, (0.5, 0.5), "valid") for one in edges]
    lengths = [np.diff(one) for one in edges]
    points = np.array(list(product(*middles)))
    return points, np.array(list(product(*lengths))).prod(axis=1)


@cache
def _outcomes(version: str, vital: int, level: int, given: Treated) -> IntArray:
    """(m,) where a vital goes, for each cell of its numbers."""
    reads = list(VITALS[vital].numbers[version])
    points, _ = _cells(version, vital)
    return np.array([VITALS[vital].step(level, given, point[reads]) for point in points])


@cache
def _chances(
    version: str, vital: int, level: int, given: Treated, seen: tuple[int, Treated, int] | None
) -> FloatArray:
    """(levels,) where a vital goes; knowing, if seen = (level, given, next level), that its numbers
    led from there to there."""
    _, weights = _cells(version, vital)
    if seen is not None:
        before, then, after = seen
        weights = weights * (_outcomes(version, vital, before, then) == after)
    found = np.bincount(_outcomes(version, vital, level, given), weights, VITALS[vital].levels)
    return np.asarray(found / weights.sum())


@dataclass(frozen=True, eq=False)
class Patient:
    """What was observed, and (HORIZON - 1, N_NUMBERS) the numbers it came from."""

    episode: Episode
    numbers: FloatArray


@dataclass(frozen=True)
class Program:
    """The simulator in one of its versions: a causal model of `mdp`."""

    version: str = "draws"

    def step(self, state: int, action: int, numbers: FloatArray) -> int:
        """The next state, by numbers (N_NUMBERS,) in [0, 1)."""
        if state == OVER or ENDS[state]:
            return OVER
        diabetic, levels, before = decode(state)
        given, after, at = _treated(diabetic, before, action), [], 0
        for vital, level in zip(VITALS, levels, strict=True):
            reads = vital.numbers[self.version]
            after.append(vital.step(level, given, numbers[at + np.array(reads)]))
            at += len(reads)
        return encode(diabetic, after, action)

    def counterfactual_row(
        self, s_obs: int, a_obs: int, s_next_obs: int, s: int, a: int
    ) -> FloatArray:
        """(N_STATES,) the distribution of the next state, knowing what the numbers led to."""
        return self._row(s, a, None if s_next_obs == OVER else (s_obs, a_obs, s_next_obs))

    def _row(self, state: int, action: int, seen: tuple[int, int, int] | None) -> FloatArray:
        result = np.zeros(N_STATES)
        if state == OVER or ENDS[state]:
            result[OVER] = 1.0
            return result
        diabetic, levels, before = decode(state)
        given = _treated(diabetic, before, action)
        parts = [
            _chances(self.version, i, level, given, None if seen is None else _known(i, *seen))
            for i, level in enumerate(levels)
        ]
        result[_after(diabetic, action)] = reduce(np.multiply.outer, parts).ravel()
        return result

    @cached_property
    def mdp(self) -> TabularMDP:
        """What every version has the probabilities of; an end earns its -1 or 1 once."""
        from scipy.sparse import csr_array

        matrices = [
            csr_array(np.array([self._row(s, a, None) for s in range(N_STATES)]))
            for a in range(N_ACTIONS)
        ]
        return TabularMDP(matrices, np.repeat(ENDS[:, None], N_ACTIONS, axis=1))

    def simulate(self, policy: FloatArray, starts: IntArray, seed: Seed = 0) -> list[Patient]:
        """Patients from these states, treated by a policy (N_STATES, N_ACTIONS)."""
        rng, sums = generator(seed), policy.cumsum(axis=1)
        found: list[Patient] = []
        for start in starts:
            numbers = rng.uniform(size=(HORIZON - 1, N_NUMBERS))
            states, actions = [int(start)], []
            for t, chosen in enumerate(rng.uniform(size=HORIZON)):
                actions.append(int(np.searchsorted(sums[states[-1]], chosen, side="right")))
                if t < HORIZON - 1:
                    states.append(self.step(states[-1], actions[-1], numbers[t]))
            found.append(Patient(Episode(states, actions, id=f"{len(found)}"), numbers))
        return found

    def replay(self, patient: Patient, choose: Callable[[int, int, int], int]) -> float:
        """The outcome if choose(t, state, changes so far) had been done, the numbers the same."""
        observed, state, used, total = patient.episode.actions, patient.episode.states[0], 0, 0.0
        for t in range(HORIZON):
            total += ENDS[state]
            action = choose(t, int(state), used)
            used += int(action != observed[t])
            if t < HORIZON - 1:
                state = self.step(int(state), action, patient.numbers[t])
        return total

    def expected(self, episode: Episode, choose: Callable[[int, int, int], int]) -> float:
        """The same, not knowing the numbers but what they led to: the mean, exact."""
        reached, total = {(int(episode.states[0]), 0): 1.0}, 0.0
        for t in range(HORIZON):
            total += sum(chance * ENDS[state] for (state, _), chance in reached.items())
            if t == HORIZON - 1:
                break
            seen = int(episode.states[t]), int(episode.actions[t]), int(episode.states[t + 1])
            following: dict[tuple[int, int], float] = {}
            for (state, used), chance in reached.items():
                if state == OVER or ENDS[state]:
                    continue
                action = choose(t, state, used)
                spent = used + int(action != seen[1])
                row = self.counterfactual_row(*seen, state, action)
                for after in np.flatnonzero(row):
                    place = int(after), spent
                    following[place] = following.get(place, 0.0) + chance * row[after]
            reached = following
        return float(total)

    def best(self, episode: Episode, k: int) -> float:
        """The most that any policy with at most k changes could have been worth, by the program
        itself: backwards over steps, vitals one by one."""
        diabetic, first = decode(int(episode.states[0]))[0], int(episode.states[0]) % (OVER // 2)
        ends = ENDS[diabetic * OVER // 2 :][: OVER // 2]
        worth = np.repeat(ends[None], k + 1, axis=0)
        for t in range(HORIZON - 2, -1, -1):
            seen = int(episode.states[t]), int(episode.actions[t]), int(episode.states[t + 1])
            known = None if seen[2] == OVER else seen
            ahead = np.stack([self._ahead(diabetic, a, known, worth) for a in range(N_ACTIONS)])
            kept = ahead[seen[1]]
            worth = kept.copy()
            worth[1:] = np.maximum(kept[1:], ahead[:, :-1].max(axis=0))
            worth = np.where(ends != 0.0, ends, worth)
        return float(worth[k, first])

    def _ahead(
        self, diabetic: int, action: int, seen: tuple[int, int, int] | None, worth: FloatArray
    ) -> FloatArray:
        """(k + 1, states) what an action leads to, by the budget that is left after it."""
        sizes = tuple(vital.levels for vital in VITALS)
        table = worth.reshape(-1, *sizes, 2, 2, 2)[(..., *treatments(action))]
        result = np.empty((len(worth), *sizes, 2, 2, 2))
        for before in range(N_ACTIONS):
            given, value = _treated(diabetic, before, action), table
            for i, levels in enumerate(sizes):
                known = None if seen is None else _known(i, *seen)
                kernel = np.array(
                    [_chances(self.version, i, level, given, known) for level in range(levels)]
                )
                value = np.moveaxis(np.tensordot(value, kernel, (i + 1, 1)), -1, i + 1)
            result[(..., *treatments(before))] = value
        return result.reshape(len(worth), -1)


@cache
def _treated(diabetic: int, before: int, action: int) -> Treated:
    return Treated(*treatments(action), *treatments(before), diabetic)


def _known(vital: int, s: int, a: int, s_next: int) -> tuple[int, Treated, int]:
    """What a step that was observed says of one vital."""
    diabetic, levels, before = decode(s)
    return levels[vital], _treated(diabetic, before, a), decode(s_next)[1][vital]


def starts(n: int, seed: Seed = 0) -> IntArray:
    """(n,) first states: untreated, not at an end, as the published program draws them."""
    rng = generator(seed)
    found: list[int] = []
    while len(found) < n:
        diabetic = int(rng.uniform() < DIABETIC)
        vitals = [int(rng.choice(len(one), p=one)) for one in _FIRST[diabetic]]
        state = encode(diabetic, vitals, 0)
        if not ENDS[state]:
            found.append(state)
    return np.array(found)


_LOW_HIGH, _OXYGEN = (0.25, 0.5, 0.25), (0.2, 0.8)
_FIRST = (
    (_LOW_HIGH, _LOW_HIGH, _OXYGEN, (0.05, 0.15, 0.6, 0.15, 0.05)),
    (_LOW_HIGH, _LOW_HIGH, _OXYGEN, (0.01, 0.05, 0.15, 0.6, 0.19)),
)


def doctors(mdp: TabularMDP, slips: float = 0.15, discount: float = 0.99) -> FloatArray:
    """(N_STATES, N_ACTIONS) the best policy of the MDP by value iteration, but for slips: with that
    probability any action."""
    rows, of = mdp.rows, mdp.row_of
    values = np.zeros(N_STATES)
    for _ in range(500):
        ahead = np.add.reduceat(rows.arrays[2] * values[rows.arrays[1]], rows.arrays[0][:-1])
        scores = mdp.rewards + discount * ahead[of]
        values = scores.max(axis=1)
    policy = np.full((N_STATES, N_ACTIONS), slips / N_ACTIONS)
    policy[np.arange(N_STATES), scores.argmax(axis=1)] += 1.0 - slips
    return policy
