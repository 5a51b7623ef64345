"""Tumour growth under chemotherapy and radiotherapy, as the literature on counterfactual forecasts
simulates it (Geng, Paganetti & Grassberger 2017; parameters and assignment of treatments of Lim,
Alaa & van der Schaar 2018 and Bica et al. 2020).

With the volume V in cm3, the chemotherapy's concentration C and the day's dose of radiation d,

    V(t+1) = V(t) (1 + rho log(K / V(t)) - beta_c C(t) - (alpha d(t) + beta d(t)^2) + e(t))
    C(t)   = C(t-1) / 2 + 5 if chemotherapy is given, d(t) = 2 Gy if radiotherapy is
    e(t)   ~ N(0, 0.01^2),   K the volume of a ball of 30 cm,   beta = alpha / 10

rho, alpha and beta_c belong to the patient and are in no table: (rho, alpha) normal with means
7e-5, 0.0398, standard deviations 7.23e-3, 0.168 and correlation 0.87, beta_c normal with 0.028 and
0.0007, drawn until positive; patients of type 1 have a mean alpha 10 % larger, of type 3 a mean
beta_c. Each treatment is given with probability

    sigma(gamma / 13 (D - 6.5)),     D the mean diameter of the last 15 days, in cm

A tumour of 13 cm is death; one of volume V is gone with probability exp(-5.8e8 V). First diameters
are log-normal by stage, within limits. What was drawn is kept: (e, recovery) of every day, and the
patient's parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterplan.core.validation import FloatArray, IntArray, Seed, generator

DAYS, WINDOW = 12, 15
ACTIONS = ((0, 0), (0, 1), (1, 0), (1, 1))  # chemotherapy, radiotherapy
CHEMO, RADIO, HALF_LIFE = 5.0, 2.0, 1.0
LARGEST, CELLS, NOISE = 13.0, 5.8e8, 0.01
GAMMA = 5.0
RHO, ALPHA, BETA_C, CORRELATION = (7e-5, 7.23e-3), (0.0398, 0.168), (0.028, 0.0007), 0.87
# Patients, mean and standard deviation of the logarithm of the diameter, its limits.
STAGES = {
    "I": (1432, 1.72, 4.70, 0.3, 5.0),
    "II": (128, 1.96, 1.63, 0.3, 13.0),
    "IIIA": (1306, 1.91, 9.40, 0.3, 13.0),
    "IIIB": (7248, 2.76, 6.87, 0.3, 13.0),
    "IV": (12840, 3.86, 8.82, 0.3, 13.0),
}
SCHEMA = """
[table]
episode = "patient"
time = "day"
[columns.stage]
role = "fixed"
labels = ["I", "II", "IIIA", "IIIB", "IV"]
ordered = true
[columns.type]
role = "fixed"
labels = ["1", "2", "3"]
[columns.diameter]
role = "state"
unit = "cm"
better = "lower"
[columns.drug]
role = "state"
[columns.chemo]
role = "action"
levels = [0, 1]
[columns.radio]
role = "action"
levels = [0, 1]
"""


def volume(diameter: Any) -> Any:
    """Of a ball."""
    return np.pi / 6.0 * diameter**3


def diameter(volume: Any) -> Any:
    """The other way."""
    return np.cbrt(6.0 / np.pi * volume)


CAPACITY, DEADLY = volume(30.0), volume(LARGEST)


@dataclass(frozen=True, eq=False)
class Patient:
    """What was observed, and what only the simulator knows.

    diameters   (T,) by day, up to the end of the tumour or the patient
    drug        (T,) concentration left from the days before
    actions     (T-1,) into `ACTIONS`
    parameters  rho, alpha, beta_c
    noise       (DAYS, 2) e and the number that decides on recovery
    """

    stage: str
    type: int
    diameters: FloatArray
    drug: FloatArray
    actions: IntArray
    parameters: FloatArray
    noise: FloatArray


def grow(
    V: FloatArray, chemo: FloatArray, radio: FloatArray, parameters: FloatArray, e: float
) -> Any:
    """The volume a day later, by the concentration C and the dose d."""
    rho, alpha, beta_c = parameters
    growth = rho * np.log(CAPACITY / V)
    return V * (1.0 + growth - beta_c * chemo - (alpha * radio + alpha / 10.0 * radio**2) + e)


def day(
    V: FloatArray, before: FloatArray, given: FloatArray, parameters: FloatArray, luck: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(n,) volumes and concentrations a day after treatments (n, 2): the deadly volume stays after
    death, 0 after recovery; luck is (e, the number that decides on recovery)."""
    chemo = before + CHEMO * given[:, 0]
    ended = (V <= 0.0) | (V >= DEADLY)
    after = grow(np.where(ended, 1.0, V), chemo, RADIO * given[:, 1], parameters, luck[0])
    gone = luck[1] < np.exp(-np.maximum(after, 0.0) * CELLS)
    after = np.where(gone, 0.0, np.minimum(after, DEADLY))
    return np.where(ended, V, after), chemo * 0.5 ** (1.0 / HALF_LIFE)


def simulate(patients: int, seed: Seed = 0, gamma: float = GAMMA) -> list[Patient]:
    """Patients under doctors who follow the diameter."""
    rng = generator(seed)
    return [_patient(rng, gamma) for _ in range(patients)]


def replay(patient: Patient, plans: IntArray) -> tuple[FloatArray, FloatArray]:
    """(n, T) diameters and concentrations under plans (n, T-1), with the patient's own luck."""
    given = np.array(ACTIONS, dtype=float)[plans]
    V = np.full(len(plans), volume(patient.diameters[0]))
    before = np.zeros(len(plans))
    courses, drug = [np.full(len(plans), patient.diameters[0])], [before]
    for t in range(plans.shape[1]):
        V, before = day(V, before, given[:, t], patient.parameters, patient.noise[t])
        courses.append(diameter(V))
        drug.append(before)
    return np.stack(courses, axis=1), np.stack(drug, axis=1)


def rows(name: str, patient: Patient) -> list[dict[str, Any]]:
    """The patient in a table; nothing is done in the last row."""
    last = len(patient.diameters) - 1
    return [
        {
            "patient": name,
            "day": t,
            "stage": patient.stage,
            "type": str(patient.type),
            "diameter": float(patient.diameters[t]),
            "drug": float(patient.drug[t]),
            "chemo": ACTIONS[patient.actions[t]][0] if t < last else None,
            "radio": ACTIONS[patient.actions[t]][1] if t < last else None,
        }
        for t in range(last + 1)
    ]


def _patient(rng: np.random.Generator, gamma: float) -> Patient:
    stage, start = _first(rng)
    kind = int(rng.integers(1, 4))
    parameters = _parameters(kind, rng)
    noise = np.column_stack([NOISE * rng.standard_normal(DAYS), rng.uniform(size=DAYS)])
    wanted = rng.uniform(size=(DAYS, 2))
    V, before = np.array([volume(start)]), np.zeros(1)
    diameters, drug, plan = [start], [0.0], []
    for t in range(DAYS):
        seen = np.mean(diameters[-WINDOW:])
        chance = 1.0 / (1.0 + np.exp(-gamma / LARGEST * (seen - LARGEST / 2.0)))
        given = (wanted[t] < chance).astype(int)
        plan.append(ACTIONS.index((int(given[0]), int(given[1]))))
        V, before = day(V, before, given[None].astype(float), parameters, noise[t])
        diameters.append(float(diameter(V)[0]))
        drug.append(float(before[0]))
        if V[0] <= 0.0 or V[0] >= DEADLY:
            break
    return Patient(
        stage, kind, np.array(diameters), np.array(drug), np.array(plan), parameters, noise
    )


def _first(rng: np.random.Generator) -> tuple[str, float]:
    counts = np.array([one[0] for one in STAGES.values()], dtype=float)
    stage = str(rng.choice(list(STAGES), p=counts / counts.sum()))
    _, mean, deviation, low, high = STAGES[stage]
    while True:
        start = float(np.exp(rng.normal(mean, deviation)))
        if low < start < high:
            return stage, start


def _parameters(kind: int, rng: np.random.Generator) -> FloatArray:
    means = [RHO[0], ALPHA[0] * (1.1 if kind == 1 else 1.0)]
    both = CORRELATION * RHO[1] * ALPHA[1]
    covariance = [[RHO[1] ** 2, both], [both, ALPHA[1] ** 2]]
    while True:
        rho, alpha = rng.multivariate_normal(means, covariance)
        beta_c = rng.normal(BETA_C[0] * (1.1 if kind == 3 else 1.0), BETA_C[1])
        if min(rho, alpha, beta_c) > 0.0:
            return np.array([rho, alpha, beta_c])
