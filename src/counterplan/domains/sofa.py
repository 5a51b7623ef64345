"""The SOFA score: how far six organ systems have failed, 0..4 points each, 24 in all.

lungs        PaO2 / FiO2 below 400, 300, 200, 100 mmHg
coagulation  platelets below 150, 100, 50, 20 thousand per microlitre
liver        bilirubin from 1.2, 2, 6, 12 mg/dL on
circulation  mean arterial pressure below 70 (1) or 65 mmHg (2); any vasopressor (3), more than
             0.1 mcg/kg/min (4)
nerves       Glasgow coma scale up to 14, 12, 9, 5
kidneys      creatinine from 1.2, 2, 3.5, 5 mg/dL on, or urine below 84 (3) or 34 mL (4) in four
             hours
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from counterplan.core.validation import FloatArray, IntArray

# Values at which the next point is given.
LUNGS = (400.0, 300.0, 200.0, 100.0)
PLATELETS = (150.0, 100.0, 50.0, 20.0)
BILIRUBIN = (1.2, 2.0, 6.0, 12.0)
PRESSURE = (70.0, 65.0)
NERVES = (14.0, 12.0, 9.0, 5.0)
CREATININE = (1.2, 2.0, 3.5, 5.0)
LITTLE_URINE, NO_URINE = 84.0, 34.0
HIGH_VASOPRESSOR = 0.1


@dataclass(frozen=True, eq=False)
class Organs:
    """What the score looks at, (n,) each.

    fio2         fraction of oxygen in the air breathed, 0.21..1
    pao2         mmHg
    platelets    thousand per microlitre
    bilirubin    mg/dL
    gcs          Glasgow coma scale, 3..15; None where it is not known: no points for it
    pressure     mean arterial pressure, mmHg
    creatinine   mg/dL
    urine        mL in four hours
    vasopressor  mcg/kg/min of noradrenaline
    """

    fio2: FloatArray
    pao2: FloatArray
    platelets: FloatArray
    bilirubin: FloatArray
    gcs: FloatArray | None
    pressure: FloatArray
    creatinine: FloatArray
    urine: FloatArray
    vasopressor: FloatArray


def sofa_points(organs: Organs) -> Mapping[str, IntArray]:
    """(n,) points of each organ system."""
    pressure = _below(organs.pressure, PRESSURE)
    infusion = np.where(organs.vasopressor > 0.0, 3, 0) + (organs.vasopressor > HIGH_VASOPRESSOR)
    urine = np.where(organs.urine < LITTLE_URINE, 3, 0) + (organs.urine < NO_URINE)
    # Up to 14 is one point: a threshold that is reached counts here, unlike the others.
    nerves = 0 if organs.gcs is None else sum((organs.gcs <= start) for start in NERVES)
    return {
        "lungs": _below(organs.pao2 / organs.fio2, LUNGS),
        "coagulation": _below(organs.platelets, PLATELETS),
        "liver": len(BILIRUBIN) - _below(organs.bilirubin, BILIRUBIN),
        "circulation": np.maximum(pressure, infusion),
        "nerves": np.zeros(len(organs.pao2), dtype=np.int64) + nerves,
        "kidneys": np.maximum(len(CREATININE) - _below(organs.creatinine, CREATININE), urine),
    }


def sofa_score(organs: Organs) -> IntArray:
    """(n,) the sum of all points."""
    return np.asarray(sum(sofa_points(organs).values()), dtype=np.int64)


def _below(values: FloatArray, thresholds: tuple[float, ...]) -> IntArray:
    """How many of the thresholds a value is below."""
    return np.asarray(sum((values < threshold) * 1 for threshold in thresholds), dtype=np.int64)
