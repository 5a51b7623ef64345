"""Classical policies, to compare a search with (and to bound values with: each is feasible).

    OpenLoop      the plan that is optimal for expected values, made once and executed
    Resolve       that plan made anew in every state; its first action
    Greedy        the best reward now
    Optimal       by dynamic programming, where `exact_value` applies
    LeastSquares  by regression Monte Carlo

Any object with a name and `prepare(model, seed)`, which returns a rule (t, x (n, X), d (n, D)) ->
actions (n, A), is a policy, too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counterplan.planning.least_squares import LeastSquares as LeastSquares
    from counterplan.planning.policies import Greedy as Greedy
    from counterplan.planning.policies import OpenLoop as OpenLoop
    from counterplan.planning.policies import Optimal as Optimal
    from counterplan.planning.policies import Resolve as Resolve

# Where each policy lives: they load on first use.
_HOME = {
    "Greedy": "planning.policies",
    "LeastSquares": "planning.least_squares",
    "OpenLoop": "planning.policies",
    "Optimal": "planning.policies",
    "Resolve": "planning.policies",
}

__all__ = ["Greedy", "LeastSquares", "OpenLoop", "Optimal", "Resolve"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"counterplan.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
