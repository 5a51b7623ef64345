"""Days of virtual patients with type 1 diabetes: the UVA/Padova simulator as the package simglucose
has it (30 patients, 13 equations of glucose, insulin and meals, a noisy sensor).

A day starts at six, after three hours that no table shows, in which insulin ran at a random
multiple of the usual rate. Every hour a bolus is chosen, as a share of the patient's daily insulin;
the pump's usual rate goes on. What a table has at each hour:

    glucose  mg/dl by the sensor           trend  its change in the last 15 minutes
    risk     mean risk index of the readings of the last hour, 10 (1.509 (log(g)^1.084 - 5.381))^2:
             too low and too high are both bad; its sum over the day is the outcome
    iob      insulin on board: boluses, halved every hour, as a share of daily insulin
    carbs    grams per kg that are eaten in the coming hour, and `carbs_before` in the one before
    weight, tdi, carb_ratio, correction    what a clinic knows of the patient

What it does not have: insulin under the skin and in the plasma, food in stomach and gut. Patients
(or parents) give what meal and glucose ask for by the usual rule, with errors of their own.

Meals, sensor noise and first hours are drawn before anything is chosen, so they are the same
whatever is done. The package as published asks for a gym of 2017 and gymnasium below 1.0; neither
is needed by what is used here (patient, meals, sensor noise, risk), so it is installed without
(`pip install --no-deps simglucose`) and loaded past them. The equations' right-hand side is
compiled here, with the package's arithmetic (a test compares them); the integrator is its own.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from counterplan.core.compiled import njit
from counterplan.core.validation import FloatArray, IntArray, Seed, generator

HOURS, WARM, MINUTES, READING = 10, 180, 60, 3
START = 6 * 60
LEVELS = np.array([0.0, 4.0, 8.0, 16.0])  # per cent of the daily insulin
SCHEMA = """
[table]
episode = "day"
time = "hour"
[columns.weight]
role = "fixed"
unit = "kg"
[columns.tdi]
role = "fixed"
unit = "U"
[columns.carb_ratio]
role = "fixed"
[columns.correction]
role = "fixed"
[columns.glucose]
role = "state"
unit = "mg/dl"
[columns.trend]
role = "state"
[columns.risk]
role = "state"
better = "lower"
[columns.iob]
role = "state"
[columns.carbs]
role = "contextual"
[columns.carbs_before]
role = "contextual"
[columns.bolus]
role = "action"
unit = "% of daily insulin"
levels = [0, 4, 8, 16]
"""
# fmt: off
NUMBERS = (
    "BW", "kabs", "kmax", "kmin", "b", "d", "Vi", "Vmx", "Km0", "k2", "k1", "p2u", "m1", "m2", "m4",
    "m30", "Ib", "ki", "kp1", "kp2", "kp3", "f", "ke1", "ke2", "Fsnc", "Vm0", "kd", "ksc", "ka1",
    "ka2",
)
# fmt: on


def installed() -> bool:
    """Whether the package is there."""
    return importlib.util.find_spec("simglucose") is not None


@cache
def _package() -> SimpleNamespace:
    """What is used of simglucose, loaded without what it asks for and does not need."""
    folder = Path(str(importlib.util.find_spec("simglucose").origin)).parent  # type: ignore[union-attr]
    gym, resources = ModuleType("gym.envs.registration"), ModuleType("pkg_resources")
    gym.register = lambda **_: None  # type: ignore[attr-defined]
    resources.resource_filename = lambda _, name: str(folder / name)  # type: ignore[attr-defined]
    names = ("gym", "gym.envs", "gym.envs.registration", "pkg_resources")
    kept = {name: sys.modules.get(name) for name in names}
    sys.modules.update({"gym": gym, "gym.envs": gym, names[2]: gym, "pkg_resources": resources})
    try:
        wanted = ("patient.t1dpatient", "sensor.noise_gen", "simulation.scenario_gen")
        parts = [importlib.import_module(f"simglucose.{name}") for name in wanted]
        risk = importlib.import_module("simglucose.analysis.risk")
    finally:
        for name, module in kept.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
    return SimpleNamespace(patient=parts[0], sensor=parts[1], meals=parts[2], risk=risk, at=folder)


@cache
def people() -> list[dict[str, Any]]:
    """The 30 virtual patients: their parameters, and what a clinic knows of them."""
    import polars as pl

    at = _package().at / "params"
    known = {one["Name"]: one for one in pl.read_csv(at / "Quest.csv").iter_rows(named=True)}
    table = pl.read_csv(at / "vpatient_params.csv", infer_schema_length=None)
    return [{**one, **known[one["Name"]]} for one in table.iter_rows(named=True)]


@njit(cache=True)
def slopes(x: Any, meal: float, insulin: float, p: Any, stomach: float, eaten: float) -> Any:
    """dx/dt of the package's 13 equations; p in the order of `NUMBERS`, meal g/min, insulin
    U/min, stomach mg when eating began, eaten g since."""
    (bw, kabs, kmax, kmin, b, d, vi, vmx, km0, k2, k1, p2u, m1, m2, m4, m30) = p[:16]
    (ib, ki, kp1, kp2, kp3, f, ke1, ke2, fsnc, vm0, kd, ksc, ka1, ka2) = p[16:]
    dx = np.zeros(13)
    given, full, held = insulin * 6000 / bw, stomach + eaten * 1000, x[0] + x[1]
    dx[0] = -kmax * x[0] + meal * 1000
    kgut = kmax
    if full > 0:
        aa, cc = 5 / (2 * full * (1 - b)), 5 / (2 * full * d)
        turns = np.tanh(aa * (held - b * full)) - np.tanh(cc * (held - d * full)) + 2
        kgut = kmin + (kmax - kmin) / 2 * turns
    dx[1] = kmax * x[0] - x[1] * kgut
    dx[2] = kgut * x[1] - kabs * x[2]
    appears, made = f * kabs * x[2] / bw, kp1 - kp2 * x[3] - kp3 * x[8]
    lost = ke1 * (x[3] - ke2) if x[3] > ke2 else 0.0
    dx[3] = max(made, 0.0) + appears - fsnc - lost - k1 * x[3] + k2 * x[4]
    dx[4] = -(vm0 + vmx * x[6]) * x[4] / (km0 + x[4]) + k1 * x[3] - k2 * x[4]
    dx[5] = -(m2 + m4) * x[5] + m1 * x[9] + ka1 * x[10] + ka2 * x[11]
    dx[6] = -p2u * x[6] + p2u * (x[5] / vi - ib)
    dx[7] = -ki * (x[7] - x[5] / vi)
    dx[8] = -ki * (x[8] - x[7])
    dx[9] = -(m1 + m30) * x[9] + m2 * x[5]
    dx[10] = given - (ka1 + kd) * x[10]
    dx[11] = kd * x[10] - ka2 * x[11]
    dx[12] = -ksc * x[12] + ksc * x[3]
    for i in (3, 4, 5, 9, 10, 11, 12):
        if x[i] < 0:
            dx[i] = 0.0
    return dx


class Body(NamedTuple):
    """All that the package's patient remembers."""

    x: FloatArray
    minute: int
    stomach: float
    eaten: float
    eating: bool
    planned: float
    last: Any


def _patient(person: dict[str, Any]) -> Any:
    """The package's patient, with compiled slopes."""
    package = _package().patient
    numbers = np.array([float(person[name]) for name in NUMBERS])
    first = np.array([float(person[f"x0_{i:2d}"]) for i in range(1, 14)])
    body = package.T1DPatient(SimpleNamespace(Name=person["Name"], numbers=numbers), first)
    body.model = lambda t, x, action, params, stomach, eaten: slopes(
        x, float(action.CHO), float(action.insulin), params.numbers, float(stomach), float(eaten)
    )
    body.reset()
    return body


def _set(patient: Any, body: Body) -> None:
    patient._odesolver.set_initial_value(body.x.copy(), body.minute)
    patient._last_Qsto, patient._last_foodtaken = body.stomach, body.eaten
    patient.is_eating, patient.planned_meal = body.eating, body.planned
    patient._last_action = body.last


def _get(patient: Any) -> Body:
    return Body(
        patient.state.copy(),
        round(patient.t),
        float(patient._last_Qsto),
        float(patient._last_foodtaken),
        bool(patient.is_eating),
        float(patient.planned_meal),
        patient._last_action,
    )


def risk(readings: FloatArray) -> float:
    """The package's risk index, mean over readings."""
    return float(np.mean([_package().risk.risk_index(np.array([one]), 1)[2] for one in readings]))


class Luck(NamedTuple):
    """What is drawn before anything is chosen; minutes count from three in the morning.

    meals    (WARM + HOURS * MINUTES,) grams begun in each minute
    noise    what the sensor adds to each reading, every `READING` minutes
    rate     multiple of the usual rate at which insulin ran before six
    """

    meals: FloatArray
    noise: FloatArray
    rate: float


def _minutes(
    patient: Any, person: dict[str, Any], luck: Luck, span: range, bolus: float, rate: float
) -> FloatArray:
    """Live through minutes with a bolus (per cent of daily insulin) in the first; the readings."""
    action, found = _package().patient.Action, []
    usual = rate * person["u2ss"] * person["BW"] / 6000
    for minute in span:
        dose = bolus / 100 * person["TDI"] if minute == span.start else 0.0
        patient.step(action(CHO=float(luck.meals[minute]), insulin=usual + dose))
        if (minute + 1) % READING == 0:
            true = patient.state[12] / person["Vg"]
            found.append(true + luck.noise[(minute + 1) // READING - 1])
    return np.asarray(np.clip(found, 39.0, 600.0))


def _row(readings: FloatArray, iob: float) -> FloatArray:
    """(4,) what the table has, from the readings of an hour."""
    back = 15 // READING
    return np.array([readings[-1], readings[-1] - readings[-1 - back], risk(readings), iob])


def _hour(
    patient: Any, person: dict[str, Any], luck: Luck, t: int, level: int, iob: float
) -> FloatArray:
    """The row an hour after the decision t."""
    begin, dose = WARM + t * MINUTES, float(LEVELS[level])
    readings = _minutes(patient, person, luck, range(begin, begin + MINUTES), dose, 1.0)
    return _row(readings, (iob + dose) / 2.0)


@dataclass(frozen=True, eq=False)
class Day:
    """What was observed, and what only the simulator knows.

    states   (HOURS + 1, 4) glucose, trend, risk, iob
    actions  (HOURS,) into `LEVELS`
    first    the patient at six
    """

    person: dict[str, Any]
    states: FloatArray
    actions: IntArray
    luck: Luck
    first: Body


def simulate(days: int, seed: Seed = 0) -> list[Day]:
    """Days of the 30 patients in turn."""
    rng = generator(seed)
    return [_day(people()[i % len(people())], rng) for i in range(days)]


def _day(person: dict[str, Any], rng: np.random.Generator) -> Day:
    luck = Luck(_meals(rng), _noise(rng), float(rng.uniform(0.0, 2.0)))
    patient = _patient(person)
    night = _minutes(patient, person, luck, range(WARM), 0.0, luck.rate)
    first = _get(patient)
    states, actions = [_row(night[-MINUTES // READING :], 0.0)], []
    for t in range(HOURS):
        actions.append(_usual(person, states[-1], _eaten(luck, t), rng))
        states.append(_hour(patient, person, luck, t, actions[-1], states[-1][3]))
    return Day(person, np.array(states), np.array(actions), luck, first)


def _meals(rng: np.random.Generator) -> FloatArray:
    """The package's random day of meals."""
    scenario = _package().meals.RandomScenario(datetime(2024, 1, 1), int(rng.integers(2**31)))
    meal, result = scenario.scenario["meal"], np.zeros(WARM + HOURS * MINUTES)
    for time, amount in zip(meal["time"], meal["amount"], strict=True):
        minute = int(time) - START + WARM
        if 0 <= minute < len(result):
            result[minute] = amount
    return result


def _noise(rng: np.random.Generator) -> FloatArray:
    """The package's noise of a Dexcom sensor."""
    import polars as pl

    sensors = pl.read_csv(_package().at / "params" / "sensor_params.csv")
    params = sensors.filter(pl.col("Name") == "Dexcom").row(0, named=True)
    source = _package().sensor.CGMNoise(params, seed=int(rng.integers(2**31)))
    return np.array([next(source) for _ in range((WARM + HOURS * MINUTES) // READING)])


def _eaten(luck: Luck, t: int) -> float:
    """Grams begun in the hour after decision t, as announced."""
    begin = WARM + t * MINUTES
    return float(luck.meals[begin : begin + MINUTES].sum())


def _usual(
    person: dict[str, Any], state: FloatArray, grams: float, rng: np.random.Generator
) -> int:
    """Units by the usual rule, off by a factor; now and then anything."""
    if rng.uniform() < 0.2:
        return int(rng.integers(len(LEVELS)))
    units = grams / person["CR"] + max(0.0, state[0] - 150.0) / person["CF"]
    wanted = 100.0 * units / person["TDI"] * np.exp(0.5 * rng.standard_normal()) - state[3]
    return int(np.abs(LEVELS - wanted).argmin())


def replay(day: Day, plans: IntArray) -> FloatArray:
    """(n, HOURS + 1, 4) what the table would have had under plans (n, HOURS). What plans have in
    common is lived through once."""
    result = np.empty((len(plans), HOURS + 1, 4))
    result[:, 0] = day.states[0]
    patient = _patient(day.person)

    def live(t: int, body: Body, which: IntArray) -> None:
        for level in np.unique(plans[which, t]):
            same = which[plans[which, t] == level]
            _set(patient, body)
            iob = float(result[same[0], t, 3])
            result[same, t + 1] = _hour(patient, day.person, day.luck, t, int(level), iob)
            if t + 1 < HOURS:
                live(t + 1, _get(patient), same)

    live(0, day.first, np.arange(len(plans)))
    return result


def rows(name: str, day: Day) -> list[dict[str, Any]]:
    """The day in a table; nothing is done in the last row."""
    person, weight = day.person, float(day.person["BW"])
    fixed = {
        "weight": weight,
        "tdi": float(person["TDI"]),
        "carb_ratio": float(person["CR"]),
        "correction": float(person["CF"]),
    }
    grams = [0.0, *(_eaten(day.luck, t) / weight for t in range(HOURS)), 0.0]
    return [
        {
            "day": name,
            "hour": t,
            **fixed,
            **dict(zip(("glucose", "trend", "risk", "iob"), map(float, one), strict=True)),
            "carbs": grams[t + 1],
            "carbs_before": grams[t],
            "bolus": int(LEVELS[day.actions[t]]) if t < HOURS else None,
        }
        for t, one in enumerate(day.states)
    ]
