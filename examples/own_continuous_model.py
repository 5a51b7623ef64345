"""A continuous causal model of your own: noise that multiplies, and a proof all the same.

A drug lowers a level that the body restores towards 1; luck multiplies what comes out:

    level' = (level + 0.3 (1 - level) - 0.25 dose) * u        so        u = level' / (...)

`infer` reads u off what happened, `step` replays it. With a Lipschitz constant of the step (here
0.7 u, since the level enters with a factor 0.7) the search can prove its answer.
"""

import numpy as np

import counterplan as cp
from counterplan.scm import PointSCM
from counterplan.testing import check_scm


class DrugLevel(PointSCM):
    """One feature, the level; one number per action, the dose."""

    def infer(self, states: np.ndarray, actions: np.ndarray, after: np.ndarray) -> np.ndarray:
        """The luck of each transition."""
        return after / self._expected(states, actions)

    def step(self, states: np.ndarray, actions: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """The next levels with that luck."""
        return self._expected(states, actions) * noise

    def lipschitz(self, noise: np.ndarray) -> np.ndarray:
        """How fast the next level can change with the level."""
        return 0.7 * np.abs(noise[:, 0])

    @staticmethod
    def _expected(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return states + 0.3 * (1.0 - states) - 0.25 * actions


doses = np.array([[0.0], [0.5], [1.0]])
rng = np.random.default_rng(3)
scm = DrugLevel()
taken = rng.integers(3, size=11)
levels = [np.array([[2.0]])]
for dose in doses[taken]:
    levels.append(scm.step(levels[-1], dose[None], rng.lognormal(0.1, 0.15, size=(1, 1))))
episode = cp.Episode(np.concatenate(levels), taken)
check_scm(scm, episodes=[episode], actions=doses)

best = cp.explain(scm, episode, k=3, actions=doses, reward=cp.LinearReward([-1.0]))
print(f"sum of levels {-best.factual_value:.2f} observed, {-best.value:.2f} with three changes")
for change in best.changes:
    before, after = doses[change.observed, 0], doses[change.alternative, 0]
    print(f"  step {change.t}: dose {before:g} -> {after:g}")
print(f"{best.status.advice} ({best.stats['nodes_expanded']:.0f} nodes)")
