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
    from counterplan import testing as testing
    from counterplan.core.constraints import Constraints as Constraints
    from counterplan.core.episode import Episode as Episode
    from counterplan.core.limits import Limits as Limits
    from counterplan.core.result import Explanation as Explanation
    from counterplan.core.result import Status as Status
    from counterplan.counterfactual import baselines as baselines
    from counterplan.counterfactual import oracle as oracle
    from counterplan.counterfactual.explain import Frontier as Frontier
    from counterplan.counterfactual.explain import explain as explain
    from counterplan.counterfactual.explain import frontier as frontier
    from counterplan.counterfactual.policy_explanation import (
        PolicyExplanation as PolicyExplanation,
    )
    from counterplan.counterfactual.robust import robust_explain as robust_explain
    from counterplan.counterfactual.robust import value_interval as value_interval
    from counterplan.counterfactual.solver import BudgetDP as BudgetDP
    from counterplan.io.episodes import read_episodes as read_episodes
    from counterplan.io.models import load_model as load_model
    from counterplan.io.models import save_model as save_model
    from counterplan.scm.estimate import count_transitions as count_transitions
    from counterplan.scm.estimate import estimate_mdp as estimate_mdp
    from counterplan.scm.estimate import neighbour_prior as neighbour_prior
    from counterplan.scm.gumbel_max import GumbelMaxSCM as GumbelMaxSCM
    from counterplan.scm.tabular import TabularMDP as TabularMDP

__version__ = "0.1.0"

# Public name -> the module that holds it; a module's own name stands for the module itself.
_HOME = {
    "BudgetDP": "counterplan.counterfactual.solver",
    "Constraints": "counterplan.core.constraints",
    "Episode": "counterplan.core.episode",
    "Explanation": "counterplan.core.result",
    "Frontier": "counterplan.counterfactual.explain",
    "GumbelMaxSCM": "counterplan.scm.gumbel_max",
    "Limits": "counterplan.core.limits",
    "PolicyExplanation": "counterplan.counterfactual.policy_explanation",
    "Status": "counterplan.core.result",
    "TabularMDP": "counterplan.scm.tabular",
    "baselines": "counterplan.counterfactual.baselines",
    "count_transitions": "counterplan.scm.estimate",
    "domains": "counterplan.domains",
    "errors": "counterplan.errors",
    "estimate_mdp": "counterplan.scm.estimate",
    "explain": "counterplan.counterfactual.explain",
    "frontier": "counterplan.counterfactual.explain",
    "load_model": "counterplan.io.models",
    "neighbour_prior": "counterplan.scm.estimate",
    "oracle": "counterplan.counterfactual.oracle",
    "read_episodes": "counterplan.io.episodes",
    "robust_explain": "counterplan.counterfactual.robust",
    "save_model": "counterplan.io.models",
    "testing": "counterplan.testing",
    "value_interval": "counterplan.counterfactual.robust",
}

__all__ = sorted(_HOME)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'counterplan' has no attribute {name!r}")
    module = import_module(_HOME[name])
    value = module if _HOME[name].endswith(f".{name}") and not hasattr(module, name) else None
    result = value if value is not None else getattr(module, name)
    globals()[name] = result
    return result


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
