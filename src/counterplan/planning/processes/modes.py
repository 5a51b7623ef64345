"""Processes of modes, observed or hidden, known or recorded; their laws are compiled in `laws`.

Observed modes follow a Markov chain (Sec. F.1). x is the number of the mode, or its indicator: (M,)
zeros with a one at the mode. A reward per mode is linear in the indicator, and the mean of the
indicator is the distribution of the mode, while the mean of a mode's number means nothing.

Of hidden modes only what they emit is seen, and a belief about the mode is kept (Eq. F.4-F.6):

    b'(m') = P(o | m') sum_m P(m' | m) b(m) / P(o | b),    P(o | b) = sum_m' P(o | m') (b P)(m')

x = (observation (O,), belief (M,)) is a Markov process that no action touches: b holds all that
the observations say about the present mode. For a hybrid vehicle the observation is a mileage
(gas, electric) around the mode's mean. There are finitely many of them, so the belief tree is
finite and exact. At t = 0 nothing has been observed: the belief is the prior, the observation its
mean.

Recorded modes are resampled from traces, such as drive cycles: the next mode is what followed at a
place of the record that shows the present one, all such places being equally likely. A drive cycle
(speed once a second) becomes modes in windows of some seconds:

    2  braking             mean acceleration below BRAKES (m/s^2)
    0  gas efficient       else, mean speed at least FAST (m/s)
    1  electric efficient  else

-0.25 m/s^2 is clearly more than rolling out, 13.4 m/s (30 mph) is about where city traffic ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray, IntArray, index_vector, whole_number
from counterplan.errors import FileError, InputError, NotApplicableError
from counterplan.planning.processes.base import Drawn, Process, number, stochastic_matrix
from counterplan.planning.processes.laws import HIDDEN_NUMBERS, MODES_NUMBERS, Finite


@dataclass(frozen=True, eq=False)
class MarkovModes(Finite):
    """A Markov chain on M modes.

    matrix      (M, M) row i: where mode i leads
    initial     the mode at t = 0
    indicators  False: x (1,) is the mode's number. True: x (M,) is its indicator
    """

    matrix: ArrayLike
    initial: int = 0
    indicators: bool = False

    def __post_init__(self) -> None:
        matrix = stochastic_matrix(self.matrix, "mode matrix")
        object.__setattr__(self, "matrix", matrix)
        whole_number(self.initial, "initial mode", maximum=len(matrix) - 1)

    @property
    def probabilities(self) -> FloatArray:
        """(M, M) the matrix."""
        return np.asarray(self.matrix, dtype=np.float64)

    @property
    def start(self) -> FloatArray:
        """(1,) or (M,): where it begins."""
        if self.indicators:
            return np.asarray(np.eye(len(self.probabilities))[self.initial])
        return np.array([float(self.initial)])

    def mean_path(self, steps: int, t: int = 0, start: FloatArray | None = None) -> FloatArray:
        """(steps, M): the distribution of each later mode; for indicators only."""
        if not self.indicators:
            raise NotApplicableError(
                "the mean of a mode's number means nothing; use MarkovModes(..., indicators=True)"
            )
        return super().mean_path(steps, t, start)

    def modes(self, exogenous: FloatArray) -> IntArray:
        """(n,) the mode numbers of (n, X)."""
        if self.indicators:
            return np.asarray(np.argmax(exogenous, axis=1), dtype=np.int64)
        return np.asarray(exogenous[:, 0], dtype=np.int64)

    def most_successors(self, quantiles: int = 0) -> int:
        """M."""
        return len(self.probabilities)

    def _block(self, rows: int, quantiles: int) -> FloatArray:
        return MODES_NUMBERS.pack(indicators=self.indicators, matrix=self.probabilities)


@dataclass(frozen=True, eq=False)
class HiddenModes(Finite):
    """Hidden modes with finitely many observations: each is a successor, with the belief after it
    and its probability (Eq. F.5).

    matrix         (M, M) of the modes
    values         (K, O) what may be observed
    probabilities  (M, K) how likely each mode emits each of them
    initial        (M,) the belief at t = 0, or the number of the mode it begins in
    transitions    (M, M) the matrix
    mode_means     (M, O) what each mode emits on average
    prior          (M,) the belief at t = 0
    """

    matrix: ArrayLike
    values: ArrayLike
    probabilities: ArrayLike
    initial: ArrayLike = 0
    transitions: FloatArray = field(init=False)
    mode_means: FloatArray = field(init=False)
    prior: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        values = number_table(self.values, "values")
        transitions = stochastic_matrix(self.matrix, "mode matrix")
        chances = stochastic_matrix(self.probabilities, "emission matrix", columns=len(values))
        M = len(transitions)
        if len(chances) != M:
            raise InputError(
                f"the emission matrix has {len(chances)} rows, but there are {M} modes"
            )
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "probabilities", chances)
        object.__setattr__(self, "transitions", transitions)
        object.__setattr__(self, "mode_means", chances @ values)
        if np.ndim(self.initial) == 0:
            prior = np.eye(M)[whole_number(self.initial, "initial mode", maximum=M - 1)]
        else:
            row = np.atleast_2d(np.asarray(self.initial))
            prior = stochastic_matrix(row, "initial belief", columns=M)[0]
        object.__setattr__(self, "prior", np.asarray(prior))

    @property
    def start(self) -> FloatArray:
        """(O + M,) the prior and the mean observation."""
        return np.concatenate([self.prior @ self.mode_means, self.prior])

    def beliefs(self, exogenous: FloatArray) -> FloatArray:
        """(..., M) the beliefs in (..., O + M)."""
        return np.asarray(exogenous)[..., self.mode_means.shape[1] :]

    def most_successors(self, quantiles: int = 0) -> int:
        """One for each observation."""
        return len(np.asarray(self.values))

    def _block(self, rows: int, quantiles: int) -> FloatArray:
        numbers = {"values": self.values, "chances": self.probabilities}
        return HIDDEN_NUMBERS.pack(matrix=self.transitions, **numbers)


def number_table(values: ArrayLike, name: str) -> FloatArray:
    """(n, m) finite numbers."""
    try:
        table = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be rows of numbers of the same length") from None
    if table.ndim != 2 or table.size == 0 or not np.isfinite(table).all():
        raise InputError(f"{name} must be a table of finite numbers, one row for each")
    return table


GAS_EFFICIENT, ELECTRIC_EFFICIENT, BRAKING = range(3)
FAST, BRAKES = 13.4, -0.25


@dataclass(frozen=True, eq=False)
class ResampledTraces(MarkovModes):
    """Modes that follow each other as they did in a record; made by `from_modes`."""

    @classmethod
    def from_modes(
        cls, traces: Sequence[ArrayLike], modes: int | None = None, indicators: bool = False
    ) -> ResampledTraces:
        """Resample recorded modes; it begins as the first trace does, and a mode that no trace
        leaves is kept.

        traces  each a list of mode numbers in time order
        modes   how many there are (default: the largest number seen, plus one)
        """
        records = [index_vector(trace, f"trace {i}") for i, trace in enumerate(traces)]
        if not records:
            raise InputError("there are no traces: pass at least one list of modes")
        for i, record in enumerate(records):
            if len(record) < 2:
                raise InputError(f"trace {i} has {len(record)} modes: it needs more than 1")
        seen = max(int(record.max()) for record in records) + 1
        M = whole_number(modes, "modes", minimum=seen) if modes is not None else seen
        counts = np.zeros((M, M))
        for record in records:
            np.add.at(counts, (record[:-1], record[1:]), 1.0)
        counts += np.diag(counts.sum(axis=1) == 0)
        return cls(counts / counts.sum(axis=1, keepdims=True), int(records[0][0]), indicators)


def modes_of_drive(speed: FloatArray, acceleration: FloatArray) -> IntArray:
    """(n,) modes of mean speeds (m/s) and mean accelerations (m/s^2)."""
    driving = np.where(speed >= FAST, GAS_EFFICIENT, ELECTRIC_EFFICIENT)
    return np.asarray(np.where(acceleration < BRAKES, BRAKING, driving), dtype=np.int64)


def drive_cycle_modes(
    path: str | Path,
    columns: Sequence[str] = ("cycSecs", "cycMps"),
    seconds: float = 10.0,
) -> IntArray:
    """(T,) modes of a drive cycle in a CSV table: 0 gas efficient, 1 electric efficient, 2 braking.

    columns  the names of its time (s) and speed (m/s) columns
    seconds  length of a window; an incomplete last one is left out
    """
    number(seconds, "seconds", 0.0, above=True)
    times, speeds = _read_cycle(path, columns)
    count = int((times[-1] - times[0]) // seconds)
    if count < 2:
        raise FileError(
            f"{path}: lasts {times[-1] - times[0]:g} s, less than two windows of {seconds:g} s; "
            "give a longer one"
        )
    borders = times[0] + seconds * np.arange(count + 1)
    # Speed between two records is a straight line, so its mean is exact from the distance.
    distance = np.concatenate([[0.0], np.cumsum(np.diff(times) * (speeds[1:] + speeds[:-1]) / 2)])
    before = np.clip(np.searchsorted(times, borders, side="right") - 1, 0, len(times) - 1)
    since, speed = borders - times[before], np.interp(borders, times, speeds)
    mean_speed = np.diff(distance[before] + since * (speeds[before] + speed) / 2) / seconds
    return modes_of_drive(mean_speed, np.diff(speed) / seconds)


def _read_cycle(path: str | Path, columns: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    from counterplan.core.table import open_table_file

    if len(columns) != 2:
        raise InputError(f"columns must name a time and a speed column, got {tuple(columns)!r}")
    time, speed = columns
    table = open_table_file(path, "a drive cycle", formats=()).read([time, speed])
    times, speeds = (table.numbers(name, may_miss=False) for name in (time, speed))
    late = np.concatenate([[True], np.diff(times) > 0]) | ~np.isfinite(times)
    table.report(~late, time, "is not later than the row before; sort the rows by time")
    table.report(speeds < 0, speed, "is negative; give the speed in m/s")
    table.mistakes.refuse()
    return times, speeds


def stated_process(sense: object, process: Any, with_indicators: str) -> Process:
    """The process of a problem, completed where only draws are known. Refuses a sense that is none,
    what is no process, and modes by their numbers; the text says how a model states rewards of
    modes."""
    if sense not in ("max", "min"):
        raise InputError(f"sense must be 'max' or 'min', got {sense!r}")
    if isinstance(process, type):
        name = process.__name__
        raise InputError(f"{name} is a class, not a process: give {name}(...)")
    if not isinstance(process, Process) and hasattr(process, "start") and hasattr(process, "draw"):
        process = Drawn(process)
    if not isinstance(process, Process):
        raise InputError(
            f"{type(process).__name__} is no process: it needs start (X,) and draw(t, x, "
            "generator) from x (n, X) to what follows; see counterplan.processes"
        )
    if isinstance(process, MarkovModes) and not process.indicators:
        raise InputError(
            f"a mode's number has no mean: use MarkovModes(..., indicators=True), {with_indicators}"
        )
    return process
