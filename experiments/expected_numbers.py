"""The numbers of figures' tables that `expected` has ranges for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from experiments.continuous_study import OURS, PAPERS
from experiments.sdmdp_table import EQUAL_TIME, HINDSIGHT

if TYPE_CHECKING:
    import polars as pl

Number: TypeAlias = "Callable[[pl.DataFrame], float]"
EBF = "effective_branching_factor"
PLACE = ["domain", "variant", "config"]


def mean_of(column: str) -> Number:
    """The mean of a column."""
    return lambda table: _mean(table[column])


def least(column: str) -> Number:
    """The smallest entry of a column."""
    return lambda table: float(table[column].to_numpy().min())


def _mean(column: pl.Series) -> float:
    return float(column.to_numpy().mean()) if len(column) else float("nan")


# --- Discrete (2021) ----------------------------------------------------------------------------


def improvement(k: int) -> Number:
    """Of figure 1, over realizations."""
    return lambda table: _mean(table.filter(k=k)["relative_difference_percent"])


def _curve(table: pl.DataFrame, quantity: str, k: int, **which: object) -> float:
    return _mean(table.filter(quantity=quantity, k=k, **which)["mean"])


def uncertain_outcome(table: pl.DataFrame) -> float:
    """Outcomes fall with the uncertainty alpha."""
    outcome = "average counterfactual outcome"
    return _curve(table, outcome, 10, alpha=1.0) / _curve(table, outcome, 10, alpha=0.1)


def uncertain_unique(table: pl.DataFrame) -> float:
    """How many explanations there are where much is uncertain."""
    return _curve(table, "unique explanations", 10, alpha=1.0)


def unique_of_one(table: pl.DataFrame) -> float:
    """Until the first change all is as observed, so one change comes at one step."""
    rows = table.filter(quantity="unique explanations", k=1)
    return float(rows["mean"].to_numpy().max())


def therapy_gain(table: pl.DataFrame) -> float:
    """Mean over patients."""
    return _mean(table.filter(quantity="relative difference (%)")["mean"])


def therapy_least(table: pl.DataFrame) -> float:
    """The patient who gains least."""
    rows = table.filter(quantity="relative difference (%)")
    return float(rows["mean"].to_numpy().min())


def therapy_unique(table: pl.DataFrame) -> float:
    """Mean over patients."""
    return _curve(table, "unique explanations", 3)


def patient_gain(table: pl.DataFrame) -> float:
    """Mean over the patients shown."""
    gains = []
    for (_,), rows in table.group_by("patient"):
        observed = rows.filter(quantity="observed outcome")["value"][0]
        gains.append(100.0 * (rows.filter(quantity="expected outcome")["value"][0] / observed - 1))
    return float(np.mean(gains))


def patient_changes(table: pl.DataFrame) -> float:
    """The expected number of changes, of the patient with most."""
    rows = table.filter(quantity="probability of change")
    return max(float(one["value"].to_numpy().sum()) for _, one in rows.group_by("patient"))


def _by_policy(table: pl.DataFrame, policy: str) -> np.ndarray:
    return table.filter(policy=policy).sort("k")["mean"].to_numpy()


def policy_margin(table: pl.DataFrame) -> float:
    """The optimum is nowhere below another policy."""
    best = _by_policy(table, "optimal")
    others = [name for name in table["policy"].unique() if name != "optimal"]
    return float(min((best - _by_policy(table, name)).min() for name in others))


def _share(table: pl.DataFrame, policy: str) -> float:
    best, other = _by_policy(table, "optimal"), _by_policy(table, policy)
    return float((other[-1] - other[0]) / (best[-1] - best[0]))


def greedy_share(table: pl.DataFrame) -> float:
    """Of the optimum's gain."""
    return _share(table, "greedy")


def random_share(table: pl.DataFrame) -> float:
    """Of the optimum's gain."""
    return _share(table, "random")


# --- Continuous (2023) --------------------------------------------------------------------------


def proved(table: pl.DataFrame) -> float:
    """Where the paper's search was stopped, ours was not: only ours count."""
    return _mean((table.filter(bound=OURS)["status"] == "optimal").cast(int))


def ours_branching(table: pl.DataFrame) -> float:
    """Over all searches with our bound."""
    return _mean(table.filter(bound=OURS)[EBF])


def _pairs(table: pl.DataFrame) -> pl.DataFrame:
    """The paper's searches that were finished, each beside ours for the same question."""
    keys = [name for name in ("L_h", "k", "episode_id") if name in table.columns]
    ours = table.filter(bound=OURS).unique(keys)
    finished = table.filter((table["bound"] != OURS) & (table["status"] == "optimal"))
    return finished.join(ours, on=keys, suffix="_ours")


def _apart(table: pl.DataFrame, column: str) -> float:
    pairs = _pairs(table)
    if pairs.is_empty():
        return float("nan")
    return float((pairs[column] - pairs[f"{column}_ours"]).abs().to_numpy().max())


def disagreement(table: pl.DataFrame) -> float:
    """Two exact searches find the same value."""
    return _apart(table, "value")


def sepsis_disagreement(table: pl.DataFrame) -> float:
    """Likewise, in figure 3."""
    return _apart(table, "counterfactual_sofa")


def branching_ratio(table: pl.DataFrame) -> float:
    """On the same questions."""
    pairs = _pairs(table)
    return _mean(pairs[EBF]) / _mean(pairs[f"{EBF}_ours"])


def facility_ratio(table: pl.DataFrame) -> float:
    """The paper's worst strategy against its best."""
    return _mean(table.filter(bound="facility-location")[EBF]) / _mean(
        table.filter(bound=PAPERS)[EBF]
    )


def sepsis_gain(table: pl.DataFrame) -> float:
    """Mean over patients, with the largest budget."""
    ours = table.filter(bound=OURS)
    return _mean(ours.filter(k=ours["k"].max())["improvement_percent"])


def fit_lost(location: float) -> Number:
    """By the model with this L_h and L_phi = 0.1."""
    return lambda table: _mean(table.filter(L_h=location, L_phi=0.1)["decrease_percent"])


# --- Planning (2025) ----------------------------------------------------------------------------


def loss(domain: str, method: str, variant: str | None = None) -> Number:
    """In % of V*: mean over configurations of a variant, the first if none is named. What a planner
    reaches in equal time depends on the machine, so it does not count."""

    def number(table: pl.DataFrame) -> float:
        rows = table.filter(domain=domain)
        chosen = rows.filter(variant=variant or rows["variant"][0], method=method)
        chosen = chosen.filter(chosen["budget"].ne_missing(EQUAL_TIME))
        return _mean(100.0 * chosen["loss"] / chosen["v_star_low"].abs())

    return number


def smallest_foresight(table: pl.DataFrame) -> float:
    """Hindsight against the best of all others on the very same futures."""
    smallest = np.inf
    for place, rows in table.group_by(PLACE):
        sign = 1.0 if place[0] == "bunkering" else -1.0
        best = sign * rows.filter(method=HINDSIGHT)["mean"][0]
        others = sign * rows.filter(rows["method"] != HINDSIGHT)["mean"].to_numpy()
        scale = abs(rows["v_star_low"][0])
        smallest = min(smallest, float(100.0 * (others - best).min() / scale))
    return smallest


def distance(method: str) -> Number:
    """From V*'s interval, after the most simulations, mean over problems."""

    def number(table: pl.DataFrame) -> float:
        rows = table.filter(method=method, simulations=table["simulations"].max())
        below = (rows["v_star_low"] - rows["mean"]).to_numpy()
        above = (rows["mean"] - rows["v_star_high"]).to_numpy()
        away = np.maximum(0.0, np.maximum(below, above))
        return float((100.0 * away / rows["v_star_low"].abs().to_numpy()).mean())

    return number


def outside_bounds(table: pl.DataFrame) -> float:
    """By how many standard errors V* lies outside of its bounds, at worst."""
    hindsight, open_loop = table["hindsight"].to_numpy(), table["open_loop"].to_numpy()
    error = (table["hindsight_se"] + table["open_loop_se"]).to_numpy() + 1e-9
    low, high = np.minimum(hindsight, open_loop), np.maximum(hindsight, open_loop)
    below = low - table["v_star_low"].to_numpy()
    above = table["v_star_high"].to_numpy() - high
    return float((np.maximum(below, above) / error).max())
