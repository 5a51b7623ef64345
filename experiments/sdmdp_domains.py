"""The problems of the 2025 paper (E-G): a table of domains, so that figures need not know them.

A planner gets the paper's number of simulations for a decision: 1000 (Tables 8 and 12), and in
bunkering those of Table 6, since Table 4 names another number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from counterplan.domains.basket import OptionBasket
from counterplan.domains.bunkering import Bunkering
from counterplan.domains.hybrid import HybridVehicle
from counterplan.domains.options import AmericanOption
from counterplan.planning import policies
from counterplan.planning.model import ExogenousModel
from counterplan.planning.policies import Policy
from experiments.longstaff_schwartz import LeastSquaresEach

CONFIGS = ("A", "B", "C", "D", "E", "F")
SIMULATIONS = 1000


@dataclass(frozen=True)
class Domain:
    """A family of problems, one for each variant and config.

    title        in headings
    quantity     what is added up, on axes
    make         the problem of a config and a variant
    variants     the first is the one that figures are about
    baseline     the classical policy
    featured     the config that figures 3 and 4 show
    simulations  of configs where the number is not 1000
    episodes     of a full run; a quarter of them where a variant is not the first
    """

    title: str
    quantity: str
    make: Callable[[str, str], ExogenousModel]
    variants: tuple[str, ...]
    baseline: Callable[[], Policy]
    featured: str
    simulations: Mapping[str, int] = field(default_factory=dict)
    episodes: int = 200


def _bunkering(config: str, variant: Any) -> ExogenousModel:
    return Bunkering(config, variant)


def _hybrid(modes: int) -> Callable[[str, Any], ExogenousModel]:
    return lambda config, variant: HybridVehicle(config, modes, variant)


def _option(config: str, variant: Any) -> ExogenousModel:
    return AmericanOption(config, variant)


def _basket(config: str, variant: str) -> ExogenousModel:
    return OptionBasket(config)


def _least_squares() -> Policy:
    from counterplan.planning.least_squares import LeastSquares

    return LeastSquares()


DOMAINS = {
    "bunkering": Domain(
        "Maritime bunkering",
        "fuel cost",
        _bunkering,
        ("independent", "global"),
        policies.Resolve,
        "A",
        simulations={"C": 100, "F": 100},
        episodes=800,
    ),
    "hybrid-3": Domain(
        "Hybrid vehicle, 3 modes",
        "mileage",
        _hybrid(3),
        ("tight", "half"),
        policies.Greedy,
        "A",
    ),
    "hybrid-7": Domain(
        "Hybrid vehicle, 7 modes",
        "mileage",
        _hybrid(7),
        ("half", "tight"),
        policies.Greedy,
        "C",
    ),
    "options": Domain(
        "American option",
        "discounted payoff",
        _option,
        ("gbm",),
        _least_squares,
        "C",
        episodes=600,
    ),
    "basket": Domain(
        "Basket of options",
        "discounted payoff",
        _basket,
        ("uncorrelated",),
        LeastSquaresEach,
        "C",
        episodes=60,
    ),
}


class Case(NamedTuple):
    """One problem."""

    domain: str
    variant: str
    config: str

    @property
    def title(self) -> str:
        """In headings of panels."""
        single = len(DOMAINS[self.domain].variants) == 1
        return self.config if single else f"{self.config}, {self.variant}"


def baseline(case: Case) -> Policy:
    """The classical policy for a problem."""
    return DOMAINS[case.domain].baseline()
