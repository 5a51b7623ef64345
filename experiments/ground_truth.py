"""How far counterfactuals of learned models are from the truth, where the truth is known.

Two simulators replay a patient with the patient's own noise: sepsis (`domains.sepsis`) and the
infection (`experiments.infection`), the latter also in three versions that no location-scale model
can learn. A model is learned from a cohort and asked about fresh patients:

    error     of the outcome of random alternatives with K changes, relative to their effect:
              sqrt(sum (claimed - true)^2 / sum (true - observed)^2). 0: perfect; 1: no better
              than to say that nothing would have changed
    claimed   improvement by the best K changes, according to the model
    true      what these changes would really have brought
    possible  what the best K changes would have brought, found with the true mechanism (infection
              only: for sepsis it would take an hour)
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.limits import Limits
from counterplan.core.reward import LinearReward
from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.explain import explain
from counterplan.domains import sepsis
from counterplan.scm.learned import NeuralSCM
from counterplan.scm.point import PointSCM
from counterplan.scm.smooth import SmoothSCM
from counterplan.scm.training import Training
from counterplan.scm.transitions import Transitions
from experiments import infection
from experiments.infection import DOSES, Infection

K = 2
ALTERNATIVES = 20
# A search that takes longer answers with its best sequence so far.
SECONDS = 5.0
FRESH_SEED = 99
SEPSIS = "sepsis"
SMOOTH, NEURAL = "smooth", "neural"


@dataclass(frozen=True, eq=False)
class Case:
    """A fresh patient.

    vectors  (N, d) or (T-1, N, d) action vectors
    replay   sequences of actions (n, T-1) -> (n, T, D) what they would truly have brought
    """

    episode: Episode
    vectors: FloatArray
    replay: Callable[[IntArray], FloatArray]


class Measured(NamedTuple):
    """Means over fresh patients; improvements have standard errors."""

    error: float
    claimed: float
    claimed_se: float
    true: float
    true_se: float
    possible: float | None


@dataclass(frozen=True, eq=False)
class Learned:
    """A model and the patients that it is asked about."""

    model: PointSCM
    cases: Sequence[Case]
    reward: LinearReward
    enumerable: bool


def learn(
    process: str,
    patients: int,
    fresh: int,
    learner: str = SMOOTH,
    seed: int = 0,
    fresh_seed: int = FRESH_SEED,
    members: int = 0,
) -> Learned:
    """A model of 'sepsis' or of a version of the infection, from a cohort of this size; by smooth
    regression, or by networks without constants."""
    if process == SEPSIS:
        given = _sepsis(patients, fresh, seed, fresh_seed)
    else:
        given = _infection(process, patients, fresh, seed, fresh_seed)
    transitions, settings, networks, asked = given
    model: PointSCM
    if learner == SMOOTH:
        model = SmoothSCM.fit(transitions, **settings, members=members)
    else:
        quiet = Training(scaling=settings.get("scaling"), progress=False)
        model = NeuralSCM.fit(transitions, **networks, lipschitz=None, training=quiet)
    return Learned(model, *asked)


def measure(learned: Learned, seed: int = 0) -> Measured:
    """What the model claims about its cases, and what is true."""
    rng = np.random.default_rng(seed)
    claims = [_claimed(learned, case) for case in learned.cases]
    claimed, true = np.array(claims).T
    possible = [_possible(learned, case) for case in learned.cases] if learned.enumerable else None
    return Measured(
        relative_error(learned, rng),
        *_mean(claimed),
        *_mean(true),
        None if possible is None else float(np.mean(possible)),
    )


def _mean(values: FloatArray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def relative_error(learned: Learned, rng: np.random.Generator) -> float:
    """Of the outcomes of random alternatives, as said above."""
    wrong = moved = 0.0
    for case in learned.cases:
        sequences = _random_alternatives(case, rng)
        true = _outcomes(learned, case.replay(sequences))
        claimed = _outcomes(learned, _follow(learned.model, case, sequences))
        observed = _outcomes(learned, case.episode.states[None])
        wrong += float(((claimed - true) ** 2).sum())
        moved += float(((true - observed) ** 2).sum())
    return float(np.sqrt(wrong / moved))


def _claimed(learned: Learned, case: Case) -> tuple[float, float]:
    """The claimed and the true improvement by the changes that the model thinks best."""
    found = explain(
        learned.model,
        case.episode,
        K,
        actions=case.vectors,
        reward=learned.reward,
        limits=Limits(seconds=SECONDS),
    )
    return found.improvement, true_improvement(learned, case, found.actions)


def true_improvement(learned: Learned, case: Case, sequence: IntArray) -> float:
    """What a sequence of actions (T-1,) would truly have brought."""
    true = _outcomes(learned, case.replay(sequence[None]))[0]
    return float(true - _outcomes(learned, case.episode.states[None])[0])


def _possible(learned: Learned, case: Case) -> float:
    outcomes = _outcomes(learned, case.replay(_all_alternatives(case)))
    return float(outcomes.max() - _outcomes(learned, case.episode.states[None])[0])


def _outcomes(learned: Learned, courses: FloatArray) -> FloatArray:
    """(n,) outcomes of courses (n, T, D)."""
    n, T, D = courses.shape
    return np.asarray(learned.reward(courses.reshape(n * T, D)).reshape(n, T).sum(axis=1))


def _follow(model: PointSCM, case: Case, sequences: IntArray) -> FloatArray:
    """(n, T, D) what the model says would have followed."""
    noise = model.abduct(case.episode, case.vectors)
    vectors = np.broadcast_to(case.vectors, (len(noise), *case.vectors.shape[-2:]))
    states = [np.repeat(case.episode.states[:1], len(sequences), axis=0)]
    for t, same in enumerate(noise):
        repeated = np.broadcast_to(same, (len(sequences), len(same)))
        states.append(model.step(states[-1], vectors[t, sequences[:, t]], repeated))
    return np.stack(states, axis=1)


def _random_alternatives(case: Case, rng: np.random.Generator) -> IntArray:
    observed, N = _observed(case), case.vectors.shape[-2]
    sequences = np.repeat(observed[None], ALTERNATIVES, axis=0)
    for sequence in sequences:
        steps = rng.choice(len(observed), size=K, replace=False)
        sequence[steps] = (sequence[steps] + rng.integers(1, N, size=K)) % N
    return sequences


def _all_alternatives(case: Case) -> IntArray:
    observed, N = _observed(case), case.vectors.shape[-2]
    found = []
    for steps in combinations(range(len(observed)), K):
        for chosen in product(range(N), repeat=K):
            sequence = observed.copy()
            sequence[list(steps)] = chosen
            found.append(sequence)
    return np.array(found)


def _observed(case: Case) -> IntArray:
    """(T-1,) the actions taken, as indices."""
    taken = case.episode.actions
    if taken.ndim == 1:
        return taken[: len(case.episode) - 1].astype(np.int64)
    same = (case.vectors == taken[:, None, :]).all(axis=2)
    return np.asarray(same.argmax(axis=1))


# Transitions, settings of both learners and of networks, and what is asked about.
Given: TypeAlias = tuple[
    Transitions, dict[str, Any], dict[str, Any], tuple[list[Case], LinearReward, bool]
]


def _infection(version: str, patients: int, fresh: int, seed: int, fresh_seed: int) -> Given:
    process = Infection(version)
    cohort = [patient.episode for patient in process.simulate(patients, seed)]
    cases = [
        Case(one.episode, DOSES, partial(process.replay, one))
        for one in process.simulate(fresh, fresh_seed)
    ]
    transitions = Transitions.collect(cohort, DOSES)
    return transitions, {}, {"hidden": 32, "epochs": 300}, (cases, infection.reward(), True)


def _sepsis(patients: int, fresh: int, seed: int, fresh_seed: int) -> Given:
    cohort = _sepsis_cohort(patients, seed)
    settings = {"fixed": len(sepsis.FIXED), "scaling": sepsis.scaling(cohort)}
    cases = [_sepsis_case(episode) for episode in _sepsis_cohort(fresh, fresh_seed).episodes]
    transitions = Transitions.collect(cohort.episodes)
    return (
        transitions,
        settings,
        {"hidden": 64, "fixed": len(sepsis.FIXED)},
        (cases, sepsis.reward(), False),
    )


def _sepsis_case(episode: Episode) -> Case:
    truth, vectors = sepsis.SimulatedSepsis(), sepsis.action_set(episode)
    case = Case(episode, vectors, lambda sequences: _follow(truth, case, sequences))
    return case


def _sepsis_cohort(patients: int, seed: int) -> sepsis.SepsisCohort:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cohort.csv"
        sepsis.write_cohort(path, patients, seed)
        return sepsis.read_cohort(path, edges=sepsis.EDGES)
