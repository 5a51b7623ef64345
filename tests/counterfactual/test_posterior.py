"""Explanations over draws of a learned table: bounds against every policy, claims against truth."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.counterfactual.continuous.setting import worst_mean
from counterplan.counterfactual.discrete.budget_dp import prepare
from counterplan.counterfactual.discrete.dynamic_program import PolicyTable, evaluate
from counterplan.counterfactual.discrete.laws import Law
from counterplan.counterfactual.discrete.posterior import (
    CHOOSING,
    PosteriorDP,
    PosteriorExplanation,
    _values,
)
from counterplan.errors import InputError, NotApplicableError
from counterplan.scm.estimate import Evidence, count_transitions, estimate_mdp
from counterplan.testing import random_episode


def learned(seed: int, n: int, size: int = 2) -> tuple[cp.TabularMDP, cp.TabularMDP, cp.Episode]:
    """A process, what is estimated from n of its episodes, and one of them."""
    rng = np.random.default_rng(seed)
    truth = cp.TabularMDP(rng.dirichlet(np.ones(size), size=(size, 2)), rng.normal(size=(size, 2)))
    episodes = [random_episode(rng, truth, 3) for _ in range(n)]
    counts = count_transitions(episodes, size, 2)
    return truth, estimate_mdp(counts, truth.rewards, prior=1.0), episodes[0]


def choosing(model: cp.TabularMDP, episode: cp.Episode) -> list[cp.TabularMDP]:
    return list(Evidence.of(model, "risk=").halves(episode)[0].draws(CHOOSING))


def by_member(model: cp.TabularMDP, found: PosteriorExplanation) -> np.ndarray:
    """What the draws that chose say of a policy, asked one by one."""
    every = []
    for member in choosing(model, found.episode):
        setting, law = prepare(Problem(member, found.episode, found.k))
        every.append(evaluate(setting, law, found.process.table)[found.k])
    return np.array(every)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("risk", [1.0, 0.3])
def test_no_policy_beats_the_bound_and_the_value_is_that_of_the_members(
    seed: int, risk: float
) -> None:
    _, model, episode = learned(seed, 5)
    k = 2
    found = cp.explain(model, episode, k, risk=risk)
    assert isinstance(found, PosteriorExplanation)
    assert found.value == pytest.approx(worst_mean(by_member(model, found), risk), abs=1e-9)
    members = choosing(model, episode)
    settings = [prepare(Problem(one, episode, k))[0] for one in members]
    shape, best = (len(episode), 2, k + 1), -np.inf
    changeable = [(t, s) for t in range(3) for s in range(2) if t or s == episode.states[0]]
    # Every policy of (step, state), with budget left or without: 2^5, as long as budget lasts.
    for choice in itertools.product(range(2), repeat=len(changeable)):
        actions = np.empty(shape, dtype=np.int16)
        actions[:] = episode.actions[:, None, None]
        for (t, s), action in zip(changeable, choice, strict=True):
            actions[t, s, 1:] = action
        table = PolicyTable(actions[..., None])
        said = [
            evaluate(setting, Law(one, episode), table)[k]
            for setting, one in zip(settings, members, strict=True)
        ]
        best = max(best, float(worst_mean(np.array(said), risk)))
    assert best <= found.bound + 1e-9
    assert found.factual_value <= found.value + 1e-9


def test_words_and_fields_are_those_of_other_ensembles() -> None:
    _, model, episode = learned(7, 30)
    every = cp.frontier(model, episode, 2, risk=0.25)
    assert every[0].value == pytest.approx(every[0].factual_value)
    assert every[0].harm == 0.0
    found = every[2]
    assert found.improvement == pytest.approx(found.outcomes.mean() - found.factual_value)
    assert found.interval.low - 1e-9 <= found.improvement <= found.interval.high + 1e-9
    assert 0.0 <= found.harm <= 1.0
    assert found.guaranteed <= found.value + 1e-9 or found.harm == 0.0
    assert "16 draws" in found.method
    assert found.status in ("optimal", "limit")
    alone = cp.explain(model, episode, 2, risk=0.25)
    assert alone.value == pytest.approx(found.value, abs=1e-12)


def test_claims_hold_for_processes_that_come_from_the_prior() -> None:
    # Truth and model share the prior here, so posterior intervals hold as often as they say, also
    # for what was chosen: of 60, at 0.9, fewer than 48 would have a chance of 0.2 %.
    held, claimed, true = 0, 0.0, 0.0
    for seed in range(60):
        truth, model, episode = learned(100 + seed, 10, size=3)
        found = cp.explain(model, episode, 2, risk=1.0)
        setting, _ = prepare(Problem(truth, episode, 2))
        gain = evaluate(setting, Law(truth, episode), found.process.table)[2]
        gain -= found.factual_value
        held += found.interval.low - 1e-9 <= gain <= found.interval.high + 1e-9
        claimed, true = claimed + found.improvement, true + gain
    assert held >= 48
    assert 0.8 < claimed / true < 1.25


def test_a_count_that_no_row_admits_is_no_other_rows() -> None:
    """Where an end is known, data that contradicts it says nothing, of no pair."""
    walk = cp.Episode([0, 1, 2, 0, 1, 2, 0, 1, 2], [0] * 9)
    counts = count_transitions([walk], 3, 1)
    model = estimate_mdp(counts, np.zeros((3, 1)), prior=cp.scm.Pooled({1: 1}))
    known = Evidence.of(model, "risk=")
    for state, seen in ((0, [0.0, 3.0, 0.0]), (1, [0.0, 0.0, 0.0]), (2, [2.0, 0.0, 0.0])):
        row = slice(*known.indptr[known.row_of[state, 0] :][:2])
        found = np.zeros(3)
        found[known.indices[row]] = known.counts[row]
        assert found.tolist() == seen


def test_halves_share_out_all_that_was_seen_but_the_episode() -> None:
    _, model, episode = learned(1, 12, size=3)
    known = Evidence.of(model, "risk=")
    one, other = known.halves(episode, seed=3)
    own = count_transitions([episode], 3, 2).transitions
    for pair in np.ndindex(3, 2):
        row = slice(*known.indptr[known.row_of[pair] :][:2])
        prior, seen = known.posterior[row] - known.counts[row], known.counts[row]
        both = one.posterior[row] + other.posterior[row] - 2.0 * prior
        assert both == pytest.approx(seen + own[pair][known.indices[row]], abs=1e-9)
        assert (one.posterior[row] >= prior + own[pair][known.indices[row]] - 1e-9).all()
    assert 0.3 < (one.posterior.sum() - other.posterior.sum()) / known.counts.sum() + 0.5 < 0.7


def test_one_policy_under_one_member_is_a_forward_pass() -> None:
    _, model, episode = learned(3, 8, size=4)
    found = cp.explain(model, episode, 2, risk=0.25)
    assert isinstance(found, PosteriorExplanation)
    for k, member in itertools.product(range(3), Evidence.of(model, "risk=").draws(3, 5)):
        setting, law = prepare(Problem(member, episode, 2))
        said = _values(setting, found.process.table, k, [member])
        assert said == pytest.approx(evaluate(setting, law, found.process.table)[k], abs=1e-9)


def test_a_bound_is_left_out_on_demand() -> None:
    _, model, episode = learned(3, 8, size=4)
    with_bound = cp.explain(model, episode, 2, risk=0.25)
    without = cp.explain(model, episode, 2, risk=0.25, solver=PosteriorDP(bounded=False))
    assert without.value == with_bound.value
    assert without.bound == np.inf
    assert without.status == "heuristic"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"risk": 0.0}, "risk is 0.0: expected a share of draws above 0"),
        ({"risk": 0.5, "doubt": 0.2}, "for risk= leave solver= and doubt= out"),
        ({"risk": 0.5, "solver": cp.baselines.Greedy()}, "risk= is for the exact solver"),
    ],
)
def test_mistakes(options: dict[str, object], message: str) -> None:
    _, model, episode = learned(0, 5)
    with pytest.raises((InputError, NotApplicableError), match=message):
        cp.explain(model, episode, 1, **options)  # type: ignore[call-overload]
    with pytest.raises(InputError, match="does not know the counts"):
        cp.explain(model.without_data(), episode, 1, risk=0.5)
