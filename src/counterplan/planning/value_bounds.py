"""What the optimal value lies between.

With foresight one does at least as well as the optimal policy, with any policy at most as well:

    rewards:  E[policy] <= V* <= E[hindsight]         costs:  E[hindsight] <= V* <= E[policy]

'plain'  hindsight as it is, and the plan that is optimal for expected values, executed on the same
         paths. The mean over paths converges to E[hindsight], not to V*: the paper's Thm. 1
         (A.34-A.36) equates the two, but they differ, on bunkering by 13 % of V*
'tight'  hindsight that pays for knowing the future (dual), and the policy of regression Monte Carlo
         (least_squares); each model's best penalties
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, TypeAlias

from counterplan.core.validation import FloatArray, Seed, generator, whole_number
from counterplan.errors import InputError
from counterplan.exogenous.model import ExogenousModel
from counterplan.planning.estimate import estimate

Method: TypeAlias = Literal["plain", "tight"]
METHODS = ("plain", "tight")
# Means without any spread are still sums of rounded numbers.
ROUNDING = 1e-12


@dataclass(frozen=True)
class ValueBounds:
    """lower <= V* <= upper, up to the Monte Carlo errors of the two.

    lower, upper        means over sampled futures
    lower_se, upper_se  their standard errors
    lower_method        what the lower bound is the value of, and the upper
    samples             how many futures
    """

    lower: float
    upper: float
    lower_se: float
    upper_se: float
    lower_method: str
    upper_method: str
    samples: int

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Contains V* with at least this probability, both means taken as normal.

        Tight bounds of options vary so little that a few rare paths make up most of their spread:
        with 2,000 samples an upper end may then miss V* more often than it should (8 % instead of
        2.5 % in the worst configuration measured), by some millionths of it.
        """
        if not 0.0 < confidence < 1.0:
            raise InputError(f"confidence must lie between 0 and 1, got {confidence}")
        z = NormalDist().inv_cdf(0.5 + confidence / 2)
        rounding = ROUNDING * max(abs(self.lower), abs(self.upper))
        below, above = z * self.lower_se + rounding, z * self.upper_se + rounding
        return self.lower - below, self.upper + above


def value_bounds(
    problem: ExogenousModel, samples: int = 2000, seed: Seed = 0, method: Method = "plain"
) -> ValueBounds:
    """Bounds on the optimal value at the start, each with its standard error."""
    if method not in METHODS:
        raise InputError(f"method {method!r} is unknown: choose 'plain' or 'tight'")
    samples = whole_number(samples, "samples")
    if samples < 2:
        raise InputError(f"samples must be at least 2 to have a standard error, got {samples}")
    find = _plain if method == "plain" else _tight
    executed, hindsight, policy, foresight = find(problem, samples, seed)
    below, above = estimate(executed), estimate(hindsight)
    if problem.sense == "min":
        below, above, policy, foresight = above, below, foresight, policy
    return ValueBounds(below.mean, above.mean, below.se, above.se, policy, foresight, samples)


def _plain(
    problem: ExogenousModel, samples: int, seed: Seed
) -> tuple[FloatArray, FloatArray, str, str]:
    from counterplan.allocation.hindsight import allocate
    from counterplan.planning.playing import follow, futures
    from counterplan.planning.policies import OpenLoop

    rule = OpenLoop().prepare(problem)
    paths = futures(problem, samples, generator(seed))
    known = allocate(problem, paths)
    executed = follow(problem, rule, paths)
    return executed, known.values, "executed open loop", f"hindsight ({known.method})"


def _tight(
    problem: ExogenousModel, samples: int, seed: Seed
) -> tuple[FloatArray, FloatArray, str, str]:
    from counterplan.planning.information_relaxation import penalised

    return penalised(problem, samples, seed)
