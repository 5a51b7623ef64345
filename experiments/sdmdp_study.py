"""The study of the 2025 paper (Sec. 4): how large it is, its planners, and what V* is in a problem.

Leaves are valued as in the paper, by playing on at random; UCT+ plays on by the model's own policy
instead. Exploration and temperature are the library's, in units of the spread of returns: the
paper's constants are in units of money or miles, and 0.9 of a dollar means nothing where a voyage
costs 150,000.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from counterplan import __version__
from counterplan.errors import NotApplicableError
from counterplan.planning import policies
from counterplan.planning.bounds import value_bounds
from counterplan.planning.evaluate import evaluate
from counterplan.planning.exact_value import exact_value
from counterplan.planning.model import ExogenousModel
from counterplan.planning.policies import KnownRule, Rule
from counterplan.planning.search.planners import MENTS, UCT, TreePlanner
from experiments.figure import Options
from experiments.sdmdp_domains import CONFIGS, DOMAINS, SIMULATIONS, Case, baseline
from experiments.sdmdp_players import Recording
from experiments.sdmdp_prepared import Prepared
from experiments.sdmdp_table import PAPER, REDUCED


class Contender(NamedTuple):
    """A planner: its algorithm, how leaves are valued, and whether values are clipped."""

    algorithm: str
    clip: bool

    @property
    def name(self) -> str:
        """In tables and legends."""
        return f"{self.algorithm} clipped" if self.clip else self.algorithm


ALGORITHMS = ("UCT", "UCT+", "MENTS")
CONTENDERS = tuple(Contender(name, clip) for name in ALGORITHMS for clip in (False, True))


def planner(algorithm: str, simulations: int) -> TreePlanner:
    """The tree search of this name."""
    if algorithm == "MENTS":
        return MENTS(simulations=simulations, leaf="uniform")
    return UCT(simulations=simulations, leaf="rollout" if algorithm == "UCT+" else "uniform")


@dataclass(frozen=True)
class Sizes:
    """How large a study is.

    configs      of each domain
    episodes     share of a full run's
    simulations  share of the paper's
    budgets      simulations after which values at the root are shown
    seeds        searches at each of them
    samples      futures that means of references are over
    prepared     futures that bounds for clipping come from
    """

    configs: tuple[str, ...] = CONFIGS
    episodes: float = 1.0
    simulations: float = 1.0
    budgets: tuple[int, ...] = (10, 32, 100, 316, 1000, 3162, 10_000)
    seeds: int = 30
    samples: int = 20_000
    prepared: int = 4000


FULL = Sizes()
QUICK = Sizes(
    configs=("A", "C"),
    episodes=0.05,
    simulations=0.1,
    budgets=(10, 100, 1000),
    seeds=4,
    samples=1000,
    prepared=300,
)


@dataclass(frozen=True)
class Reference:
    """What results are measured against.

    low, high    the interval that V* lies in (with probability 95 %); a point where it is exact
    expectation  mean outcome of `rule` over all futures, and the standard error of that
    rule         the optimal policy, or the best one known
    """

    low: float
    high: float
    expectation: float
    se: float
    rule: Rule

    @property
    def exact(self) -> bool:
        """Whether V* itself is known."""
        return self.low == self.high


class Study:
    """The problems and their references, made when first needed."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.sizes = QUICK if options.quick else FULL
        self._problems: dict[Case, ExogenousModel] = {}
        self._prepared: dict[Case, Prepared] = {}
        self._references: dict[Case, Reference] = {}
        self._lock = threading.RLock()

    def settings(self, figure: int) -> dict[str, Any]:
        """What kept cells depend on."""
        return {
            "counterplan": __version__,
            "figure": figure,
            "quick": self.options.quick,
            "seed": self.options.seed,
            **asdict(self.sizes),
        }

    def cases(self, domains: Sequence[str]) -> list[Case]:
        """Every problem of these domains, the first variant's first."""
        return [
            Case(domain, variant, config)
            for domain in domains
            for variant in DOMAINS[domain].variants
            for config in self.sizes.configs
        ]

    def featured(self, domains: Sequence[str]) -> list[Case]:
        """One problem of each domain."""
        return [
            Case(domain, DOMAINS[domain].variants[0], DOMAINS[domain].featured)
            for domain in domains
        ]

    def problem(self, case: Case) -> ExogenousModel:
        """The problem, made once."""
        with self._lock:
            if case not in self._problems:
                domain = DOMAINS[case.domain]
                self._problems[case] = domain.make(case.config, case.variant)
            return self._problems[case]

    def played_by(self, case: Case, contender: Contender) -> ExogenousModel:
        """The problem as this planner gets it: with bounds, if it clips."""
        problem = self.problem(case)
        if not contender.clip:
            return problem
        with self._lock:
            if case not in self._prepared:
                made = Prepared.prepare(problem, self.sizes.prepared, self.seed(case))
                self._prepared[case] = made
            return self._prepared[case]

    def reference(self, case: Case) -> Reference:
        """V* and the policy that stands for it, found once."""
        with self._lock:
            if case not in self._references:
                self._references[case] = self._referred(case)
            return self._references[case]

    def seed(self, case: Case) -> int:
        """One for every problem, the same in all figures."""
        place = (*_place(case), CONFIGS.index(case.config))
        return int(self.options.generator(*place).integers(2**31))

    @property
    def budget(self) -> str:
        """What a planner's number of simulations is called: the paper's own, or a share of it."""
        return PAPER if self.sizes.simulations == 1.0 else REDUCED

    def simulations(self, case: Case) -> int:
        """For one decision: the paper's number, or the study's share of it."""
        number = DOMAINS[case.domain].simulations.get(case.config, SIMULATIONS)
        return max(10, round(self.sizes.simulations * number))

    def episodes(self, case: Case) -> int:
        """How many futures everyone plays on."""
        domain = DOMAINS[case.domain]
        part = 1.0 if case.variant == domain.variants[0] else 0.25
        return max(10, round(self.sizes.episodes * part * domain.episodes))

    def _referred(self, case: Case) -> Reference:
        from counterplan.planning.model import estimate
        from experiments.control_variate import controlled_outcomes

        problem, samples = self.problem(case), self.sizes.samples
        fit, play, bound = self.options.generator(self.seed(case)).spawn(3)
        try:
            value = exact_value(problem)
            return Reference(value, value, value, 0.0, policies.Optimal().prepare(problem))
        except NotApplicableError:
            rule = baseline(case).prepare(problem, fit)
        recording = Recording(KnownRule("best known", rule))
        # Without luck few futures are enough.
        actions = evaluate(problem, recording, samples // 10, seed=play).actions
        played = estimate(controlled_outcomes(problem, recording.paths, actions))
        bounds = value_bounds(problem, samples, bound, method="tight")
        return Reference(*bounds.interval(), played.mean, played.se, rule)


def _place(case: Case) -> tuple[int, int]:
    return list(DOMAINS).index(case.domain), DOMAINS[case.domain].variants.index(case.variant)
