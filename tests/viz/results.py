"""Results of all three systems, small, and every figure of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure

import counterplan as cp
from counterplan import viz
from counterplan.core.result import Interval
from counterplan.counterfactual import Frontier, PolicyExplanation, SequenceExplanation
from counterplan.domains.interacting import DRUGS, FEATURES, InteractingEpisode, interacting_episode
from counterplan.tables import Column, SchemaLayout
from counterplan.viz import Labels, Quantity, labels_of

CHANCE = Quantity("survival probability", percent=True)
COST = Quantity("cost", better="lower")
# Markup and formulas: shown as they are.
ODD = "<b>dose & $more$</b>"
SCHEMA = cp.tables.Schema(
    (
        Column("ill", "state", unit="points", better="lower", levels=(0.0, 1.0, 2.0, 4.0)),
        Column("dose", "action", unit="mg", levels=(0.0, 2.0, 5.0), labels=("no", ODD, "full")),
    ),
    step=4.0,
    unit="h",
)


@cache
def discrete() -> tuple[cp.TabularMDP, Frontier[PolicyExplanation]]:
    """An episode of five steps that two changes improve, most probably but not surely."""
    rng = np.random.default_rng(3)
    mdp = cp.TabularMDP(
        rng.dirichlet(np.ones(4), size=(4, 3)),
        rng.integers(0, 5, size=(4, 3)).astype(float),
        action_labels=["none", ODD, "rest"],
    )
    states, actions = [0], [int(rng.integers(3))]
    for _ in range(4):
        states.append(int(rng.choice(4, p=mdp.row(states[-1], actions[-1]))))
        actions.append(int(rng.integers(3)))
    return mdp, cp.frontier(mdp, cp.Episode(states, actions, id="<i>one</i>"), k_max=2)


def policy() -> PolicyExplanation:
    return discrete()[1][-1]


def layout() -> SchemaLayout:
    """Names for the discrete model."""
    return SchemaLayout(SCHEMA)


@cache
def problem() -> InteractingEpisode:
    return interacting_episode(seed=0, horizon=12)


def drugs() -> Labels:
    return Labels.named(FEATURES, DRUGS, problem().actions, step=2.0, unit="d")


@cache
def sequence(nodes: int | None = None) -> SequenceExplanation:
    """Proved optimal, or stopped after some nodes."""
    given = problem()
    limits = cp.Limits(nodes=nodes)
    options = {"actions": given.actions, "reward": given.reward}
    solver = cp.AStar(batch=4, incumbent=False)
    return cp.explain(given.scm, given.episode, k=2, limits=limits, solver=solver, **options)


@cache
def ensemble() -> tuple[cp.SmoothSCM, Any]:
    """A model with members of a small process, and an explanation by all of them."""
    rng, episodes = np.random.default_rng(0), []
    for _ in range(30):
        states, doses = [rng.normal(size=2)], rng.integers(0, 3, size=(7, 1)).astype(float)
        for (dose,) in doses:
            burden, load = states[-1]
            after = (0.8 * burden - 0.3 * dose + 0.2 * np.sin(load), 0.7 * load + 0.1 * dose)
            states.append(after + rng.normal(size=2) * (0.1, 0.3))
        episodes.append(cp.Episode(np.array(states), doses))
    model = cp.SmoothSCM.fit(episodes, members=8, seed=0)
    options: Any = {"actions": [[0.0], [1.0], [2.0]], "reward": cp.LinearReward([-1.0, -0.5])}
    return model, cp.explain(model, episodes[0], k=1, **options)


@cache
def sensitivity() -> Any:
    model, found = ensemble()
    return cp.sensitivity(model, found.episode, found, draws=20)


def policy_rows() -> pl.DataFrame:
    """The policy as rows of a run's `trajectories`."""
    found, path, episode = policy(), policy().most_likely, policy().episode
    return pl.DataFrame(
        {
            "episode_id": ["a"] * 5, "k": [2] * 5, "t": range(5),
            "time": [4.0 * t for t in range(5)],
            "changed": path.actions != episode.actions,
            "change_probability": found.change_probabilities().sum(axis=1),
            "state": episode.states, "counterfactual_state": path.states,
            "action": episode.actions, "counterfactual_action": path.actions,
        }
    )  # fmt: skip


def sequence_rows() -> pl.DataFrame:
    """The sequence as rows of a run's `trajectories`."""
    found, levels = sequence(), problem().actions
    changed = np.isin(np.arange(12), [change.t for change in found.changes])
    columns: dict[str, Any] = {
        "episode_id": ["a"] * 12, "k": [2] * 12, "t": range(12),
        "time": [2.0 * t for t in range(12)], "changed": changed,
        "change_probability": changed.astype(float),
    }  # fmt: skip
    for prefix, states, taken in (
        ("", found.episode.states, found.observed),
        ("counterfactual_", found.states, found.actions),
    ):
        for place, name in enumerate(FEATURES):
            columns[f"{prefix}state:{name}"] = states[:, place]
        for place, name in enumerate(DRUGS):
            columns[f"{prefix}action:{name}"] = [*levels[taken, place].tolist(), None]
    return pl.DataFrame(columns, strict=False)


def mortal() -> Labels:
    """Names for the discrete model, in whose last state an episode is over."""
    states = np.array([[0.0], [1.0], [2.0], [np.nan]])
    return replace(labels_of(layout()), states=states, endings={3: "died"})


@cache
def ship() -> cp.domains.Bunkering:
    return cp.domains.Bunkering(config="A", prices="independent")


@cache
def voyage() -> tuple[np.ndarray, Any]:
    """A path and what was lost on it."""
    path = ship().sample_path(seed=5)
    return path, cp.regret(ship(), path, [50, 12, 25, 30, 16, 0, 0])


@cache
def plans() -> dict[str, list[Any]]:
    return {
        "UCT": [cp.plan(ship(), planner=cp.UCT(n), seed=s) for n in (20, 80) for s in range(3)],
        "<b>BTS</b>": [cp.plan(ship(), planner=cp.BTS(n), seed=0) for n in (20, 80)],
    }


@cache
def bounds() -> Any:
    return cp.value_bounds(ship(), samples=200, seed=0)


INTERVALS = [Interval(0.0, 1.0), Interval(1.0, 9.0), Interval(2.0, 16.0)]
CLAIMS = [viz.Claim(gain, gain - 2.0, gain + 3.0) for gain in np.linspace(0.0, 9.0, 40).tolist()]
COLUMNS = ("episode_id", "value", "guaranteed", "interval_low", "interval_high", "stable_low",
           "stable_high", "monotone_low", "monotone_high")  # fmt: skip
ROWS = [
    dict(zip(COLUMNS, ("first", 0.8, 0.5, 0.2, 1.0, 0.4, 0.9, 0.5, 0.8), strict=True)),
    dict(zip(COLUMNS, (ODD, 0.6, None, 0.6, 0.7), strict=False)),
]

# Every figure, by name.
FIGURES: dict[str, Callable[[], Figure]] = {
    "trajectory": lambda: viz.trajectory_figure(sequence(), drugs(), feature="burden"),
    "trajectory of a policy": lambda: viz.trajectory_figure(policy(), layout()),
    "frontier": lambda: viz.frontier_figure(
        discrete()[1], intervals=INTERVALS, guaranteed=[0.0, 1.0, 2.0]
    ),
    "frontier with a gap": lambda: viz.frontier_figure([sequence(4)]),
    "outcome": lambda: viz.outcome_figure(policy()),
    "change strip": lambda: viz.change_strip_figure(policy(), layout()),
    "interval": lambda: viz.interval_figure(ROWS, observed=0.1, quantity=CHANCE),
    "cohort": lambda: viz.cohort_figure(CLAIMS),
    "trajectory of many models": lambda: viz.trajectory_figure(
        ensemble()[1], Labels.named(["burden", "load"], ["dose"], [0.0, 1.0, 2.0]), feature=0
    ),
    "doubt": lambda: viz.doubt_figure({0.0: (0.8, 0.1), 0.2: (0.75, 0.3), 1.0: (0.5, 0.4)}),
    "sensitivity": lambda: viz.sensitivity_figure(sensitivity()),
    "calibration": lambda: viz.calibration_figure(ensemble()[0]),
    "progress": lambda: viz.progress_figure(sequence()),
    "path": lambda: viz.path_figure(voyage()[1], ship(), voyage()[0]),
    "convergence": lambda: viz.convergence_figure(
        plans(), bounds(), optimum=cp.exact_value(ship()), quantity=COST
    ),
}


def line(figure: Figure, label: str) -> np.ndarray:
    """The points of the line with this label, (n, 2)."""
    lines = [one for axes in figure.axes for one in axes.lines if one.get_label() == label]
    assert len(lines) == 1, label
    return np.asarray(lines[0].get_xydata())


def heights(figure: Figure) -> dict[str, np.ndarray]:
    """Of bars, by label."""
    return {
        str(bars.get_label()): np.array([bar.get_height() for bar in bars])
        for axes in figure.axes
        for bars in axes.containers
    }


def texts(figure: Figure) -> list[str]:
    """All that is written into the plots."""
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def legend(figure: Figure) -> set[str]:
    """The names in the legend."""
    return {text.get_text() for text in figure.legends[0].get_texts()}
