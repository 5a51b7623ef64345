"""Sepsis treatment in intensive care (2023 paper, section 5 and appendix G).

States are twelve features of a patient every four hours, of which gender, re-admission and age stay
as they are; actions are five levels each of vasopressors and intravenous fluids, numbered
5 * vasopressor + fluids. Mechanical ventilation is a third input of the model, but no choice: it is
replayed from the episode. The reward of a state is -SOFA.

    cohort = sepsis.read_cohort("mimic-table.csv")          # or sepsis.write_cohort(path) first
    scaling = sepsis.scaling(cohort)
    explain(scm, episode, k=3, actions=sepsis.action_set(episode), reward=sepsis.reward())

MIMIC-III needs credentials, so `simulate_cohort` makes tables of the same form from an invented
process, whose true counterfactuals are known (`SimulatedSepsis`). Nothing in it is estimated from
patients: the numbers are chosen so that tables look like an ICU's and treatment matters in ways
that a search has to think about. It guides no one's care.

Each feature i has a link psi_i onto its physical range (exponential, logistic or softplus) and
moves in the coordinate z_i = psi_i^{-1}(s_i):

    s'_i = psi_i(h_i(s, a) + phi_i(s, a) * u_i),   u correlated, with heavier tails than normal

so the process is element-wise bijective: the paper's identifiability result holds for it. What h
does in four hours, with v, f in [0, 1] for vasopressor and fluid level / 4:

    blood pressure   falls with severity (SOFA) and age; vasopressors raise it, and fully only in a
                     filled circulation (v times a rising function of f); fluids raise a low one
    urine            follows pressure and fluids; vasopressors without fluids cut it
    creatinine       rises slowly while pressure or urine is low: harm that shows many steps later
    paO2             follows FiO2; fluids in the lungs lower it, the more the higher the level
    consciousness    falls with low pressure, severity and ventilation (sedation)
    platelets        fall with severity, bilirubin rises with it, low pressure and vasopressors
    SOFA             follows the change of a smooth score of the organs as h expects them and slowly
                     makes up for its distance to it (like the real score, it looks back); treatment
                     also acts at once, for good where pressure is lacking and for bad elsewhere

The score counts pressure for the circulation, not the vasopressor dose, which would make the
treatment itself the illness. Simulated patients are treated for up to 80 hours by clinicians who
look at the current row and at what was given before; nothing else drives treatment and illness.
Doses are continuous and often zero; the mechanism sees their levels under the fixed `EDGES`, which
are close to the quartiles of any large simulated table (`read_cohort(path, edges=EDGES)` gives
exactly the levels that acted). What is recorded is rounded and kept within what an ICU records, and
the patient goes on from the recorded values. So every recorded row is

    recorded(SimulatedSepsis.step(row before, levels, noise))

and the noise that `SimulatedSepsis` infers from a table reproduces it exactly: rounding is part of
it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.files import atomic_file, check_target
from counterplan.core.reward import LinearReward
from counterplan.core.shown import module_tells
from counterplan.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    Seed,
    generator,
    whole_number,
)
from counterplan.domains.icu_episodes import LEVELS
from counterplan.domains.sepsis_table import (
    COLUMNS,
    FEATURES,
    FIXED,
    LONGEST,
    MOVING,
    SHORTEST,
    CohortLayout,
    DoseEdges,
    SepsisCohort,
    read_cohort,
)
from counterplan.errors import InputError
from counterplan.scm.point import ElementwiseSCM, Scaling
from counterplan.tables.parts import Rows

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "ACTIONS",
    "EDGES",
    "FEATURES",
    "FIXED",
    "DoseEdges",
    "SepsisCohort",
    "SimulatedSepsis",
    "action_set",
    "read_cohort",
    "reward",
    "scaling",
    "simulate_cohort",
    "write_cohort",
]

# --- The mechanism ----------------------------------------------------------------------------

DAYS = 365.25
# A map from a feature's coordinate to its range, and its inverse.
Link: TypeAlias = tuple[Callable[[FloatArray], FloatArray], Callable[[FloatArray], FloatArray]]
# Indices into MOVING.
FIO2, PAO2, PLATELET, BILI, GCS, MAP, CREAT, URINE, SOFA_SCORE = range(len(MOVING))
# How much of its distance to the organs' score SOFA makes up for in one step.
CATCH_UP = 0.3
# Spread of one step's noise, in each feature's own coordinate.
SPREAD = np.array([0.30, 0.18, 0.06, 0.07, 0.40, 0.10, 0.07, 0.40, 0.40])


class SimulatedSepsis(ElementwiseSCM):
    """The true mechanism behind `simulate_cohort`, in physical units.

    states   (n, 12) as in the table; values need not be rounded
    actions  (n, 3) vasopressor level, fluid level, ventilation
    noise    (n, 9) one for each moving feature
    """

    fixed = len(FIXED)

    def step(self, states: FloatArray, actions: FloatArray, noise: FloatArray) -> FloatArray:
        moved = self.location(states, actions) + self.scale(states, actions) * noise
        return np.concatenate([states[:, : self.fixed], from_coordinates(moved)], axis=1)

    def infer(self, states: FloatArray, actions: FloatArray, after: FloatArray) -> FloatArray:
        moved = to_coordinates(after[:, self.fixed :])
        return (moved - self.location(states, actions)) / self.scale(states, actions)

    def scale(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """(n, 9) phi: the sicker, the less predictable."""
        sick = _rising(states[:, FEATURES.index("SOFA")], 8.0, 3.0)
        return SPREAD * (0.8 + 0.4 * sick)[:, None]

    def location(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """(n, 9) h, in the features' own coordinates."""
        if states.ndim != 2 or states.shape[1] != len(FEATURES):
            raise InputError(
                f"states have shape {states.shape}, expected (n, {len(FEATURES)}): "
                f"{', '.join(FEATURES)}"
            )
        z = to_coordinates(states[:, self.fixed :])
        drift = np.stack(self._drifts(states, actions, z), axis=1)
        organs = z[:, :SOFA_SCORE] + drift
        now = smooth_score(states[:, self.fixed : -1])
        then = smooth_score(from_coordinates(organs))
        sofa = z[:, SOFA_SCORE] + (then - now) + CATCH_UP * (now - states[:, -1])
        return np.column_stack([organs, sofa + _perfusion(states, actions)])

    def _drifts(self, states: FloatArray, actions: FloatArray, z: FloatArray) -> list[FloatArray]:
        """(n,) for each organ feature: how its coordinate is expected to change."""
        gender, readmitted, age = states[:, : self.fixed].T
        fio2, pao2, _, _, _, pressure, creatinine, urine, sofa = states[:, self.fixed :].T
        v, f, vent = actions[:, 0] / (LEVELS - 1), actions[:, 1] / (LEVELS - 1), actions[:, 2]
        frail = np.tanh((age / DAYS - 65.0) / 20.0) + 0.3 * readmitted
        sick = _rising(sofa, 8.0, 3.0)
        low_pressure = _rising(-pressure, -65.0, 5.0)
        low_urine = _rising(-urine, -100.0, 40.0)
        failing = _rising(creatinine, 2.0, 0.6)
        hypoxic = _rising(-pao2 / fio2, -200.0, 50.0)
        support = v * (0.6 + 0.4 * np.tanh(2.0 * f))
        dry_squeeze = v * (1.0 - np.tanh(2.0 * f))

        def pull(feature: int, rate: float, target: FloatArray) -> FloatArray:
            return np.asarray(rate * (target - z[:, feature]))

        wanted_oxygen = -1.3 + 0.6 * vent + 0.9 * hypoxic
        oxygen = np.log(105.0) + 0.9 * (fio2 - 0.4) - 0.3 * sick + 0.15 * vent - 0.35 * f**2
        awake = 2.4 - 1.6 * vent - 1.2 * low_pressure - 1.2 * sick - 0.2 * frail
        mean_pressure = np.log(79.0) - 0.30 * sick - 0.05 * frail + 0.30 * support
        mean_pressure += 0.15 * f * low_pressure
        flow = np.log(210.0) - 0.9 * low_pressure - 1.0 * failing + 0.7 * f * (1.0 - 0.7 * failing)
        healthy = np.log(0.9) - 0.1 * gender + 0.1 * frail
        injury = 0.05 * low_pressure + 0.03 * low_urine + 0.04 * dry_squeeze + 0.02 * v**2
        return [
            pull(FIO2, 0.30, wanted_oxygen),
            pull(PAO2, 0.40, oxygen),
            pull(PLATELET, 0.02, np.full_like(sick, np.log(210.0))) - 0.025 * sick - 0.01 * f,
            pull(BILI, 0.03, np.full_like(sick, np.log(0.8)))
            + 0.03 * sick
            + 0.03 * low_pressure
            + 0.04 * v**2,
            pull(GCS, 0.25, awake),
            pull(MAP, 0.40, mean_pressure),
            pull(CREAT, 0.04, healthy) + injury,
            pull(URINE, 0.45, flow - 0.3 * dry_squeeze),
        ]


def _perfusion(states: FloatArray, actions: FloatArray) -> FloatArray:
    """(n,) points that treatment adds at once: fewer where pressure is lacking, more elsewhere."""
    v, f = actions[:, 0] / (LEVELS - 1), actions[:, 1] / (LEVELS - 1)
    lacking = _rising(-states[:, FEATURES.index("MeanBP")], -70.0, 5.0)
    relief = 0.4 * lacking * v * (0.6 + 0.4 * np.tanh(2.0 * f))
    burden = 0.1 * (1.0 - lacking) * v + 0.2 * (1.0 - 0.7 * lacking) * f**2
    return np.asarray(burden - relief)


def _rising(values: FloatArray, middle: float | FloatArray, width: float) -> FloatArray:
    """From 0 to 1 around a middle."""
    return _sigmoid((values - middle) / width)


def _sigmoid(values: FloatArray) -> FloatArray:
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * values))


def _between(low: float, high: float) -> Link:
    return lambda z: low + (high - low) * _sigmoid(z), lambda s: np.log((s - low) / (high - s))


def _above(low: float) -> Link:
    return lambda z: np.exp(z) + low, lambda s: np.log(s - low)


def _softly_above(low: float) -> Link:
    return lambda z: np.logaddexp(0.0, z) + low, lambda s: s - low + np.log(-np.expm1(low - s))


# psi and its inverse for each of MOVING.
LINKS = (
    *(_between(0.15, 1.05), _above(0.0), _above(0.0), _above(0.0), _between(2.0, 16.0)),
    *(_above(0.0), _above(0.0), _above(-30.0), _softly_above(-0.5)),
)


def to_coordinates(features: FloatArray) -> FloatArray:
    """(n, m) z of the first m moving features."""
    with np.errstate(invalid="ignore", divide="ignore"):
        columns = zip(LINKS, features.T, strict=False)
        z = np.column_stack([inverse(values) for (_, inverse), values in columns])
    for row, i in np.argwhere(~np.isfinite(z)):
        raise InputError(
            f"{MOVING[i]} is {features[row, i]}, which the simulated process never reaches"
        )
    return z


def from_coordinates(z: FloatArray) -> FloatArray:
    """(n, m) the first m moving features in physical units."""
    return np.column_stack([link(values) for (link, _), values in zip(LINKS, z.T, strict=False)])


def smooth_score(organs: FloatArray) -> FloatArray:
    """(n,) SOFA without steps, from the eight organ features (n, 8): a gentle ramp for each organ,
    from none to all of its points. Vasopressor doses are not counted."""
    fio2, pao2, platelets, bilirubin, gcs, pressure, creatinine, urine = organs.T
    lungs = _rising(-np.log(pao2 / fio2), -np.log(230.0), 0.28)
    coagulation = _rising(-np.log(platelets), -np.log(62.0), 0.40)
    liver = _rising(np.log(bilirubin), np.log(3.8), 0.55)
    nerves = _rising(-gcs, -10.0, 1.8)
    circulation = _rising(-pressure, -67.5, 5.0)
    # Little urine counts like a higher creatinine.
    worse = 1.4 * _rising(-urine, -70.0, 45.0)
    kidneys = _rising(np.log(creatinine) + worse, np.log(2.9), 0.55)
    return np.asarray(4.0 * (lungs + coagulation + liver + nerves + kidneys) + 2.0 * circulation)


# --- Simulated tables -------------------------------------------------------------------------

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


def simulate_cohort(patients: int = 1000, seed: Seed = 0) -> pl.DataFrame:
    """A table as `read_cohort` reads it; about one stay in four is shorter than 10 rows."""
    import polars as pl

    n = whole_number(patients, "patients", minimum=1)
    rng = generator(seed)
    lengths = _lengths(n, rng)
    states, doses = _trajectories(n, rng)
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
    for column, (decimals, low, high) in enumerate(RECORDED.values(), len(FIXED)):
        rows[:, column] = np.clip(np.round(states[:, column], decimals), low, high)
    return rows


def _trajectories(n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """(n, 20, 12) states and (3, n, 20) doses and ventilation."""
    mechanism = SimulatedSepsis()
    states, doses = np.empty((n, LONGEST, len(FEATURES))), np.empty((3, n, LONGEST))
    current = _arrivals(n, rng)
    given = np.stack([np.zeros(n), np.zeros(n), rng.random(n) < 0.3])
    for t in range(LONGEST):
        given = _treat(current, given, t, rng)
        states[:, t], doses[:, :, t] = current, given
        vectors = np.column_stack([EDGES.levels(given[0], given[1]), given[2]])
        current = recorded(mechanism.step(current, vectors, draw_noise(n, rng)))
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


def _treat(states: FloatArray, before: FloatArray, t: int, rng: np.random.Generator) -> FloatArray:
    """(3, n) vasopressor and fluid doses and ventilation that clinicians give who look at the row
    and at what was given before."""
    n, (pressor, _, ventilation) = len(states), before
    fio2, pao2, _, _, gcs, pressure, _, urine, sofa = states[:, len(FIXED) :].T
    low_pressure = _sigmoid((66.0 - pressure) / 5.0)
    low_urine = _sigmoid((100.0 - urine) / 40.0)
    sick = _sigmoid((sofa - 8.0) / 3.0)
    was_on = pressor > 0.0
    starts = rng.random(n) < _sigmoid(-3.4 + 4.0 * low_pressure + 1.8 * sick + 2.6 * was_on)
    running = np.where(was_on, np.log(np.maximum(pressor, 0.01) / 0.15), 0.0)
    dose = 0.15 * np.exp(
        -0.35 + 0.6 * running + 0.7 * low_pressure + 0.3 * sick + 0.75 * rng.standard_normal(n)
    )
    vasopressor = np.where(starts, np.clip(np.round(dose, 3), 0.005, 5.0), 0.0)
    flows = rng.random(n) < _sigmoid(1.0 + 1.2 * low_pressure + 0.8 * low_urine)
    volume = 120.0 * np.exp(
        1.0 * low_pressure + 0.7 * low_urine - 0.05 * t + 1.2 * rng.standard_normal(n)
    )
    fluids = np.where(flows, np.clip(np.round(volume, 1), 1.0, 10_000.0), 0.0)
    needed = 2.2 * _sigmoid((200.0 - pao2 / fio2) / 50.0) + 1.8 * _sigmoid((8.0 - gcs) / 1.5)
    ventilated = rng.random(n) < _sigmoid(-3.7 + needed + 4.4 * ventilation)
    return np.stack([vasopressor, fluids, ventilated])


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
    return rng.random(len(sofa)) < _sigmoid(-4.6 + 0.3 * mean + 0.15 * rise + (years - 65.0) / 40.0)


# --- Questions about a cohort -----------------------------------------------------------------

ACTIONS = ("vasopressor", "fluids", "ventilation")


def action_set(episode: Episode) -> FloatArray:
    """(T-1, 25, 3) what could have been given at each step: any levels, ventilation as it was."""
    return CohortLayout().action_set(episode)


def reward() -> LinearReward:
    """-SOFA, in points."""
    return CohortLayout().reward()


def scaling(cohort: SepsisCohort) -> Scaling:
    """The paper's, see `CohortLayout.state_ranges`."""
    return CohortLayout().scaling(Rows(cohort.recorded))


module_tells(globals())
