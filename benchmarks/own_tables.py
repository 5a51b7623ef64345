"""Advice on tables as people bring them, against the truth: `python -m benchmarks.own_tables`.

Six simulated tables, each with something that is easily mistranslated: drugs by name with doses,
costs of what is done, visits at irregular dates, slips of the pen and codes for "not measured", an
outcome that is known only at the end, a reward that is best in the middle. The simulators keep the
noise of every episode, so what any other sequence of actions would truly have led to is known, and
so is the best of all sequences with at most k changes that exist. Every table goes through the
command line: `fit`, then `explain`.

    possible   how much better the best sequence is, on average
    true       how much better the advice truly is: its share of what was possible
    claimed    how much better the command says it is, likewise
    worse      how often following the advice is worse than what was done
    advised    how many episodes are advised anything
    unreal     changes to something that nobody ever does

`--source PATH` measures another version of the package (its `src` folder); `--plain` gives the
schemas without what later versions understand. Writes results/own_tables.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

RESULTS = Path(__file__).parent / "results"
EPISODES, ASKED, DECISIONS, K = 500, 100, 7, 2
# Less than this is no difference.
SAME = 1e-6

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Process:
    """A way that episodes go, and how people write them down.

    actions   what exists: the values of the action columns
    fixed     draws what never changes, as columns of numbers
    start     draws first states
    draw      draws what is left to chance, (DECISIONS, noise)
    policy    how likely each action is in a state
    step      (m, D) next states, from fixed values, states, numbers of actions, noise and step
    worth     (m,) of fixed values, states (m, T, D) and actions (m, T-1): higher is better
    rows      the rows of an episode as the table has them
    schema    what the columns mean
    plain     the same in the words of earlier versions
    """

    actions: tuple[tuple[Any, ...], ...]
    fixed: Callable[[np.random.Generator], Array]
    start: Callable[[np.random.Generator], Array]
    draw: Callable[[np.random.Generator], Array]
    policy: Callable[[Array, Array], Array]
    step: Callable[[Array, Array, NDArray[np.int64], Array], Array]
    worth: Callable[[Array, Array, NDArray[np.int64]], Array]
    rows: Callable[[int, Simulated], list[dict[str, Any]]]
    schema: str
    plain: str


@dataclass(frozen=True)
class Simulated:
    """An episode with all that was left to chance."""

    fixed: Array
    states: Array
    actions: NDArray[np.int64]
    noise: Array


def simulate(process: Process, rng: np.random.Generator) -> Simulated:
    """One episode under the process's own policy."""
    fixed, noise = process.fixed(rng), process.draw(rng)
    states, actions = [process.start(rng)], []
    for t in range(DECISIONS):
        chances = process.policy(fixed, states[-1])
        actions.append(int(rng.choice(len(process.actions), p=chances / chances.sum())))
        taken = np.array(actions[-1:])
        states.append(process.step(fixed, states[-1][None], taken, noise[t])[0])
    return Simulated(fixed, np.array(states), np.array(actions), noise)


def truth(process: Process, case: Simulated, plans: NDArray[np.int64]) -> Array:
    """(m,) what plans (m, DECISIONS) would have been worth, all luck being the same."""
    states = [np.repeat(case.states[:1], len(plans), axis=0)]
    for t in range(DECISIONS):
        states.append(process.step(case.fixed, states[-1], plans[:, t], case.noise[t]))
    return process.worth(case.fixed, np.stack(states, axis=1), plans)


def plans_within(case: Simulated, n_actions: int, k: int) -> NDArray[np.int64]:
    """Every plan with at most k changes."""
    found = [case.actions]
    for size in range(1, k + 1):
        for steps in combinations(range(DECISIONS), size):
            for chosen in product(range(n_actions), repeat=size):
                plan = case.actions.copy()
                plan[list(steps)] = chosen
                found.append(plan)
    return np.array(found)


# --- The six tables ---------------------------------------------------------------------------


def _choices(case: Simulated, process: Process, names: Sequence[str], t: int) -> dict[str, Any]:
    """The action columns of a row; nothing is done in the last one."""
    values = process.actions[case.actions[t]] if t < DECISIONS else (None,) * len(names)
    return dict(zip(names, values, strict=True))


DRUGS = ("none", "amoxil", "brufen", "codal", "dexin")
# What 100 mg do to the pain, and what the second 100 mg add, as a share of that.
EFFECT = np.array([0.0, -0.3, -1.0, 0.4, -1.5])
SECOND = np.array([0.0, 0.8, 0.6, 1.0, 0.3])
TREATMENTS = (("none", 0), *product(DRUGS[1:], (100, 200)))
_DRUG = np.array([DRUGS.index(drug) for drug, _ in TREATMENTS])
_DOSE = np.array([dose / 100 for _, dose in TREATMENTS])


def _pain(fixed: Array, states: Array, actions: NDArray[np.int64], noise: Array) -> Array:
    pain, pressure = states.T
    drug, dose = _DRUG[actions], _DOSE[actions]
    relief = EFFECT[drug] * (np.minimum(dose, 1.0) + SECOND[drug] * np.maximum(dose - 1.0, 0.0))
    # The strongest drug does harm where pressure is low, as it is in the old.
    harm = np.where(drug == 4, 2.2 / (1.0 + np.exp((pressure - 105.0) / 4.0)), 0.0)
    after = 0.75 * pain + 1.4 + relief + harm + 0.4 * noise[0]
    lower = 0.6 * pressure + 0.4 * (150.0 - 0.5 * fixed[0]) - 5.0 * dose * (drug == 4)
    return np.column_stack([after, lower + 4.0 * noise[1]])


def _drug_policy(fixed: Array, state: Array) -> Array:
    # More pain, more medicine; the second drug is rarely given to the old.
    given = np.where(_DOSE == 0, 3.0, np.where(_DOSE == 1, 1.0, np.exp((state[0] - 6.0) / 2.0)))
    return np.asarray(given * np.where((_DRUG == 2) & (fixed[0] > 70), 0.4, 1.0))


def _drug_rows(number: int, case: Simulated) -> list[dict[str, Any]]:
    return [
        {
            "patient": f"P{number:04d}",
            "day": t + 1,
            "age": round(case.fixed[0]),
            "ward": ("north", "south", "west")[int(case.fixed[1])],
            "pain": round(case.states[t, 0], 2),
            "pressure": round(case.states[t, 1], 1),
            **_choices(case, NAMED, ("drug", "dose"), t),
        }
        for t in range(DECISIONS + 1)
    ]


_DRUG_SCHEMA = """
[table]
episode = "patient"
time = "day"
[columns.age]
role = "fixed"
[columns.ward]
role = "fixed"
labels = ["north", "south", "west"]
[columns.pain]
role = "state"
better = "lower"
[columns.pressure]
role = "state"
[columns.drug]
role = "action"
labels = ["none", "amoxil", "brufen", "codal", "dexin"]
[columns.dose]
role = "action"
unit = "mg"
levels = [0, 100, 200]
"""

NAMED = Process(
    actions=TREATMENTS,
    fixed=lambda rng: np.array([float(round(rng.uniform(30, 90))), float(rng.integers(3))]),
    start=lambda rng: np.array([rng.normal(6.0, 1.0), rng.normal(120.0, 8.0)]),
    draw=lambda rng: rng.normal(size=(DECISIONS, 2)),
    policy=_drug_policy,
    step=_pain,
    worth=lambda fixed, states, actions: -states[:, :, 0].sum(axis=1),
    rows=_drug_rows,
    schema=_DRUG_SCHEMA,
    plain=_DRUG_SCHEMA,
)

SERVICES = (("none",), ("grease",), ("repair",), ("replace",))
PRICE = np.array([0.0, 6.0, 25.0, 90.0])


def _wear(fixed: Array, states: Array, actions: NDArray[np.int64], noise: Array) -> Array:
    vibration, heat = states.T
    slower = np.array([0.0, 0.6, 0.0, 0.0])[actions]
    kept = np.array([1.0, 0.95, 0.45, 0.0])[actions]
    new = np.where(actions == 3, 1.0, 0.0)
    worn = kept * vibration + new + 0.5 * (1.0 - slower) * np.exp((heat - 60.0) / 25.0)
    after = worn * np.exp(0.08 * fixed[0] * noise[0])
    return np.column_stack([after, 40.0 + 4.0 * after + 0.3 * (heat - 40.0) + 2.0 * noise[1]])


def _downtime(fixed: Array, states: Array, actions: NDArray[np.int64]) -> Array:
    return np.asarray(-8.0 * states[:, :, 0].sum(axis=1) - PRICE[actions].sum(axis=1))


def _machine_rows(number: int, case: Simulated) -> list[dict[str, Any]]:
    return [
        {
            "machine": f"M-{number}",
            "week": t,
            "load": case.fixed[0],
            "vibration": round(case.states[t, 0], 3),
            "heat": round(case.states[t, 1], 1),
            **_choices(case, COSTS, ("service",), t),
            "cost": round(
                8.0 * round(case.states[t, 0], 3)
                + (PRICE[case.actions[t]] if t < DECISIONS else 0.0),
                3,
            ),
        }
        for t in range(DECISIONS + 1)
    ]


_MACHINE_SCHEMA = """
[table]
episode = "machine"
time = "week"
[columns.load]
role = "fixed"
[columns.vibration]
role = "state"
{merit}
[columns.heat]
role = "state"
[columns.service]
role = "action"
labels = ["none", "grease", "repair", "replace"]
[columns.cost]
role = "{role}"
"""

COSTS = Process(
    actions=SERVICES,
    fixed=lambda rng: np.array([float(rng.choice([1.0, 1.5, 2.0]))]),
    start=lambda rng: np.array([rng.uniform(1.0, 6.0), rng.normal(55.0, 5.0)]),
    draw=lambda rng: rng.normal(size=(DECISIONS, 2)),
    policy=lambda fixed, state: np.array([3.0, 1.5, np.exp(state[0] / 4 - 1), 0.4]),
    step=_wear,
    worth=_downtime,
    rows=_machine_rows,
    schema=_MACHINE_SCHEMA.format(merit="", role="cost"),
    plain=_MACHINE_SCHEMA.format(merit='better = "lower"', role="ignore"),
)

REGIMENS = (("diet",), ("metformin",), ("insulin",), ("both",))
# Where sugar settles under each, and by how much weight grows in a month.
SETTLES, GROWS = np.array([9.2, 7.6, 7.0, 6.4]), np.array([-0.4, -0.1, 0.9, 0.6])


def _visit(fixed: Array, states: Array, actions: NDArray[np.int64], noise: Array) -> Array:
    sugar, weight = states.T
    gap = noise[2]
    target = SETTLES[actions] + 0.04 * (weight - 85.0)
    near = 1.0 - np.exp(-gap / 40.0)
    after = sugar + near * (target - sugar) + 0.35 * np.sqrt(near) * noise[0]
    heavier = weight + GROWS[actions] * gap / 30.0 + 0.6 * noise[1]
    return np.column_stack([after, heavier])


def _visit_rows(number: int, case: Simulated) -> list[dict[str, Any]]:
    first = date(2023, 1, 2) + timedelta(days=number % 211)
    days = np.concatenate([[0.0], np.cumsum(case.noise[:, 2])])
    return [
        {
            "pid": number,
            "date": (first + timedelta(days=int(days[t]))).isoformat(),
            "visit": t,
            "sex": ("f", "m")[int(case.fixed[0])],
            "hba1c": round(case.states[t, 0], 2),
            "weight": round(case.states[t, 1], 1),
            **_choices(case, DATES, ("regimen",), t),
        }
        for t in range(DECISIONS + 1)
    ]


_VISIT_SCHEMA = """
[table]
episode = "pid"
{time}
[columns.sex]
role = "fixed"
labels = ["f", "m"]
[columns.hba1c]
role = "state"
better = "lower"
[columns.weight]
role = "state"
[columns.regimen]
role = "action"
labels = ["diet", "metformin", "insulin", "both"]
"""

DATES = Process(
    actions=REGIMENS,
    fixed=lambda rng: np.array([float(rng.integers(2))]),
    start=lambda rng: np.array([rng.normal(8.5, 1.0), rng.normal(85.0, 12.0)]),
    draw=lambda rng: np.column_stack(
        [rng.normal(size=(DECISIONS, 2)), rng.integers(5, 90, DECISIONS).astype(float)]
    ),
    policy=lambda fixed, state: np.array([1.5, 2.0, np.exp((state[0] - 8.5) / 1.5), 0.5]),
    step=_visit,
    worth=lambda fixed, states, actions: -states[:, :, 0].sum(axis=1),
    rows=_visit_rows,
    schema=_VISIT_SCHEMA.format(time='time = "date"\ndates = true\nunit = "d"\ngaps = "input"'),
    plain=_VISIT_SCHEMA.format(time='time = "visit"'),
)

SHOCK = tuple(product((0, 1, 2, 3), (0, 1, 2)))
_FLUID, _PRESSOR = np.array(SHOCK, dtype=float).T


def _shock(fixed: Array, states: Array, actions: NDArray[np.int64], noise: Array) -> Array:
    lactate, pressure = states.T
    fluid, pressor = _FLUID[actions], _PRESSOR[actions]
    full = 60.0 + 6.0 * np.sqrt(fluid) + 5.0 * pressor - 0.1 * (fixed[0] - 60.0)
    after = 0.5 * pressure + 0.5 * full + 3.0 * noise[1]
    # Too little pressure makes lactate rise; pressors squeeze what little flows.
    short = 1.2 / (1.0 + np.exp((pressure - 65.0) / 4.0))
    clearing = 0.8 * lactate + 0.7 + short + 0.15 * pressor**2 - 0.12 * fluid
    return np.column_stack([clearing + 0.25 * noise[0], after])


def _shock_rows(number: int, case: Simulated) -> list[dict[str, Any]]:
    """One cell in forty is a code for "not measured", and one stay has a slip of the pen."""
    rng = np.random.default_rng(number)
    rows = []
    for t in range(DECISIONS + 1):
        lactate, pressure = round(case.states[t, 0], 2), round(case.states[t, 1], 1)
        if rng.uniform() < 0.025:
            lactate = -999.0
        if number == 17 and t == 3:
            pressure = 99_999_999.0
        given = _choices(case, SLIPS, ("fluids", "vaso"), t)
        age = round(case.fixed[0])
        rows.append(
            {"stay": number, "t": t, "age": age, "lactate": lactate, "map": pressure, **given}
        )
    return rows


_SHOCK_SCHEMA = """
[table]
episode = "stay"
time = "t"
[columns.age]
role = "fixed"
[columns.lactate]
role = "state"
better = "lower"
{lactate}
[columns.map]
role = "state"
{map}
[columns.fluids]
role = "action"
levels = [0, 1, 2, 3]
[columns.vaso]
role = "action"
levels = [0, 1, 2]
"""
_MENDED = 'low = {}\nhigh = {}\noutside = "missing"\nmissing = "carry-forward"'

SLIPS = Process(
    actions=SHOCK,
    fixed=lambda rng: np.array([float(round(rng.uniform(30, 90)))]),
    start=lambda rng: np.array([rng.normal(4.0, 0.8), rng.normal(62.0, 6.0)]),
    draw=lambda rng: rng.normal(size=(DECISIONS, 2)),
    policy=lambda fixed, state: np.exp(-0.4 * _FLUID + (68.0 - state[1]) / 20.0 * _PRESSOR),
    step=_shock,
    worth=lambda fixed, states, actions: -states[:, :, 0].sum(axis=1),
    rows=_shock_rows,
    schema=_SHOCK_SCHEMA.format(
        # As the report of the table advises.
        lactate=_MENDED.format(0, 30).replace("carry-forward", "mean"),
        map=_MENDED.format(20, 200).replace("carry-forward", "mean"),
    ),
    plain=_SHOCK_SCHEMA.format(lactate="", map=""),
)

PLANS = tuple(product((0, 20, 40), ("no", "yes")))
_DIURETIC = np.array([dose / 20 for dose, _ in PLANS])
_NURSE = np.array([float(visit == "yes") for _, visit in PLANS])


def _home(fixed: Array, states: Array, actions: NDArray[np.int64], noise: Array) -> Array:
    fluid, kidney = states.T
    drier = 0.9 * fluid + 0.6 - 0.7 * _DIURETIC[actions] - 0.3 * _NURSE[actions] + 0.4 * noise[0]
    worse = 0.85 * kidney + 0.2 + 0.35 * np.maximum(_DIURETIC[actions] - 0.6 * fluid / 2.0, 0.0)
    return np.column_stack([drier, worse + 0.2 * noise[1]])


def _risk(fixed: Array, states: Array) -> Array:
    return np.asarray(
        1.0 / (1.0 + np.exp(3.0 - 0.9 * states[..., 0] - 1.1 * states[..., 1] - 0.5 * fixed[0]))
    )


def _home_rows(number: int, case: Simulated) -> list[dict[str, Any]]:
    came_back = np.random.default_rng(number).uniform() < _risk(case.fixed, case.states[-1])
    return [
        {
            "id": f"h{number}",
            "week": t,
            "frail": ("no", "yes")[int(case.fixed[0])],
            "congestion": round(case.states[t, 0], 2),
            "creatinine": round(case.states[t, 1], 2),
            **_choices(case, ENDS, ("diuretic", "nurse"), t),
            "readmitted": int(came_back) if t == DECISIONS else None,
        }
        for t in range(DECISIONS + 1)
    ]


_HOME_SCHEMA = """
[table]
episode = "id"
time = "week"
[columns.frail]
role = "fixed"
labels = ["no", "yes"]
[columns.congestion]
role = "state"
{merit}
[columns.creatinine]
role = "state"
[columns.diuretic]
role = "action"
unit = "mg"
levels = [0, 20, 40]
[columns.nurse]
role = "action"
labels = ["no", "yes"]
[columns.readmitted]
role = "{role}"
"""

ENDS = Process(
    actions=PLANS,
    fixed=lambda rng: np.array([float(rng.integers(2))]),
    start=lambda rng: np.array([rng.normal(3.0, 1.0), rng.normal(1.2, 0.3)]),
    draw=lambda rng: rng.normal(size=(DECISIONS, 2)),
    policy=lambda fixed, state: np.exp((state[0] - 3.0) / 3.0 * _DIURETIC - 0.7 * _NURSE),
    step=_home,
    worth=lambda fixed, states, actions: -_risk(fixed, states[:, -1]),
    rows=_home_rows,
    schema=_HOME_SCHEMA.format(merit="", role='cost"\nwhen = "last'),
    plain=_HOME_SCHEMA.format(merit='better = "lower"', role="outcome"),
)

CLIMATES = tuple(product((0, 1, 2, 3), ("shut", "half", "open")))
_HEATER = np.array([float(heater) for heater, _ in CLIMATES])
_VENTS = np.array([{"shut": 0.0, "half": 0.5, "open": 1.0}[vents] for _, vents in CLIMATES])


def _climate(fixed: Array, states: Array, actions: NDArray[np.int64], noise: Array) -> Array:
    warm, moist = states.T
    heater, vents = _HEATER[actions], _VENTS[actions]
    lost = 0.5 * (fixed[0] - warm) * (0.25 + 0.5 * vents)
    wetter = moist + 6.0 - 14.0 * vents - 1.2 * heater + 3.0 * noise[1]
    return np.column_stack([warm + lost + 1.6 * heater + 0.6 * noise[0], np.clip(wetter, 0, 100)])


def _growth(states: Array) -> Array:
    warm, moist = states[..., 0] - 22.0, states[..., 1] - 65.0
    return np.asarray(10.0 - 0.12 * warm**2 - 0.004 * moist**2)


def _climate_policy(fixed: Array, state: Array) -> Array:
    wanted = np.clip((22.0 - state[0]) / 2.0, 0.0, 3.0)
    dry = np.array([0.5, 0.3, 0.2])[(2.0 * _VENTS).astype(int)]
    wet = np.array([0.2, 0.4, 0.4])[(2.0 * _VENTS).astype(int)]
    chance = np.exp(-0.5 * (_HEATER - wanted) ** 2)
    return np.asarray(chance * np.where(state[1] < 70.0, dry, wet))


def _climate_rows(number: int, case: Simulated) -> list[dict[str, Any]]:
    return [
        {
            "batch": f"G{number:03d}",
            "day": t,
            "outside": case.fixed[0],
            "warmth": round(case.states[t, 0], 3),
            "moisture": round(case.states[t, 1], 2),
            **_choices(case, MIDDLE, ("heater", "vents"), t),
            "growth": round(float(_growth(case.states[t])), 4),
        }
        for t in range(DECISIONS + 1)
    ]


_CLIMATE_SCHEMA = """
[table]
episode = "batch"
time = "day"
[columns.outside]
role = "fixed"
[columns.warmth]
role = "state"
[columns.moisture]
role = "state"
[columns.heater]
role = "action"
levels = [0, 1, 2, 3]
[columns.vents]
role = "action"
labels = ["shut", "half", "open"]
ordered = true
[columns.growth]
role = "reward"
"""

MIDDLE = Process(
    actions=CLIMATES,
    fixed=lambda rng: np.array([round(rng.normal(8.0, 4.0), 2)]),
    start=lambda rng: np.array([rng.normal(18.0, 3.0), np.clip(rng.normal(70.0, 10.0), 0, 100)]),
    draw=lambda rng: rng.normal(size=(DECISIONS, 2)),
    policy=_climate_policy,
    step=_climate,
    worth=lambda fixed, states, actions: _growth(states).sum(axis=1),
    rows=_climate_rows,
    schema=_CLIMATE_SCHEMA,
    plain=_CLIMATE_SCHEMA,
)

TABLES = {
    "drugs by name, with doses": NAMED,
    "costs": COSTS,
    "irregular dates": DATES,
    "slips and codes": SLIPS,
    "an outcome at the end": ENDS,
    "best in the middle": MIDDLE,
}


# --- Measuring --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """What the advice on a table is worth, or why there is none."""

    possible: float = float("nan")
    true: float = float("nan")
    claimed: float = float("nan")
    worse: float = float("nan")
    advised: float = float("nan")
    unreal: int = 0
    refused: str = ""

    def row(self, name: str) -> str:
        """As a line of the table of results."""
        if self.refused:
            return f"| {name} | {self.refused} | | | | | |"
        shares = " | ".join(f"{100 * one:.0f} %" for one in (self.true, self.worse, self.advised))
        share = self.claimed / self.possible
        return f"| {name} | {self.possible:.2f} | {shares} | {100 * share:.0f} % | {self.unreal} |"


def measure(process: Process, seed: int, source: Path, plain: bool, options: list[str]) -> Measured:
    """Simulate a table, ask the command line about it, and compare with the truth."""
    rng = np.random.default_rng(seed)
    cases = [simulate(process, rng) for _ in range(EPISODES)]
    every = [process.rows(number, case) for number, case in enumerate(cases)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pl.DataFrame([row for rows in every for row in rows], infer_schema_length=None).write_csv(
            folder / "table.csv"
        )
        (folder / "schema.toml").write_text(process.plain if plain else process.schema)
        first = [str(next(iter(rows[0].values()))) for rows in every]
        fitted = _command(
            source, folder, "fit", "table.csv", "--schema", "schema.toml", "-o", "m.safetensors",
            *options,
        )  # fmt: skip
        if fitted:
            return Measured(refused=fitted)
        asked = [part for one in first[:ASKED] for part in ("--episode", one)]
        explained = _command(
            source, folder, "explain", "table.csv", "-m", "m.safetensors", "--k", str(K),
            "-o", "out.json", *asked,
        )  # fmt: skip
        if explained:
            return Measured(refused=explained)
        document = json.loads((folder / "out.json").read_text())
    found = {str(one["episode_id"]): one for one in document["explanations"]}
    return _compare(process, dict(zip(first, cases[:ASKED], strict=False)), found)


def _command(source: Path, folder: Path, *arguments: str) -> str:
    """Runs a command; the first line of its complaint, if there is one."""
    done = subprocess.run(
        [sys.executable, "-m", "counterplan", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
    )
    for line in done.stderr.splitlines():
        print("    ", line[:200], flush=True)
    return "" if done.returncode == 0 else f"refused: {done.stderr.strip().splitlines()[-1][:150]}"


def _compare(
    process: Process, cases: dict[str, Simulated], found: dict[str, dict[str, Any]]
) -> Measured:
    best, gained, claimed, unreal = [], [], [], 0
    for name, case in cases.items():
        worth = truth(process, case, plans_within(case, len(process.actions), K))
        best.append(worth.max() - worth[0])
        record = found[name]
        plan, is_real = _advised(process, case, record["changes"])
        unreal += not is_real
        gained.append(truth(process, case, plan[None])[0] - worth[0] if is_real else 0.0)
        claimed.append(record["improvement"] or 0.0)
    return Measured(
        possible=float(np.mean(best)),
        true=float(np.sum(gained) / np.sum(best)),
        claimed=float(np.mean(claimed)),
        worse=float(np.mean(np.array(gained) < -SAME)),
        advised=float(np.mean([bool(found[name]["changes"]) for name in cases])),
        unreal=unreal,
    )


def _advised(
    process: Process, case: Simulated, changes: Sequence[dict[str, Any]]
) -> tuple[NDArray[np.int64], bool]:
    """The plan that changes stand for, and whether all of them exist."""
    plan, values = case.actions.copy(), list(zip(*process.actions, strict=True))
    names = _action_columns(process)
    for change in changes:
        chosen = list(process.actions[plan[change["t"]]])
        for column, value in change["alternative"].items():
            place = names.index(column)
            if isinstance(chosen[place], str) and not isinstance(value, str):
                value = list(dict.fromkeys(values[place]))[int(value)]
            chosen[place] = value
        if tuple(chosen) not in process.actions:
            return plan, False
        plan[change["t"]] = process.actions.index(tuple(chosen))
    return plan, True


def _action_columns(process: Process) -> list[str]:
    import tomllib

    columns = tomllib.loads(process.schema)["columns"]
    return [name for name, given in columns.items() if given["role"] == "action"]


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, default=Path(__file__).parents[1] / "src")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=list(TABLES), action="append")
    parser.add_argument("--fit", default="", help="further options of `counterplan fit`")
    given = parser.parse_args()
    lines = [
        "| table | possible | true | worse | advised | claimed | unreal |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name in given.only or TABLES:
        for seed in range(given.seeds):
            found = measure(
                TABLES[name], seed, given.source.resolve(), given.plain, given.fit.split()
            )
            lines.append(found.row(f"{name}, seed {seed}"))
            print(lines[-1], flush=True)
    if not (given.only or given.plain or given.fit):
        RESULTS.mkdir(exist_ok=True)
        heading = "# Advice on tables as people bring them, against the truth\n\n"
        heading += "`python -m benchmarks.own_tables`; the columns are explained in its head.\n\n"
        (RESULTS / "own_tables.md").write_text(heading + "\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
