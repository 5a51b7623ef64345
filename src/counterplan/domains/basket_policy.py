"""The classical way with a basket: Longstaff-Schwartz for each option, then the cap; and its dual.

An option is exercised where its own rule says so. Where that is more than `cap`, those that gain
most over waiting come first; and where more options would pay than the dates left can take, the
first of them go now. The martingales of the options' own values (option_dual) penalise hindsight:

    V* <= E[ max over options' dates, at most cap on one, of sum_b e^{-r t dt} payoff_b - M_b ]

which allows for the cap and is at most the sum of the options' separate bounds.

With the exact values of waiting in place of the fitted ones (`OwnValues`) the same rule earns a
little more, and needs no sampling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from counterplan.core.validation import FloatArray, Seed, generator, whole_number
from counterplan.domains.basket import OptionBasket, assign
from counterplan.domains.longstaff_schwartz import LongstaffSchwartz, longstaff_schwartz
from counterplan.domains.option_dual import OptionMartingale
from counterplan.errors import NotApplicableError
from counterplan.planning.bounds import Penalised
from counterplan.planning.model import ExogenousModel
from counterplan.planning.policies import Rule

FIT_PATHS = 50_000


@dataclass(frozen=True)
class PerOption:
    """Longstaff-Schwartz per option plus the cap.

    paths  that each option's rule is fitted on
    """

    paths: int = FIT_PATHS

    def __post_init__(self) -> None:
        whole_number(self.paths, "paths", minimum=2)

    @property
    def name(self) -> str:
        return "least squares per option"

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule:
        """The rule fitted on paths of this seed."""
        if not isinstance(model, OptionBasket):
            raise NotApplicableError(
                f"PerOption is for an OptionBasket, not a {type(model).__name__}: use LeastSquares"
            )
        return capped(model, fit_each(model, self.paths, seed))


@dataclass(frozen=True)
class OwnValues:
    """What is best for each option alone, plus the cap: no sampling, and from any state."""

    @property
    def name(self) -> str:
        return "optimal for each option, capped"

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule:
        """The rule; nothing is random about it."""
        if not isinstance(model, OptionBasket):
            raise NotApplicableError(
                f"OwnValues is for an OptionBasket, not a {type(model).__name__}: use LeastSquares"
            )
        return capped(model, model.singles)


class KnowsWaiting(Protocol):
    """An option of which it is known what waiting is worth."""

    def waiting(self, t: int, prices: FloatArray) -> FloatArray:
        """(n,) in money of date t, at prices (n,)."""
        ...


def fit_each(basket: OptionBasket, paths: int, seed: Seed) -> list[LongstaffSchwartz]:
    """The options' own rules."""
    rng = generator(seed)
    return [longstaff_schwartz(single, paths, rng) for single in basket.singles]


def capped(basket: OptionBasket, fits: Sequence[KnowsWaiting]) -> Rule:
    """The options' own rules, at most `cap` at once."""

    def rule(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        payoffs = basket.payoffs(exogenous)
        waiting = np.column_stack([fit.waiting(t, exogenous[:, b]) for b, fit in enumerate(fits)])
        possible = (resource > 0.5) & (payoffs > 0)
        wanted = (possible & (payoffs >= waiting)).sum(axis=1)
        crowded = possible.sum(axis=1) - basket.most * (basket.horizon - 1 - t)
        wanted = np.minimum(np.maximum(wanted, crowded), basket.most)
        gains = np.where(possible, payoffs - waiting, -np.inf)
        rank = np.argsort(np.argsort(-gains, axis=1, kind="stable"), axis=1)
        return np.where(rank < wanted[:, np.newaxis], 1.0, 0.0)

    return rule


def penalised_basket(basket: OptionBasket, samples: int, seed: Seed) -> Penalised:
    """Both bounds on fresh paths: the capped rules, and hindsight, each minus its martingales."""
    rng = generator(seed)
    fits = fit_each(basket, FIT_PATHS, rng)
    paths = basket.sample_paths(samples, rng)
    martingales = np.stack(
        [OptionMartingale.of(fit).along(paths[:, :, b]) for b, fit in enumerate(fits)], axis=2
    )
    # An option never exercised still pays the whole of its martingale.
    unexercised = -martingales[:, -1]
    discounts = basket.options[0].discount(np.arange(basket.horizon))[:, np.newaxis]
    gains = discounts * basket.payoffs(paths) - martingales - unexercised[:, np.newaxis]
    rule = capped(basket, fits)
    held = np.ones(unexercised.shape)
    executed = unexercised.sum(axis=1)
    for t in range(basket.horizon):
        chosen = rule(t, paths[:, t], held)
        executed += (chosen * gains[:, t]).sum(axis=1)
        held -= chosen
    best, _ = assign(gains, np.ones(unexercised.shape), basket.most)
    return Penalised(
        executed,
        unexercised.sum(axis=1) + best,
        "Longstaff-Schwartz per option and the cap, martingales as control variate",
        "hindsight (assignment) minus the martingales of the options' Longstaff-Schwartz rules",
    )
