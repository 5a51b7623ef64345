"""What the library's public names answer, where the command line does not ask them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

import counterplan as cp
from counterplan.counterfactual import Explanation
from counterplan.scm import count_transitions, neighbour_prior
from counterplan.tables import read_episodes

from .inputs import CLINIC_REWARDS, CLINIC_ROWS, recorded
from .masks import masked
from .playing import Step

ACTIONS = ["rest", "walk", "run"]


def _plain(value: Any) -> Any:
    """Arrays and tuples as lists."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _mdp() -> cp.TabularMDP:
    counts = np.array(CLINIC_ROWS, dtype=float)
    rows = counts / counts.sum(axis=2, keepdims=True)
    return cp.TabularMDP(rows, CLINIC_REWARDS, action_labels=ACTIONS)


def _episode() -> cp.Episode:
    return cp.Episode([1, 0, 1, 0, 2, 1], [0, 0, 1, 0, 0, 2], id="one")


def _told(found: Explanation) -> dict[str, Any]:
    return {
        "kind": type(found).__name__,
        "k": found.k,
        "factual": found.factual_value,
        "value": found.value,
        "bound": found.bound,
        "gap": found.gap,
        "improvement": found.improvement,
        "relative_improvement": found.relative_improvement,
        "status": found.status.value,
        "changes": [[change.t, change.observed, change.alternative] for change in found.changes],
    }


def names() -> dict[str, Any]:
    """Every public name, and how it is called."""
    packages = ("counterfactual", "planning", "scm", "tables")
    public = [name for name in cp.__all__ if name not in packages]
    homes = {one: import_module(f"counterplan.{one}") for one in packages}
    public += [f"{one}.{name}" for one, home in homes.items() for name in home.__all__]
    found: dict[str, Any] = {}
    for name in public:
        value = attrgetter(name)(cp)
        if inspect.ismodule(value):
            found[name] = sorted(getattr(value, "__all__", []))
        elif callable(value):
            found[name] = list(inspect.signature(value).parameters)
    return found


def frontier() -> dict[str, Any]:
    found = cp.frontier(_mdp(), _episode())
    best = found[2]
    outcome = best.outcome_distribution()
    return {
        "values": found.values,
        "smallest": [found.smallest_k(value) for value in (-3.0, 1.0, 99.0)],
        "best": _told(best),
        "change probabilities": best.change_probabilities(),
        "changes distribution": best.changes_distribution(),
        "mean": best.outcome_mean,
        "variance": best.outcome_variance,
        "better": best.probability_better().value,
        "outcomes": [outcome.values, outcome.probabilities],
        "sampled": [best.sample(3, seed=1).states, best.sample(3, seed=1).actions],
    }


def constraints() -> dict[str, Any]:
    rules = {
        "fixed": cp.Constraints(fixed_steps=[0, -1]),
        "forbidden": cp.Constraints(forbidden=[(0, 2), (1, 1)]),
        "costs": cp.Constraints(change_costs={2: 2}),
        "allowed": cp.Constraints(allowed={0: [0, 1], 1: [1], 2: [0]}),
    }
    return {
        name: _told(cp.explain(_mdp(), _episode(), 2, constraints=rule))
        for name, rule in rules.items()
    }


def robust() -> dict[str, Any]:
    best = cp.explain(_mdp(), _episode(), 2)
    found = cp.robust_explain(_mdp(), _episode(), 2)
    return {
        "interval": cp.value_interval(_mdp(), _episode(), best),
        "stable": cp.value_interval(_mdp(), _episode(), best, stability=True),
        "robust": _told(found),
        "robust mean": found.outcome_mean,
    }


def estimated() -> dict[str, Any]:
    episodes = read_episodes("clinic.csv")
    counts = count_transitions(episodes, n_states=4, n_actions=3)
    return {"counts": counts.observed, "neighbour prior": neighbour_prior(4)}


def _infection() -> tuple[cp.AdditiveNoiseSCM, cp.Episode, np.ndarray, cp.LinearReward]:
    """A linear model by hand: a dose lowers a level that falls back by itself."""

    def step(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return 0.8 * states - 0.5 * actions + 1.0

    scm = cp.AdditiveNoiseSCM(step, lipschitz=0.8)
    episode = cp.Episode([[4.0], [4.3], [3.9], [4.5], [4.1]], [[0.0], [1.0], [0.0], [2.0]])
    return scm, episode, np.array([[0.0], [1.0], [2.0]]), cp.LinearReward([-1.0])


def sequences() -> dict[str, Any]:
    scm, episode, actions, reward = _infection()
    asked: dict[str, dict[str, Any]] = {
        "two": {},
        "moves of one": {"constraints": cp.Constraints(max_move=1.0)},
        "greedy": {"solver": cp.baselines.Greedy()},
        "top k": {"solver": cp.baselines.TopK()},
    }
    return {
        name: _told(cp.explain(scm, episode, 2, actions=actions, reward=reward, **more))
        for name, more in asked.items()
    }


def planning() -> dict[str, Any]:
    ship = cp.domains.Bunkering("A")
    prices = [1000.0, 900.0, 1500.0, 2500.0, 1200.0, 800.0, 900.0]
    bought = [50, 12, 25, 30, 16, 0, 0]
    lost = cp.regret(ship, prices, bought)
    best = cp.hindsight(ship, prices)
    bounds = cp.value_bounds(ship, seed=0)
    episode = cp.Episode([[price] for price in prices], [[some] for some in bought])
    return {
        "hindsight": [best.value, best.actions],
        "regret": {
            "executed": lost.executed,
            "hindsight": lost.hindsight,
            "without foresight": lost.without_foresight,
            "expected": lost.expected_regret,
            "losses": lost.expected_losses,
            "levels": lost.levels,
        },
        "bounds": [bounds.lower, bounds.upper, bounds.interval()],
        "explained": _told(cp.explain(ship, episode, 2)),
        "planned": [
            [found.action, found.value, found.se, found.values]
            for planner in (cp.UCT, cp.MENTS, cp.BTS, cp.DENTS)
            for found in [cp.plan(ship, planner=planner(simulations=30), seed=2)]
        ],
    }


def exact_values() -> dict[str, Any]:
    return {
        name: cp.exact_value(getattr(cp.domains, name)(config))
        for name, config in (("Bunkering", "B"), ("HybridVehicle", "A"), ("AmericanOption", "A"))
    }


def other_tables() -> dict[str, Any]:
    """Simulators of domains: the first numbers that they draw."""
    recorded()
    from experiments.simulated_sessions import write_sessions
    from experiments.therapy import read_sessions

    write_sessions("sessions.csv", 4, 0)
    sessions = read_sessions("sessions.csv")
    paths = cp.domains.Bunkering("A").sample_paths(2, 1)
    return {
        "sessions": [[one.states, one.actions] for one in sessions.episodes],
        "prices": paths,
    }


def _step(ask: Callable[[], dict[str, Any]]) -> Step:
    def step(folder: Path) -> Any:
        return masked(_plain(ask()), folder)

    return step


QUESTIONS = (
    names,
    frontier,
    constraints,
    robust,
    estimated,
    sequences,
    planning,
    exact_values,
    other_tables,
)
STEPS = {ask.__name__: _step(ask) for ask in QUESTIONS}
