"""Small models with episodes: a tabular one, and a neural one of a table with a schema."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import counterplan as cp
from counterplan.runs.explain import ExplainTask, explain_spec, open_task
from counterplan.runs.question import Question
from counterplan.runs.task import PartResult, TaskSpec
from counterplan.scm import Scaling
from counterplan.scm.support import collect_seen
from counterplan.tables.layout import SchemaLayout
from counterplan.tables.models import save_model
from counterplan.tables.parts import Recorded, episodes_to_bytes
from counterplan.tables.schema import schema_from_dict

FEATURES, ACTIONS = ("age", "level", "pressure"), ("dose", "machine")
SCHEMA: dict[str, Any] = {
    "table": {"step": 6.0, "unit": "h"},
    "columns": {
        "age": {"role": "fixed"},
        "level": {"role": "state", "better": "lower"},
        "pressure": {"role": "state", "better": "higher", "weight": 0.5},
        "dose": {"role": "action", "levels": [0.0, 1.0, 2.0], "unit": "mg"},
        "machine": {"role": "contextual"},
        "died": {"role": "outcome"},
    },
}
DISCRETE: dict[str, Any] = {"kind": "discrete"}
CONTINUOUS: dict[str, Any] = {"kind": "schema", "schema": SCHEMA}
LAYOUT = SchemaLayout(schema_from_dict(SCHEMA))


def small_mdp(seed: int = 0, S: int = 4, A: int = 3) -> cp.TabularMDP:
    """Every transition is possible; some pairs were never seen."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(S), size=(S, A))
    mdp = cp.TabularMDP(rows, rng.normal(size=(S, A)), action_labels=["rest", "walk", "run"][:A])
    # Enough to vouch for a change, where there were any.
    return mdp.with_data(visits=3 * rng.integers(0, 3, size=(S, A)))


def discrete_episodes(mdp: cp.TabularMDP, count: int, seed: int = 0) -> list[Recorded]:
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        T = int(rng.integers(1, 7))
        actions = rng.integers(0, mdp.n_actions, T)
        states = [int(rng.integers(mdp.n_states))]
        for action in actions[:-1]:
            states.append(int(rng.choice(mdp.n_states, p=mdp.row(states[-1], int(action)))))
        episode = cp.Episode(states, actions, id=f"e{number}")
        outcomes = (("cured", str(number % 2)),)
        found.append(Recorded(episode, np.arange(T, dtype=np.float64), number % 3, outcomes))
    return found


def small_scm(seed: int = 0) -> cp.NeuralSCM:
    """A model that remembers its schema and some data."""
    rng = np.random.default_rng(seed)

    def network(spread: float) -> dict[str, Any]:
        shapes = {"state": (6, 3), "bias": 6, "action": (6, 2), "output": (2, 6), "output_bias": 2}
        return {key: spread * rng.normal(size=shape) for key, shape in shapes.items()}

    scaling = Scaling([50.0, 10.0, 80.0], [40.0, 20.0, 40.0], [1.0, 0.5], [2.0, 1.0])
    about = {"features": list(FEATURES), "actions": list(ACTIONS), "schema": SCHEMA, "means": {}}
    bare = cp.NeuralSCM.from_weights(network(0.4), network(0.2), np.eye(2) * 0.1, 1, scaling)
    scm = cp.NeuralSCM(
        bare.location, bare.scale, bare.noise_cholesky, fixed=1, scaling=scaling, about=about
    )
    episodes = [one.episode for one in continuous_episodes(scm, 40, seed=7)]
    seen = collect_seen(cp.Transitions.collect(episodes, None, FEATURES, ACTIONS), scaling)
    return cp.NeuralSCM(
        scm.location, scm.scale, scm.noise_cholesky, 1, scaling, about=about, seen=seen
    )


def continuous_episodes(scm: cp.NeuralSCM, count: int, seed: int = 0) -> list[Recorded]:
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        T = int(rng.integers(1, 7))
        states = [np.array([rng.uniform(30, 70), rng.uniform(0, 20), rng.uniform(60, 100)])]
        actions = np.column_stack([rng.integers(0, 3, T - 1), rng.integers(0, 2, T - 1)]) * 1.0
        for action in actions:
            noise = rng.normal(size=(1, 2)) * 0.1
            states.append(scm.step(states[-1][None], action[None], noise)[0])
        episode = cp.Episode(np.array(states), actions.reshape(T - 1, 2), id=f"s{number}")
        outcomes = (("died", str(number % 2)),)
        found.append(Recorded(episode, 6.0 * np.arange(T), number % 3, outcomes))
    return found


def part_of(recorded: Sequence[Recorded]) -> bytes:
    is_discrete = recorded[0].episode.states.ndim == 1
    return episodes_to_bytes(recorded, *(((), ()) if is_discrete else (FEATURES, ACTIONS)))


def spec_of(
    folder: Path,
    model: cp.TabularMDP | cp.NeuralSCM | cp.SmoothSCM,
    question: Question,
    about: dict[str, Any] | None = None,
) -> TaskSpec:
    """The task of explaining the episodes of these models."""
    path = folder / "model.safetensors"
    save_model(model, path)
    is_discrete = isinstance(model, cp.TabularMDP)
    usual, outcomes = (DISCRETE, ["cured"]) if is_discrete else (CONTINUOUS, ["died"])
    return explain_spec(path.read_bytes(), ".safetensors", about or usual, question, outcomes)


def task_of(folder: Path, model: Any, question: Question) -> ExplainTask:
    """The task as a worker opens it, from bytes."""
    return open_task(spec_of(folder, model, question))


def table(result: PartResult, name: str = "results") -> pl.DataFrame:
    return pl.read_parquet(io.BytesIO(result.tables[name]))


def explained(
    scm: cp.NeuralSCM | cp.SmoothSCM,
    episode: cp.Episode,
    k: int = 2,
    nodes: int | None = None,
    supported: bool | None = None,
    risk: float | None = None,
) -> Any:
    """As the library answers."""
    return cp.explain(
        scm,
        episode,
        k,
        actions=LAYOUT.action_set(episode),
        reward=LAYOUT.reward(),
        limits=cp.Limits(nodes=nodes),
        constraints=cp.Constraints(supported=supported),
        risk=risk,
    )
