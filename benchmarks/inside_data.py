"""What it brings to search inside the data: `python -m benchmarks.inside_data` in the repository's
root.

A ward in which drugs follow severity: the mild drug is for the mildly ill, the strong one for the
severely ill, whom alone it helps. So some pairs of state and drug hardly occur, and a model says
about them what it likes. Models are learned from 500 patients; what they propose for 100 fresh ones
(sepsis: those of 40 who stay long enough) is replayed by the simulator with their own noise.
Proposals are searched for anywhere, kept if they turn out to be inside the data, or searched for
inside it. Writes results/inside_data.md. Some two minutes of processor time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import counterplan as cp
from counterplan.counterfactual.discrete.dynamic_program import evaluate
from counterplan.counterfactual.discrete.laws import law_of
from counterplan.domains import sepsis
from counterplan.scm import count_transitions, estimate_mdp
from counterplan.scm.support import collect_seen
from counterplan.scm.training import Training
from experiments import ground_truth

RESULTS = Path(__file__).parent / "results"
PATIENTS, FRESH, STEPS, K = 500, 100, 10, 2
NODES = 3000
# Doses of the mild and of the strong drug.
DRUGS = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
CONSTANTS = {"no constants": None, "constants 1.0, 0.1": (1.0, 0.1)}


def effect(severity: Any, mild: Any, strong: Any) -> Any:
    """What drugs add to severity."""
    helped = 1.2 / (1 + np.exp(2 * (severity - 3))) - 0.6 / (1 + np.exp(-2 * (severity - 5)))
    saved = 2.2 / (1 + np.exp(-1.5 * (severity - 5))) - 2.0 / (1 + np.exp(1.5 * (severity - 3)))
    return mild * strong - mild * helped - strong * saved


def prescribed(severity: Any, rng: np.random.Generator) -> Any:
    """The number of what is given: strong for severe illness, mild for the rest."""
    severe = 1 / (1 + np.exp(-3 * (severity - 4)))
    strong = rng.random(np.shape(severity)) < 0.75 * severe
    mild = rng.random(np.shape(severity)) < 0.6 - 0.5 * severe
    return 2 * mild + strong


@dataclass(frozen=True)
class Ward:
    """Age is fixed; severity, reserve and pressure move, and so do measurements that say little."""

    extra: int

    def step(self, x: Any, drugs: Any, noise: Any) -> Any:
        """(n, D) the next states."""
        age, severity, reserve, pressure = x[:, :4].T
        moved = 0.85 * severity + 0.5 + 0.3 * (reserve < 0.3) + 0.002 * (age - 60)
        moved = moved + effect(severity, *drugs.T) + 0.4 * noise[:, 1]
        reserve = 0.95 * reserve + 0.03 - 0.1 * drugs[:, 1] + 0.03 * noise[:, 2]
        pressure = 0.7 * pressure + 0.3 * (90 - 4 * severity) + 3 * noise[:, 3]
        rest = 0.8 * x[:, 4:] + 0.1 * severity[:, None] + 0.6 * noise[:, 4:]
        return np.column_stack([age, moved, reserve, pressure, rest])

    def simulate(self, patients: int, seed: int) -> Iterator[ground_truth.Case]:
        """Patients with what would truly have followed other drugs."""
        rng = np.random.default_rng(seed)
        for _ in range(patients):
            severity = np.clip(rng.gamma(4.0), 0.3, 12.0)
            x = np.array([rng.normal(60, 12), severity, rng.uniform(0.2, 1), 90 - 4 * severity])
            states, noise = [np.append(x, rng.normal(size=self.extra))], []
            taken = []
            for _ in range(STEPS - 1):
                taken.append(int(prescribed(states[-1][1], rng)))
                noise.append(rng.normal(size=(1, 4 + self.extra)))
                states.append(self.step(states[-1][None], DRUGS[taken[-1]][None], noise[-1])[0])
            episode = cp.Episode(np.array(states), np.array(taken))
            yield ground_truth.Case(episode, DRUGS, self._replay(states[0], noise))

    def _replay(self, first: Any, noise: list[Any]) -> Callable[[Any], Any]:
        def replay(sequences: Any) -> Any:
            states = [np.repeat(first[None], len(sequences), axis=0)]
            for t, same in enumerate(noise):
                drugs = DRUGS[sequences[:, t]]
                states.append(self.step(states[-1], drugs, np.repeat(same, len(drugs), axis=0)))
            return np.stack(states, axis=1)

        return replay


def ward(extra: int, lipschitz: tuple[float, float] | None) -> ground_truth.Learned:
    process, weights = Ward(extra), np.eye(4 + extra)[1]
    cohort = [case.episode for case in process.simulate(PATIENTS, 1)]
    model = fitted(cp.Transitions.collect(cohort, DRUGS), lipschitz, fixed=1)
    return ground_truth.Learned(
        model, list(process.simulate(FRESH, 2)), cp.LinearReward(-weights), enumerable=True
    )


def sepsis_ward(lipschitz: tuple[float, float] | None) -> ground_truth.Learned:
    cohort, fresh = (ground_truth._sepsis_cohort(n, seed) for n, seed in ((1000, 0), (40, 99)))
    cases = [ground_truth._sepsis_case(episode) for episode in fresh.episodes]
    training = Training(scaling=sepsis.scaling(cohort), progress=False)
    transitions, fixed = cp.Transitions.collect(cohort.episodes), len(sepsis.FIXED)
    model = fitted(transitions, lipschitz, fixed=fixed, training=training)
    return ground_truth.Learned(model, cases, sepsis.reward(), enumerable=False)


def fitted(transitions: Any, lipschitz: Any, **more: Any) -> cp.NeuralSCM:
    given = {"hidden": 64, "lipschitz": lipschitz, "training": Training(progress=False), **more}
    scm = cp.NeuralSCM.fit(transitions, **given)
    return replace(scm, seen=collect_seen(transitions, scm.scaling))


def vectors(learned: ground_truth.Learned) -> list[str]:
    """Rows about states that are vectors."""
    found: dict[str, list[tuple[float, float, float, bool]]] = {"anywhere": [], "inside": []}
    for case in learned.cases:
        before = ground_truth._outcomes(learned, case.episode.states[None])[0]
        for name, supported in (("anywhere", False), ("inside", True)):
            started = time.process_time()
            best = cp.explain(
                learned.model,
                case.episode,
                K,
                actions=case.vectors,
                reward=learned.reward,
                limits=cp.Limits(nodes=NODES),
                constraints=cp.Constraints(supported=supported),
            )
            seconds = time.process_time() - started
            true = ground_truth._outcomes(learned, case.replay(best.actions[None]))[0] - before
            found[name].append((best.improvement, true, seconds, bool(best.support.supported)))
    return rows(found)


def rows(found: dict[str, list[tuple[float, float, float, bool]]]) -> list[str]:
    anywhere = found["anywhere"]
    kept = [one if one[3] else (0.0, 0.0, 0.0, True) for one in anywhere]
    usual = np.median([one[2] for one in anywhere])
    lines = []
    for name, ones in (
        ("anywhere", anywhere),
        ("filtered afterwards", kept),
        ("inside the data", found["inside"]),
    ):
        claimed, true, seconds, _ = np.array(ones, dtype=np.float64).T
        ratio = "" if ones is kept else f"{np.median(seconds) / usual:.2f}"
        lines.append(
            f"{name} | {np.mean(claimed > 1e-9):.0%} | {claimed.mean():.2f} | {true.mean():.2f} | "
            f"{np.mean(true < -1e-9):.0%} | {ratio} |"
        )
    return lines


def discrete() -> list[str]:
    """The ward in eleven levels of severity, counted; truth by the ward's own probabilities."""
    severity, rng = np.arange(11.0), np.random.default_rng(0)
    means = np.stack([0.85 * severity + 0.5 + effect(severity, *drugs) for drugs in DRUGS], axis=1)
    chances = np.exp(-0.5 * (severity - means[..., None]) ** 2)
    truth = cp.TabularMDP(
        chances / chances.sum(axis=2, keepdims=True), np.tile(-severity, (4, 1)).T
    )
    cohort = []
    for _ in range(PATIENTS + FRESH):
        states, actions = [int(rng.integers(11))], []
        for _ in range(STEPS):
            actions.append(int(prescribed(float(states[-1]), rng)))
            states.append(int(rng.choice(11, p=truth.row(states[-1], actions[-1]))))
        cohort.append(cp.Episode(states[:-1], actions))
    counts = count_transitions(cohort[:PATIENTS], 11, 4)
    model = estimate_mdp(counts, truth.rewards).with_data(counts.visits)
    found: dict[str, list[tuple[float, float, float, bool]]] = {"anywhere": [], "inside": []}
    for episode in cohort[PATIENTS:]:
        law = law_of(cp.GumbelMaxSCM(truth), episode)
        for name, supported in (("anywhere", False), ("inside", True)):
            started = time.process_time()
            best = cp.explain(model, episode, K, constraints=cp.Constraints(supported=supported))
            seconds = time.process_time() - started
            process = best.process
            value = evaluate(replace(process.setting, mdp=truth), law, process.table)[-1]
            true = float(value) - truth.outcome(episode)
            found[name].append((best.improvement, true, seconds, bool(best.support.supported)))
    return rows(found)


def main() -> int:
    """Measure, print and write."""
    lines = [
        "# Searching inside the data",
        "",
        f"Written by `python -m benchmarks.inside_data`. Wards: {PATIENTS} patients, {FRESH} fresh "
        f"ones; sepsis: 1,000 and those of 40 who stay long enough. At most {K} changes. Share of "
        "patients with a proposal, mean improvement claimed and true, share of patients for whom "
        "it is worse than what was done; processor time of a search, median, beside that of one "
        "that may go anywhere.",
        "",
        "| ward | searched | proposals | claimed | true | worse | time |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    measured = [("11 levels, counted", discrete())]
    for text, constants in CONSTANTS.items():
        for extra in (0, 14):
            name = f"{4 + extra} features, {text}"
            measured.append((name, vectors(ward(extra, constants))))
        measured.append((f"sepsis, {text}", vectors(sepsis_ward(constants))))
    for name, found in measured:
        lines += [f"| {name if n == 0 else ''} | {line}" for n, line in enumerate(found)]
    text = "\n".join(lines) + "\n"
    print(text)
    (RESULTS / "inside_data.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
