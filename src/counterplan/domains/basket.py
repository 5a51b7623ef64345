"""A basket of options (G.5): each is exercised at most once, at most `cap` of them on a date.

    x_t = prices (B,), d_t = (B,) ones while held, a_t <= d_t, sum a_t <= cap,
    r_t = e^{-r t dt} sum_b payoff_b(S_b) a_b

Prices are correlated geometric Brownian motions. The cap binds at maturity, too. Without it the
options would not touch each other: the sum of their values bounds the basket's from above for any
correlation, and is its value where cap >= B.

Of the 2^B sets, `actions='ranked'` offers the j best, j = 0 .. cap, ranked by what exercising gains
over waiting with that option alone: without a cap the optimum is among them. 'payoff' ranks by the
payoff, as Lemma 2.1 would; that never lets an option go before another that pays more now but is
better kept. 'all' offers every set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import numpy as np

from counterplan.core.validation import FloatArray, Seed, whole_number
from counterplan.domains.option_contract import (
    BasketContract,
    Bermudan,
    OptionContract,
    basket_contract,
    check_exercise,
    european_with_slope,
)
from counterplan.domains.options import AmericanOption
from counterplan.domains.problems import check_config
from counterplan.errors import InfeasibleError, InputError, NotApplicableError
from counterplan.planning.description import Axes, Column, Columns
from counterplan.planning.model import (
    Allocation,
    HasFutures,
    Sense,
    State,
    require_held,
    require_prices,
)
from counterplan.planning.processes.prices import GBM

if TYPE_CHECKING:
    from counterplan.planning.bounds import Penalised
    from counterplan.planning.policies import Policy
    from counterplan.planning.search.kernel import Kernel

# ----------------------------------------------------------------------------------------------
# Options to dates, at most `cap` on a date: the hindsight of a basket.
#
#     max sum_{t,b} w_tb a_tb,   sum_t a_tb <= held_b,   sum_b a_tb <= cap,   a_tb in {0, 1}
#
# Where every option's best date is free, that is the answer; else an assignment problem with `cap`
# places on every date, solved exactly.


def assign(weights: FloatArray, held: FloatArray, cap: int) -> tuple[FloatArray, FloatArray]:
    """Values (n,) and actions (n, steps, B) for weights (n, steps, B) and held (n, B).

    What weighs nothing or less is not exercised; of equally good dates the first.
    """
    paths = np.arange(len(weights))[:, np.newaxis]
    options = np.arange(weights.shape[2])
    dates = weights.argmax(axis=1)
    chosen = (weights[paths, dates, options] > 0) & (held > 0.5)
    actions = np.zeros(weights.shape)
    actions[paths, dates, options] = chosen
    for i in np.flatnonzero(actions.sum(axis=2).max(axis=1) > cap):
        actions[i] = _assign_one(weights[i], held[i], cap)
    return (weights * actions).sum(axis=(1, 2)), actions


def _assign_one(weights: FloatArray, held: FloatArray, cap: int) -> FloatArray:
    """(steps, B) for one path."""
    from scipy.optimize import linear_sum_assignment

    gains = np.maximum(weights, 0.0) * (held > 0.5)
    options, places = linear_sum_assignment(np.repeat(gains.T, cap, axis=1), maximize=True)
    actions = np.zeros(weights.shape)
    dates = places // cap
    actions[dates, options] = gains[dates, options] > 0
    return actions


# ----------------------------------------------------------------------------------------------

ActionSet: TypeAlias = Literal["ranked", "payoff", "all"]
ACTION_SETS = ("ranked", "payoff", "all")
# Sets are listed by their codes.
MOST_LISTED = 10
# Nodes of each option's tables.
NODES = 129


@dataclass(frozen=True, eq=False)
class OptionBasket(HasFutures):
    """Options to exercise, each at its best date, not too many on one.

    config       'A' .. 'F' of Table 13, or a BasketContract
    correlation  of the prices' increments: one number for all pairs, or (B, B)
    cap          how many may be exercised on one date (default: the config's)
    action_set   which sets of options are offered: 'ranked', 'payoff' or 'all'
    """

    config: str | BasketContract = "A"
    correlation: float | Sequence[Sequence[float]] | FloatArray = 0.0
    cap: int | None = None
    action_set: ActionSet = "ranked"

    def __post_init__(self) -> None:
        cap = basket_contract(self.config).cap if self.cap is None else self.cap
        object.__setattr__(self, "cap", whole_number(cap, "cap", minimum=1))
        if self.action_set not in ACTION_SETS:
            raise InputError(
                f"action_set {self.action_set!r} is unknown: choose {', '.join(ACTION_SETS)}"
            )
        if self.action_set == "all" and len(self.options) > MOST_LISTED:
            raise InputError(
                f"action_set='all' would list 2^{len(self.options)} sets: use 'ranked'"
            )
        _ = self.process

    # --- The model ----------------------------------------------------------------------------

    @cached_property
    def options(self) -> tuple[OptionContract, ...]:
        """B options with the same dates."""
        return basket_contract(self.config).options

    @cached_property
    def process(self) -> GBM:
        """The prices."""
        prices, drifts, volatilities = (
            [getattr(option, name) for option in self.options]
            for name in ("price", "drift", "volatility")
        )
        step = self.options[0].step
        return GBM(
            prices, drifts, volatilities, step, kind="correlated", correlation=self.correlation
        )

    @property
    def horizon(self) -> int:
        """T exercise dates, the first at once."""
        return self.options[0].dates

    @property
    def sense(self) -> Sense:
        """Payoffs."""
        return "max"

    @property
    def start(self) -> State:
        """All held, at today's prices."""
        return State(0, self.process.start, np.ones(len(self.options)))

    @property
    def most(self) -> int:
        """How many may be exercised on one date."""
        assert self.cap is not None
        return self.cap

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        """The next prices: (n, B) -> (n, B)."""
        return self.process.draw(t, exogenous, generator)

    def actions(self, state: State) -> FloatArray:
        """(m, B) the sets on offer, none first."""
        require_prices(state)
        require_held(state)
        held = state.resource > 0.5
        if self.action_set == "all":
            codes = np.arange(2 ** len(held))[:, np.newaxis]
            sets = (codes >> np.arange(len(held))) & 1
            possible = (sets <= held).all(axis=1) & (sets.sum(axis=1) <= self.most)
            return np.asarray(sets[possible], dtype=np.float64)
        payoffs = self.payoffs(state.exogenous)
        scores = payoffs.copy()
        if self.action_set == "ranked":
            scores -= self.waiting(state.t, state.exogenous[np.newaxis])[0]
        ranked = np.argsort(-scores, kind="stable")
        ranked = ranked[held[ranked] & (payoffs[ranked] > 0)][: self.most]
        offered = np.zeros((len(ranked) + 1, len(held)))
        for j, option in enumerate(ranked):
            offered[j + 1 :, option] = 1.0
        return offered

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Payoffs (n,) in money of date 0, and what is held after (n, B)."""
        check_exercise(t, resource, actions)
        if (actions.sum(axis=1) > self.most).any():
            raise InfeasibleError(
                f"exercising {actions.sum(axis=1).max():g} options at date t={t}: at most "
                f"{self.most} may be exercised on one date"
            )
        payoffs = self.options[0].discount(t) * self.payoffs(exogenous)
        return np.asarray((actions * payoffs).sum(axis=1)), resource - actions

    def payoffs(self, prices: FloatArray) -> FloatArray:
        """What each option pays at prices (..., B), not discounted."""
        return np.stack(
            [option.payoff(prices[..., b]) for b, option in enumerate(self.options)], axis=-1
        )

    def feasible(
        self, t: int, exogenous: FloatArray, resource: FloatArray, wanted: FloatArray
    ) -> FloatArray:
        """(n, B) what is wanted, as far as it is still held."""
        return np.where((wanted > 0.5) & (resource > 0.5), 1.0, 0.0)

    # --- Whole futures ------------------------------------------------------------------------

    def allocate(self, paths: FloatArray, state: State | None = None) -> Allocation:
        """The best dates of each path, at most `cap` options on one."""
        state = state or self.start
        held = np.tile(state.resource, (len(paths), 1))
        values, actions = assign(self._discounted(state.t, paths), held, self.most)
        method = "assignment of options to dates: one date per option, at most `cap` on a date"
        return Allocation(values, actions, method)

    def replan(self, t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        """(n, B) what the plans for expected prices exercise at once."""
        drifts = np.array([option.drift for option in self.options])
        years = self.options[0].step * np.arange(self.horizon - t)[:, np.newaxis]
        expected = np.asarray(exogenous[:, np.newaxis] * np.exp(drifts * years))
        return assign(self._discounted(t, expected), resource, self.most)[1][:, 0]

    def _discounted(self, t: int, paths: FloatArray) -> FloatArray:
        """(n, steps, B) payoffs in money of date 0 along paths that begin at t."""
        dates = np.arange(t, t + paths.shape[1])
        return np.asarray(self.options[0].discount(dates)[:, np.newaxis] * self.payoffs(paths))

    def penalised(self, samples: int, seed: Seed) -> Penalised:
        """Tight bounds on fresh paths, by Longstaff-Schwartz and the martingales of its rules."""
        from counterplan.domains.basket_policy import penalised_basket

        return penalised_basket(self, samples, seed)

    def without_luck(self, paths: FloatArray, actions: FloatArray) -> FloatArray:
        """(n,) what actions (n, T, B) earned, minus the martingales of the options' own values."""
        return np.asarray(
            sum(
                single.without_luck(paths[:, :, b : b + 1], actions[:, :, b : b + 1])
                for b, single in enumerate(self.singles)
            )
        )

    # --- Each option alone --------------------------------------------------------------------

    @cached_property
    def singles(self) -> tuple[AmericanOption, ...]:
        """The options as problems of their own."""
        return tuple(AmericanOption(option) for option in self.options)

    @property
    def separate_value(self) -> float:
        """The sum of the options' own values: never less than the basket's."""
        return sum(single.optimal_value() for single in self.singles)

    def optimal_value(self, state: State | None = None) -> float:
        """The sum of the options' values, where the cap can never bind."""
        self._require_free()
        t, exogenous, resource = state or self.start
        return sum(
            single.optimal_value(State(t, exogenous[b : b + 1], resource[b : b + 1]))
            for b, single in enumerate(self.singles)
        )

    def optimal_actions(self, t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        """(n, B) each option's own optimum, where the cap can never bind."""
        self._require_free()
        return np.column_stack(
            [
                single.optimal_actions(t, exogenous[:, b : b + 1], resource[:, b : b + 1])
                for b, single in enumerate(self.singles)
            ]
        )

    def loss(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> FloatArray:
        """(n,) by how much each action is worth less than the best one, where the cap can never
        bind: each option's own."""
        self._require_free()
        each = [slice(b, b + 1) for b in range(len(self.options))]
        return np.asarray(
            sum(
                single.loss(t, exogenous[:, b], resource[:, b], actions[:, b])
                for single, b in zip(self.singles, each, strict=True)
            )
        )

    def best_known_policy(self) -> Policy:
        """Where the cap binds and nothing is exact: what is best for each option alone."""
        from counterplan.domains.basket_policy import OwnValues

        return OwnValues()

    def _require_free(self) -> None:
        if self.most < len(self.options):
            raise NotApplicableError(
                f"with a cap of {self.most} for {len(self.options)} options there is no exact "
                "value; value_bounds(method='tight') brackets it"
            )

    def waiting(self, t: int, prices: FloatArray) -> FloatArray:
        """(n, B) what holding each option alone is worth, in money of date t, interpolated."""
        if t == self.horizon - 1:
            return np.zeros(prices.shape)
        result = np.empty(prices.shape)
        for b, option in enumerate(self.options):
            nodes, values = self._nodes[b], self._waiting[b, t]
            below = 0.0 if option.sign > 0 else float(option.discount(1)) * option.strike
            line = np.interp(prices[:, b], [0.0, *nodes], [below, *values])
            rise = np.maximum(prices[:, b] - nodes[-1], 0.0)
            result[:, b] = line + (rise if option.sign > 0 else 0.0)
        return result

    @cached_property
    def _nodes(self) -> FloatArray:
        """(B, N) prices, evenly spaced in their logarithms."""
        return np.array([single.nodes(NODES)[0] for single in self.singles])

    @cached_property
    def _waiting(self) -> FloatArray:
        """(B, T, N) the values of holding each option alone."""
        solved = [Bermudan.solve(option) for option in self.options]
        return np.array(
            [
                [solved[b].continuation(t, nodes) for t in range(self.horizon)]
                for b, nodes in enumerate(self._nodes)
            ]
        )

    # --- Compiled -----------------------------------------------------------------------------

    def compiled(self, quantiles: int = 0) -> Kernel:
        """The model as compiled functions."""
        from counterplan.domains import basket_compiled as own
        from counterplan.planning.search.kernel import Kernel

        whole_number(quantiles, "quantiles")
        X = len(self.options)
        listed = self.action_set == "all"
        return Kernel(
            draw=own.draw,
            actions=own.actions,
            step=own.step,
            parameters=self._parameters(quantiles),
            horizon=self.horizon,
            exogenous=self.start.exogenous,
            resource=self.start.resource,
            action_size=X,
            # One row more than there are ranked actions: the kernel keeps its scores there.
            most_actions=2**X if listed else min(self.most, X) + 2,
            successors=own.successors,
            most_successors=quantiles,
            policy=own.policy,
            bounds=own.bounds,
        )

    def _parameters(self, quantiles: int) -> FloatArray:
        """Layout: `basket_kernel`."""
        X, T = len(self.options), self.horizon
        choice = ACTION_SETS.index(self.action_set)
        logs = np.log(self._nodes)
        each = [(o.sign, o.strike, o.drift, o.volatility) for o in self.options]
        signs, strikes, drifts, volatilities = np.array(each).T
        # The process's own root B of its correlation B B', made triangular.
        root = np.asarray(np.linalg.qr(self.process.mixing.T, mode="r")).T
        parts: list[FloatArray] = [
            np.array([X, T, self.most, choice, NODES, quantiles], dtype=np.float64),
            *(signs, strikes, logs[:, 0], logs[:, 1] - logs[:, 0]),
            self.options[0].discount(np.arange(T)),
            *(self._nodes, self._waiting, drifts, volatilities),
            np.array([self.options[0].step]),
            *(root, self._factors(quantiles)),
        ]
        return np.concatenate([part.ravel() for part in parts])

    def _factors(self, count: int) -> FloatArray:
        """(count, B) equally likely factors of the prices over one step, with the right means."""
        from scipy.special import ndtri
        from scipy.stats.qmc import Sobol

        X = len(self.options)
        if count == 0:
            return np.empty((0, X))
        exponent = int(np.ceil(np.log2(count)))
        points = Sobol(X, seed=0).random_base2(exponent)[:count]
        normal = ndtri(np.clip(points, 1e-12, 1 - 1e-12)) @ self.process.mixing.T
        deviations = np.array([o.volatility for o in self.options]) * np.sqrt(self.options[0].step)
        growth = np.exp([option.drift * option.step for option in self.options])
        factors = np.exp(deviations * normal)
        return np.asarray(growth * factors / factors.mean(axis=0))

    def bound_tables(self, samples: int, seed: Seed) -> FloatArray:
        """Values of fixed dates and their slopes at the nodes; exact, so nothing is sampled."""
        dates = range(self.horizon)
        fixed = np.array(
            [
                [np.column_stack(european_with_slope(option, nodes, s)) for s in dates]
                for option, nodes in zip(self.options, self._nodes, strict=True)
            ]
        )
        best = fixed.copy()
        for s in dates[1:]:
            later = fixed[:, s, :, :1] > best[:, s - 1, :, :1]
            best[:, s] = np.where(later, fixed[:, s], best[:, s - 1])
        return np.concatenate([fixed.swapaxes(1, 2).ravel(), best.ravel()])

    # --- In words -----------------------------------------------------------------------------

    about: ClassVar[str] = "a basket of options: which to exercise now and which to hold"

    @classmethod
    def configured(
        cls, config: str | None = None, correlation: float | None = None
    ) -> OptionBasket:
        """The basket that options of the command line ask for.

        config       row of the paper's table: A (default) to F
        correlation  of every two prices (0)
        """
        check_config(config)
        try:
            return cls(config or "A", correlation or 0.0)
        except InputError as problem:
            given = f"--correlation {correlation or 0.0:g}"
            raise InputError(f"{given}: {problem}; give another") from None

    def columns(self) -> Columns:
        """Tables with a price, an action and a level for each option."""
        numbers = range(1, len(self.options) + 1)
        held, exercised = "1 if the option is held, 0 if not", "1 exercises this option, 0 holds it"
        return Columns(
            self,
            tuple(Column(f"price_{b}", "the price", "price") for b in numbers),
            tuple(Column(f"action_{b}", exercised, "flag") for b in numbers),
            tuple(Column(f"level_{b}", held, "flag") for b in numbers),
        )

    def axes(self) -> Axes:
        """Prices, and which options are exercised and held, by date."""
        numbers = range(1, len(self.options) + 1)
        prices, options, held = (
            tuple(text.format(b) for b in numbers)
            for text in ("price {}", "option {}", "option {} held")
        )
        return Axes(prices, options, held, (), "date t", "basket", ("hold", "exercise"))

    def describe(self, action: FloatArray) -> str:
        """Which options are exercised."""
        chosen = [f"option {b + 1}" for b in np.flatnonzero(action > 0)]
        return f"exercise {' and '.join(chosen)}" if chosen else "hold all"

    def describe_state(self, state: State) -> str:
        """The date, the prices and which options are held."""
        prices = ", ".join(f"{price:g}" for price in state.exogenous)
        held = ", ".join(str(b + 1) for b in np.flatnonzero(state.resource > 0))
        date = f"date {state.t + 1} of {self.horizon}"
        return f"{date}, prices {prices}, options held: {held or 'none'}"
