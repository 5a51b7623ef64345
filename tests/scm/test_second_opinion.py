"""Another form and halves of the data: the transformation, the mixture, and what they find."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import stdtrit

import counterplan as cp
from counterplan.core.reward import EpisodeReward, LinearReward
from counterplan.scm.second_opinion import UNKNOWN, Warp, stacked
from counterplan.scm.transitions import Transitions


def walks(count: int, skewed: bool, seed: int = 0) -> Transitions:
    """s' = 0.8 s + a + e; or its exponential, in which noise is no longer added."""
    rng = np.random.default_rng(seed)
    before, after, actions, episode = [], [], [], []
    for number in range(count):
        s = rng.normal()
        for _ in range(8):
            a = float(rng.integers(2))
            to = 0.8 * s + a - 0.5 + 0.4 * rng.normal()
            before.append(s), after.append(to), actions.append(a), episode.append(number)
            s = to
    states = [np.exp(x) if skewed else np.array(x) for x in (before, after)]
    return Transitions(
        states[0][:, None], np.array(actions)[:, None], states[1][:, None], np.array(episode)
    )


def test_what_is_encoded_is_decoded() -> None:
    data = walks(50, skewed=True)
    warp = Warp.of(data, 0)
    np.testing.assert_allclose(warp.decode(warp.encode(data.after)), data.after, rtol=1e-9)
    step = 1e-6
    slope = (warp.encode(data.after + step) - warp.encode(data.after - step)) / (2 * step)
    np.testing.assert_allclose(warp.log_slopes(data.after), np.log(slope), atol=1e-5)
    # Nearly a logarithm: of a lognormal feature the third moment all but vanishes.
    z = warp.encode(data.after)
    assert abs((((z - z.mean()) / z.std()) ** 3).mean()) < 0.5


def test_the_better_form_has_the_weight() -> None:
    ours = np.zeros((200, 3))
    theirs = np.tile([-1.0, 0.0, 1.0], (200, 1))
    # Equal densities leave the weight where it began.
    assert stacked(ours, theirs) == pytest.approx([0.0, 0.5, 1.0], abs=1e-6)


def test_noise_of_another_form_is_noticed() -> None:
    found = {}
    for skewed in (False, True):
        model = cp.SmoothSCM.fit(walks(150, skewed), members=2)
        assert min(model.about["training"]["widened"]) >= 1.0
        (found[skewed],) = model.form
    assert found[False] < 0.05 < 0.15 < found[True]


def test_halves_that_are_too_small_leave_it_wide() -> None:
    model = cp.SmoothSCM.fit(walks(12, skewed=False), members=2)
    assert (model.about["training"]["widened"], model.form) == ([UNKNOWN[0]], UNKNOWN[1])


def test_a_share_below_0_is_refused() -> None:
    model = cp.SmoothSCM.fit(walks(40, skewed=True), members=0)
    with pytest.raises(cp.errors.InputError, match="form: expected 1 shares from 0 on"):
        replace(model, form=np.array([-1.0]))


def test_claims_are_as_unsure_as_what_the_end_is_worth() -> None:
    data = walks(60, skewed=False)
    model = cp.SmoothSCM.fit(data, members=8)
    first = data.episode == 0
    states = np.append(data.before[first], data.after[first][-1:], axis=0)
    episode = cp.Episode(states, data.actions[first, 0].astype(int))
    change, squares = {6: 1 - int(episode.actions[6])}, {}
    for variance in (0.0, 0.3):
        end = LinearReward([1.0], 0.0, np.diag([9.0, variance]))
        reward = EpisodeReward(LinearReward([0.0]), (end,))
        found = cp.replay(model, episode, change, actions=[[0.0], [1.0]], reward=reward)
        squares[variance] = (found.interval.high - found.improvement) ** 2
        moved = (found.states[-1, 0] - states[-1, 0]) ** 2
    quantile = stdtrit(7, 0.95)
    assert squares[0.3] - squares[0.0] == pytest.approx(0.3 * moved * quantile**2, rel=0.05)
