"""The therapy sessions behind figures 3 to 6 of the 2021 paper, explained patient by patient.

The paper's clinical data is not public. Without a table of real sessions the figures show simulated
ones, and say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from counterplan.core.episode import Episode
from counterplan.core.problem import Solver
from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation
from counterplan.counterfactual.explain import Frontier, frontier
from counterplan.scm.tabular import TabularMDP
from experiments import therapy
from experiments.figure import Options, Track, in_parallel
from experiments.simulated_sessions import write_sessions

BUDGET = 10
# The budget of the paper's looks at single patients.
PATIENT_BUDGET = 3
REALIZATIONS = 1000
PATIENTS = 77
QUICK_PATIENTS = 40


@dataclass(frozen=True)
class Sessions:
    """Patients' episodes, and how titles and tables call where they come from."""

    episodes: tuple[Episode, ...]
    source: str


@dataclass(frozen=True, eq=False)
class Patient:
    """An observed episode with its optimal explanations for k = 0..K; `number` in the cohort."""

    number: int
    episode: Episode
    optimal: Frontier[PolicyExplanation]

    @property
    def name(self) -> str:
        return self.episode.id or str(self.number)

    @property
    def improvement(self) -> float:
        """Relative improvement with PATIENT_BUDGET changes."""
        return float(self.optimal[PATIENT_BUDGET].relative_improvement)


def load_sessions(options: Options) -> Sessions:
    """The table of `options.data`, or a simulated one; both go through the same reader."""
    if options.data is not None:
        return Sessions(therapy.read_sessions(options.data).episodes, options.data.name)
    with TemporaryDirectory() as folder:
        table = Path(folder) / "sessions.csv"
        write_sessions(table, QUICK_PATIENTS if options.quick else PATIENTS, options.seed)
        return Sessions(therapy.read_sessions(table).episodes, "simulated sessions")


def explain_patients(sessions: Sessions, options: Options, track: Track) -> list[Patient]:
    """All patients with budgets 0..K; pairs never seen are barred (section 6)."""
    mdp = therapy.estimate(sessions.episodes)
    work = partial(_explain, sessions.episodes, mdp, options)
    return in_parallel(work, range(len(sessions.episodes)), track, "patients")


def explain_episode(
    mdp: TabularMDP, episode: Episode, solver: Solver
) -> Frontier[PolicyExplanation]:
    """One patient with budgets 0..K; the first and last session stay as they were."""
    constraints = therapy.constraints(episode)
    return frontier(mdp, episode, BUDGET, constraints=constraints, solver=solver)


def _explain(
    episodes: tuple[Episode, ...], mdp: TabularMDP, options: Options, number: int
) -> Patient:
    optimal = explain_episode(mdp, episodes[number], options.solver(number))
    return Patient(number, episodes[number], optimal)
