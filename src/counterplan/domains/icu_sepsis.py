"""ICU-Sepsis v2: sepsis treatment in intensive care as a tabular MDP, from real MIMIC-III records.

States 0..712 are clusters of patients, 713 is death, 714 survival, 715 the absorbing state that
follows either. The 25 actions are five levels each of intravenous fluids and vasopressors, numbered
5 * fluids + vasopressor. A pair is admissible if the clinicians chose it often enough to estimate
its effect; other actions behave like the average admissible one of the state.

The outcome of an episode is a probability of survival. Being discharged alive earns 1 in the
survival state. Whoever is still in treatment in the last state of an episode is valued at the
chance of surviving from there under usual care, the exact solution of

    v(s) = sum_a b(a | s) sum_s' P(s' | s, a) (1[s' = survival] + v(s'))

over the states 0..712, where b is what clinicians do.

The model is that of the Python package icu-sepsis 2.0.1 (Choudhary, Gupta and Thomas, MIT licence
in data/LICENSE.icu-sepsis), re-encoded by tools/encode_icu_sepsis.py. It is a benchmark: nothing
here guides the care of patients.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterplan.core.episode import Episode
from counterplan.core.shown import module_tells
from counterplan.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    Seed,
    generator,
    whole_number,
)
from counterplan.scm.tabular import TabularMDP
from counterplan.tables.models import OUTCOME

if TYPE_CHECKING:
    from scipy.sparse import csr_array

DEATH = 713
SURVIVAL = 714
ABSORBING = 715
LEVELS = 5
NO_TREATMENT = 0


@dataclass(frozen=True, eq=False)
class IcuSepsis:
    """The model and what clinicians do in it.

    mdp        716 states, 25 actions; final_rewards is survival under usual care
    behaviour  (S, A) probabilities of the clinicians' actions, admissible ones only
    sofa       (S,) mean SOFA score (organ failure) of the patients in a state
    """

    mdp: TabularMDP
    behaviour: FloatArray
    sofa: FloatArray

    def __repr__(self) -> str:
        return f"IcuSepsis(states={self.mdp.n_states}, actions={self.mdp.n_actions})"

    def sample_episodes(self, n: int, seed: Seed, horizon: int = 20) -> tuple[Episode, ...]:
        """n patients under usual care, until death, survival or the end of the horizon.

        The death or survival state is the episode's last; the action there is "no treatment".
        """
        n = whole_number(n, "n", minimum=1)
        horizon = whole_number(horizon, "horizon", minimum=1)
        rng = generator(seed)
        sampler = TransitionSampler(self.mdp)
        states = np.empty((n, horizon), dtype=np.int64)
        actions = np.empty((n, horizon), dtype=np.int64)
        states[:, 0] = rng.choice(self.mdp.n_states, size=n, p=self.mdp.initial)
        for t in range(horizon):
            drawn = draw_actions(self.behaviour, states[:, t], rng)
            actions[:, t] = np.where(states[:, t] < DEATH, drawn, NO_TREATMENT)
            if t < horizon - 1:
                states[:, t + 1] = sampler.draw(states[:, t], actions[:, t], rng)
        lengths = (states < DEATH).sum(axis=1) + 1
        return tuple(
            Episode(states[i, :length], actions[i, :length], id=f"patient {i + 1:04d}")
            for i, length in enumerate(lengths)
        )

    def died(self, episode: Episode) -> bool:
        """Whether the episode ends in death (and not alive, discharged or still in treatment)."""
        return bool(episode.states[-1] == DEATH)


def load() -> IcuSepsis:
    """The model as shipped with the package."""
    with (
        files(__package__).joinpath("data", "icu_sepsis.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as stored,
    ):
        arrays: dict[str, NDArray[Any]] = dict(stored)
    admissible, sofa = arrays["admissible"], arrays["sofa"]
    initial = arrays["initial"].astype(np.float64)
    rows = _admissible_rows(arrays, n_states=len(admissible))
    behaviour = _behaviour(arrays["expert"], admissible)
    rewards = np.zeros(admissible.shape)
    rewards[SURVIVAL] = 1.0
    mdp = TabularMDP(
        _transitions(rows, admissible),
        rewards,
        admissible=admissible,
        initial=initial / initial.sum(),
        final_rewards=_usual_care_survival(rows, behaviour, admissible),
        state_labels=[
            *(f"state {state} (SOFA {score:.1f})" for state, score in enumerate(sofa[:DEATH])),
            *("death", "survival", "absorbing"),
        ],
        action_labels=[f"fluids {a // LEVELS}, vasopressor {a % LEVELS}" for a in range(LEVELS**2)],
    )
    about = {OUTCOME: {"name": "survival probability", "percent": True}}
    return IcuSepsis(mdp.with_data(about=about), behaviour, sofa)


def _admissible_rows(arrays: dict[str, NDArray[Any]], n_states: int) -> csr_array:
    """(admissible pairs, S) relative frequencies; pairs in (state, action) order."""
    from scipy.sparse import csr_array

    indptr = np.concatenate([[0], np.cumsum(arrays["row_lengths"], dtype=np.int64)])
    lengths = np.diff(indptr)
    # Next states are stored as gaps within each row: sum them all, then take off what the rows
    # before have contributed.
    running = np.cumsum(arrays["state_gaps"], dtype=np.int64)
    before = np.concatenate([[0], running])[indptr[:-1]]
    counts = arrays["counts"].astype(np.float64)
    totals = np.add.reduceat(counts, indptr[:-1])
    return csr_array(
        (counts / np.repeat(totals, lengths), running - np.repeat(before, lengths), indptr),
        shape=(len(lengths), n_states),
    )


def _transitions(rows: csr_array, admissible: BoolArray) -> list[csr_array]:
    """One (S, S) matrix for each action; inadmissible actions get the mean of admissible ones."""
    from scipy.sparse import csr_array, diags_array, vstack

    n_states, n_actions = admissible.shape
    state_of_row = np.nonzero(admissible)[0]
    n_rows = len(state_of_row)
    membership = csr_array((np.ones(n_rows), (state_of_row, np.arange(n_rows))))
    means = diags_array(1.0 / admissible.sum(axis=1)) @ (membership @ rows)
    every_row = csr_array(vstack([rows, means]))
    row_of = np.repeat(n_rows + np.arange(n_states)[:, None], n_actions, axis=1)
    row_of[admissible] = np.arange(n_rows)
    return [every_row[row_of[:, action]] for action in range(n_actions)]


def _behaviour(expert_counts: NDArray[Any], admissible: BoolArray) -> FloatArray:
    """What clinicians did, admissible actions only; uniform where nothing of it is left."""
    weights = np.where(admissible, expert_counts, 0).astype(np.float64)
    unknown = weights.sum(axis=1) == 0
    weights[unknown] = admissible[unknown]
    normalised: FloatArray = weights / weights.sum(axis=1, keepdims=True)
    return normalised


def _usual_care_survival(
    rows: csr_array, behaviour: FloatArray, admissible: BoolArray
) -> FloatArray:
    """(S,) the chance to reach survival later on; 0 in the three states where nothing follows."""
    from scipy.sparse import csr_array

    n_rows = rows.shape[0]
    choice = csr_array((behaviour[admissible], (np.nonzero(admissible)[0], np.arange(n_rows))))
    under_care = (choice @ rows).toarray()
    survival = np.zeros(len(behaviour))
    survival[:DEATH] = np.linalg.solve(
        np.eye(DEATH) - under_care[:DEATH, :DEATH], under_care[:DEATH, SURVIVAL]
    )
    return survival


class TransitionSampler:
    """Draws next states for many (state, action) pairs at once.

    All rows share one cumulative sum: a uniform number, shifted to where its row starts, is looked
    up by bisection, so that a draw costs O(log nnz) whatever the number of states.
    """

    def __init__(self, mdp: TabularMDP) -> None:
        self._row_of = mdp.row_of
        self._rows = mdp.rows
        self._cumulative = np.concatenate([[0.0], np.cumsum(mdp.rows.probabilities)])

    def draw(self, states: IntArray, actions: IntArray, rng: np.random.Generator) -> IntArray:
        """One next state for each pair."""
        rows = self._row_of[states, actions]
        start, end = self._rows.indptr[rows], self._rows.indptr[rows + 1]
        target = self._cumulative[start] + rng.random(len(rows))
        position = np.searchsorted(self._cumulative, target, side="right") - 1
        # Rounding of the shared sum may push a draw just over the end of its row.
        position = np.clip(position, start, end - 1)
        return self._rows.indices[position].astype(np.int64)


def draw_actions(policy: FloatArray, states: IntArray, rng: np.random.Generator) -> IntArray:
    """One action for each state from a stochastic policy of shape (S, A)."""
    cumulative = np.cumsum(policy[states], axis=1)
    threshold = rng.random(len(states)) * cumulative[:, -1]
    actions: IntArray = (cumulative > threshold[:, None]).argmax(axis=1)
    return actions


module_tells(globals())
