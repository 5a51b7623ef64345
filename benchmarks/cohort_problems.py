"""The cohorts that are timed: patients of ICU-Sepsis, episodes of a small process, stays of the
2023 paper's sepsis model, and stays by a model with 16 members.

The sepsis model and its episodes are read from the folder `shared` beside the repository where they
are (see `sepsis_model`); otherwise a model is learned from simulated patients.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import counterplan as cp
from benchmarks import sepsis_model
from benchmarks.problems import ALPHA, HORIZON
from counterplan.counterfactual import Explanation
from counterplan.domains import icu_sepsis, sepsis
from counterplan.domains.sepsis_table import fit_cohort
from counterplan.runs.cohort import PART_SIZE
from counterplan.runs.explain import explain_spec
from counterplan.runs.explainer import DEFAULT_DOUBT
from counterplan.runs.question import Question
from counterplan.runs.task import TaskSpec
from counterplan.scm import Scaling
from counterplan.scm.support import collect_seen
from counterplan.tables.models import save_model
from counterplan.tables.parts import Recorded, episodes_to_bytes
from experiments import synthetic

BUDGET = 3
NODES = 20_000
PATIENTS = 400
# To learn a model with members from, and how many steps of each stay are explained by it.
LEARNED_FROM, STEPS = 1_000, 14
SEEN_OFTEN = 20
# As many transitions as a model keeps of its data.
SEEN = 20_000


@dataclass(frozen=True)
class Cohort:
    """What is explained.

    explain  one episode, as a user's own loop would do it
    """

    name: str
    model: cp.TabularMDP | cp.NeuralSCM
    about: dict[str, Any]
    recorded: Sequence[Recorded]
    explain: Callable[[cp.Episode], Explanation]

    def spec(self) -> TaskSpec:
        """The task of a run."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.safetensors"
            save_model(self.model, path)
            content = path.read_bytes()
        nodes = NODES if isinstance(self.model, cp.NeuralSCM) else None
        return explain_spec(
            content, ".safetensors", self.about, Question((BUDGET,), nodes=nodes), []
        )

    def parts(self) -> Iterator[bytes]:
        """Its input."""
        names = (sepsis.FEATURES, sepsis.ACTIONS)
        for start in range(0, len(self.recorded), PART_SIZE):
            yield episodes_to_bytes(self.recorded[start : start + PART_SIZE], *names)


def icu_cohort(count: int) -> Cohort:
    icu = icu_sepsis.load()
    # An action that clinicians chose too seldom is not admissible: every other is in the data.
    visits = np.full(icu.mdp.rewards.shape, SEEN_OFTEN, dtype=np.int64)
    mdp = icu.mdp.with_data(visits=visits)
    name = "ICU-Sepsis (716 states, 25 actions)"
    return _discrete_cohort(name, mdp, icu.sample_episodes(count, seed=0))


def small_cohort(count: int) -> Cohort:
    """The paper's family, rows without zeros."""
    process = synthetic.synthetic_process(ALPHA, seed=0, n_states=20, horizon=HORIZON)
    name = f"synthetic (20 states, 10 actions, {HORIZON} steps)"
    return _discrete_cohort(name, process.mdp, process.sample_episodes(count, seed=1))


def _discrete_cohort(name: str, mdp: cp.TabularMDP, episodes: Sequence[cp.Episode]) -> Cohort:
    recorded = [
        _recorded(cp.Episode(e.states, e.actions, id=f"{i}")) for i, e in enumerate(episodes)
    ]
    scm = cp.GumbelMaxSCM(mdp)

    def explain(episode: cp.Episode) -> Explanation:
        return cp.explain(scm, episode, BUDGET, doubt=DEFAULT_DOUBT)

    return Cohort(name, mdp, {"kind": "discrete"}, recorded, explain)


def sepsis_cohort(count: int) -> Cohort:
    if sepsis_model.available():
        name, (scm, episodes) = "sepsis model of the 2023 paper", _published()
    else:
        name, (scm, episodes) = "sepsis model learned from simulated patients", _learned()
    chosen = [episodes[number % len(episodes)] for number in range(count)]
    recorded = [
        _recorded(cp.Episode(one.states, one.actions, id=f"{number}"))
        for number, one in enumerate(chosen)
    ]

    def explain(episode: cp.Episode) -> Explanation:
        return cp.explain(
            scm,
            episode,
            BUDGET,
            actions=sepsis.action_set(episode),
            reward=sepsis.reward(),
            limits=cp.Limits(nodes=NODES),
        )

    steps = np.mean([len(one.episode) for one in recorded])
    return Cohort(f"{name} ({steps:.0f} steps)", scm, {"kind": "cohort"}, recorded, explain)


def ensemble_cohort(count: int) -> Cohort:
    """Simulated stays, cut to one length, by the smooth model learned from them, with risk."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cohort.csv"
        sepsis.write_cohort(path, LEARNED_FROM, seed=0)
        found = fit_cohort(path, {"learner": "smooth"})
    long = [one for one in found.episodes if len(one) >= STEPS][:count]
    recorded = [
        _recorded(cp.Episode(one.states[:STEPS], one.actions[: STEPS - 1], id=f"{number}"))
        for number, one in enumerate(long)
    ]

    def explain(episode: cp.Episode) -> Explanation:
        choices = {"actions": sepsis.action_set(episode), "reward": sepsis.reward()}
        return cp.explain(found.model, episode, BUDGET, limits=cp.Limits(nodes=NODES), **choices)

    name = f"{len(found.model.members)} members with risk ({STEPS} steps)"
    return Cohort(name, found.model, {"kind": "cohort"}, recorded, explain)


def _recorded(episode: cp.Episode) -> Recorded:
    return Recorded(episode, np.arange(len(episode), dtype=np.float64))


def _published() -> tuple[cp.NeuralSCM, list[cp.Episode]]:
    """Doses as levels, as cohort tables have them; the states are in the model's units already."""
    ones = np.ones(len(sepsis.FEATURES))
    scaling = Scaling(0.0 * ones, ones, [2.0, 2.0, 0.5], [4.0, 4.0, 1.0])
    scm, episodes = replace(sepsis_model.model(), scaling=scaling), []
    for horizon in (12, 16, 20):
        for case in sepsis_model.cases(horizon):
            steps = len(case.episode) - 1
            levels = np.stack(divmod(case.episode.actions[:steps], 5), axis=1)
            ventilation = case.actions[:, :1, 2] + 0.5
            actions = np.concatenate([levels, ventilation], axis=1)
            episodes.append(cp.Episode(case.episode.states, actions))
    return replace(scm, seen=_seen(episodes, scaling)), episodes


def _seen(episodes: list[cp.Episode], scaling: Scaling) -> Any:
    """As much data as a model keeps: the episodes over and over, each time a little different."""
    rng, every = np.random.default_rng(0), []
    while sum(len(one) - 1 for one in every) < SEEN:
        for one in episodes:
            every.append(
                cp.Episode(one.states + 0.05 * rng.normal(size=one.states.shape), one.actions)
            )
    return collect_seen(cp.Transitions.collect(every), scaling)


def _learned() -> tuple[cp.NeuralSCM, list[cp.Episode]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cohort.csv"
        sepsis.write_cohort(path, PATIENTS, seed=0)
        found = fit_cohort(path, {"epochs": 40})
    return found.model, list(found.episodes)
