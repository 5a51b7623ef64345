"""The mean over the worst share: against its definition, a linear program, and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from counterplan.errors import InputError
from counterplan.planning.risk import Risk


@pytest.mark.parametrize("risk", [1.0, 0.25, (0.5, 2 / 3), (0.0, 0.1), Risk(0.4, 0.9)])
def test_equals_the_worst_change_of_probabilities(risk: object) -> None:
    rng, measure = np.random.default_rng(0), Risk.of(risk)
    for _ in range(20):
        v, p = rng.normal(size=7).round(1), rng.dirichlet(np.ones(7))
        # The dual: min over p' <= p / alpha that sum to one.
        found = linprog(
            v, A_eq=np.ones((1, 7)), b_eq=[1.0], bounds=[(0, q / measure.share) for q in p]
        )
        expected = measure.mean * (p @ v) + (1 - measure.mean) * found.fun
        assert measure.value(v, p) == pytest.approx(expected, abs=1e-9)
        assert measure.weights(v, p).sum() == pytest.approx(1.0, abs=1e-12)
        several = measure.value(np.stack([v, -v]), p)
        assert several[0] == pytest.approx(expected, abs=1e-9)


def test_estimates_have_their_error() -> None:
    rng, measure = np.random.default_rng(1), Risk.of((0.25, 0.1))
    # Standard normal: the mean of the worst tenth is -phi(z) / 0.1 = -1.75498.
    runs = [measure.estimate(rng.normal(size=500)) for _ in range(400)]
    means = np.array([one.mean for one in runs])
    assert means.mean() == pytest.approx(0.75 * -1.75498, abs=0.02)
    assert np.mean([one.se for one in runs]) == pytest.approx(means.std(), rel=0.1)
    sample = rng.normal(size=40)
    equal = np.full(40, 1 / 40)
    assert measure.estimate(sample).mean == pytest.approx(float(measure.value(sample, equal)))
    costs = measure.estimate(-sample, "min")
    assert costs.mean == pytest.approx(-measure.estimate(sample).mean)


@pytest.mark.parametrize(
    "given", [0.0, 1.5, -1, float("nan"), "a", "0.5", (2.0, 0.5), (1, 2, 3), None]
)
def test_what_is_no_risk_is_refused(given: object) -> None:
    with pytest.raises(InputError, match="risk"):
        Risk.of(given)
