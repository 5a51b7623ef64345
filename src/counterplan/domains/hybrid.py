"""The hybrid vehicle (Sec. F): which fuel to use in which mode.

x_t is the mode, as its indicator (S,), or, where modes are hidden, what is seen and the belief
about the mode (Eq. F.4). d_t = (gas, battery), at most c each, full at the start, in whole units:

    driving   a_gas + a_electric = min(Delta_a, gas + battery),    reward = <mileage of the mode, a>
    braking   nothing is used or earned; battery = min(c, battery + |Delta_d|)

c is Delta_a T / 4 ('tight'), Delta_a T / 2 ('half', both rounded half up), or given. With 'half'
and three modes greedy is optimal; the seven modes of Table 9 need planning. A vehicle that brakes
knows it, so hidden modes are the driving ones: each looks like itself with probability `accuracy`,
like another one of them otherwise, and rewards are those expected under the belief.

Bounds for clipping look one action ahead, with B the expected value after step t by its mode and
the tanks after it, and b the belief:

    max_a [ r_t(a) + sum_s b_s B_t(s, gas', battery') ]

Above, B is the mean of hindsight over sampled futures of the modes. Sampled is only what hindsight
earns more than greedy on the same path: greedy's exact value and the mean of that regret give the
mean of hindsight with most of the noise gone; what is left is allowed for by MARGIN standard
errors. Below, the better of two open loops, gas first and electric first, evaluated exactly. Where
modes are observed, it may be chosen once the next mode is seen; where they are hidden, each is a
bound of its own, linear in the belief.

Exact values. With n = min(Delta_a, g + b) units to use in a step that does not brake and mileage f
of mode m (Sec. F leaves open that the battery is capped at every step):

    V_t(m, g, b) = max_{a <= n} [ f_gas a + f_electric (n - a) + E V_{t+1}(m', g - a, b - n + a) ]
    V_t(m, g, b) = E V_{t+1}(m', g, min(c, b + |Delta_d|))                   where m brakes
    V_T = 0

Both are a graph of levels (`planning.level_graph`). Taking a fixed a instead of the best one
evaluates a policy, exactly; knowing the modes to come gives hindsight. One realised path has two
resources, but no ranking solves it: what braking adds is lost where the battery is full, so how
much there is to spend depends on how it was spent (Top-K and comparative advantage need it fixed),
and units must be used even where they earn least. So hindsight is the same recursion along the
path. Where braking is only a probability p_t (an expected path), the linear program of expected
amounts: at most (1 - p_t) Delta_a units are used at the mileage of driving modes, p_t |Delta_d| are
gained.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    Seed,
    generator,
    whole_number,
)
from counterplan.errors import InfeasibleError, InputError, NotApplicableError
from counterplan.planning.allocation import allocate_transport
from counterplan.planning.compiled import Layout, inlined, jit, play_with
from counterplan.planning.description import Axes, Column, Columns, check_config, positive_number
from counterplan.planning.exact_value import Solution
from counterplan.planning.level_graph import (
    LevelGraph,
    chain_values,
    expected_ahead,
    hindsight,
    mean_regrets,
)
from counterplan.planning.model import (
    Allocation,
    HasFutures,
    Sense,
    State,
    require_levels,
)
from counterplan.planning.policies import KnownRule
from counterplan.planning.processes.base import number, stochastic_matrix
from counterplan.planning.processes.laws import draw
from counterplan.planning.processes.modes import (
    HiddenModes,
    MarkovModes,
    ResampledTraces,
    drive_cycle_modes,
    modes_of_drive,
    number_table,
)
from counterplan.planning.resource import Resource, ResourceProgram

if TYPE_CHECKING:
    from counterplan.planning.search.kernel import Kernel

# Tables hold (c + 1)^2 numbers per step and mode.
LARGEST_CAPACITY = 300
# Standard errors that sampled bounds are raised by.
MARGIN = 3.0
# What whole units and probabilities may miss by rounding.
WHOLE = 1e-6
# A probability this small is rounding.
SMALLEST = 1e-9
FUELS = ("gas", "electric")


@dataclass(frozen=True, eq=False)
class HybridConfig:
    """One row of a table, or your own.

    mileage   (M, 2) mean mileage of a unit of gas and of electricity in each mode: those in which
              gas is efficient, as many in which electricity is, and braking
    matrix    (M, M) how modes follow each other
    horizon   T decisions
    quota     Delta_a, units used in every step that does not brake
    recharge  |Delta_d|, units that braking adds to the battery
    """

    mileage: ArrayLike
    matrix: ArrayLike
    horizon: int
    quota: int
    recharge: int

    def __post_init__(self) -> None:
        mileage = number_table(self.mileage, "mileage")
        if mileage.shape[1] != 2 or len(mileage) < 2:
            raise InputError(
                "mileage must be a row of two numbers, gas and electric, for each mode, braking "
                f"last; got shape {mileage.shape}"
            )
        matrix = stochastic_matrix(self.matrix, "mode matrix")
        if len(matrix) != len(mileage):
            raise InputError(f"{len(mileage)} modes have a mileage, {len(matrix)} a matrix row")
        object.__setattr__(self, "mileage", mileage)
        object.__setattr__(self, "matrix", matrix)
        whole_number(self.horizon, "horizon", minimum=1)
        whole_number(self.quota, "quota", minimum=1)
        whole_number(self.recharge, "recharge")

    @property
    def rates(self) -> FloatArray:
        """(M, 2) the mileage."""
        return np.asarray(self.mileage, dtype=np.float64)

    @property
    def modes(self) -> int:
        """M, with braking."""
        return len(self.rates)

    @property
    def start_mode(self) -> int:
        """The first gas-efficient mode if its gas mileage exceeds the first electric-efficient
        mode's electric mileage, else that mode."""
        electric = (self.modes - 1) // 2
        return 0 if self.rates[0, 0] > self.rates[electric, 1] else electric


T1 = ((0.3, 0.5, 0.2), (0.1, 0.7, 0.2), (0.3, 0.3, 0.4))
T2 = ((0.4, 0.4, 0.2),) * 3
# Printed twice, as T1 and as T2, with the same entries.
T7 = (
    (0.45, 0.20, 0.10, 0.10, 0.05, 0.05, 0.05),
    (0.20, 0.45, 0.10, 0.05, 0.10, 0.05, 0.05),
    (0.10, 0.20, 0.45, 0.05, 0.05, 0.10, 0.05),
    (0.10, 0.05, 0.05, 0.45, 0.20, 0.10, 0.05),
    (0.05, 0.10, 0.05, 0.20, 0.45, 0.10, 0.05),
    (0.05, 0.05, 0.10, 0.10, 0.20, 0.45, 0.05),
    (0.20, 0.20, 0.10, 0.20, 0.20, 0.10, 0.00),
)

THREE_MODES = {
    "A": HybridConfig([[10, 8], [8, 9], [8, 8]], T1, 10, 4, 2),
    "B": HybridConfig([[5, 2], [2, 5], [2, 2]], T1, 10, 4, 2),
    "C": HybridConfig([[6, 3], [3, 7], [3, 3]], T1, 15, 5, 3),
    "D": HybridConfig([[4, 2], [2, 6], [2, 2]], T2, 20, 3, 1),
    "E": HybridConfig([[8, 3], [3, 5], [3, 3]], T2, 12, 6, 4),
    "F": HybridConfig([[30, 10], [10, 40], [10, 10]], T2, 16, 5, 5),
}


def _seven(gas: tuple[int, ...], electric: tuple[int, ...], other: int) -> list[list[int]]:
    """Mileage of three gas-efficient and three electric-efficient modes, and of braking."""
    return [*([g, other] for g in gas), *([other, e] for e in electric), [other, other]]


SEVEN_MODES = {
    "A": HybridConfig(_seven((10, 11, 12), (9, 10, 11), 8), T7, 10, 4, 2),
    "B": HybridConfig(_seven((5, 6, 7), (3, 4, 5), 2), T7, 10, 4, 2),
    "C": HybridConfig(_seven((10, 15, 20), (15, 10, 5), 4), T7, 15, 5, 3),
    "D": HybridConfig(_seven((22, 26, 32), (15, 16, 17), 4), T7, 20, 3, 1),
    "E": HybridConfig(_seven((1, 3, 6), (6, 9, 12), 1), T7, 12, 6, 4),
    "F": HybridConfig(_seven((30, 40, 50), (15, 20, 30), 10), T7, 16, 5, 5),
}


@dataclass(frozen=True, eq=False)
class HybridVehicle(HasFutures):
    """A journey; mileage is to be maximised.

    config    row of Table 7 (3 modes) or 9 (7 modes), 'A' to 'F', or your own HybridConfig
    modes     3 or 7; without effect where `config` is your own
    capacity  of either tank: 'tight', 'half', or a whole number
    hidden    whether driving modes are hidden
    process   of the modes, instead of the configuration's matrix: resampled drive cycles
    accuracy  how likely a hidden mode looks like itself
    """

    config: str | HybridConfig = "A"
    modes: int = 3
    capacity: Literal["tight", "half"] | int = "tight"
    hidden: bool = False
    process: MarkovModes | None = None
    accuracy: float = 0.8

    sense: ClassVar[Sense] = "max"

    def __post_init__(self) -> None:
        if not 0.0 <= number(self.accuracy, "accuracy") <= 1.0:
            raise InputError(f"accuracy must lie between 0 and 1, got {self.accuracy:g}")
        _ = self.brakes, self.units, self.law  # checks the rest

    @cached_property
    def numbers(self) -> HybridConfig:
        if isinstance(self.config, HybridConfig):
            return self.config
        if self.modes not in (3, 7):
            raise InputError(f"modes must be 3 or 7, got {self.modes!r}; or pass a HybridConfig")
        table = THREE_MODES if self.modes == 3 else SEVEN_MODES
        if self.config not in table:
            raise InputError(f"config {self.config!r} is not one of {', '.join(table)}")
        return table[self.config]

    @cached_property
    def chain(self) -> MarkovModes:
        """The modes as a Markov chain of indicators."""
        if self.process is None:
            return MarkovModes(self.numbers.matrix, self.numbers.start_mode, indicators=True)
        if not isinstance(self.process, MarkovModes):
            raise InputError(
                f"process must be MarkovModes or ResampledTraces, got {type(self.process).__name__}"
            )
        return replace(self.process, indicators=True)

    @cached_property
    def brakes(self) -> BoolArray:
        """(S,) which of the process's modes brake."""
        S, M = len(self.chain.probabilities), self.numbers.modes
        if S > M:
            raise InputError(
                f"the process has a mode {S - 1}, but only modes 0 to {M - 1} have a mileage, the "
                "last one braking"
            )
        return np.asarray(np.arange(S) == M - 1)

    @property
    def mileage(self) -> FloatArray:
        """(S, 2) that of its modes."""
        return self.numbers.rates[: len(self.brakes)]

    @cached_property
    def units(self) -> int:
        """c, of either tank."""
        if not isinstance(self.capacity, str):
            return whole_number(self.capacity, "capacity", maximum=LARGEST_CAPACITY)
        parts = {"tight": 4, "half": 2}
        if self.capacity not in parts:
            raise InputError(f"capacity {self.capacity!r} is not 'tight', 'half' or a whole number")
        return int(self.numbers.quota * self.numbers.horizon / parts[self.capacity] + 0.5)

    @cached_property
    def law(self) -> MarkovModes | HiddenModes:
        """The process of x."""
        if not self.hidden:
            return self.chain
        driving = np.flatnonzero(~self.brakes)
        if len(driving) == len(self.brakes):
            raise InputError("no mode brakes: the process never shows the last mode")
        looks = np.eye(len(self.brakes))
        others = max(len(driving) - 1, 1)
        looks[np.ix_(driving, driving)] = (1.0 - self.accuracy) / others
        looks[driving, driving] = self.accuracy if len(driving) > 1 else 1.0
        return HiddenModes(
            self.chain.probabilities, self.mileage, looks, initial=self.chain.initial
        )

    @property
    def _seen(self) -> int:
        """How many numbers of x come before the belief."""
        return 2 if self.hidden else 0

    def beliefs(self, exogenous: FloatArray) -> FloatArray:
        """(..., S) the distributions of the mode in (..., X)."""
        return np.asarray(exogenous)[..., self._seen :]

    @property
    def horizon(self) -> int:
        return self.numbers.horizon

    @property
    def start(self) -> State:
        return State(0, self.law.start, np.full(2, float(self.units)))

    def successors(self, t: int, exogenous: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.law.successors(t, exogenous)

    def actions(self, state: State) -> FloatArray:
        """(m, 2) every split of the quota, most gas first; nothing when braking."""
        self._check_state(state)
        numbers, rows = self._kernel.parameters, np.empty((self.numbers.quota + 1, 2))
        x = np.array(state.exogenous, dtype=np.float64)
        return rows[: actions(numbers, state.t, x, np.rint(state.resource), rows)]

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Mileage (n,) and tanks (n, 2) after the step."""
        braking = self._brakes(exogenous)
        used = np.where(braking, 0.0, np.minimum(self.numbers.quota, resource.sum(axis=1)))
        wrong = (actions < 0) | (actions > resource) | (actions.sum(axis=1) != used)[:, None]
        if wrong.any():
            i = int(np.argmax(wrong.any(axis=1)))
            raise InfeasibleError(
                f"using {actions[i]} at t={t} with {resource[i]} in the tanks: gas and electric "
                f"must add up to {used[i]:g}, each no more than there is"
            )
        rewards = np.einsum("na,na->n", self._rates(exogenous), actions)
        after = resource - actions
        recharged = after[:, 1] + self.numbers.recharge * braking
        after[:, 1] = np.minimum(recharged, self.units)
        return np.where(braking, 0.0, rewards), after

    def feasible(
        self, t: int, exogenous: FloatArray, resource: FloatArray, wanted: FloatArray
    ) -> FloatArray:
        """(n, 2) the quota split as wanted, as far as the tanks and whole units allow."""
        used = np.minimum(self.numbers.quota, resource.sum(axis=1))
        total = wanted.sum(axis=1)
        share = np.divide(wanted[:, 0], total, out=np.ones(len(wanted)), where=total > 0)
        least, most = np.maximum(used - resource[:, 1], 0.0), np.minimum(used, resource[:, 0])
        # Halves go up, also those that a plan misses by its last digit.
        gas = np.clip(np.floor(share * used + 0.5 + WHOLE), least, most)
        split = np.column_stack([gas, used - gas])
        return np.asarray(np.where(self._brakes(exogenous)[:, None], 0.0, split))

    def _check_state(self, state: State) -> None:
        require_levels(state.t, state.resource, (self.units,) * 2, "a tank with")
        levels = state.resource.tolist()
        if any(abs(level - round(level)) > WHOLE for level in levels):
            raise InputError(
                f"the state at t={state.t} has {levels} in the tanks: fuel comes in whole units"
            )
        belief = self.beliefs(state.exogenous).tolist()
        sure = self.hidden or max(belief) >= 1.0 - WHOLE
        if min(belief) < -WHOLE or abs(sum(belief) - 1.0) > WHOLE or not sure:
            wanted = "probabilities that sum to 1" if self.hidden else "1 for the mode, else 0"
            raise InputError(f"the state at t={state.t} has modes {belief}: give {wanted}")

    def _brakes(self, exogenous: FloatArray) -> BoolArray:
        return np.asarray(self.beliefs(exogenous) @ self.brakes > 0.5)

    def _rates(self, exogenous: FloatArray) -> FloatArray:
        return np.asarray(self.beliefs(exogenous) @ self.mileage)

    def allocate(self, paths: FloatArray, state: State | None = None) -> Allocation:
        """What should have been used along (n, T - t, X). Where braking is only a probability
        (`mean_path`) amounts are expected ones: a plug-in value, no bound on anything."""
        at = self.start if state is None else state
        if paths.ndim != 3 or paths.shape[1] != self.horizon - at.t:
            raise InputError(
                f"paths must be (n, {self.horizon - at.t}, X), for t={at.t} .. {self.horizon - 1}, "
                f"got {paths.shape}"
            )
        beliefs, tanks = self.beliefs(paths), np.asarray(at.resource)
        braking = np.asarray(beliefs @ self.brakes)
        driving = np.maximum(1.0 - braking, SMALLEST)[:, :, None]
        rates = (beliefs * ~self.brakes) @ self.mileage / driving
        uncertain = ((braking > SMALLEST) & (braking < 1.0 - SMALLEST)).any(axis=1)
        known = ~uncertain
        values, actions = np.empty(len(rates)), np.empty(rates.shape)
        methods = []
        if known.any():
            kinds, start = (braking[known] > 0.5).astype(np.int64), int(self.level_numbers(tanks))
            values[known], actions[known] = hindsight(self.graph, kinds, rates[known], start)
            methods.append(
                "dynamic program along the path: what braking adds depends on what was used"
            )
        for i in np.flatnonzero(uncertain):
            values[i], actions[i] = self._expected(rates[i], braking[i], tanks)
        if uncertain.any():
            methods.append("linear program of expected amounts: a plug-in value")
        return Allocation(values, actions, "; ".join(methods))

    def _expected(
        self, rates: FloatArray, braking: FloatArray, tanks: FloatArray
    ) -> tuple[float, FloatArray]:
        """Value and actions (T, 2) of one expected path; rates are those of driving modes alone."""
        capacity = float(self.units)
        if capacity == 0:
            return 0.0, np.zeros_like(rates)
        gas = Resource(float(tanks[0]), capacity, spill=True)
        change = self.numbers.recharge * braking
        battery = Resource(float(tanks[1]), capacity, change=change, spill=True)
        most = self.numbers.quota * (1.0 - braking)
        program = ResourceProgram((gas, battery), np.column_stack([np.zeros_like(most), most]))
        found = allocate_transport(rates[None], program)
        return float(found.values[0]), found.actions[0]

    def optimal_value(self, state: State | None = None) -> float:
        """The best expected mileage; of hidden modes only where few beliefs can be reached."""
        if self.hidden:
            return Solution(self, state).value if state is not None else self._listed.value
        at = self.start if state is None else state
        mode = self.chain.modes(np.atleast_2d(at.exogenous))[0]
        return float(self.optimum[at.t, mode, self.level_numbers(at.resource)])

    def optimal_actions(self, t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        """(n, 2) the actions that attain it."""
        if self.hidden:
            return self._listed.actions(t, exogenous, resource)
        return self.best_if_seen(t, exogenous, resource)

    def best_if_seen(self, t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        """(n, 2) the actions that would be best if modes were seen from the next step on."""
        ahead = expected_ahead(self.chain.probabilities, self.optimum[t + 1])
        return self.best_actions(exogenous, resource, self.beliefs(exogenous), ahead)

    def best_actions(
        self, exogenous: FloatArray, resource: FloatArray, chances: FloatArray, ahead: FloatArray
    ) -> FloatArray:
        """(n, 2) the best actions where levels are then worth ahead (K, G), by chances (n, K)."""
        kinds, levels = self._brakes(exogenous).astype(np.int64), self.level_numbers(resource)
        actions, after = self.graph.actions[kinds, levels], self.graph.after[kinds, levels]
        worth = np.einsum("nma,na->nm", actions, self._rates(exogenous))
        worth += np.einsum("nk,knm->nm", chances, ahead[:, after])
        best = np.where(after >= 0, worth, -np.inf).argmax(axis=1)
        return np.asarray(actions[np.arange(len(best)), best])

    def loss(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> FloatArray:
        """(n,) by how much each action's expected mileage falls short of the best one's; observed
        modes only. Summed along an episode: a policy's shortfall without the futures' noise."""
        if self.hidden:
            raise NotApplicableError(
                "losses are known by mode, which is hidden; evaluate plays a policy"
            )
        modes = self.chain.modes(exogenous)
        rewards, after = self.step(t, exogenous, resource, actions)
        ahead = expected_ahead(self.chain.probabilities, self.optimum[t + 1])
        best = self.optimum[t, modes, self.level_numbers(resource)]
        return np.asarray(best - rewards - ahead[modes, self.level_numbers(after)])

    def best_known_policy(self) -> KnownRule:
        """Where modes are hidden and too many beliefs can be reached: what would be best if they
        were seen from the next step on (QMDP). No action changes what is seen, so little is missed:
        within 0.4 % of value iteration on a grid of beliefs (`experiments.belief_iteration`)."""
        return KnownRule("as if modes were seen next", self.best_if_seen)

    @cached_property
    def optimum(self) -> FloatArray:
        """(T + 1, S, G) the best values where modes are observed, by the number of the level."""
        return self._values(self.mileage, 1.0)

    def myopic_values(self, by: ArrayLike) -> FloatArray:
        """(T + 1, S, G) the same of a policy that takes the most by rates (2,) or (S, 2), whatever
        follows: greedy by the mileage, gas or electricity first by (1, 0) or (0, 1)."""
        rates = np.asarray(by, dtype=np.float64)
        return self._values(np.array(np.broadcast_to(rates, self.mileage.shape)), 0.0)

    def _values(self, by: FloatArray, foresight: float) -> FloatArray:
        chain = self.brakes.astype(np.int64), self.mileage, self.chain.probabilities
        return np.asarray(chain_values(self.graph, chain, self.horizon, by, foresight))

    @cached_property
    def graph(self) -> LevelGraph:
        """What may be done with tanks of c + 1 levels each, (gas, battery) being number
        gas (c + 1) + battery: kind 0 drives, every split of the quota, most gas first; kind 1
        brakes."""
        c, gas = self.units, np.arange(self.numbers.quota, -1, -1)
        levels = np.stack(np.divmod(np.arange((c + 1) ** 2), c + 1), axis=1)
        used = np.minimum(self.numbers.quota, levels.sum(axis=1))[:, None]
        driving = np.stack([np.broadcast_to(gas, (len(levels), len(gas))), used - gas], axis=2)
        left = levels[:, None] - driving
        possible = ((driving >= 0) & (left >= 0)).all(axis=2)
        charged, number = levels + np.array([0, self.numbers.recharge]), np.array([c + 1, 1])
        after = np.full((2, *possible.shape), -1)
        after[0] = np.where(possible, left @ number, -1)
        after[1, :, 0] = np.minimum(charged, c) @ number
        actions = np.zeros((2, *driving.shape))
        actions[0] = driving
        return LevelGraph(actions, np.zeros(after.shape), after)

    def level_numbers(self, tanks: FloatArray) -> IntArray:
        """(...) the numbers of levels (..., 2) in the graph."""
        return np.asarray(np.rint(tanks).astype(np.int64) @ [self.units + 1, 1])

    @cached_property
    def _listed(self) -> Solution:
        return Solution(self)

    def compiled(self, quantiles: int = 0) -> Kernel:
        """For the search; chance is finite as it is, so `quantiles` has no effect."""
        from counterplan.planning.search.kernel import Kernel

        block = self.law.kernel_parameters(self.horizon)
        parameters = ROAD.pack(
            capacity=self.units,
            quota=self.numbers.quota,
            recharge=self.numbers.recharge,
            O=self._seen,
            mileage=self.mileage,
            brakes=self.brakes,
            process=block,
        )
        functions = {"actions": actions, "step": step, "policy": policy, "bounds": bounds}
        sizes = {
            "most_actions": self.numbers.quota + 1,
            "most_successors": self.law.most_successors(),
        }
        return Kernel.of(self, play, **functions, parameters=parameters, action_size=2, **sizes)

    @cached_property
    def _kernel(self) -> Kernel:
        return self.compiled()

    def bound_tables(self, samples: int = 2_000, seed: Seed = 0) -> FloatArray:
        """Bounds on the value after every step, by mode and tanks, as `BOUND_TABLES` has them.

        samples  paths, as many from every mode
        """
        S, T, rng = len(self.chain.probabilities), self.horizon, generator(seed)
        each = -(-whole_number(samples, "samples", minimum=2) // S)
        paths = [self.chain.sample_paths(each, T, rng, 0, start) for start in np.eye(S)]
        modes = np.concatenate([path.argmax(axis=2) for path in paths])
        kinds = self.brakes.astype(np.int64)[modes]
        futures = kinds, self.mileage[modes], np.ones((len(modes), T + 1))
        myopic = np.zeros((T + 1, self.graph.after.shape[1]))
        means, errors, counts = mean_regrets(self.graph, futures, myopic, modes, S)
        regrets = np.where(counts[:, :, None] < 2, np.inf, means + MARGIN * errors)
        first = self.mileage, (1.0, 0.0), (0.0, 1.0)
        greedy, *orders = (self.myopic_values(by)[:T] for by in first)
        below = orders if self.hidden else [np.maximum(*orders)]
        above = greedy + regrets
        # A bound that is met exactly must not be crossed by rounding.
        before = np.array([np.maximum.reduce([above, *below]), *below])
        after = np.zeros_like(before)
        for k, t in np.ndindex(len(before), T - 1):
            after[k, t] = expected_ahead(self.chain.probabilities, before[k, t + 1])
        width = self.units + 1
        return BOUND_TABLES.pack(values=after.reshape(*after.shape[:3], width, width))

    about: ClassVar[str] = (
        "a hybrid vehicle: gas or electricity at each step, the road being seen step by step"
    )

    @classmethod
    def configured(
        cls,
        config: str | None = None,
        modes: int | None = None,
        capacity: str | None = None,
        hidden: bool = False,
        drive_cycle: Path | None = None,
    ) -> HybridVehicle:
        """The vehicle that options of the command line ask for.

        config       row of the paper's table: A (default) to F
        modes        3 (default) or 7 modes
        capacity     of either tank: tight (default), half, or a number of units
        hidden       driving modes are hidden
        drive_cycle  recorded speeds (.csv with cycSecs and cycMps) to take modes from
        """
        check_config(config)
        count = 3 if modes is None else modes
        if count not in (3, 7):
            raise InputError(f"--modes {count}: there are configurations with 3 and with 7")
        process = None
        if drive_cycle is not None:
            if count != 3:
                raise InputError(f"--drive-cycle shows 3 modes, not {count}: leave --modes out")
            process = ResampledTraces.from_modes([drive_cycle_modes(drive_cycle)], modes=3)
        size: Any = capacity or "tight"
        if size not in ("tight", "half"):
            size = positive_number(size, "tight, half or a number")
            if size != int(size):
                raise InputError(f"--capacity {capacity!r}: fuel comes in whole units")
            size = int(size)
        return cls(config or "A", count, size, hidden, process)

    @property
    def mode_names(self) -> tuple[str, ...]:
        """What its modes are called, in their order."""
        each = (self.numbers.modes - 1) // 2
        numbers = [""] if each == 1 else [str(i + 1) for i in range(each)]
        return (*(f"{fuel}{number}" for fuel in FUELS for number in numbers), "braking")

    def columns(self) -> Columns:
        most = float(self.units)
        speeds = (
            Column("speed", "the mean speed of this step in m/s", "amount"),
            Column("acceleration", "the mean acceleration of this step in m/s^2"),
        )
        return HybridColumns(
            self,
            (Column("mode", "the mode of this step", "name", names=self.mode_names),),
            (Column("action", "the electricity used, the rest being gas", "whole"),),
            tuple(Column(f"level_{fuel}", "what is left", "whole", most=most) for fuel in FUELS),
            speeds if self.numbers.modes == 3 else (),
        )

    def axes(self) -> Axes:
        keys = tuple(f"_{fuel}" for fuel in FUELS)
        used, left = ("gas used", "electricity used"), ("gas left", "electricity left")
        return Axes(
            ("mode",), used, left, self.mode_names, "step t", "drive", (), keys, keys, "miles"
        )

    def describe(self, action: FloatArray) -> str:
        return f"{action[0]:g} gas, {action[1]:g} electric" if action.any() else "use nothing"

    def describe_state(self, state: State) -> str:
        mode = self.mode_names[int(np.argmax(self.beliefs(state.exogenous)))]
        left = f"{state.resource[0]:g} gas, {state.resource[1]:g} electric"
        return f"step {state.t + 1} of {self.horizon}, {mode} mode, {left}"


class HybridColumns(Columns):
    """Modes by name, electricity alone: gas is the rest of the quota.

    Hidden modes: `mode` is what the mode looked like; the first row's is the one the drive began
    in, which is known. The belief about the mode follows from what was seen (Eq. F.4).
    """

    problem: HybridVehicle

    def derive(self, values: FloatArray) -> FloatArray:
        """Modes from mean speed and acceleration, as drive cycles have them."""
        return modes_of_drive(*values.T)[:, np.newaxis].astype(np.float64)

    def path(self, observed: FloatArray) -> FloatArray:
        """Indicators of the modes, or what was seen and the belief that follows from it."""
        modes = observed[:, 0].astype(np.int64)
        law = self.problem.law
        if not isinstance(law, HiddenModes):
            return np.asarray(np.eye(len(self.problem.brakes))[modes])
        looks = np.asarray(law.probabilities)
        belief: FloatArray = np.eye(len(looks))[modes[0]]
        rows = [np.concatenate([law.mode_means[modes[0]], belief])]
        for t, mode in enumerate(modes[1:], start=1):
            weights = (belief @ law.transitions) * looks[:, mode]
            if not weights.sum() > 0:
                name = self.problem.mode_names[mode]
                raise InfeasibleError(
                    f"{name!r} at t={t} cannot follow what was seen before it, says the model"
                )
            belief = weights / weights.sum()
            rows.append(np.concatenate([np.asarray(law.values)[mode], belief]))
        return np.array(rows)

    def exogenous(self, observed: FloatArray) -> FloatArray:
        """The mode alone; what is believed of a hidden one depends on all that was seen."""
        if self.problem.hidden:
            raise InputError("--hidden: only the start can be asked, where the mode is known")
        return super().exogenous(observed)

    def actions(self, path: FloatArray, state: State, decisions: FloatArray) -> FloatArray:
        """Electricity as given, gas the rest of the quota; impossible ones stay impossible."""
        chosen, resource = [], state.resource[np.newaxis]
        for s, units in enumerate(decisions[:, 0]):
            now = path[s : s + 1]
            quota = float(self.problem.actions(State(state.t + s, now[0], resource[0]))[0].sum())
            action = np.array([[quota - units, units]])
            _, resource = self.problem.step(state.t + s, now, resource, action)
            chosen.append(action[0])
        return np.array(chosen)

    def written(self, path: FloatArray, actions: FloatArray) -> FloatArray:
        """The modes, or what they looked like, and the electricity used."""
        law, modes = self.problem.law, np.argmax(self.problem.beliefs(path), axis=1)
        if isinstance(law, HiddenModes):
            values = np.asarray(law.values)
            apart = np.abs(path[1:, np.newaxis, : values.shape[1]] - values).sum(axis=2)
            modes[1:] = apart.argmin(axis=1)
        return np.column_stack([modes, actions[:, 1]])


# --- Compiled: x = (what is seen (O,), belief about the mode (S,)), d = (gas, battery), ----------
# --- action = (gas, electric), all whole units. Where the mode is observed, O = 0. ---------------

ROAD = Layout("rest capacity quota recharge", "O S", mileage="S 2", brakes="S", process="*")
# Expected values after each step by its mode and the tanks: of hindsight, then of policies.
BOUND_TABLES = Layout("", "K T S W", values="K T S W W")
road_of, tables_of = ROAD.view, BOUND_TABLES.view


@inlined
def _rates(p, x):  # type: ignore[no-untyped-def]
    """Expected mileage of gas and of electricity, and whether the vehicle brakes."""
    gas, electric, braking = 0.0, 0.0, 0.0
    for s in range(p.S):
        belief = x[p.O + s]
        if belief > 0.0:
            gas += belief * p.mileage[s, 0]
            electric += belief * p.mileage[s, 1]
            braking += belief * p.brakes[s]
    return gas, electric, braking > 0.5


@jit
def actions(parameters, t, x, d, out):  # type: ignore[no-untyped-def]
    """Every split of the quota, most gas first; nothing when braking."""
    p = road_of(parameters)
    _, _, braking = _rates(p, x)
    used = 0.0 if braking else min(p.quota, d[0] + d[1])
    gas = min(used, d[0])
    m = 0
    while gas >= 0.0 and used - gas <= d[1]:
        out[m, 0] = gas
        out[m, 1] = used - gas
        gas -= 1.0
        m += 1
    return m


@jit
def step(parameters, t, x, d, action, out):  # type: ignore[no-untyped-def]
    """Drive, or recharge."""
    p = road_of(parameters)
    gas, electric, braking = _rates(p, x)
    out[0] = d[0] - action[0]
    out[1] = d[1] - action[1]
    if braking:
        out[1] = min(p.capacity, out[1] + p.recharge)
        return 0.0
    return gas * action[0] + electric * action[1]


@jit
def policy(parameters, t, x, d, generator, offered, m):  # type: ignore[no-untyped-def]
    """Greedy: the more efficient fuel as far as it goes."""
    gas, electric, _ = _rates(road_of(parameters), x)
    return 0 if gas >= electric else m - 1


@jit
def play(parameters, t, x, d, generator, room):  # type: ignore[no-untyped-def]
    """A rollout, all in one."""
    state = parameters, t, x, d
    return play_with(draw, actions, step, policy, state, generator, room)


@inlined
def _ahead(values, belief, first, gas, battery):  # type: ignore[no-untyped-def]
    """The expected value of (S, c + 1, c + 1); modes before `first` are impossible."""
    if belief[first] == 1.0:
        return values[first, gas, battery]
    total = 0.0
    for s in range(first, values.shape[0]):
        if belief[s] > 0.0:
            total += belief[s] * values[s, gas, battery]
    return total


@jit
def bounds(parameters, tables, t, x, d, generator, out):  # type: ignore[no-untyped-def]
    """One action, then hindsight (above) and the best of the executed policies (below)."""
    out[0], out[1] = -np.inf, np.inf
    if tables.size == 0:
        return
    p, known = road_of(parameters), tables_of(tables)
    gas_rate, electric_rate, braking = _rates(p, x)
    used = 0.0 if braking else min(p.quota, d[0] + d[1])
    charged = p.recharge if braking else 0.0
    belief = x[p.O :]
    first = 0
    while belief[first] <= 0.0:
        first += 1
    gas = min(used, d[0])
    out[1] = -np.inf
    while gas >= 0.0 and used - gas <= d[1]:
        electric = used - gas
        now = 0.0 if braking else gas_rate * gas + electric_rate * electric
        left, battery = int(d[0] - gas), int(min(p.capacity, d[1] - electric + charged))
        for k in range(known.K):
            value = now + _ahead(known.values[k, t], belief, first, left, battery)
            side = 1 if k == 0 else 0
            out[side] = max(out[side], value)
        gas -= 1.0
