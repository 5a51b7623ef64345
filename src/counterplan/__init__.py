"""counterplan: causal analysis of sequential decisions.

Given what happened, what should have been done; given what may happen, what to do next.
Names load on first use, so that importing the package stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counterplan import domains as domains
    from counterplan import errors as errors
    from counterplan import policies as policies
    from counterplan import testing as testing
    from counterplan import viz as viz
    from counterplan.core.constraints import Constraints as Constraints
    from counterplan.core.episode import Episode as Episode
    from counterplan.core.problem import Limits as Limits
    from counterplan.core.result import Explanation as Explanation
    from counterplan.core.result import Status as Status
    from counterplan.core.reward import LinearReward as LinearReward
    from counterplan.core.reward import LipschitzReward as LipschitzReward
    from counterplan.counterfactual import baselines as baselines
    from counterplan.counterfactual import oracle as oracle
    from counterplan.counterfactual.continuous.anchors import AnchorHeuristic as AnchorHeuristic
    from counterplan.counterfactual.continuous.astar import AStar as AStar
    from counterplan.counterfactual.continuous.astar import FirstOrderBound as FirstOrderBound
    from counterplan.counterfactual.continuous.astar import NoBound as NoBound
    from counterplan.counterfactual.continuous.astar import Tightest as Tightest
    from counterplan.counterfactual.continuous.setting import (
        SequenceExplanation as SequenceExplanation,
    )
    from counterplan.counterfactual.discrete.budget_dp import BudgetDP as BudgetDP
    from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation as PolicyExplanation
    from counterplan.counterfactual.discrete.robust import robust_explain as robust_explain
    from counterplan.counterfactual.discrete.robust import value_interval as value_interval
    from counterplan.counterfactual.executed.branching import BudgetAllocation as BudgetAllocation
    from counterplan.counterfactual.executed.setting import (
        AllocationExplanation as AllocationExplanation,
    )
    from counterplan.counterfactual.explain import Frontier as Frontier
    from counterplan.counterfactual.explain import explain as explain
    from counterplan.counterfactual.explain import frontier as frontier
    from counterplan.counterfactual.replay import replay as replay
    from counterplan.domains.exogenous_mdp import ExogenousMDP as ExogenousMDP
    from counterplan.planning import processes as processes
    from counterplan.planning.bounds import value_bounds as value_bounds
    from counterplan.planning.evaluate import evaluate as evaluate
    from counterplan.planning.exact_value import exact_value as exact_value
    from counterplan.planning.hindsight import hindsight as hindsight
    from counterplan.planning.model import State as State
    from counterplan.planning.regret import regret as regret
    from counterplan.planning.resource import Resource as Resource
    from counterplan.planning.search.planners import BTS as BTS
    from counterplan.planning.search.planners import DENTS as DENTS
    from counterplan.planning.search.planners import MENTS as MENTS
    from counterplan.planning.search.planners import UCT as UCT
    from counterplan.planning.search.planners import plan as plan
    from counterplan.scm.estimate import count_transitions as count_transitions
    from counterplan.scm.estimate import estimate_mdp as estimate_mdp
    from counterplan.scm.estimate import neighbour_prior as neighbour_prior
    from counterplan.scm.gumbel import GumbelMaxSCM as GumbelMaxSCM
    from counterplan.scm.neural import NeuralSCM as NeuralSCM
    from counterplan.scm.neural_validation import GridSettings as GridSettings
    from counterplan.scm.neural_validation import cross_validate as cross_validate
    from counterplan.scm.point import AdditiveNoiseSCM as AdditiveNoiseSCM
    from counterplan.scm.point import LocationScaleSCM as LocationScaleSCM
    from counterplan.scm.point import PointSCM as PointSCM
    from counterplan.scm.point import PostNonlinearSCM as PostNonlinearSCM
    from counterplan.scm.point import Scaling as Scaling
    from counterplan.scm.tabular import TabularMDP as TabularMDP
    from counterplan.scm.training import Training as Training
    from counterplan.scm.transitions import Transitions as Transitions
    from counterplan.tables import formats as formats
    from counterplan.tables.draft import draft_schema as draft_schema
    from counterplan.tables.episodes import read_episodes as read_episodes
    from counterplan.tables.episodes import write_episodes as write_episodes
    from counterplan.tables.layout import SchemaLayout as SchemaLayout
    from counterplan.tables.models import load_model as load_model
    from counterplan.tables.models import save_model as save_model
    from counterplan.tables.reader import from_frame as from_frame
    from counterplan.tables.reader import read_table as read_table
    from counterplan.tables.schema import Column as Column
    from counterplan.tables.schema import Schema as Schema
    from counterplan.tables.schema import read_schema as read_schema

__version__ = "0.1.0"

# Where each public name lives.
_HOME = {
    "AStar": "counterfactual.continuous.astar",
    "AdditiveNoiseSCM": "scm.point",
    "AllocationExplanation": "counterfactual.executed.setting",
    "AnchorHeuristic": "counterfactual.continuous.anchors",
    "BTS": "planning.search.planners",
    "BudgetAllocation": "counterfactual.executed.branching",
    "BudgetDP": "counterfactual.discrete.budget_dp",
    "Column": "tables.schema",
    "Constraints": "core.constraints",
    "DENTS": "planning.search.planners",
    "Episode": "core.episode",
    "ExogenousMDP": "domains.exogenous_mdp",
    "Explanation": "core.result",
    "FirstOrderBound": "counterfactual.continuous.astar",
    "Frontier": "counterfactual.explain",
    "GridSettings": "scm.neural_validation",
    "GumbelMaxSCM": "scm.gumbel",
    "Limits": "core.problem",
    "LinearReward": "core.reward",
    "LipschitzReward": "core.reward",
    "LocationScaleSCM": "scm.point",
    "MENTS": "planning.search.planners",
    "NeuralSCM": "scm.neural",
    "NoBound": "counterfactual.continuous.astar",
    "PointSCM": "scm.point",
    "PolicyExplanation": "counterfactual.discrete.budget_dp",
    "PostNonlinearSCM": "scm.point",
    "Resource": "planning.resource",
    "Scaling": "scm.point",
    "Schema": "tables.schema",
    "SchemaLayout": "tables.layout",
    "SequenceExplanation": "counterfactual.continuous.setting",
    "State": "planning.model",
    "Status": "core.result",
    "TabularMDP": "scm.tabular",
    "Tightest": "counterfactual.continuous.astar",
    "Training": "scm.training",
    "Transitions": "scm.transitions",
    "UCT": "planning.search.planners",
    "count_transitions": "scm.estimate",
    "cross_validate": "scm.neural_validation",
    "draft_schema": "tables.draft",
    "estimate_mdp": "scm.estimate",
    "evaluate": "planning.evaluate",
    "exact_value": "planning.exact_value",
    "explain": "counterfactual.explain",
    "from_frame": "tables.reader",
    "frontier": "counterfactual.explain",
    "hindsight": "planning.hindsight",
    "load_model": "tables.models",
    "neighbour_prior": "scm.estimate",
    "plan": "planning.search.planners",
    "read_episodes": "tables.episodes",
    "read_schema": "tables.schema",
    "read_table": "tables.reader",
    "regret": "planning.regret",
    "replay": "counterfactual.replay",
    "robust_explain": "counterfactual.discrete.robust",
    "save_model": "tables.models",
    "value_bounds": "planning.bounds",
    "value_interval": "counterfactual.discrete.robust",
    "write_episodes": "tables.episodes",
}

# Modules that are public as a whole.
_MODULES = {
    "baselines": "counterfactual.baselines",
    "domains": "domains",
    "errors": "errors",
    "formats": "tables.formats",
    "oracle": "counterfactual.oracle",
    "policies": "policies",
    "processes": "planning.processes",
    "testing": "testing",
    "viz": "viz",
}

__all__ = sorted([*_HOME, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = import_module(f"{__name__}.{_MODULES[name]}")
    elif name in _HOME:
        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
