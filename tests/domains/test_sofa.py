"""The SOFA score, threshold by threshold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from counterplan.domains.icu_episodes import Organs, sofa_points, sofa_score

HEALTHY = {
    "fio2": 0.21,
    "pao2": 95.0,
    "platelets": 250.0,
    "bilirubin": 0.6,
    "gcs": 15.0,
    "pressure": 85.0,
    "creatinine": 0.8,
    "urine": 300.0,
    "vasopressor": 0.0,
}


def organs(**changed: float) -> Organs:
    return Organs(**{name: np.array([value]) for name, value in (HEALTHY | changed).items()})


def test_nothing_fails_in_the_healthy() -> None:
    assert sofa_score(organs()).tolist() == [0]


@pytest.mark.parametrize(
    ("organ", "feature", "values", "points"),
    [
        (
            "lungs",
            "pao2",
            [84.0, 83.9, 63.0, 62.9, 42.0, 41.9, 21.0, 20.9],
            [0, 1, 1, 2, 2, 3, 3, 4],
        ),
        ("coagulation", "platelets", [150, 149, 100, 99, 50, 49, 20, 19], [0, 1, 1, 2, 2, 3, 3, 4]),
        ("liver", "bilirubin", [1.1, 1.2, 1.9, 2, 5.9, 6, 11.9, 12], [0, 1, 1, 2, 2, 3, 3, 4]),
        ("circulation", "pressure", [70, 69.9, 65, 64.9], [0, 1, 1, 2]),
        ("circulation", "vasopressor", [0, 0.01, 0.1, 0.11], [0, 3, 3, 4]),
        ("nerves", "gcs", [15, 14, 12.5, 12, 9, 6, 5, 3], [0, 1, 1, 2, 3, 3, 4, 4]),
        ("kidneys", "creatinine", [1.1, 1.2, 2, 3.4, 3.5, 5], [0, 1, 2, 2, 3, 4]),
        ("kidneys", "urine", [84, 83, 34, 33], [0, 3, 3, 4]),
    ],
)
def test_thresholds(organ: str, feature: str, values: list[float], points: list[int]) -> None:
    for value, expected in zip(values, points, strict=True):
        found = sofa_points(organs(**{feature: float(value)}))
        assert found[organ].tolist() == [expected], value
        assert sum(int(p[0]) for p in found.values()) == expected


def test_the_worse_of_two_signs_counts() -> None:
    assert sofa_score(organs(creatinine=2.5, urine=20.0)).tolist() == [4]
    assert sofa_score(organs(pressure=50.0, vasopressor=0.05)).tolist() == [3]


def test_unknown_consciousness_earns_no_points() -> None:
    assert sofa_score(replace(organs(pressure=60.0), gcs=None)).tolist() == [2]


def test_everything_fails() -> None:
    worst = organs(
        fio2=1.0, pao2=50.0, platelets=5.0, bilirubin=20.0, gcs=3.0, vasopressor=1.0, creatinine=9.0
    )
    assert sofa_score(worst).tolist() == [24]
