"""Advice while it happens: a planner prepared once and then asked at every state, in milliseconds.

    advisor = cp.Advisor(problem, cp.UCT(1000))
    advisor.advise(state).action

What takes long is done when it is opened (and shared by all advisors of one problem): the compiled
model, its bounds, the engine and a tree. Of the tree, what became real is kept: where the state is
one that the search has met after the last one's decision, its part of the tree is the next search's
beginning, and its visits count. Elsewhere (a price that is drawn from infinitely many is never one
of those in the tree) the search begins anew.
"""

from __future__ import annotations

from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from counterplan.core.validation import Seed
from counterplan.errors import InputError
from counterplan.planning.model import checked_problem, checked_state
from counterplan.planning.search.planners import Follows, begun, checked_planner

if TYPE_CHECKING:
    from counterplan.planning.model import ExogenousModel, State
    from counterplan.planning.search.planners import Clip, Plan, Planner


class Advisor:
    """A tree search, open for questions about one problem.

    planner  default: UCT with 1,000 simulations, made for every advice
    clip     as in `plan`
    risk     as in `plan`
    keep     False: every search begins anew, with the same chance; the same question has the same
             answer
    """

    def __init__(
        self,
        problem: ExogenousModel,
        planner: Planner | None = None,
        *,
        clip: Clip = None,
        seed: Seed = 0,
        risk: Any = 1.0,
        keep: bool = True,
    ) -> None:
        chosen = checked_planner(planner)
        session = begun(chosen, checked_problem(problem), clip, seed, risk)
        if not isinstance(session, Follows):
            raise InputError(
                f"{chosen.name} is no tree search such as UCT(simulations=1000), so there is no "
                "tree to keep: ask it directly, planner.begin(problem)(state)"
            )
        session.ready()
        self.problem, self.planner, self.keep = problem, chosen, keep
        self._session, self._seed, self._lock = session, seed, Lock()

    def __repr__(self) -> str:
        problem = type(self.problem).__name__
        return f"Advisor(problem={problem}, planner={self.planner.name!r}, keep={self.keep})"

    def advise(self, state: State | None = None) -> Plan:
        """The decision at a state (default: the problem's start). Visits, and stats["reused"],
        count what was known before; errors count what was simulated since."""
        place = checked_state(self.problem, state)
        with self._lock:
            if not self.keep:
                self._session.reseed(self._seed)
            found = self._session.resume(place) if self.keep else self._session(place)
            return replace(self._session.followed(found, place), problem=self.problem)
