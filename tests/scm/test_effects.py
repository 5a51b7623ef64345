"""What stays with an episode: found where it is, not found where it is not, and carried over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import counterplan as cp
from counterplan.errors import InputError
from counterplan.scm.effects import Effects, find_effects
from counterplan.scm.smooth import SmoothSCM

from .neural_support import DOSES, LEVEL, RESPONSE, patients_model, simulate

REWARD = cp.LinearReward([0.0, -1.0])


def true_improvement(episode: cp.Episode, own: float, changes: dict[int, int]) -> float:
    """Of severity, added up: what a changed dose does to it fades by 0.8 a step."""
    lower, total = 0.0, 0.0
    for t, dose in enumerate(episode.actions):
        lower = 0.8 * lower + own * (changes.get(t, dose) - dose)
        total += lower
    return total


def asked(model: SmoothSCM, response: float, level: float) -> tuple[np.ndarray, ...]:
    """True and claimed improvements by a higher dose at two steps, and their intervals."""
    rows = []
    for episode, own in simulate(80, 1, response, level):
        changes = {t: 2 for t in (1, 3) if episode.actions[t] != 2}
        if changes:
            found = cp.replay(model, episode, changes, actions=DOSES, reward=REWARD)
            truth = true_improvement(episode, own, changes)
            rows.append((truth, found.improvement, *found.interval))
    return tuple(np.array(rows).T)


def test_variances_are_found() -> None:
    model = patients_model()
    assert model.effects is not None
    # Of severity: the response in units of standardised doses, whose spread is that of 0, 1, 2.
    units = model.scaling.state_range[1]
    slope = np.sqrt(model.effects.variance[1, 3]) * units / np.sqrt(2.0 / 3.0)
    # A variance from 300 patients has a standard error of sqrt(2 / 300), 8 %, at least.
    assert slope == pytest.approx(RESPONSE, rel=0.15)
    shares = model.about["training"]["effects"]
    assert not shares[0]
    assert set(shares[1]) == {"level", "action component 0"}


def test_nothing_is_found_where_episodes_are_alike() -> None:
    assert patients_model(0.0, 0.0).effects is None
    assert "effects" not in patients_model(0.0, 0.0).about["training"]


def test_answers_know_the_patient() -> None:
    """Each patient's own response, read off the course, makes counterfactuals better, and their
    intervals hold."""
    model = patients_model()
    truth, claimed, low, high = asked(model, RESPONSE, LEVEL)
    plain = asked(replace(model, effects=None), RESPONSE, LEVEL)
    error, before = (np.abs(one[1] - one[0]).mean() for one in ((truth, claimed), plain))
    assert error < 0.5 * before
    # 80 patients: a share of 90 % has a standard error of 3.4 %.
    assert np.mean((low <= truth) & (truth <= high)) > 0.8


def test_effects_are_the_posterior_of_a_linear_regression() -> None:
    """Against weights of a plain Gaussian regression, solved as one system."""
    rng = np.random.default_rng(0)
    effects = Effects(
        centre=np.array([0.2, -0.1]), spread=np.array([1.5, 0.5]),
        variance=np.array([[0.3, 0.2, 0.4]]), noise=np.array([0.1]), normals=np.zeros((1, 1, 3)),
    )  # fmt: skip
    inputs, scale = rng.normal(size=(7, 2)), rng.uniform(0.5, 2.0, (7, 1))
    rests = rng.normal(size=(1, 7, 1))
    slopes = effects.drawn(inputs, rests, scale)[0, 0]
    f = np.column_stack([np.ones(7), (inputs - effects.centre) / effects.spread])
    prior, noise = np.diag(effects.variance[0]), np.diag(0.1 * scale[:, 0] ** 2)
    g = prior @ f.T @ np.linalg.solve(f @ prior @ f.T + noise, rests[0, :, 0])
    np.testing.assert_allclose(slopes[0] + inputs @ slopes[1:], f @ g, atol=1e-9)


def test_moments_are_those_of_all_pairs_of_steps() -> None:
    """With two steps each, variances are those of least squares over the products of pairs."""
    rng = np.random.default_rng(1)
    n = 4000
    inputs = rng.normal(size=(3 * n, 1))
    episode = np.repeat(np.arange(n), 3)
    g = rng.normal(size=n)[episode] * 0.8
    rests = (g * inputs[:, 0] + 0.5 * rng.normal(size=3 * n))[:, None]
    found = find_effects(inputs, rests, np.ones_like(rests), episode)
    assert found is not None
    assert found.variance[0] == pytest.approx([0.0, 0.64], abs=0.06)
    assert found.noise == pytest.approx([0.25], abs=0.03)


def test_members_still_reproduce_the_episode() -> None:
    model, (episode, _) = patients_model(), simulate(1, 6, RESPONSE, LEVEL)[0]
    found = cp.replay(model, episode, {}, actions=DOSES, reward=REWARD)
    np.testing.assert_allclose(found.states, episode.states, atol=1e-9)
    assert found.improvement == pytest.approx(0.0, abs=1e-9)
    plan = cp.replay(model, episode, {2: 0, 4: 1}, actions=DOSES, reward=REWARD)
    kept = cp.sensitivity(model, episode, plan, draws=2).at_rho[:, 0]
    assert kept.mean() == pytest.approx(plan.improvement, rel=1e-9)


def test_effects_of_another_shape_are_refused() -> None:
    model = patients_model()
    assert model.effects is not None
    wrong = model.effects._replace(noise=np.ones(5))
    with pytest.raises(InputError, match="noise of effects"):
        replace(model, effects=wrong)
    with pytest.raises(InputError, match="below 0"):
        replace(model, effects=model.effects._replace(variance=-model.effects.variance))
