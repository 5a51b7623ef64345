"""Simulated cohort tables of the form that `read_cohort` reads, since MIMIC-III needs credentials.

This is an invention, not an estimate (see `sepsis_mechanism`). Patients arrive more or less ill,
are treated for up to 80 hours by clinicians who look at the current row and at what was given
before, and move by the mechanism. Treatment follows illness (low pressure, little urine, high
SOFA), and nothing else drives both: no confounder is hidden. Doses are continuous and often zero;
the mechanism sees their levels under the fixed `EDGES`, which are close to the quartiles of any
large simulated table (`read_cohort(path, edges=EDGES)` gives exactly the levels that acted).

What is recorded is rounded and kept within what an ICU records, and the patient goes on from the
recorded values. So every recorded row is

    recorded(SimulatedSepsis.step(row before, levels, noise))

and the noise that `SimulatedSepsis` infers from a table reproduces it exactly: rounding is part of
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    Seed,
    generator,
    whole_number,
)
from counterplan.domains.sepsis_mechanism import (
    BILI,
    CREAT,
    DAYS,
    FIO2,
    GCS,
    MAP,
    PAO2,
    PLATELET,
    SOFA_SCORE,
    URINE,
    SimulatedSepsis,
    from_coordinates,
    smooth_score,
)
from counterplan.domains.sepsis_table import (
    COLUMNS,
    FEATURES,
    FIXED,
    LONGEST,
    MOVING,
    SHORTEST,
    DoseEdges,
)
from counterplan.files.atomic import atomic_file, check_target

if TYPE_CHECKING:
    import polars as pl

EDGES = DoseEdges(vasopressor=(0.085, 0.153, 0.277), fluids=(55.0, 130.0, 307.0))
FIRST_STAY = 200_001
FULL_STAY_SHARE = 0.76
TAIL = 5.0  # degrees of freedom of the noise
WHOLE = ("bloc", "gender", "re_admission", "mechvent", "died_within_48h_of_out_time", "SOFA")

# What is recorded: decimals, lowest, highest.
RECORDED = {
    FIO2: (2, 0.21, 1.0),
    PAO2: (1, 30.0, 500.0),
    PLATELET: (0, 5.0, 1000.0),
    BILI: (2, 0.1, 40.0),
    GCS: (1, 3.0, 15.0),
    MAP: (1, 30.0, 160.0),
    CREAT: (2, 0.2, 15.0),
    URINE: (0, 0.0, 2000.0),
    SOFA_SCORE: (0, 0.0, 24.0),
}
# Correlations of one step's noise, for pairs of features.
CORRELATIONS = {
    (FIO2, PAO2): -0.25,
    (FIO2, SOFA_SCORE): 0.25,
    (PAO2, SOFA_SCORE): -0.40,
    (PLATELET, SOFA_SCORE): -0.15,
    (BILI, SOFA_SCORE): 0.15,
    (GCS, SOFA_SCORE): -0.35,
    (MAP, SOFA_SCORE): -0.30,
    (CREAT, SOFA_SCORE): 0.20,
    (URINE, SOFA_SCORE): -0.35,
    (MAP, URINE): 0.25,
    (CREAT, URINE): -0.30,
    (MAP, GCS): 0.15,
}
# Coordinates on arrival: mean, spread, and how much of it is overall severity.
ARRIVAL = {
    FIO2: (-0.6, 0.9, 0.5),
    PAO2: (np.log(105.0), 0.40, -0.3),
    PLATELET: (np.log(195.0), 0.50, -0.3),
    BILI: (np.log(0.9), 0.85, 0.4),
    GCS: (1.6, 1.5, -0.5),
    MAP: (np.log(74.0), 0.17, -0.6),
    CREAT: (np.log(1.2), 0.60, 0.4),
    URINE: (np.log(220.0), 0.70, -0.4),
}


@dataclass(frozen=True, eq=False)
class Treatment:
    """What n patients get in four hours: doses (n,) each and ventilation 0/1."""

    vasopressor: FloatArray
    fluids: FloatArray
    ventilation: FloatArray

    def vectors(self) -> FloatArray:
        """(n, 3) levels and ventilation, as the mechanism sees them."""
        levels = EDGES.levels(self.vasopressor, self.fluids)
        return np.column_stack([levels, self.ventilation])


def simulate_cohort(patients: int = 1000, seed: Seed = 0) -> pl.DataFrame:
    """A table as `read_cohort` reads it; about one stay in four is shorter than 10 rows."""
    import polars as pl

    n = whole_number(patients, "patients", minimum=1)
    rng = generator(seed)
    lengths = _lengths(n, rng)
    states, doses = _courses(n, rng)
    died = _deaths(states, lengths, rng)
    patient, step = np.nonzero(np.arange(LONGEST) < lengths[:, None])
    rows = states[patient, step]
    columns: dict[str, FloatArray | IntArray] = {
        "icustayid": FIRST_STAY + patient,
        "bloc": step + 1,
        **dict(zip(FEATURES, rows.T, strict=True)),
        **{name: doses[i][patient, step] for i, name in enumerate(COLUMNS[-4:-1])},
        "died_within_48h_of_out_time": died[patient].astype(np.int64),
    }
    table = pl.DataFrame({name: columns[name] for name in COLUMNS})
    return table.with_columns(pl.col(WHOLE).cast(pl.Int64))


def write_cohort(path: str | Path, patients: int = 1000, seed: Seed = 0) -> None:
    """Write a simulated table as CSV."""
    check_target(path)
    table = simulate_cohort(patients, seed)
    with atomic_file(path) as file:
        table.write_csv(file)


def draw_noise(n: int, rng: np.random.Generator) -> FloatArray:
    """(n, 9) correlated noise with unit variances and Student's tails."""
    correlation = np.eye(len(MOVING))
    for (i, j), value in CORRELATIONS.items():
        correlation[i, j] = correlation[j, i] = value
    normal = rng.standard_normal((n, len(MOVING))) @ np.linalg.cholesky(correlation).T
    stretch = np.sqrt((TAIL - 2.0) / rng.chisquare(TAIL, size=(n, 1)))
    return np.asarray(normal * stretch)


def recorded(states: FloatArray) -> FloatArray:
    """States (n, 12) as the table has them: rounded, within what an ICU records."""
    rows = states.copy()
    for feature, (decimals, low, high) in RECORDED.items():
        column = len(FIXED) + feature
        rows[:, column] = np.clip(np.round(states[:, column], decimals), low, high)
    return rows


def _courses(n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """(n, 20, 12) states and (3, n, 20) doses and ventilation."""
    mechanism = SimulatedSepsis()
    states = np.empty((n, LONGEST, len(FEATURES)))
    doses = np.empty((3, n, LONGEST))
    current = _arrivals(n, rng)
    before = Treatment(np.zeros(n), np.zeros(n), (rng.random(n) < 0.3).astype(np.float64))
    for t in range(LONGEST):
        treatment = _treat(current, before, t, rng)
        states[:, t] = current
        doses[:, :, t] = treatment.vasopressor, treatment.fluids, treatment.ventilation
        noise = draw_noise(n, rng)
        current = recorded(mechanism.step(current, treatment.vectors(), noise))
        before = treatment
    return states, doses


def _arrivals(n: int, rng: np.random.Generator) -> FloatArray:
    """(n, 12) first rows."""
    severity = rng.standard_normal(n)
    fixed = np.column_stack(
        [
            rng.random(n) < 0.44,
            rng.random(n) < 0.35,
            np.round(np.clip(rng.normal(66.0, 16.0, n), 18.0, 91.4) * DAYS, 1),
        ]
    )
    z = np.empty((n, len(ARRIVAL)))
    for feature, (mean, spread, share) in ARRIVAL.items():
        own = rng.standard_normal(n)
        z[:, feature] = mean + spread * (share * severity + np.sqrt(1.0 - share**2) * own)
    organs = from_coordinates(z)
    sofa = smooth_score(organs) + rng.normal(0.0, 0.5, n)
    return recorded(np.column_stack([fixed, organs, sofa]))


def _treat(states: FloatArray, before: Treatment, t: int, rng: np.random.Generator) -> Treatment:
    """What clinicians give who look at the row and at what was given before."""
    n = len(states)
    fio2, pao2, _, _, gcs, pressure, _, urine, sofa = states[:, len(FIXED) :].T
    low_pressure = _logistic((66.0 - pressure) / 5.0)
    low_urine = _logistic((100.0 - urine) / 40.0)
    sick = _logistic((sofa - 8.0) / 3.0)
    was_on = before.vasopressor > 0.0
    starts = rng.random(n) < _logistic(-3.4 + 4.0 * low_pressure + 1.8 * sick + 2.6 * was_on)
    running = np.where(was_on, np.log(np.maximum(before.vasopressor, 0.01) / 0.15), 0.0)
    dose = 0.15 * np.exp(
        -0.35 + 0.6 * running + 0.7 * low_pressure + 0.3 * sick + 0.75 * rng.standard_normal(n)
    )
    vasopressor = np.where(starts, np.clip(np.round(dose, 3), 0.005, 5.0), 0.0)
    flows = rng.random(n) < _logistic(1.0 + 1.2 * low_pressure + 0.8 * low_urine)
    volume = 120.0 * np.exp(
        1.0 * low_pressure + 0.7 * low_urine - 0.05 * t + 1.2 * rng.standard_normal(n)
    )
    fluids = np.where(flows, np.clip(np.round(volume, 1), 1.0, 10_000.0), 0.0)
    needed = 2.2 * _logistic((200.0 - pao2 / fio2) / 50.0) + 1.8 * _logistic((8.0 - gcs) / 1.5)
    ventilated = rng.random(n) < _logistic(-3.7 + needed + 4.4 * before.ventilation)
    return Treatment(vasopressor, fluids, ventilated.astype(np.float64))


def _lengths(n: int, rng: np.random.Generator) -> IntArray:
    """(n,) rows of each stay: the record ends after 80 hours, or with the stay."""
    short = rng.integers(2, SHORTEST, size=n)
    usual = LONGEST - np.minimum(rng.geometric(0.2, size=n) - 1, LONGEST - SHORTEST)
    return np.where(rng.random(n) < FULL_STAY_SHARE, usual, short)


def _deaths(states: FloatArray, lengths: IntArray, rng: np.random.Generator) -> BoolArray:
    """(n,) more likely after a course with a high and rising SOFA, and with age."""
    sofa = states[:, :, FEATURES.index("SOFA")]
    inside = np.arange(LONGEST) < lengths[:, None]
    mean = (sofa * inside).sum(axis=1) / lengths
    rise = sofa[np.arange(len(sofa)), lengths - 1] - sofa[:, 0]
    years = states[:, 0, FEATURES.index("age")] / DAYS
    return rng.random(len(sofa)) < _logistic(
        -4.6 + 0.3 * mean + 0.15 * rise + (years - 65.0) / 40.0
    )


def _logistic(values: FloatArray) -> FloatArray:
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * values))
