"""Tables of scenarios: one row for each decision of a voyage, journey or option.

    scenario_id,t,price,action
    voyage 7,0,1000,50
    voyage 7,1,1225,12

`voyage_id` or `episode_id` do as well; `io.scenario_form` says which columns a problem has. The
rows of a scenario stand together, t = 0, 1, 2, ..., one for each decision of the problem.
The file is read in blocks and scenarios are given out one by one, so it may be of any length.
Mistakes are gathered, and raised at its end: whoever takes scenarios before must be ready to drop
them all.
"""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from counterplan.core.files import atomic_file, check_target, suffix_of
from counterplan.core.table import Block, Mistakes, TableFile, open_table_file, shown
from counterplan.core.validation import BoolArray, FloatArray, IntArray, Seed
from counterplan.domains.basket import OptionBasket
from counterplan.domains.bunkering import Bunkering
from counterplan.domains.hybrid import HybridVehicle
from counterplan.domains.options import AmericanOption
from counterplan.errors import FileError, InfeasibleError, InputError
from counterplan.planning.evaluate import checked_path, played
from counterplan.planning.model import ExogenousModel, State
from counterplan.planning.policies import OpenLoop, futures
from counterplan.planning.processes.modes import (
    BRAKING,
    ELECTRIC_EFFICIENT,
    GAS_EFFICIENT,
    HiddenModes,
)
from counterplan.tables.plan_question import LARGEST_PRICE, mode_names

# ----------------------------------------------------------------------------------------------
# What a table of scenarios says about a planning problem: its columns and what they mean.
#
#     problem    seen at each step        decided (may be left out)         start (may be left out)
#     bunkering  price                    action: units bought              level: units in the tank
#     hybrid     mode, or speed and       action: units of electricity,     level_gas,
#                acceleration             the rest of the quota being gas   level_electric
#     options    price                    action: 1 exercises, 0 holds
#     basket     price_1, price_2, ...    action_1, ...: likewise           level_1, ...: 1 if held
#
# Hidden modes: `mode` is what the mode looked like; the first row's is the one the journey began
# in, which is known. The belief about the mode follows from what was seen (Eq. F.4).

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


# ----------------------------------------------------------------------------------------------
# Rows of a table of scenarios: entries read and checked one by one, then put together.

STEP = "t"
EMPTY = "is empty; fill it in"
WHOLE = "is not a whole number; number the decisions 0, 1, 2, ..."
STEPS = Entry(STEP, lambda steps: (steps >= 0) & (steps == np.rint(steps)), WHOLE)


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a table.

    places  in the file, as an editor numbers them
    ids     of the scenarios
    values  (n, columns) numbers; nan where nothing is given, inf where it is wrong
    """

    places: IntArray
    ids: list[str]
    steps: FloatArray
    values: FloatArray

    def some(self, chosen: IntArray) -> Rows:
        """Those at some of its places."""
        ids = [self.ids[i] for i in chosen]
        return Rows(self.places[chosen], ids, self.steps[chosen], self.values[chosen])


def joined(several: Sequence[Rows]) -> Rows:
    """One after the other."""
    places, steps, values = (
        np.concatenate([getattr(one, name) for one in several])
        for name in ("places", "steps", "values")
    )
    return Rows(places, [name for one in several for name in one.ids], steps, values)


class Grouping:
    """Puts rows together to scenarios, across blocks, and reports those that are not whole.

    column   that names the scenario
    horizon  decisions of every scenario
    decided  (first, last + 1) places of the columns that say what was done, and their names
    """

    def __init__(
        self, column: str, horizon: int, decided: tuple[int, Sequence[str]], mistakes: Mistakes
    ) -> None:
        self._column, self._horizon, self._mistakes = column, horizon, mistakes
        self._first, self._decided = decided
        self._begun: dict[str, int] = {}
        self._open: list[Rows] = []

    def ended(self, rows: Rows) -> Iterator[Rows]:
        """The scenarios that have ended before the last of these rows."""
        ids = np.array(rows.ids, dtype=object)
        borders = np.flatnonzero(ids[1:] != ids[:-1]) + 1
        for chosen in np.split(np.arange(len(ids)), borders):
            some = rows.some(chosen)
            if not self._open or some.ids[0] != self._open[0].ids[0]:
                yield from self.last()
                self._note(some.ids[0], int(some.places[0]))
            self._open.append(some)

    def last(self) -> Iterator[Rows]:
        """The one that is still open."""
        if self._open:
            rows = joined(self._open)
            self._open = []
            if self._is_in_order(rows) and self._is_decided(rows):
                yield rows

    def _note(self, name: str, place: int) -> None:
        if name in self._begun:
            self._mistakes.in_row(
                place,
                f", column {self._column!r}: {shown(name)} continues here what began in row "
                f"{self._begun[name]}; put the rows of a scenario together",
                "apart",
            )
        elif name:
            self._begun[name] = place

    def _is_in_order(self, rows: Rows) -> bool:
        """Whether the steps are 0, 1, ..., T - 1; the first that is not is reported."""
        T, steps, name = self._horizon, rows.steps, rows.ids[0]
        wrong = np.flatnonzero(steps[:T] != np.arange(min(len(steps), T)))
        if wrong.size:
            i = int(wrong[0])
            if np.isfinite(steps[i]):  # else it has been reported
                self._mistakes.in_row(
                    int(rows.places[i]),
                    f", column {STEP!r}: {steps[i]:g} where {i} is expected; number the decisions "
                    f"of {shown(name)} 0 to {T - 1}, in order",
                    "order",
                )
            return False
        if len(steps) != T:
            self._mistakes.in_row(
                int(rows.places[min(len(steps), T + 1) - 1]),
                f", column {STEP!r}: {shown(name)} has {len(steps)} decisions, but this problem "
                f"has {T}, t = 0 to {T - 1}; give all of them",
                "length",
            )
            return False
        return True

    def _is_decided(self, rows: Rows) -> bool:
        """Whether it is said at all steps what was done, or at none."""
        missing = np.isnan(rows.values[:, self._first : self._first + len(self._decided)])
        if missing.all() or not missing.any():
            return True
        for column, empty in zip(self._decided, missing.T, strict=True):
            problem = (
                "is empty, but other decisions of this scenario are given; write 0 where nothing "
                "was done"
            )
            self._mistakes.in_rows(column, problem, rows.places[empty].tolist())
        return False


def read_numbers(block: Block, entry: Entry, may_miss: bool, mistakes: Mistakes) -> FloatArray:
    """(n,) the numbers of a column: nan where nothing is given, inf where it is wrong."""
    import polars as pl

    texts = block.texts[entry.column]
    given = (texts != "").to_numpy()
    if entry.names:
        codes = {name: float(i) for i, name in enumerate(entry.names)}
        found = texts.replace_strict(codes, default=None, return_dtype=pl.Float64)
    else:
        found = texts.cast(pl.Float64, strict=False)
    numbers = np.array(found.fill_null(np.nan).to_numpy(), dtype=np.float64) + 0.0
    known = np.isfinite(numbers)
    not_one = entry.problem if entry.names else "is not a finite number; correct it"
    report(block, entry.column, given & ~known, not_one, mistakes)
    if not may_miss:
        report(block, entry.column, ~given, EMPTY, mistakes)
    refused = np.zeros(len(numbers), dtype=np.bool_)
    refused[known] = ~entry.accepts(numbers[known])
    report(block, entry.column, refused, entry.problem, mistakes)
    numbers[refused | (given & ~known)] = np.inf
    numbers[~given] = np.nan
    return numbers


def report(block: Block, column: str, wrong: BoolArray, problem: str, mistakes: Mistakes) -> None:
    """Note the rows of a block whose entry in a column is wrong."""
    found = np.flatnonzero(wrong)
    values = [text for text in block.texts[column].gather(found[:3].tolist()) if text]
    mistakes.in_rows(column, problem, block.rows[found].tolist(), values)


# ----------------------------------------------------------------------------------------------

ID = "scenario_id"
IDS = (ID, "voyage_id", "episode_id")
LONGEST_ID = 200
LATER = "is not for later rows, where levels follow from the decisions; leave it empty"
PARTLY = "is empty, but another level of this row is given; give all or none"


@dataclass(frozen=True, eq=False)
class Scenario:
    """What was revealed, and what was done, in the numbers of the table.

    seen     (T, n)
    decided  (T, m), None where nothing is said
    start    (D,) the level it began with, None where nothing is said
    """

    id: str
    seen: FloatArray
    decided: FloatArray | None = None
    start: FloatArray | None = None


@dataclass(frozen=True)
class ScenarioFile:
    """A table whose header has been read and fits the problem.

    unused  columns that say nothing to it
    """

    path: str | Path
    form: ScenarioForm
    unused: tuple[str, ...]
    table: TableFile
    id_column: str
    seen: tuple[Entry, ...]
    decided: tuple[Entry, ...]
    start: tuple[Entry, ...]

    def scenarios(self) -> Iterator[Scenario]:
        """All of them, in the order of the file; raises at its end if there was any mistake."""
        mistakes = Mistakes(self.path)
        entries = (*self.seen, *self.decided, *self.start)
        columns = [self.id_column, STEP, *(entry.column for entry in entries)]
        decided = len(self.seen), [entry.column for entry in self.decided]
        grouping = Grouping(self.id_column, self.form.problem.horizon, decided, mistakes)
        is_empty = True
        for block in self.table.blocks(columns, mistakes):
            is_empty = False
            for rows in grouping.ended(self._read(block, entries, mistakes)):
                if not mistakes.count:
                    yield self._scenario(rows)
        for rows in grouping.last():
            if not mistakes.count:
                yield self._scenario(rows)
        mistakes.refuse()
        if is_empty:
            raise FileError(f"{self.path}: has no rows; give one for each decision")

    def _read(self, block: Block, entries: Sequence[Entry], mistakes: Mistakes) -> Rows:
        """The rows of a block, each entry checked on its own."""
        ids = block.texts[self.id_column]
        report(block, self.id_column, (ids == "").to_numpy(), EMPTY, mistakes)
        problem = f"is longer than {LONGEST_ID} characters; shorten it"
        is_long = (ids.str.len_chars() > LONGEST_ID).to_numpy()
        report(block, self.id_column, is_long, problem, mistakes)
        optional = {entry.column for entry in (*self.decided, *self.start)}
        steps = read_numbers(block, STEPS, False, mistakes)
        values = [read_numbers(block, one, one.column in optional, mistakes) for one in entries]
        self._check_start(block, steps, values[len(values) - len(self.start) :], mistakes)
        # A name left out has been reported: its row is taken to belong to the one above.
        named = ids.replace("", None).forward_fill().fill_null("").to_list()
        return Rows(block.rows, named, steps, np.column_stack(values))

    def _check_start(
        self, block: Block, steps: FloatArray, levels: Sequence[FloatArray], mistakes: Mistakes
    ) -> None:
        """A start is said in a scenario's first row, all of it or nothing."""
        given = ~np.isnan(np.array(levels))
        for entry, is_given in zip(self.start, given, strict=True):
            report(block, entry.column, is_given & (steps > 0), LATER, mistakes)
            partly = ~is_given & given.any(axis=0) & (steps == 0)
            report(block, entry.column, partly, PARTLY, mistakes)

    def _scenario(self, rows: Rows) -> Scenario:
        borders = np.cumsum([len(self.seen), len(self.decided)])
        seen, decided, start = np.split(rows.values, borders, axis=1)
        return Scenario(
            rows.ids[0],
            self.form.derive(seen) if self.seen == self.form.instead else seen,
            decided if self.decided and not np.isnan(decided).any() else None,
            start[0] if self.start and not np.isnan(start[0]).any() else None,
        )


def open_scenarios(path: str | Path, form: ScenarioForm) -> ScenarioFile:
    """A .csv or .parquet table of scenarios, its header read and checked."""
    table = open_table_file(path)
    header = table.header
    present = [column for column in IDS if column in header]
    if len(present) != 1:
        which = f"both {present[0]!r} and {present[1]!r}" if present else f"no column {ID!r}"
        raise FileError(
            f"{path}: has {which}; name scenarios in one column, {', '.join(IDS[:-1])} or "
            f"{IDS[-1]}: found {_listed(header)}"
        )
    seen = _chosen(path, header, form)
    if STEP not in header:
        raise FileError(f"{path}: no column {STEP!r}; number a scenario's decisions 0, 1, 2, ...")
    decided = _all_or_none(path, header, form.decided)
    start = _all_or_none(path, header, form.start)
    used = [present[0], STEP, *(entry.column for entry in (*seen, *decided, *start))]
    twice = next((column for column in used if header.count(column) > 1), None)
    if twice is not None:
        raise FileError(f"{path}: two columns are named {twice!r}; keep one of them")
    unused = tuple(column for column in header if column and column not in used)
    return ScenarioFile(path, form, unused, table, present[0], seen, decided, start)


def _chosen(path: str | Path, header: Sequence[str], form: ScenarioForm) -> tuple[Entry, ...]:
    """The columns that say what was revealed."""
    usual, instead = ([one.column for one in entries] for entries in (form.seen, form.instead))
    derived = [column for column in instead if column in header]
    if derived and usual[0] in header:
        raise FileError(
            f"{path}: has {usual[0]!r} and also {_listed(derived)}, which it would follow from; "
            "keep one of the two"
        )
    wanted = instead if derived else usual
    absent = [column for column in wanted if column not in header]
    if absent:
        either = f" (or {' and '.join(instead)})" if instead and not derived else ""
        raise FileError(
            f"{path}: no column {_listed(absent)}{either}: found {_listed(header)}; name the "
            f"columns {', '.join([ID, STEP, *wanted])}"
        )
    return form.instead if derived else form.seen


def _all_or_none(
    path: str | Path, header: Sequence[str], entries: Sequence[Entry]
) -> tuple[Entry, ...]:
    present = [entry for entry in entries if entry.column in header]
    absent = [entry.column for entry in entries if entry.column not in header]
    if present and absent:
        raise FileError(
            f"{path}: has {present[0].column!r} but no column {_listed(absent)}; give all or none"
        )
    return tuple(present)


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(repr(column[:40]) for column in columns[:8])


# ----------------------------------------------------------------------------------------------
# A table of sampled scenarios, to be filled in: what `open_scenarios` reads.

# How many scenarios it has.
SCENARIOS = 10


def write_template(path: Path, form: ScenarioForm, seed: Seed) -> None:
    """Write sampled paths, with the decisions of the plan that is optimal for expected values."""
    suffix_of(path, (".csv",), "templates")
    if check_target(path).exists():
        raise InputError(f"{path}: exists already; remove it or choose another name")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    entries = (*form.seen, *form.decided)
    writer.writerow([ID, STEP, *(entry.column for entry in entries)])
    rule = OpenLoop().prepare(form.problem)
    for i, sampled in enumerate(futures(form.problem, SCENARIOS, seed)):
        exogenous, state = checked_path(form.problem, sampled)
        done = played(form.problem, rule, exogenous, state)
        for t, row in enumerate(form.written(exogenous, done.actions)):
            values = zip(entries, row, strict=True)
            texts = [one.names[int(x)] if one.names else f"{x + 0.0:.10g}" for one, x in values]
            writer.writerow([f"s{i + 1:02d}", t, *texts])
    with atomic_file(path) as file:
        file.write(text.getvalue().encode())


# ----------------------------------------------------------------------------------------------
# Some scenarios as one Parquet file in memory: the form in which they are stored and sent.
#
# One row for each step: scenario_id, t, and the columns of the problem's form (modes as numbers),
# null where nothing is said.


def scenario_parts(scenarios: Iterable[Scenario], form: ScenarioForm, size: int) -> Iterator[bytes]:
    """`size` scenarios at a time."""
    left = iter(scenarios)
    while some := list(islice(left, size)):
        yield scenarios_to_bytes(some, form)


def scenarios_to_bytes(scenarios: Sequence[Scenario], form: ScenarioForm) -> bytes:
    """A Parquet file."""
    import polars as pl

    T = form.problem.horizon
    columns: dict[str, Any] = {
        ID: np.repeat(np.array([one.id for one in scenarios], dtype=object), T),
        STEP: np.tile(np.arange(T), len(scenarios)),
    }
    nothing, no_start = (np.full((T, len(some)), np.nan) for some in (form.decided, form.start))
    for one in scenarios:
        assert one.seen.shape == (T, len(form.seen))
    columns |= _columns(form.seen, [one.seen for one in scenarios])
    done = [nothing if one.decided is None else one.decided for one in scenarios]
    columns |= _columns(form.decided, done)
    begun = []
    for one in scenarios:
        level = no_start.copy()
        level[:1] = np.nan if one.start is None else one.start
        begun.append(level)
    columns |= _columns(form.start, begun)
    frame = pl.DataFrame(columns, schema_overrides={ID: pl.String}).fill_nan(None)
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def _columns(entries: Sequence[Entry], tables: Sequence[FloatArray]) -> dict[str, Any]:
    whole = np.concatenate(tables)
    return {entry.column: column for entry, column in zip(entries, whole.T, strict=True)}


def scenarios_from_bytes(content: bytes, form: ScenarioForm) -> list[Scenario]:
    """The scenarios of such a file, in its order."""
    import polars as pl

    frame = pl.read_parquet(io.BytesIO(content))

    def numbers(group: pl.DataFrame, entries: Sequence[Entry]) -> FloatArray | None:
        chosen = group.select([entry.column for entry in entries])
        values = np.array(chosen.to_numpy(), dtype=np.float64)
        return None if np.isnan(values).any() or not entries else values

    found = []
    for group in frame.partition_by(ID, maintain_order=True):
        seen, start = numbers(group, form.seen), numbers(group[:1], form.start)
        assert seen is not None
        level = None if start is None else start[0]
        found.append(Scenario(group[ID][0], seen, numbers(group, form.decided), level))
    return found
