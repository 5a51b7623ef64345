"""Modes resampled from recorded traces, such as drive cycles.

From a place in a record where the last `memory` modes were those just seen, the next mode is what
followed there; all such places are equally likely. That is a Markov chain whose states are the last
`memory` modes, so planning sees nothing but the modes themselves. With memory = 1 it is the
record's transition matrix. Modes that the record never shows in a row continue as their latest
ones did.

A drive cycle (speed once a second) becomes modes in windows of some seconds:

    2  braking             mean acceleration below `braking` (m/s^2)
    0  gas efficient       else, mean speed at least `fast` (m/s)
    1  electric efficient  else

The thresholds' defaults: -0.25 m/s^2 is clearly more than rolling out, 13.4 m/s (30 mph) is about
where city traffic ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray, IntArray, index_vector, whole_number
from counterplan.errors import FileError, InputError
from counterplan.exogenous.checks import number
from counterplan.exogenous.markov_modes import MarkovModes
from counterplan.files.number_table import read_number_table

GAS_EFFICIENT, ELECTRIC_EFFICIENT, BRAKING = range(3)
LARGEST_CHAIN = 4096


@dataclass(frozen=True, eq=False)
class ResampledTraces(MarkovModes):
    """Modes that follow each other as they did in a record; made by `from_modes`.

    newest  (M,) the present mode of each state of the chain (a state: the last `memory` modes)
    """

    newest: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @classmethod
    def from_modes(
        cls,
        traces: Sequence[ArrayLike],
        modes: int | None = None,
        memory: int = 1,
        indicators: bool = False,
    ) -> ResampledTraces:
        """Resample recorded modes; it begins as the first trace does.

        traces  each a list of mode numbers in time order
        modes   how many there are (default: the largest number seen, plus one)
        memory  how many of the last modes the next one depends on
        """
        records = [index_vector(trace, f"trace {i}") for i, trace in enumerate(traces)]
        whole_number(memory, "memory", minimum=1)
        short = [i for i, record in enumerate(records) if len(record) <= memory]
        if short or not records:
            raise InputError(
                f"trace {short[0]} has {len(records[short[0]])} modes: it needs more than {memory}"
                if short
                else "there are no traces: pass at least one list of modes"
            )
        seen = max(int(record.max()) for record in records) + 1
        M = whole_number(modes, "modes", minimum=seen) if modes is not None else seen
        if M**memory > LARGEST_CHAIN:
            raise InputError(
                f"{M} modes with memory {memory} make {M**memory} states, more than "
                f"{LARGEST_CHAIN}: use a shorter memory"
            )
        following = _following(records, M, memory)
        states = np.arange(M**memory)
        # A state's digits to the base M are its modes, the newest last.
        matrix = np.zeros((len(states), len(states)))
        for mode in range(M):
            matrix[states, (states * M + mode) % len(states)] = following[:, mode]
        first = _states(records[0], M, memory)[0]
        return cls(matrix, int(first), indicators, states % M)


def drive_cycle_modes(
    path: str | Path,
    columns: Sequence[str] = ("cycSecs", "cycMps"),
    seconds: float = 10.0,
    fast: float = 13.4,
    braking: float = -0.25,
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
    mean_speed = np.diff(_distance_at(borders, times, speeds, distance)) / seconds
    acceleration = np.diff(np.interp(borders, times, speeds)) / seconds
    driving = np.where(mean_speed >= fast, GAS_EFFICIENT, ELECTRIC_EFFICIENT)
    return np.asarray(np.where(acceleration < braking, BRAKING, driving), dtype=np.int64)


def _read_cycle(path: str | Path, columns: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    if len(columns) != 2:
        raise InputError(f"columns must name a time and a speed column, got {tuple(columns)!r}")
    time, speed = columns
    table = read_number_table(path, [time, speed])
    times, speeds = table.numbers(time), table.numbers(speed)
    late = np.concatenate([[True], np.diff(times) > 0]) | ~np.isfinite(times)
    table.report(~late, time, "is not later than the row before; sort the rows by time")
    table.report(speeds < 0, speed, "is negative; give the speed in m/s")
    table.refuse_mistakes()
    return times, speeds


def _distance_at(
    moments: FloatArray, times: FloatArray, speeds: FloatArray, distance: FloatArray
) -> FloatArray:
    """How far the vehicle has come at each moment."""
    before = np.clip(np.searchsorted(times, moments, side="right") - 1, 0, len(times) - 1)
    since = moments - times[before]
    return distance[before] + since * (speeds[before] + np.interp(moments, times, speeds)) / 2


def _states(record: IntArray, M: int, memory: int) -> IntArray:
    """(len - memory + 1,) the state after each mode from the `memory`-th on."""
    windows = np.lib.stride_tricks.sliding_window_view(record, memory)
    return np.asarray(windows @ (M ** np.arange(memory)[::-1]), dtype=np.int64)


def _following(records: list[IntArray], M: int, memory: int) -> FloatArray:
    """(M^memory, M) how often each mode followed each state, as shares."""
    counts = np.zeros((M**memory, M))
    for record in records:
        np.add.at(counts, (_states(record, M, memory)[:-1], record[memory:]), 1.0)
    totals = counts.sum(axis=1)
    # States never left go by their latest modes; a mode never left is kept.
    shorter = np.tile(_following(records, M, memory - 1), (M, 1)) if memory > 1 else np.eye(M)
    seen = counts / np.maximum(totals, 1.0)[:, None]
    return np.where(totals[:, None] > 0, seen, shorter)
