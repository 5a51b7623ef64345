"""The numbers of a comparison: means, losses to the optimum, and what clipping changed.

All rest on the same n futures, and on results without luck (`planning.control_variate`: penalties
with mean zero take it out). Hindsight pays no penalties, so it is compared by plain outcomes. With
l_i the loss of a method to the optimal policy on future i and g_i that of open loop, more being
worse:

    loss        mean l, with a paired t test against 0
    controlled  the optimal policy's expectation (V*, where that is known) and the mean difference
    gap closed  1 - r with r = mean l / mean g; by the delta method, its standard error is
                sd(l - r g) / (sqrt(n) mean g)
    clip gain   the paired difference of a planner with and without clipping; more is better
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import hypot
from typing import Any

import numpy as np

from counterplan.planning.evaluate import Evaluation
from counterplan.planning.model import Estimate, Sense, estimate

HINDSIGHT, OPTIMAL, OPEN_LOOP = "hindsight", "optimal", "open loop"
# What planners may use: the paper's number of simulations, a share of it in a quick study, or as
# many as take the same time.
PAPER, REDUCED, EQUAL_TIME = "paper", "reduced", "equal time"
CLIPPED = " clipped"
# A gap of fewer standard errors is no gap that could be closed.
CLEAR = 4.0


@dataclass(frozen=True)
class Played:
    """A method's results on the futures of one problem.

    budget        'paper', 'reduced' or 'equal time' for planners, '' for policies
    outcomes      what it earned or paid
    steady        the same without luck; None for hindsight
    simulations   for each decision
    milliseconds  that a decision took when it was measured
    """

    method: str
    budget: str
    outcomes: Evaluation
    steady: Evaluation | None = None
    simulations: int | None = None
    milliseconds: float | None = None


@dataclass(frozen=True)
class Standard:
    """What the methods of one problem are measured against.

    low, high    the interval of V*
    expectation  of the optimal (or best known) policy, and the standard error of that
    """

    low: float
    high: float
    expectation: float
    se: float = 0.0


def rows(played: Sequence[Played], standard: Standard) -> list[dict[str, Any]]:
    """A row of the table for each method and budget."""
    by_name = {(one.method, one.budget): one for one in played}
    return [_row(one, by_name, standard) for one in played]


def _row(
    one: Played, by_name: Mapping[tuple[str, str], Played], standard: Standard
) -> dict[str, Any]:
    def compared(other: Played) -> tuple[Evaluation, Evaluation]:
        if one.steady is None or other.steady is None:
            return one.outcomes, other.outcomes
        return one.steady, other.steady

    own, optimal = compared(by_name[OPTIMAL, ""])
    worse = _worse(own.sense)
    loss = own.compare(optimal)
    closed = gap_closed(own, optimal, compared(by_name[OPEN_LOOP, ""])[1])
    plain = by_name.get((one.method.removesuffix(CLIPPED), one.budget), one)
    gain = None if plain is one else own.compare(compared(plain)[1])
    return {
        "method": one.method,
        "budget": one.budget or None,
        "simulations": one.simulations,
        "milliseconds": one.milliseconds,
        "episodes": len(own.outcomes),
        "mean": one.outcomes.mean,
        "se": one.outcomes.se,
        "controlled_mean": standard.expectation + loss.difference,
        "controlled_se": hypot(loss.se, standard.se),
        "v_star_low": standard.low,
        "v_star_high": standard.high,
        "loss": worse * loss.difference,
        "loss_se": loss.se,
        "loss_p": loss.p_value,
        "gap_closed_percent": None if closed is None else 100.0 * closed.mean,
        "gap_closed_se": None if closed is None else 100.0 * closed.se,
        "clip_gain": None if gain is None else -worse * gain.difference,
        "clip_gain_se": None if gain is None else gain.se,
        "clip_gain_p": None if gain is None else gain.p_value,
    }


def gap_closed(own: Evaluation, optimal: Evaluation, open_loop: Evaluation) -> Estimate | None:
    """The share of the way from open loop to the optimum; None where there is no clear gap."""
    worse = _worse(own.sense)
    loss = worse * (own.outcomes - optimal.outcomes)
    gap = worse * (open_loop.outcomes - optimal.outcomes)
    whole = estimate(gap)
    if not whole.mean > CLEAR * whole.se:
        return None
    ratio = float(loss.mean()) / whole.mean
    return Estimate(1.0 - ratio, estimate(loss - ratio * gap).se / whole.mean)


def restored(name: str, sense: Sense, outcomes: Iterable[float], futures: str) -> Evaluation:
    """An evaluation from what was kept of it."""
    array = np.array(list(outcomes), dtype=np.float64)
    return Evaluation(
        name=name,
        sense=sense,
        outcomes=array,
        actions=np.empty((len(array), 0, 0)),
        seconds=0.0,
        futures=futures,
    )


def _worse(sense: Sense) -> float:
    """The sign that makes more worse."""
    return 1.0 if sense == "min" else -1.0
