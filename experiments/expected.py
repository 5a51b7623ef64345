"""What the numbers of every figure must lie within, small (`--quick`) or full, with seed 0.

The ranges are wide enough for the few realizations of a quick run and narrow enough that a mistake
in sign, unit or method falls out of them; where the paper or theory gives a sharp statement (nobody
beats hindsight, two exact searches agree, an optimum is at least as good as observed) it is one of
the ranges. `python -m experiments --check` compares, and so do the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from experiments import expected_numbers as numbers

if TYPE_CHECKING:
    import polars as pl

# Rounding of what is exact.
EXACT = 1e-6


@dataclass(frozen=True)
class Expectation:
    """A number of a figure's table and the range it must lie in.

    number  from the table; nan, which lies in no range, where it has nothing to say
    """

    what: str
    low: float
    high: float
    number: Callable[[pl.DataFrame], float]

    def broken_by(self, table: pl.DataFrame) -> str | None:
        """What is wrong with a table, or None."""
        value = self.number(table)
        if self.low <= value <= self.high:
            return None
        return f"{self.what} is {value:.6g}, expected {self.range}"

    @property
    def range(self) -> str:
        """In words, rounding aside."""
        low, high = (0.0 if abs(end) <= EXACT else end for end in (self.low, self.high))
        if low == -inf:
            return f"at most {high:g}"
        if high == inf:
            return f"at least {low:g}"
        return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def broken(name: str, table: pl.DataFrame) -> list[str]:
    """What in the table of a figure is not as expected."""
    found = (one.broken_by(table) for one in EXPECTED[name])
    return [f"{name}: {message}" for message in found if message is not None]


def _gains(k: int, low: float, high: float) -> Expectation:
    return Expectation(f"mean improvement at k = {k}, %", low, high, numbers.improvement(k))


def _patients(low: float, high: float) -> tuple[Expectation, ...]:
    return (
        Expectation("expected gain by k = 3 changes, %", low, high, numbers.patient_gain),
        Expectation(
            "most changes expected of a patient", 0.0, 3.0 + EXACT, numbers.patient_changes
        ),
    )


def _searches(*more: Expectation) -> tuple[Expectation, ...]:
    return (
        Expectation("share of searches proved optimal", 1.0, 1.0, numbers.proved),
        Expectation("largest difference of two searches", 0.0, 1e-6, numbers.disagreement),
        Expectation("mean effective branching factor, ours", 0.5, 1.7, numbers.ours_branching),
        *more,
    )


def _played(
    domain: str, clipped: float, *more: Expectation, lowest: float = -EXACT
) -> tuple[Expectation, ...]:
    """Loss in % of V*, means over configurations of the domain's first variant; `lowest` where the
    optimum is not known and the best known policy stands for it."""
    loss = numbers.loss
    return (
        Expectation(
            "hindsight's smallest advantage over anyone on the same futures, % of V*",
            -EXACT,
            inf,
            numbers.smallest_foresight,
        ),
        Expectation("loss of UCT clipped, % of V*", lowest, clipped, loss(domain, "UCT clipped")),
        Expectation(
            "loss of MENTS clipped, % of V*", lowest, 3.0 * clipped, loss(domain, "MENTS clipped")
        ),
        *more,
    )


def _open_loop(domain: str, low: float, high: float, variant: str | None = None) -> Expectation:
    where = f" ({variant})" if variant else ""
    number = numbers.loss(domain, "open loop", variant)
    return Expectation(f"loss of open loop{where}, % of V*", low, high, number)


def _converged(method: str, most: float) -> tuple[Expectation, ...]:
    """How far values at the root are from V* after the most simulations."""
    return (
        Expectation(
            f"distance of {method} from V*, % of V*, mean",
            0.0,
            most,
            numbers.distance(method),
        ),
        Expectation(
            "V* outside of hindsight and open loop, standard errors, most",
            -inf,
            5.0,
            numbers.outside_bounds,
        ),
    )


EXPECTED: dict[str, tuple[Expectation, ...]] = {
    "discrete-fig1": (
        Expectation("mean observed outcome", 200.0, 250.0, numbers.mean_of("observed_outcome")),
        Expectation(
            "smallest improvement, %", -EXACT, inf, numbers.least("relative_difference_percent")
        ),
        _gains(1, 1.0, 4.0),
        _gains(5, 4.0, 11.0),
        _gains(10, 5.0, 15.0),
    ),
    "discrete-fig2": (
        Expectation(
            "outcome at k = 10 with alpha = 1, share of that with alpha = 0.1",
            0.5,
            0.95,
            numbers.uncertain_outcome,
        ),
        Expectation(
            "unique explanations at k = 10 with alpha = 1", 20.0, 100.0, numbers.uncertain_unique
        ),
        Expectation("unique explanations at k = 1, most", 0.0, 1.0 + EXACT, numbers.unique_of_one),
    ),
    "discrete-fig3": (
        Expectation("mean improvement at k = 3, %", 3.0, 40.0, numbers.therapy_gain),
        Expectation("smallest improvement, %", -EXACT, inf, numbers.therapy_least),
        Expectation("unique explanations at k = 3", 1.0, 60.0, numbers.therapy_unique),
    ),
    "discrete-fig4": _patients(20.0, 200.0),
    "discrete-fig5": (
        Expectation("optimal minus best other policy, least", -EXACT, inf, numbers.policy_margin),
        Expectation("greedy's share of the gain at k = 10", 0.1, 1.0, numbers.greedy_share),
        Expectation("random's share of the gain at k = 10", -5.0, 0.5, numbers.random_share),
    ),
    "discrete-fig6": _patients(0.0, 200.0),
    "continuous-fig2": _searches(
        Expectation("mean branching factor, paper's over ours", 1.1, 3.0, numbers.branching_ratio)
    ),
    "continuous-fig3": (
        Expectation("mean improvement at the largest k, %", 1.0, 30.0, numbers.sepsis_gain),
        Expectation("smallest improvement, %", -EXACT, inf, numbers.least("improvement_percent")),
        Expectation("largest difference of two searches", 0.0, 1e-6, numbers.sepsis_disagreement),
    ),
    "continuous-fig5": _searches(
        Expectation(
            "facility location over MC-Lipschitz, branching", 1.0, 3.0, numbers.facility_ratio
        )
    ),
    "continuous-fig6": (
        Expectation(
            "likelihood lost by L_h = 1, L_phi = 0.1, %", -10.0, 20.0, numbers.fit_lost(1.0)
        ),
        Expectation("likelihood lost by L_h = 0.5, %", 20.0, 150.0, numbers.fit_lost(0.5)),
    ),
    "sdmdp-fig3": _converged("MENTS clipped", 10.0),
    "sdmdp-fig4": _played("bunkering", 4.0, _open_loop("bunkering", 8.0, 30.0)),
    "sdmdp-fig6": _played(
        "bunkering",
        4.0,
        _open_loop("bunkering", 8.0, 30.0),
        _open_loop("bunkering", -EXACT, EXACT, "global"),
    ),
    "sdmdp-fig7": _converged("UCT clipped", 10.0),
    "sdmdp-fig8": _played("hybrid-3", 1.5, _open_loop("hybrid-3", 1.0, 30.0)),
    "sdmdp-fig9": _converged("UCT clipped", 15.0),
    "sdmdp-fig10": _played("hybrid-7", 3.0, _open_loop("hybrid-7", 1.0, 30.0)),
    "sdmdp-fig11": _converged("UCT clipped", 15.0),
    "sdmdp-fig12": _played("options", 4.0, _open_loop("options", -EXACT, 15.0)),
    "sdmdp-fig13": _converged("UCT clipped", 8.0),
    "sdmdp-fig14": _played("basket", 6.0, _open_loop("basket", -10.0, 30.0), lowest=-5.0),
    "sdmdp-fig15": _converged("UCT clipped", 15.0),
}
