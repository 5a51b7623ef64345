"""Small tables, schemas and models, the same every time and on every machine.

Numbers come from `random.random`, whose sequence Python promises to keep. Neural models are trained
by `fit`, for the data that they remember, and then get fixed weights in place of trained ones.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import counterplan as cp
from counterplan.tables import read_episodes, write_episodes

WARD = """\
episode_id,t,state,action,reward
ann,0,0,0,0
ann,1,0,0,0
ann,2,1,1,1
bob,0,1,1,1
bob,1,0,0,0
bob,2,0,0,0
bob,3,0,0,0
eve,0,1,1,1
"""
WARD_MODEL: dict[str, Any] = {
    "transitions": [[[0.8, 0.2], [0.3, 0.7]], [[0.6, 0.4], [0.1, 0.9]]],
    "rewards": [[0, 0], [1, 1]],
    "state_labels": ["ill", "well"],
    "action_labels": ["rest", "walk"],
}
CLINIC_ROWS = [
    [[4, 2, 1, 1], [2, 4, 2, 1], [1, 2, 4, 2]],
    [[4, 3, 1, 0], [1, 3, 3, 1], [1, 1, 3, 4]],
    [[1, 4, 2, 1], [1, 2, 4, 2], [2, 1, 2, 5]],
    [[1, 1, 3, 3], [0, 2, 3, 4], [3, 1, 1, 4]],
]
CLINIC_REWARDS = [[-1.0, -1.5, -2.0], [0.0, -0.25, -0.75], [1.0, 0.5, 0.25], [2.0, 1.75, 1.5]]

PAIN_SCHEMA = """\
[table]
unit = "d"

[columns.pain]
role = "state"
levels = [0, 1, 2]
better = "lower"
unit = "points"

[columns.bed]
role = "state"
labels = ["home", "ward"]

[columns.dose]
role = "action"
levels = [0, 5]
unit = "mg"

[columns.bath]
role = "action"
labels = ["no", "yes"]

[columns.cured]
role = "outcome"
"""

STAYS_SCHEMA = """\
[table]
episode = "stay_id"
time = "t"
step = 4.0
unit = "h"

[columns.age]
role = "fixed"
unit = "years"

[columns.sofa]
role = "state"
low = 0
high = 24
missing = "carry-forward"
better = "lower"

[columns.map]
role = "state"
unit = "mmHg"
better = "higher"
weight = 0.1

[columns.vent]
role = "contextual"

[columns.vaso]
role = "action"
levels = [0, 1, 2]
labels = ["none", "low", "high"]

[columns.fluids]
role = "action"
levels = [0, 250]
unit = "ml"

[columns.died]
role = "outcome"
"""


def write(name: str, text: str) -> None:
    Path(name).write_text(text, "utf-8")


def drawn(rng: Random, weights: Sequence[float]) -> int:
    """A position with probability proportional to its weight."""
    left = rng.random() * sum(weights)
    for position, weight in enumerate(weights):
        left -= weight
        if left < 0.0:
            return position
    return len(weights) - 1


def between(rng: Random, low: float, high: float) -> float:
    return low + (high - low) * rng.random()


# --- Discrete ---------------------------------------------------------------------------------


def ward() -> None:
    """Three episodes and a model by hand; another in which one of them is impossible."""
    write("ward.csv", WARD)
    write("model.json", json.dumps(WARD_MODEL))
    never = [[[0.8, 0.2], [0.3, 0.7]], [[0.6, 0.4], [1.0, 0.0]]]
    write("other.json", json.dumps(WARD_MODEL | {"transitions": never}))
    write("zoe.csv", "episode_id,t,state,action\nzoe,0,1,1\nzoe,1,1,1\nmax,0,0,1\nmax,1,1,1\n")


def clinic(episodes: int = 24) -> None:
    """Episodes of up to six steps through four states, as CSV; also as Parquet and JSON."""
    rng = Random(1)
    lines, noisy = ["episode_id,t,state,action,reward"], ["episode_id,t,state,action,reward"]
    for number in range(episodes):
        state = drawn(rng, [3, 2, 1, 1])
        for t in range(1 + drawn(rng, [1, 1, 2, 3, 3, 2])):
            action = drawn(rng, [4, 3, 0] if state == 3 else [4, 3, 1])  # one pair never occurs
            reward = CLINIC_REWARDS[state][action]
            lines.append(f"c{number:02d},{t},{state},{action},{reward}")
            noisy.append(f"c{number:02d},{t},{state},{action},{reward + (number % 3) / 4}")
            state = drawn(rng, CLINIC_ROWS[state][action])
    write("clinic.csv", "\n".join(lines) + "\n")
    write("noisy.csv", "\n".join(noisy) + "\n")
    found = read_episodes("clinic.csv")
    write_episodes("clinic.parquet", found)
    write_episodes("clinic.json", found)
    write("key.txt", "a key for pseudonyms, of some length\n")


def pain(episodes: int = 24) -> None:
    """States and actions of two columns each, the last row of an episode without an action."""
    rng = Random(2)
    lines = ["episode_id,t,pain,bed,dose,bath,cured"]
    for number in range(episodes):
        level, bed = drawn(rng, [1, 1, 1]), drawn(rng, [1, 1])
        cured = int(rng.random() < 0.5)
        for t in range(5):
            dose, bath = drawn(rng, [1, 1]), drawn(rng, [2, 1])
            done = "," if t == 4 else f"{5 * dose},{('no', 'yes')[bath]}"
            lines.append(f"n{number},{t},{level},{('home', 'ward')[bed]},{done},{cured}")
            step = int(rng.random() < 0.4) - int(rng.random() < 0.3 + 0.4 * dose)
            level, bed = min(max(level + step, 0), 2), drawn(rng, [2, 1] if bath else [1, 2])
    write("pain.csv", "\n".join(lines) + "\n")
    write("pain.toml", PAIN_SCHEMA)


def icu_sepsis() -> None:
    """The model that comes with the package, and patients under usual care."""
    shipped = cp.domains.icu_sepsis.load()
    cp.tables.save_model(shipped.mdp, "icu.safetensors")
    write_episodes("icu.csv", shipped.sample_episodes(4, 0, horizon=8))


# --- Continuous -------------------------------------------------------------------------------


def stays(episodes: int = 24, steps: int = 6) -> None:
    """Measurements with gaps, two drugs, ventilation, an outcome."""
    rng = Random(3)
    lines = ["stay_id,t,age,sofa,map,vent,vaso,fluids,died"]
    for stay in range(episodes):
        age = round(between(rng, 30, 90))
        sofa, pressure = between(rng, 5, 13), between(rng, 55, 80)
        died = int(rng.random() < 0.3)
        for t in range(steps):
            vaso, fluids, vent = drawn(rng, [3, 2, 1]), drawn(rng, [1, 1]), drawn(rng, [3, 1])
            known = t > 0 and rng.random() < 0.08
            score = "" if known else f"{sofa:.1f}"
            doses = f"{vent},{vaso},{250 * fluids}"
            lines.append(f"{stay},{t},{age},{score},{pressure:.1f},{doses},{died}")
            sofa = sofa - 0.3 * vaso + 0.02 * (75 - pressure) + between(rng, -0.5, 0.5)
            sofa = min(max(sofa, 0.0), 24.0)
            pressure = 35 + 0.5 * pressure + 2 * vaso + fluids + between(rng, -3, 3)
    write("stays.csv", "\n".join(lines) + "\n")
    write("stays.toml", STAYS_SCHEMA)


def cohort() -> None:
    """A sepsis cohort table; two of its stays, cut, with one value far outside."""
    import polars as pl

    cp.domains.sepsis.write_cohort("cohort.csv", 30, seed=1)
    table = cp.domains.sepsis.simulate_cohort(12, seed=2)
    long = table.group_by("icustayid", maintain_order=True).len().filter(pl.col("len") >= 10)
    chosen = long["icustayid"].head(3).to_list()
    new = table.filter(pl.col("icustayid").is_in(chosen), pl.col("bloc") <= 10)
    strange = (pl.col("icustayid") == chosen[-1]) & (pl.col("bloc") == 3)
    new.with_columns(paO2=pl.when(strange).then(1e9).otherwise("paO2")).write_csv("new.csv")


def icu_stays(episodes: int = 12, steps: int = 7) -> None:
    """ICU stays in steps of four hours whose doses are levels already; some values are missing."""
    rng = Random(4)
    middle = {"hr": 90, "map": 75, "resp": 20, "fio2": 50, "po2": 100, "lact": 2}
    middle |= {"bili": 1.5, "plt": 200, "crea": 1.4, "urine": 200}
    lines = [",".join(["episode_id", "t", "sex", "age", *middle, "a_vaso", "a_iv", "died"])]
    for stay in range(episodes):
        sex, age = ("Female", "Male")[stay % 2], f"{between(rng, 40, 90):.1f}"
        now = {name: value * between(rng, 0.8, 1.2) for name, value in middle.items()}
        for t in range(steps):
            shown = [
                "" if name == "lact" and t == 3 else f"{value:.2f}" for name, value in now.items()
            ]
            doses = [str(drawn(rng, [3, 1, 1, 1, 1])) for _ in range(2)]
            lines.append(",".join([f"{100 + stay}", f"{t}", sex, age, *shown, *doses, "0"]))
            now = {name: value * between(rng, 0.9, 1.1) for name, value in now.items()}
            now["fio2"] = min(now["fio2"], 100.0)
    write("icu.csv", "\n".join(lines) + "\n")


def pin(trained: str, pinned: str) -> None:
    """The model in a file with weights that no training has touched."""
    model = cp.load_model(trained)
    assert isinstance(model, cp.NeuralSCM)
    D, d, H = len(model.about["features"]), len(model.about["actions"]), 5
    moving, rng = D - model.fixed, Random(5)

    def matrix(rows: int, columns: int, spread: float) -> list[list[float]]:
        return [[between(rng, -spread, spread) for _ in range(columns)] for _ in range(rows)]

    def network(spread: float) -> dict[str, Any]:
        return {
            "state": matrix(H, D, spread / D**0.5),
            "bias": matrix(1, H, 0.3)[0],
            "action": matrix(H, d, 2.0 * spread),
            "output": matrix(moving, H, spread),
            "output_bias": matrix(1, moving, 0.1)[0],
        }

    noise = [[0.1 * (row == column) for column in range(moving)] for row in range(moving)]
    fixed = cp.NeuralSCM.from_weights(network(0.35), network(0.15), noise, model.fixed)
    told = {"train_nll": [3.0, 1.5], "validation_nll": [2.5, -20.0], "epochs": 2, "best_epoch": 2}
    about = {**model.about, "training": {**model.about["training"], **told}}
    location, scale, cholesky = fixed.location, fixed.scale, fixed.noise_cholesky
    found = replace(model, location=location, scale=scale, noise_cholesky=cholesky, about=about)
    found.save(pinned)


# --- Planning ---------------------------------------------------------------------------------


def voyages() -> None:
    """Executed plans of a ship, one impossible, one without decisions in another table."""
    bought = (50, 12, 25, 30, 16, 0, 0)
    prices = {
        "dear": (1000, 900, 1500, 2500, 1200, 800, 900),
        "calm": (1000, 950, 900, 850, 800, 750, 700),
        "wild": (1000, 1400, 700, 1900, 600, 2100, 500),
    }
    rows = [
        (name, t, price, bought[t]) for name, path in prices.items() for t, price in enumerate(path)
    ]
    rows += [("full", t, 1000, 50) for t in range(7)]
    lines = [f"{name},{t},{price},{done},Oslo" for name, t, price, done in rows]
    write("voyages.csv", "scenario_id,t,price,action,port\n" + "\n".join(lines) + "\n")
    seen = [f"{name},{t},{price}" for name, t, price, _ in rows[:14]]
    write("seen.csv", "voyage_id,t,price\n" + "\n".join(seen) + "\n")


def recorded() -> None:
    """Recorded prices and a drive cycle."""
    rng = Random(6)
    price, lines = 50.0, ["Date,Price"]
    for month in range(48):
        lines.append(f"{2001 + month // 12}-{month % 12 + 1:02d}-01,{price:.2f}")
        price *= between(rng, 0.9, 1.12)
    write("prices.csv", "\n".join(lines) + "\n")
    speed, lines = 0.0, ["cycSecs,cycMps"]
    for second in range(200):
        lines.append(f"{second},{speed:.2f}")
        speed = min(max(speed + between(rng, -2.0, 2.2), 0.0), 30.0)
    write("cycle.csv", "\n".join(lines) + "\n")


def nothing() -> None:
    """No inputs."""
