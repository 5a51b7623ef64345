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
    from counterplan.allocation.hindsight import hindsight as hindsight
    from counterplan.core.constraints import Constraints as Constraints
    from counterplan.core.episode import Episode as Episode
    from counterplan.core.limits import Limits as Limits
    from counterplan.core.result import Explanation as Explanation
    from counterplan.core.result import Status as Status
    from counterplan.core.reward import LinearReward as LinearReward
    from counterplan.core.reward import LipschitzReward as LipschitzReward
    from counterplan.counterfactual import baselines as baselines
    from counterplan.counterfactual import oracle as oracle
    from counterplan.counterfactual.allocation_explanation import (
        AllocationExplanation as AllocationExplanation,
    )
    from counterplan.counterfactual.anchors import AnchorHeuristic as AnchorHeuristic
    from counterplan.counterfactual.astar import AStar as AStar
    from counterplan.counterfactual.astar import FirstOrderBound as FirstOrderBound
    from counterplan.counterfactual.astar import NoBound as NoBound
    from counterplan.counterfactual.astar import Tightest as Tightest
    from counterplan.counterfactual.budget_allocation import BudgetAllocation as BudgetAllocation
    from counterplan.counterfactual.budget_dp import BudgetDP as BudgetDP
    from counterplan.counterfactual.explain import Frontier as Frontier
    from counterplan.counterfactual.explain import explain as explain
    from counterplan.counterfactual.explain import frontier as frontier
    from counterplan.counterfactual.policy_explanation import (
        PolicyExplanation as PolicyExplanation,
    )
    from counterplan.counterfactual.robust import robust_explain as robust_explain
    from counterplan.counterfactual.robust import value_interval as value_interval
    from counterplan.counterfactual.sequence_explanation import (
        SequenceExplanation as SequenceExplanation,
    )
    from counterplan.domains.exogenous_mdp import ExogenousMDP as ExogenousMDP
    from counterplan.exogenous import processes as processes
    from counterplan.exogenous.model import State as State
    from counterplan.exogenous.resource import Resource as Resource
    from counterplan.io import formats as formats
    from counterplan.io.episodes import read_episodes as read_episodes
    from counterplan.io.episodes import write_episodes as write_episodes
    from counterplan.io.frames import from_frame as from_frame
    from counterplan.io.models import load_model as load_model
    from counterplan.io.models import save_model as save_model
    from counterplan.io.schema import Column as Column
    from counterplan.io.schema import Schema as Schema
    from counterplan.io.schema import read_schema as read_schema
    from counterplan.io.schema_draft import draft_schema as draft_schema
    from counterplan.io.schema_layout import SchemaLayout as SchemaLayout
    from counterplan.io.schema_table import read_table as read_table
    from counterplan.planning.evaluate import evaluate as evaluate
    from counterplan.planning.exact_value import exact_value as exact_value
    from counterplan.planning.plan import plan as plan
    from counterplan.planning.planners import BTS as BTS
    from counterplan.planning.planners import DENTS as DENTS
    from counterplan.planning.planners import MENTS as MENTS
    from counterplan.planning.planners import UCT as UCT
    from counterplan.planning.regret import regret as regret
    from counterplan.planning.value_bounds import value_bounds as value_bounds
    from counterplan.scm.estimate import count_transitions as count_transitions
    from counterplan.scm.estimate import estimate_mdp as estimate_mdp
    from counterplan.scm.estimate import neighbour_prior as neighbour_prior
    from counterplan.scm.gumbel_max import GumbelMaxSCM as GumbelMaxSCM
    from counterplan.scm.location_scale import AdditiveNoiseSCM as AdditiveNoiseSCM
    from counterplan.scm.location_scale import LocationScaleSCM as LocationScaleSCM
    from counterplan.scm.location_scale import PostNonlinearSCM as PostNonlinearSCM
    from counterplan.scm.neural import NeuralSCM as NeuralSCM
    from counterplan.scm.neural_validation import GridSettings as GridSettings
    from counterplan.scm.neural_validation import cross_validate as cross_validate
    from counterplan.scm.point import PointSCM as PointSCM
    from counterplan.scm.scaling import Scaling as Scaling
    from counterplan.scm.tabular import TabularMDP as TabularMDP
    from counterplan.scm.training import Training as Training
    from counterplan.scm.transitions import Transitions as Transitions

__version__ = "0.1.0"

# Where each public name lives.
_HOME = {
    "AStar": "counterfactual.astar",
    "AdditiveNoiseSCM": "scm.location_scale",
    "AllocationExplanation": "counterfactual.allocation_explanation",
    "AnchorHeuristic": "counterfactual.anchors",
    "BTS": "planning.planners",
    "BudgetAllocation": "counterfactual.budget_allocation",
    "BudgetDP": "counterfactual.budget_dp",
    "Column": "io.schema",
    "Constraints": "core.constraints",
    "DENTS": "planning.planners",
    "Episode": "core.episode",
    "ExogenousMDP": "domains.exogenous_mdp",
    "Explanation": "core.result",
    "FirstOrderBound": "counterfactual.astar",
    "Frontier": "counterfactual.explain",
    "GridSettings": "scm.neural_validation",
    "GumbelMaxSCM": "scm.gumbel_max",
    "Limits": "core.limits",
    "LinearReward": "core.reward",
    "LipschitzReward": "core.reward",
    "LocationScaleSCM": "scm.location_scale",
    "MENTS": "planning.planners",
    "NeuralSCM": "scm.neural",
    "NoBound": "counterfactual.astar",
    "PointSCM": "scm.point",
    "PolicyExplanation": "counterfactual.policy_explanation",
    "PostNonlinearSCM": "scm.location_scale",
    "Resource": "exogenous.resource",
    "Scaling": "scm.scaling",
    "Schema": "io.schema",
    "SchemaLayout": "io.schema_layout",
    "SequenceExplanation": "counterfactual.sequence_explanation",
    "State": "exogenous.model",
    "Status": "core.result",
    "TabularMDP": "scm.tabular",
    "Tightest": "counterfactual.astar",
    "Training": "scm.training",
    "Transitions": "scm.transitions",
    "UCT": "planning.planners",
    "count_transitions": "scm.estimate",
    "cross_validate": "scm.neural_validation",
    "draft_schema": "io.schema_draft",
    "estimate_mdp": "scm.estimate",
    "evaluate": "planning.evaluate",
    "exact_value": "planning.exact_value",
    "explain": "counterfactual.explain",
    "from_frame": "io.frames",
    "frontier": "counterfactual.explain",
    "hindsight": "allocation.hindsight",
    "load_model": "io.models",
    "neighbour_prior": "scm.estimate",
    "plan": "planning.plan",
    "read_episodes": "io.episodes",
    "read_schema": "io.schema",
    "read_table": "io.schema_table",
    "regret": "planning.regret",
    "robust_explain": "counterfactual.robust",
    "save_model": "io.models",
    "value_bounds": "planning.value_bounds",
    "value_interval": "counterfactual.robust",
    "write_episodes": "io.episodes",
}

# Modules that are public as a whole.
_MODULES = {
    "baselines": "counterfactual.baselines",
    "domains": "domains",
    "errors": "errors",
    "formats": "io.formats",
    "oracle": "counterfactual.oracle",
    "policies": "policies",
    "processes": "exogenous.processes",
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
