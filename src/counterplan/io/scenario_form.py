"""What a table of scenarios says about a planning problem: its columns and what they mean.

    problem    seen at each step        decided (may be left out)         start (may be left out)
    bunkering  price                    action: units bought              level: units in the tank
    hybrid     mode, or speed and       action: units of electricity,     level_gas,
               acceleration             the rest of the quota being gas   level_electric
    options    price                    action: 1 exercises, 0 holds
    basket     price_1, price_2, ...    action_1, ...: likewise           level_1, ...: 1 if held

Hidden modes: `mode` is what the mode looked like; the first row's is the one the journey began in,
which is known. The belief about the mode follows from what was seen (Eq. F.4).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from counterplan.core.validation import BoolArray, FloatArray
from counterplan.domains.basket import OptionBasket
from counterplan.domains.bunkering import Bunkering
from counterplan.domains.hybrid import HybridVehicle
from counterplan.domains.options import AmericanOption
from counterplan.errors import InfeasibleError, InputError
from counterplan.exogenous.hidden_modes import HiddenModes
from counterplan.exogenous.model import ExogenousModel, State
from counterplan.exogenous.traces import BRAKING, ELECTRIC_EFFICIENT, GAS_EFFICIENT
from counterplan.io.plan_question import LARGEST_PRICE, mode_names

# As `drive_cycle_modes` has them: from which speed (m/s) gas is efficient, and which mean
# acceleration (m/s^2) is braking.
FAST, BRAKES = 13.4, -0.25


@dataclass(frozen=True)
class Entry:
    """A column of numbers, or of names that stand for 0, 1, 2, ...

    accepts  which of the numbers (n,) are right
    problem  what is wrong with the others, and what to do
    """

    column: str
    accepts: Callable[[FloatArray], BoolArray]
    problem: str
    names: tuple[str, ...] = ()


class ScenarioForm(ABC):
    """How scenarios of one problem are written down.

    seen, decided, start  the columns; the last two may be left out
    instead               columns that may stand in for `seen`, and the function of `derive`
    parts, tanks          what the numbers of an action and of a level are called in results
    """

    problem: ExogenousModel
    seen: tuple[Entry, ...]
    decided: tuple[Entry, ...]
    start: tuple[Entry, ...] = ()
    instead: tuple[Entry, ...] = ()
    parts: tuple[str, ...] = ("",)
    tanks: tuple[str, ...] = ("",)

    def path(self, seen: FloatArray) -> FloatArray:
        """(T, X) the path that was revealed, from the table's numbers (T, n)."""
        return seen

    def state(self, path: FloatArray, level: FloatArray | None) -> State:
        """Where it began."""
        start = self.problem.start
        return State(start.t, path[0], start.resource if level is None else level)

    def actions(self, path: FloatArray, state: State, given: FloatArray) -> FloatArray:
        """(T, A) the decisions, from the table's numbers (T, n)."""
        return given

    def derive(self, values: FloatArray) -> FloatArray:
        """(n, s) the numbers of `seen` from those of `instead` (n, i)."""
        return values

    @abstractmethod
    def written(self, path: FloatArray, actions: FloatArray) -> FloatArray:
        """(T, n + m) the table's numbers of a path (T, X) and actions (T, A)."""


class PriceForm(ScenarioForm):
    """Problems in which prices are revealed as they are."""

    def written(self, path: FloatArray, actions: FloatArray) -> FloatArray:
        """Prices and actions as they are."""
        return np.hstack([path, actions])


class BunkeringForm(PriceForm):
    """Fuel for a ship."""

    def __init__(self, problem: Bunkering) -> None:
        self.problem = problem
        self.seen = (_price("price"),)
        self.decided = (
            Entry(
                "action",
                lambda bought: bought >= 0,
                "is not an amount bought; give the units bought, 0 for none",
            ),
        )
        self.start = (_level("level", problem.capacity),)


class OptionForm(PriceForm):
    """One option."""

    def __init__(self, problem: AmericanOption) -> None:
        self.problem = problem
        self.seen = (_price("price"),)
        self.decided = (_flag("action", "is neither 0 nor 1; 1 exercises the option, 0 holds it"),)


class BasketForm(PriceForm):
    """Several options."""

    def __init__(self, problem: OptionBasket) -> None:
        self.problem = problem
        numbers = [str(b + 1) for b in range(len(problem.options))]
        held = "is neither 0 nor 1; 1 if the option is held, 0 if not"
        exercised = "is neither 0 nor 1; 1 exercises this option, 0 holds it"
        self.seen = tuple(_price(f"price_{b}") for b in numbers)
        self.decided = tuple(_flag(f"action_{b}", exercised) for b in numbers)
        self.start = tuple(_flag(f"level_{b}", held) for b in numbers)
        self.parts = self.tanks = tuple(f"_{b}" for b in numbers)


class HybridForm(ScenarioForm):
    """Gas or electricity."""

    def __init__(self, problem: HybridVehicle) -> None:
        self.problem: HybridVehicle = problem
        names = tuple(mode_names(problem.numbers.modes))
        modes = f"is not one of {', '.join(names)}; give the mode of this step"
        self.seen = (Entry("mode", _any, modes, names),)
        self.decided = (
            Entry(
                "action",
                lambda units: (units >= 0) & (units == np.rint(units)),
                "is not a whole number of units; give the electricity used, the rest being gas",
            ),
        )
        most = float(problem.road.capacity)
        self.start = tuple(_level(f"level_{fuel}", most, whole=True) for fuel in FUELS)
        self.parts = self.tanks = tuple(f"_{fuel}" for fuel in FUELS)
        if len(names) == 3:
            slow = "is not a speed; give the mean speed of this step in m/s"
            self.instead = (
                Entry("speed", lambda speed: speed >= 0, slow),
                Entry("acceleration", _any, ""),
            )

    def derive(self, values: FloatArray) -> FloatArray:
        """Modes from mean speed and acceleration, as drive cycles have them."""
        speed, acceleration = values.T
        driving = np.where(speed >= FAST, GAS_EFFICIENT, ELECTRIC_EFFICIENT)
        modes = np.where(acceleration < BRAKES, BRAKING, driving)
        return np.asarray(modes[:, np.newaxis], dtype=np.float64)

    def path(self, seen: FloatArray) -> FloatArray:
        """Indicators of the modes, or what was seen and the belief that follows from it."""
        modes = seen[:, 0].astype(np.int64)
        law = self.problem.law
        if not isinstance(law, HiddenModes):
            return np.asarray(np.eye(len(self.problem.road.brakes))[modes])
        looks = np.asarray(law.probabilities)
        belief: FloatArray = np.eye(len(looks))[modes[0]]
        rows = [np.concatenate([law.mode_means[modes[0]], belief])]
        for t, mode in enumerate(modes[1:], start=1):
            weights = (belief @ law.transitions) * looks[:, mode]
            if not weights.sum() > 0:
                name = self.seen[0].names[mode]
                raise InfeasibleError(
                    f"{name!r} at t={t} cannot follow what was seen before it, says the model"
                )
            belief = weights / weights.sum()
            rows.append(np.concatenate([np.asarray(law.values)[mode], belief]))
        return np.array(rows)

    def actions(self, path: FloatArray, state: State, given: FloatArray) -> FloatArray:
        """Electricity as given, gas the rest of the quota; impossible ones stay impossible."""
        chosen, resource = [], state.resource[np.newaxis]
        for s, units in enumerate(given[:, 0]):
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


FUELS = ("gas", "electric")


def form_of(problem: ExogenousModel) -> ScenarioForm:
    """How scenarios of a problem are written down."""
    if isinstance(problem, Bunkering):
        return BunkeringForm(problem)
    if isinstance(problem, HybridVehicle):
        return HybridForm(problem)
    if isinstance(problem, AmericanOption):
        return OptionForm(problem)
    if isinstance(problem, OptionBasket):
        return BasketForm(problem)
    raise InputError(f"there are no tables of scenarios for {type(problem).__name__}")


def _any(values: FloatArray) -> BoolArray:
    return np.isfinite(values)


def _price(column: str) -> Entry:
    problem = f"is not a price; give one above 0 and at most {LARGEST_PRICE:g}"
    return Entry(column, lambda price: (price > 0) & (price <= LARGEST_PRICE), problem)


def _flag(column: str, problem: str) -> Entry:
    return Entry(column, lambda flags: np.isin(flags, (0.0, 1.0)), problem)


def _level(column: str, most: float, whole: bool = False) -> Entry:
    units = " in whole units" if whole else ""

    def accepts(levels: FloatArray) -> BoolArray:
        inside = (levels >= 0) & (levels <= most)
        return np.asarray(inside & (levels == np.rint(levels)) if whole else inside)

    problem = f"does not fit; give what was there at the start, 0 to {most:g}{units}"
    return Entry(column, accepts, problem)
