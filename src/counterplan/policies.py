"""Classical policies, to compare a search with (and to bound values with: each is feasible).

    OpenLoop      the plan that is optimal for expected values, made once and executed
    Resolve       that plan made anew in every state; its first action
    Greedy        the best reward now
    Optimal       by dynamic programming, where `exact_value` applies
    LeastSquares  by regression Monte Carlo
    Cuts          by dual dynamic programming, for models whose steps are linear programs

Any object with a name and `prepare(model, seed)`, which returns a rule (t, x (n, X), d (n, D)) ->
actions (n, A), is a policy, too.
"""

from counterplan.core.shown import attach

__getattr__, __dir__, __all__ = attach("counterplan", __file__)
