"""Planning for any model, never worse than the obvious: a search that stands on what is cheap.

A model of one's own offers no bounds and no rollout policy, and random play says little about a
stock that has to be managed. So first a *basis* is found, once per problem:

    exact      V* by dynamic programming, where all states can be listed: nothing is searched;
               of the actions that are offered, as all that is planned here
    lattice    the value on a lattice and the policy it makes, with up to three resource numbers
    a policy   else the best of: dual dynamic programming where steps are linear programs, the plan
               for expected values made anew or made once, and greed, played on common futures

With a lattice the tree search values its leaves by it. What the search advises is then compared
with what the basis does here, both followed by the basis, on the same fresh futures:

    difference = mean_i (advised_i - basis_i)          in favour of what is advised

Only what is better by two standard errors (more where futures are few) is advised; else the basis
is followed, and the status says so. The value of a plan is what it earns on fresh futures: a
feasible policy, executed, so a bound on V* from the policy's side but for its standard error. An
estimate on a lattice is no bound.

With `risk` the decision is the one-step lookahead of the nested dynamic program (`risk`), exact
where states can be listed, else on the lattice.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from counterplan.core.limits import ProgressCallback, clock
from counterplan.core.result import Interval
from counterplan.core.validation import FloatArray, Seed, generator
from counterplan.errors import CounterplanError, InputError, NotApplicableError
from counterplan.planning.compiled import jit
from counterplan.planning.exact_value import Solution, remembered, solved
from counterplan.planning.lattice_value import LatticeValue, lattice_value, read
from counterplan.planning.model import (
    Clip,
    Estimate,
    ExogenousModel,
    FiniteSupport,
    HasExactValue,
    HasHindsight,
    Plan,
    PlanStatus,
    SamplesPaths,
    State,
    clip_share,
    estimate,
    following,
    offered,
    sign_of,
    stepped,
)
from counterplan.planning.policies import Greedy, OpenLoop, Policy, Resolve, Rule, follow, futures
from counterplan.planning.risk import MEAN, Risk
from counterplan.planning.search.interpreted import MOST_ACTIONS, MOST_SUCCESSORS, Interpreter
from counterplan.planning.search.kernel import LEAF_SIGNATURE
from counterplan.planning.stages import HasStages

if TYPE_CHECKING:
    from counterplan.planning.cuts import CutPlan

# (seed, tables) -> (state, progress) -> the search's own decision
Search: TypeAlias = Callable[[Any, FloatArray], Callable[..., Plan]]
EXACT = "exact value over the actions offered (dynamic program)"
CUTS = "cuts (dual dynamic programming)"
# Futures that policies, actions and the plan's value are judged by.
POLICY_FUTURES, ACTION_FUTURES, VALUE_FUTURES = 64, 100, 400
# Advice is to be quick: its futures are as many as make so many choices in all, but not fewer.
ADVISED, LEAST_ADVISED = 4_000, 32
# Decisions of plans that are solved anew one by one, at most, while policies are compared.
RESOLVED = 2_000
# States that a model's own optimum is asked for to value actions.
ASKED = 1_000
# Gap at which a policy by cuts is good enough to follow. Most of what is left is the bound's: a
# proof takes several times as long, and hardly changes what is done.
NEAR = 3e-3
# Draws that are looked up among what is said to follow.
DRAWS = 16
# By how many standard errors another policy, or the search's action, must be better.
CLEARLY = 2.0


@jit(LEAF_SIGNATURE)
def on_lattice(model, settings, t, x, d, generator):  # type: ignore[no-untyped-def]
    """The value on the lattice."""
    return read(model.tables, t, x, d, False)


@dataclass(frozen=True)
class Basis:
    """What a plan stands on.

    name     in words
    rule     what the policy does
    known    its value function, if it has one
    exact    whether that is V*
    """

    name: str
    rule: Rule
    known: Solution | LatticeValue | CutPlan | None = None
    exact: bool = False

    @property
    def is_read(self) -> bool:
        """Whether leaves of a search can read it."""
        return self.known is not None and not isinstance(self.known, Solution)


def basis_of(
    problem: ExogenousModel,
    state: State,
    risk: Risk = MEAN,
    progress: ProgressCallback | None = None,
) -> Basis:
    """The basis of a problem for plans from a state on; made once."""
    given = getattr(problem, "grounds", None)
    if given is not None and given.training.risk == risk:
        return Basis(CUTS, given.rule, given if risk.is_mean else None)
    if risk.is_mean and isinstance(problem, HasExactValue):
        with suppress(NotApplicableError):
            problem.optimal_actions(state.t, state.exogenous[None], state.resource[None])
            return Basis("exact value (the model's own)", problem.optimal_actions, exact=True)
    # What such a model offers to choose from are a few of its flows: cuts choose among all.
    is_flows = isinstance(problem, HasStages) and (state.resource.size > 1 or not risk.is_mean)
    if is_flows:
        with suppress(NotApplicableError):
            made: dict[Any, Basis] = remembered(problem, "bases", dict)
            if risk not in made:
                from counterplan.planning.cuts import Cuts

                name = CUTS if risk.is_mean else f"nested risk, {risk}: {CUTS}"
                asked = Cuts(gap=NEAR, risk=risk)
                cuts = asked.solve(problem, progress=progress)
                found = Basis(name, cuts.rule)
                if cuts.relative_gap > 2.0 * NEAR and cuts.iterations < asked.iterations:
                    return found  # stopped by the callback: the next plan may take longer
                made[risk] = found
            return made[risk]
    with suppress(NotApplicableError):
        listed = solved(problem, state, progress, risk)
        name = "dynamic program over the flows that are offered" if is_flows else EXACT
        return Basis(name, listed.actions, listed, exact=not is_flows)
    lattice, why = None, ""
    try:
        lattice = lattice_value(problem, state, risk, progress)
    except NotApplicableError as error:
        why = str(error)
    if not risk.is_mean:
        return _averse(risk, lattice, why)
    known: dict[Any, Basis] = remembered(problem, "bases", dict)
    if id(lattice) not in known:
        known[id(lattice)] = _best(problem, state, lattice)
    return known[id(lattice)]


def _averse(risk: Risk, lattice: LatticeValue | None, why: str) -> Basis:
    if lattice is not None:
        return Basis(f"nested risk, {risk}: {lattice.basis}", lattice.actions, lattice)
    raise NotApplicableError(
        f"risk {risk} needs a value that can be listed or put on a lattice, or steps that are "
        f"linear programs (`stage`): {why}"
    )


def _best(problem: ExogenousModel, state: State, lattice: LatticeValue | None) -> Basis:
    """The best of the policies that apply, on common futures; a lattice unless clearly worse."""
    steps = problem.horizon - state.t
    found = [] if lattice is None else [Basis(lattice.basis, lattice.actions, lattice)]
    policies: list[Policy] = [OpenLoop(), Greedy()]
    if POLICY_FUTURES * steps <= RESOLVED or lattice is None:
        policies.insert(0, Resolve())
    if lattice is None and isinstance(problem, HasStages):
        from counterplan.planning.cuts import Cuts

        policies.insert(0, Cuts())
    chance, sign = generator(1), sign_of(problem)
    n = POLICY_FUTURES if lattice is not None else max(8, min(POLICY_FUTURES, RESOLVED // steps))
    paths, totals = futures(problem, n, chance, state), list[FloatArray]()
    if lattice is not None:
        totals.append(sign * follow(problem, lattice.actions, paths, state))
    for policy in policies:
        with suppress(CounterplanError):
            more = {"state": state} if isinstance(policy, OpenLoop) else {}
            rule = policy.prepare(problem, chance, **more)
            totals.append(sign * follow(problem, rule, paths, state))
            found.append(Basis(policy.name, rule))
    best = 0
    for i in range(1, len(found)):
        gain = estimate(totals[i] - totals[best])
        clearly = CLEARLY * gain.se if found[best].known is not None else 0.0
        best = i if gain.mean > clearly else best
    if found[best].known is None and lattice is not None:
        return replace(found[best], known=lattice)  # the search still reads it
    return found[best]


def _by_own_optimum(problem: Any, state: State, actions: FloatArray) -> FloatArray:
    """(m,) what actions and then the optimum of the model's own earn; nan where that takes long."""
    t, m, at_end = state.t, len(actions), state.t + 1 == problem.horizon
    rewards, after = problem.step(t, *(np.tile(one, (m, 1)) for one in state[1:]), actions)
    if at_end:
        return np.asarray(rewards, dtype=np.float64)
    if not isinstance(problem, FiniteSupport):
        return np.full(m, np.nan)
    successors, chances = following(problem, t, state.exogenous)
    if m * len(successors) > ASKED:
        return np.full(m, np.nan)
    value: Any = problem
    ahead = [[value.optimal_value(State(t + 1, y, e)) for y in successors] for e in after]
    return np.asarray(rewards + np.array(ahead) @ np.asarray(chances))


def tried(problem: ExogenousModel) -> int:
    """Walk through the problem once, every answer checked: what is wrong is said in one line
    before many states are asked at once. How many numbers an action has."""
    calls, rng, (_, x, d) = Interpreter(problem), np.random.default_rng(0), problem.start
    more = np.empty((MOST_ACTIONS, calls.action_size))
    x, d = np.array(x, dtype=np.float64), np.array(d, dtype=np.float64)
    states, chances = np.empty((MOST_SUCCESSORS, x.size)), np.empty(MOST_SUCCESSORS)
    for t in range(problem.horizon):
        action = more[int(rng.integers(calls.actions(t, x, d, more)))]
        after, drawn = np.empty_like(d), np.empty_like(x)
        calls.step(t, x, d, action, after)
        stepped(problem, t, *(np.stack([one, one]) for one in (x, d, action)))
        if t + 1 < problem.horizon:
            calls.draw(t, x, rng, drawn)
            if isinstance(problem, FiniteSupport):
                known = states[: calls.successors(t, x, states, chances)]
                many = np.asarray(problem.draw(t, np.tile(x, (DRAWS, 1)), rng))
                near = np.abs(many[:, None] - known) <= 1e-9 * (1.0 + np.abs(known))
                hits = np.asarray(np.all(near, axis=2)).any(axis=1)
                if not hits.all():
                    raise InputError(
                        f"draw at t={t} makes {many[np.argmin(hits)].tolist()} of x={x.tolist()}, "
                        "which is none of its successors: both must say the same of what may follow"
                    )
        x, d = drawn, after
    return more.shape[1]


class Grounded:
    """Decisions of a tree search that stands on a basis."""

    def __init__(
        self,
        name: str,
        problem: ExogenousModel,
        clip: Clip,
        seed: Seed,
        search: Search | None = None,
        risk: Risk = MEAN,
    ) -> None:
        """search: begins a search whose leaves read a lattice; None: nothing is searched."""
        self._name, self._problem, self._risk, self._clip = name, problem, risk, clip
        self._search, self._begun, self._is_ready = search, dict[int, Any](), False
        self._last: tuple[State | None, Any] = None, None  # of the decision before
        self.reseed(seed)
        clip_share(clip)
        self._size: int = remembered(problem, "tried", lambda: tried(problem))

    def reseed(self, seed: Seed) -> None:
        """Begin the planner's own chance anew."""
        self._seed, self._own = generator(seed).spawn(2)
        for one in self._begun.values():
            one.reseed(self._seed)

    def ready(self) -> None:
        """Make what every decision stands on, and compile a model in plain Python."""
        self._is_ready = True
        basis = basis_of(self._problem, self._problem.start, self._risk)
        if basis.is_read and self._search is not None:
            self._session(basis)

    def _session(self, basis: Basis) -> Any:
        """The search whose leaves read what the basis knows."""
        known: Any = basis.known
        assert self._search is not None
        place = id(known)
        if place not in self._begun:
            made: Any = self._search(self._seed, known.tables)
            made.stands_on = known  # as long as it lives, no other has its id
            self._begun[place] = made
            if self._is_ready:
                made.ready()
        return self._begun[place]

    def resume(self, state: State) -> Plan:
        """The decision at a state, with what the search knows of it from the state before."""
        return self(state, None, resumed=True)

    def __call__(
        self, state: State, progress: ProgressCallback | None = None, resumed: bool = False
    ) -> Plan:
        """The decision at a state."""
        began = clock()
        if state.t == self._problem.horizon:
            return self._plan(np.empty((0, self._size)), np.empty(0), PlanStatus.OVER, "")
        basis = basis_of(self._problem, state, self._risk, progress)
        self._last = state, basis
        action = np.asarray(basis.rule(state.t, *(one[None].copy() for one in state[1:]))[0])
        if basis.is_read and self._search is not None:
            return self._searched(state, basis, action, progress, resumed)
        actions = offered(self._problem, state)
        values = np.full(len(actions), np.nan)
        if isinstance(basis.known, Solution | LatticeValue):
            values = sign_of(self._problem) * basis.known.taken(*state, actions)
        status = PlanStatus.EXACT if basis.exact else PlanStatus.FOLLOWED
        made = self._plan(actions, values, status, basis.name)
        if basis.known is None and basis.exact and isinstance(self._problem, HasExactValue):
            value = self._problem.optimal_value(state)
            values = _by_own_optimum(self._problem, state, actions)
            made = replace(made, value=value, values=values, bounds=Interval(value, value))
        return self._taking(made, action, clock() - began)

    def followed(self, decision: Plan, state: State) -> Plan:
        """The decision, valued by what it and then the basis earn on fresh futures."""
        is_known = decision.status is not PlanStatus.OVER and not self._risk.is_mean
        is_known = is_known and bool(np.isfinite(decision.values[decision.index]))
        if decision.status is PlanStatus.OVER or is_known:
            return decision
        last, basis = self._last
        if last is not state:
            basis = basis_of(self._problem, state, self._risk)
        if basis.exact:
            return decision
        paths = self._futures(VALUE_FUTURES, decision, basis, state)
        totals = self._after(state, decision.action, basis, paths)
        earned = self._risk.estimate(totals, self._problem.sense)
        found = replace(decision, value=earned.mean, se=earned.se, bounds=None)
        if not self._risk.is_mean:
            said = f"{decision.basis}; the value is that of the totals, not nested"
            return replace(found, basis=said)
        if self._clip is not None and not self._clip:
            return found
        limit, said = self._limit(basis, state, paths)
        is_max = self._problem.sense == "max"
        value = min(earned.mean, limit.mean) if is_max else max(earned.mean, limit.mean)
        pair = (value, limit.mean), (earned.se, limit.se)
        ends, errors = pair if is_max else (pair[0][::-1], pair[1][::-1])
        said = f"{decision.basis}; bound: executed policy{said}"
        if self._clip and isinstance(basis.known, LatticeValue):
            said += "; nothing in the tree is clipped: a value on a lattice is no bound"
        return replace(found, value=value, bounds=Interval(*ends), bounds_se=errors, basis=said)

    def _translation(self, basis: Basis) -> Any:
        """What is compiled of the model, if it is used and futures can be played by it."""
        own = getattr(self._begun.get(id(basis.known)), "own", None)
        found = None if own is None else own.translation
        return None if found is None or found.many is None else found

    def _futures(self, most: int, decision: Plan, basis: Basis, state: State) -> FloatArray:
        """Futures that something is judged by."""
        n, problem, found = most, self._problem, self._translation(basis)
        if self._is_ready and self._risk.is_mean and isinstance(basis.known, LatticeValue):
            choices = len(decision.actions) * (problem.horizon - state.t)
            n = min(most, max(LEAST_ADVISED, ADVISED // choices))
        if found is not None and not isinstance(problem, SamplesPaths):
            with suppress(Exception):  # plain Python has an answer, or says what is wrong
                done: FloatArray = found.futures(problem, n, self._own, state)
                return done
        return futures(problem, n, self._own, state)

    def _limit(self, basis: Basis, state: State, paths: FloatArray) -> tuple[Estimate, str]:
        """What no policy beats, as far as it is cheap: by cuts, by hindsight if asked for."""
        problem, sign = self._problem, sign_of(self._problem)
        cuts = None if isinstance(basis.known, Solution | LatticeValue) else basis.known
        if cuts is not None and cuts.training.lattice.exact:
            from counterplan.planning.cut_table import cut_value

            return Estimate(sign * float(cut_value(cuts.tables, *state)), 0.0), " and cuts"
        if self._clip and isinstance(problem, HasHindsight):
            return estimate(problem.allocate(paths, state).values), " and hindsight"
        return Estimate(sign * np.inf, 0.0), ""

    def _searched(
        self,
        state: State,
        basis: Basis,
        action: FloatArray,
        progress: ProgressCallback | None,
        resumed: bool,
    ) -> Plan:
        """The search's choice, or the basis's where that is as good."""
        session = self._session(basis)
        found: Plan = session.resume(state) if resumed else session(state, progress)
        found = replace(found, basis=f"{basis.name}; {found.basis}" if found.basis else basis.name)
        if np.allclose(found.action, action, rtol=1e-9, atol=1e-9):
            return found
        paths = self._futures(ACTION_FUTURES, found, basis, state)
        sign = sign_of(self._problem)
        pair = (self._after(state, one, basis, paths) for one in (found.action, action))
        gain = estimate(sign * np.subtract(*pair))
        # Few futures may all miss what is rare and dear.
        if gain.mean > CLEARLY * gain.se * (ACTION_FUTURES / len(paths)) ** 0.5:
            return found
        done = self._taking(found, action, found.stats["seconds"])
        return replace(done, status=PlanStatus.FOLLOWED)

    def _after(
        self, state: State, action: FloatArray, basis: Basis, paths: FloatArray
    ) -> FloatArray:
        """(n,) totals of an action and then the basis."""
        found = self._translation(basis)
        by_lattice = isinstance(basis.known, LatticeValue) and basis.rule == basis.known.actions
        if by_lattice and found is not None:
            with suppress(Exception):  # plain Python has an answer, or says what is wrong
                done: FloatArray = found.followed(self._problem, basis.known, paths, state, action)
                return done
        rule = basis.rule

        def first(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
            is_first = t == state.t
            return np.tile(action, (len(resource), 1)) if is_first else rule(t, exogenous, resource)

        return follow(self._problem, first, paths, state)

    def _taking(self, found: Plan, action: FloatArray, seconds: float) -> Plan:
        """The plan with an action, which is added where it is not among those offered."""
        away = np.abs(found.actions - action).max(axis=1, initial=0.0)
        index = int(np.argmin(away)) if len(away) else -1
        more: dict[str, Any] = {}
        if index < 0 or away[index] > 1e-9 * (1.0 + np.abs(action).max(initial=0.0)):
            index = len(found.actions)
            added = {"values": np.nan, "values_se": np.inf, "visits": 0}
            more = {name: np.append(getattr(found, name), one) for name, one in added.items()}
            more["actions"] = np.vstack([found.actions, action])
        values: FloatArray = more.get("values", found.values)
        value = float(values[index]) if np.isfinite(values[index]) else found.value
        stats = MappingProxyType({**found.stats, "seconds": seconds})
        more |= {"action": action, "index": index, "value": value, "stats": stats}
        return replace(found, **more)

    def _plan(
        self, actions: FloatArray, values: FloatArray, status: PlanStatus, basis: str
    ) -> Plan:
        """A decision without a search."""
        m, exact = len(actions), status in (PlanStatus.EXACT, PlanStatus.OVER)
        value = 0.0
        if m and np.isfinite(values).any():
            sign = sign_of(self._problem)
            value = float(sign * np.nanmax(sign * values))
        return Plan(
            action=actions[0] if m else np.empty(0),
            index=0 if m else -1,
            value=value,
            se=0.0 if exact else np.nan,
            actions=actions,
            values=values,
            values_se=np.full(m, 0.0 if exact else np.nan),
            visits=np.zeros(m, dtype=np.int64),
            bounds=Interval(value, value) if exact and self._risk.is_mean else None,
            status=PlanStatus.FORCED if m == 1 and exact else status,
            stats=MappingProxyType({"simulations": 0, "seconds": 0.0, "clip": 0.0}),
            planner=self._name,
            basis=basis,
        )
