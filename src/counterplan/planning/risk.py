"""Risk: the mean over the worst share of what may happen, alone or mixed with the mean.

For outcomes v (to be maximised) with chances p, a share 0 < alpha <= 1 and a weight w of the mean:

    CVaR_alpha(v) = max_q  q - E[(q - v)^+] / alpha         the mean over the worst share alpha
    rho(v)        = w E[v] + (1 - w) CVaR_alpha(v)          alpha = 1: the mean

The maximum is attained at the alpha-quantile. As a change of weights, rho(v) = sum_i p'_i v_i: the
worst outcomes are taken first, each with p_i / alpha until a total of one is reached.

In planning the measure is *nested*: what is ahead counts by rho at every step,

    V_t(x, d) = max_a  r_t(x, d, a) + rho( V_{t+1}(x_{t+1}, d') | x_t )

so a plan made today is still wanted tomorrow (time consistent); its value is not the CVaR of the
total outcome, which no policy of the state alone maximises. The CVaR of totals is what `evaluate`
reports beside the mean, with its error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.planning.model import Estimate, Sense, estimate

ADVICE = "a share such as 0.25, or the mean's weight and a share such as (0.5, 0.25)"


@dataclass(frozen=True)
class Risk:
    """What counts of an uncertain outcome.

    share  alpha: the mean over the worst share; 1: over all
    mean   w: the weight of the mean beside it
    """

    share: float = 1.0
    mean: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("share", 0.0), ("mean", -1e-300)):
            given = getattr(self, name)
            try:
                found = float(given)
            except (TypeError, ValueError):
                found = np.nan
            if not least < found <= 1.0 or isinstance(given, str):
                what = "lie above 0 and not exceed 1" if name == "share" else "lie between 0 and 1"
                raise InputError(f"risk: the {name} must {what}, got {given!r}: give {ADVICE}")
            object.__setattr__(self, name, found)

    @classmethod
    def of(cls, given: RiskLike) -> Risk:
        """A share, (the mean's weight, share), or a Risk as it is."""
        if isinstance(given, Risk):
            return given
        try:
            weight, share = given  # type: ignore[misc]
        except (TypeError, ValueError):
            return cls(given)  # type: ignore[arg-type]
        return cls(share, weight)

    @classmethod
    def read(cls, text: str | None) -> Risk:
        """As options and files have it: "0.25" or "0.5,0.25"; none: the mean."""
        numbers = [float(one) for one in (text or "1").split(",")]
        return cls.of(numbers if len(numbers) > 1 else numbers[0])

    @property
    def is_mean(self) -> bool:
        return self.share == 1.0 or self.mean == 1.0

    def __str__(self) -> str:
        if self.is_mean:
            return "the mean"
        worst = f"the mean over the worst {100 * self.share:.4g} %"
        return worst if self.mean == 0.0 else f"{self.mean:g} mean + {1 - self.mean:g} {worst}"

    def weights(self, values: FloatArray, probabilities: FloatArray) -> FloatArray:
        """p' for outcomes (..., M) to be maximised with probabilities (M,) or (..., M)."""
        chances = np.broadcast_to(probabilities, values.shape)
        if self.is_mean:
            return np.array(chances)
        order = np.argsort(values, axis=-1, kind="stable")
        sorted_chances = np.take_along_axis(chances, order, axis=-1)
        before = np.cumsum(sorted_chances, axis=-1) - sorted_chances
        taken = np.clip(self.share - before, 0.0, sorted_chances) / self.share
        worst = np.empty_like(taken)
        np.put_along_axis(worst, order, taken, axis=-1)
        return np.asarray(self.mean * chances + (1.0 - self.mean) * worst)

    def value(self, values: FloatArray, probabilities: FloatArray) -> FloatArray:
        """rho over the last axis of outcomes (..., M)."""
        return np.asarray((self.weights(values, probabilities) * values).sum(axis=-1))

    def estimate(self, outcomes: FloatArray, sense: Sense = "max") -> Estimate:
        """rho of equally likely outcomes (n,), and its standard error: that of the mean of
        w v + (1 - w) (q - (q - v)^+ / alpha), which has rho as its mean."""
        sign = 1.0 if sense == "max" else -1.0
        gains = sign * np.asarray(outcomes, dtype=np.float64)
        worst = gains
        if self.share < 1.0:
            ordered = np.sort(gains)
            # The last one taken: rounding in share * n must not take one more.
            q = ordered[max(int(np.ceil(self.share * len(gains) - 1e-9)) - 1, 0)]
            worst = q - np.maximum(q - gains, 0.0) / self.share
        found = estimate(self.mean * gains + (1.0 - self.mean) * worst)
        return Estimate(sign * found.mean, found.se)


RiskLike: TypeAlias = float | tuple[float, float] | Risk | Any
MEAN = Risk()
