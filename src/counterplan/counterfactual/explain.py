"""`explain` and `frontier`, the entry to every explanation: which kind of problem, which solver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack, cast, overload

from numpy.typing import ArrayLike

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.limits import Limits, ProgressCallback
from counterplan.core.problem import Problem, Solver
from counterplan.core.result import Explanation as Explanation
from counterplan.core.result import Frontier as Frontier
from counterplan.core.result import Status as Status
from counterplan.core.reward import EpisodeReward as EpisodeReward
from counterplan.core.reward import LipschitzReward as LipschitzReward
from counterplan.core.reward import Reward
from counterplan.core.shown import takes
from counterplan.core.validation import LARGEST_BUDGET, whole_number
from counterplan.errors import InputError, NotApplicableError
from counterplan.scm.point import PointSCM
from counterplan.scm.tabular import TabularMDP

if TYPE_CHECKING:
    from counterplan.core.doses import Doses
    from counterplan.counterfactual.continuous.claims import SequenceExplanation
    from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation
    from counterplan.counterfactual.executed.setting import AllocationExplanation
    from counterplan.planning.model import ExogenousModel

Kind: TypeAlias = Literal["discrete", "continuous", "planning"]


class Options(TypedDict, total=False):
    """What `explain` and `frontier` take besides the model, the episode and the budget.

    constraints  what an alternative may not do
    limits       when to stop early; the result then has status 'limit' and a certified gap. On a
                 frontier they hold for each budget
    solver       another method, e.g. `baselines.Greedy()`
    actions      continuous problems: action vectors (N, d), or (T-1, N, d) where an input is
                 replayed from the episode; or `Doses(low, high)`, any numbers between
    doubt        discrete problems: the weight, from 0 (if not given) to 1, of the worst that any
                 causal model could make of a step
    reward       continuous problems: what a state is worth, or an `EpisodeReward`, which adds what
                 actions earn and what counts of the last state only
    risk         models with members, such as a `SmoothSCM`: the share of members, the worst for the
                 alternative, whose mean outcome is optimised (0.25 if not given; 1: the mean of
                 all; None: the model alone). Of a discrete model with counts: the share of
                 posterior draws (None if not given)
    progress     called with a `Progress` now and then; where it returns False the solver stops as
                 at a limit
    """

    constraints: Constraints | None
    limits: Limits | None
    solver: Solver | None
    actions: ArrayLike | Doses | None
    reward: Reward | EpisodeReward | None
    doubt: float
    risk: float | None
    progress: ProgressCallback | None


@overload
def frontier(
    scm: PointSCM, episode: Episode, k_max: int | None = None, **options: Unpack[Options]
) -> Frontier[SequenceExplanation]: ...
@overload
def frontier(
    scm: ExogenousModel, episode: Episode, k_max: int | None = None, **options: Unpack[Options]
) -> Frontier[AllocationExplanation]: ...
@overload
def frontier(
    scm: Any, episode: Episode, k_max: int | None = None, **options: Unpack[Options]
) -> Frontier[PolicyExplanation]: ...
@takes(Options)
def frontier(
    scm: Any, episode: Episode, k_max: int | None = None, **options: Unpack[Options]
) -> Frontier[Any]:
    """Explanations for all budgets 0..k_max (default: the episode's length)."""
    kind, problem = pose(scm, episode, k_max, options)
    found = _solver_for(kind, problem, options).frontier(problem)
    return found if isinstance(found, Frontier) else Frontier(found)


@overload
def explain(
    scm: PointSCM, episode: Episode, k: int | None, **options: Unpack[Options]
) -> SequenceExplanation: ...
@overload
def explain(
    scm: ExogenousModel, episode: Episode, k: int | None, **options: Unpack[Options]
) -> AllocationExplanation: ...
@overload
def explain(
    scm: Any, episode: Episode, k: int | None, **options: Unpack[Options]
) -> PolicyExplanation: ...
@takes(Options)
def explain(scm: Any, episode: Episode, k: int | None, **options: Unpack[Options]) -> Any:
    """The alternative with at most k changes that would have been best.

    scm      a causal model: a `GumbelMaxSCM`, a plain `TabularMDP` (read as one), any model with
             `mdp` and `counterfactual_row`, a `PointSCM` for continuous states; or a planning
             problem, such as those of `domains` or an `ExogenousMDP`, whose plan was executed
    episode  what happened. Of a planning problem: what no action touched, states (T, X), or with
             the resource's levels (T, X + D), and the amounts, actions (T, A)
    k        None: as many as there are steps; then a planning problem is plain hindsight
    """
    kind, problem = pose(scm, episode, k, options)
    return _solver_for(kind, problem, options).solve(problem)


def pose(scm: Any, episode: Episode, k: int | None, options: Options) -> tuple[Kind, Problem]:
    """The problem that arguments stand for, and of which kind it is."""
    if not isinstance(episode, Episode):
        raise InputError(
            f"expected an Episode, got {type(episode).__name__}: Episode(states=..., actions=...)"
        )
    budget = len(episode) if k is None else whole_number(k, "k", maximum=LARGEST_BUDGET)
    kind = _kind(scm, episode)
    for name in ("actions", "reward"):
        if kind != "continuous" and options.get(name) is not None:
            has = "a discrete model has" if kind == "discrete" else "a planning problem brings"
            where = " in its MDP" if kind == "discrete" else ""
            raise InputError(f"{name}= is for continuous states: {has} its {name}{where}")
    if kind != "discrete" and options.get("doubt"):
        raise InputError("doubt= is for discrete models: elsewhere what would have happened is one")
    given: dict[str, Any] = {
        name: value
        for name, value in options.items()
        if name not in ("solver", "doubt") and value is not None
    }
    has_members = bool(getattr(scm, "members", ()))
    if "risk" not in options and has_members:
        from counterplan.counterfactual.continuous.setting import DEFAULT_RISK

        given["risk"] = DEFAULT_RISK
    elif "risk" in given and not has_members and kind != "discrete":
        raise InputError(
            f"risk= is for models with members: a {type(scm).__name__} is one model; leave it out"
        )
    return kind, Problem(scm, episode, budget, **given)


def _solver_for(kind: Kind, problem: Problem, options: Options) -> Solver:
    """A solver that accepts the problem."""
    given, doubt = options.get("solver"), options.get("doubt", 0.0)
    if doubt and given is not None:
        raise InputError("doubt= is for the exact solver: leave solver= out")
    solver = _default_solver(kind, problem, doubt) if given is None else given
    if problem.has_doses and given is not None and not hasattr(given, "of_doses"):
        raise NotApplicableError(
            f"{type(given).__name__} is for listed actions: leave solver= out where actions are "
            "Doses, or list the doses"
        )
    # To look whether an object has all that it takes is slow.
    if given is not None and (isinstance(given, type) or not isinstance(given, Solver)):
        raise InputError(f"solver is {solver!r}: pass an object such as baselines.Greedy()")
    if refusal := solver.refuses(problem):
        raise NotApplicableError(refusal)
    return solver


def _kind(scm: Any, episode: Episode) -> Kind:
    """What kind of problem it is; raises where model and episode do not go together."""
    kind: Kind = "discrete"
    if isinstance(scm, PointSCM):
        kind = "continuous"
    elif _is_planning(scm):
        kind = "planning"
    elif all(callable(getattr(scm, name, None)) for name in ("infer", "step")):
        raise InputError(
            f"{type(scm).__name__} has infer and step, but is no PointSCM: make it a subclass, "
            f"class {type(scm).__name__}(counterplan.scm.PointSCM)"
        )
    elif episode.states.ndim == 2 and not isinstance(scm, TabularMDP) and not hasattr(scm, "mdp"):
        raise InputError(
            f"{type(scm).__name__} is no model that {episode.name}, which has features, goes with: "
            "pass a PointSCM, or a planning problem with horizon, sense, start, draw, actions, step"
        )
    if (kind == "discrete") != (episode.states.ndim == 1):
        name = "a planning problem" if kind == "planning" else kind
        raise InputError(
            f"a {type(scm).__name__} is {name}, but {episode.name} has "
            f"{'features' if episode.states.ndim == 2 else 'discrete states'}"
        )
    return kind


def _is_planning(scm: Any) -> bool:
    if not hasattr(scm, "draw"):  # nothing of planning is loaded for other models
        return False
    from counterplan.planning.model import ExogenousModel

    return isinstance(scm, ExogenousModel)


def _default_solver(kind: Kind, problem: Problem, doubt: float) -> Solver:
    if problem.has_doses:
        from counterplan.counterfactual.continuous.doses import DoseSearch

        return DoseSearch()
    if kind == "continuous":
        from counterplan.counterfactual.continuous.astar import AStar

        return AStar()
    if kind == "planning":
        from counterplan.counterfactual.executed.branching import BudgetAllocation

        return BudgetAllocation()
    if problem.risk is not None and not doubt:
        from counterplan.counterfactual.discrete.posterior import PosteriorDP

        return PosteriorDP()
    from counterplan.counterfactual.discrete.budget_dp import BudgetDP

    return cast(Solver, BudgetDP(doubt=doubt))
