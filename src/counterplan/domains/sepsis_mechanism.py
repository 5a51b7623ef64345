"""An invented process of sepsis in intensive care, whose counterfactuals are known.

Nothing here is estimated from patients: the numbers are chosen so that tables look like an ICU's
and treatment matters in ways that a search has to think about. It guides no one's care.

Each feature i has a link psi_i onto its physical range (exponential, logistic or softplus) and
moves in the coordinate z_i = psi_i^{-1}(s_i):

    s'_i = psi_i(h_i(s, a) + phi_i(s, a) * u_i),        u correlated, with heavier tails than normal

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

so that treatment has effects that are delayed (through pressure, urine and creatinine), that
interact (vasopressors and fluids) and that have a price (oxygenation, kidneys, liver). The score
counts pressure for the circulation, not the vasopressor dose, which would make the treatment itself
the illness.
"""

from __future__ import annotations

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.domains.sepsis_table import FEATURES, FIXED, LEVELS, MOVING
from counterplan.errors import InputError
from counterplan.scm.point import ElementwiseSCM

DAYS = 365.25
# Indices into MOVING.
FIO2, PAO2, PLATELET, BILI, GCS, MAP, CREAT, URINE, SOFA_SCORE = range(len(MOVING))
BOUNDED = {FIO2: (0.15, 1.05), GCS: (2.0, 16.0)}
URINE_SHIFT = 30.0
SOFA_SHIFT = 0.5
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


def to_coordinates(features: FloatArray) -> FloatArray:
    """(n, m) z of the first m moving features."""
    z = np.empty_like(features)
    with np.errstate(invalid="ignore", divide="ignore"):
        for i in range(features.shape[1]):
            value = features[:, i]
            if i in BOUNDED:
                low, high = BOUNDED[i]
                z[:, i] = np.log((value - low) / (high - value))
            elif i == SOFA_SCORE:
                z[:, i] = _inverse_softplus(value + SOFA_SHIFT)
            else:
                z[:, i] = np.log(value + (URINE_SHIFT if i == URINE else 0.0))
    if not np.isfinite(z).all():
        row, i = (int(index) for index in np.argwhere(~np.isfinite(z))[0])
        raise InputError(
            f"{MOVING[i]} is {features[row, i]}, which the simulated process never reaches"
        )
    return z


def from_coordinates(z: FloatArray) -> FloatArray:
    """(n, m) the first m moving features in physical units."""
    features = np.empty_like(z)
    for i in range(z.shape[1]):
        if i in BOUNDED:
            low, high = BOUNDED[i]
            features[:, i] = low + (high - low) * _sigmoid(z[:, i])
        elif i == SOFA_SCORE:
            features[:, i] = np.logaddexp(0.0, z[:, i]) - SOFA_SHIFT
        else:
            features[:, i] = np.exp(z[:, i]) - (URINE_SHIFT if i == URINE else 0.0)
    return features


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


def _rising(values: FloatArray, middle: float | FloatArray, width: float) -> FloatArray:
    """From 0 to 1 around a middle."""
    return _sigmoid((values - middle) / width)


def _sigmoid(values: FloatArray) -> FloatArray:
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * values))


def _inverse_softplus(values: FloatArray) -> FloatArray:
    return np.asarray(values + np.log(-np.expm1(-values)))
