"""Smooth models: recovery of known processes, the posterior, members, files, certified slopes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad_vec

import counterplan as cp
from counterplan.errors import InputError
from counterplan.scm import Scaling
from counterplan.scm.cosine import gate_interval
from counterplan.scm.smooth import SmoothSCM
from counterplan.scm.smooth_training import Moments, _without_effects, chosen_scale, evidence
from counterplan.scm.transitions import Transitions
from counterplan.testing import check_scm

from .neural_support import CURVED, LINEAR, counterfactual_error, excess

# --- What is learned --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def curved() -> SmoothSCM:
    return SmoothSCM.fit(CURVED.episodes(150, 0), fixed=1, members=8)


def test_recovers_a_linear_process_from_little() -> None:
    scm = SmoothSCM.fit(LINEAR.episodes(60, 0), fixed=1)
    assert excess(scm, LINEAR) < 0.06
    assert counterfactual_error(scm, LINEAR) < 0.15


def test_recovers_a_curved_process_whose_noise_varies(curved: SmoothSCM) -> None:
    assert excess(curved, CURVED) < 0.06
    assert counterfactual_error(curved, CURVED) < 0.2


def test_needs_less_data_than_networks(curved: SmoothSCM) -> None:
    networks = cp.NeuralSCM.fit(
        CURVED.episodes(150, 0), fixed=1, hidden=32, lipschitz=None, epochs=60
    )
    assert curved.held_out_loss < networks.held_out_loss
    fresh = Transitions.collect(CURVED.episodes(100, 77))
    rows = fresh.before, fresh.actions, fresh.after
    assert curved.log_likelihood(*rows).mean() > networks.log_likelihood(*rows).mean()


def test_the_record_tells_how_well_episodes_held_out_are_predicted(curved: SmoothSCM) -> None:
    record = curved.about["training"]
    assert record["validation_episodes"] == 15
    assert record["reference_nll"]["linear"] > curved.held_out_loss
    # In the model's units densities are larger by the ranges.
    assert curved.scaling is not None
    shift = np.log(curved.scaling.state_range[1:]).sum()
    fresh = Transitions.collect(CURVED.episodes(100, 77))
    loss = -curved.log_likelihood(fresh.before, fresh.actions, fresh.after).mean() - shift
    assert curved.held_out_loss == pytest.approx(loss, abs=0.3)


def test_the_posterior_is_that_of_linear_regression() -> None:
    """With one group and known alpha and beta, the textbook formula; both maximise the evidence."""
    rng = np.random.default_rng(0)
    design, true = rng.normal(size=(200, 5)), rng.normal(size=5)
    targets = design @ true + 0.3 * rng.normal(size=200)
    moments = Moments(design.T @ design, design.T @ targets, float(targets @ targets), 200)
    found = evidence(moments, np.zeros(5, dtype=np.int64), np.arange(5))
    precision = found.beta * design.T @ design + found.alpha[0] * np.eye(5)
    mean = found.beta * np.linalg.solve(precision, design.T @ targets)
    assert found.mean == pytest.approx(mean)
    assert found.factor @ found.factor.T == pytest.approx(precision)

    def log_evidence(alpha: float, beta: float) -> float:
        covariance = np.eye(200) / beta + design @ design.T / alpha
        white = np.linalg.solve(covariance, targets)
        return float(-0.5 * (targets @ white + np.linalg.slogdet(covariance)[1]))

    best = log_evidence(found.alpha[0], found.beta)
    for factor in (0.8, 1.25):
        assert log_evidence(factor * found.alpha[0], found.beta) < best
        assert log_evidence(found.alpha[0], factor * found.beta) < best


def test_inputs_that_do_not_matter_are_switched_off() -> None:
    rng = np.random.default_rng(1)
    design = rng.normal(size=(500, 6))
    targets = design[:, :2] @ [1.0, -1.0] + 0.1 * rng.normal(size=500)
    moments = Moments(design.T @ design, design.T @ targets, float(targets @ targets), 500)
    found = evidence(moments, np.arange(6) // 2, np.arange(6))
    assert found.alpha[0] < 10.0
    assert (found.alpha[1:] > 100.0).all()


# --- Members ----------------------------------------------------------------------------------


def test_members_are_draws_around_the_mean(curved: SmoothSCM) -> None:
    assert len(curved.members) == 8
    fresh = Transitions.collect(CURVED.episodes(40, 5))
    no_noise = np.zeros((len(fresh), 2))
    mean = curved.step(fresh.before, fresh.actions, no_noise)
    drawn = np.stack([one.step(fresh.before, fresh.actions, no_noise) for one in curved.members])
    true = CURVED.scm.step(fresh.before, fresh.actions, no_noise)
    away = np.sqrt(((drawn - mean) ** 2).mean(axis=0))[:, 1:]
    missed = np.abs(mean - true)[:, 1:]
    # They differ about as much as the mean is off, within the noise of eight draws.
    assert 0.4 < np.sqrt((away**2).mean() / (missed**2).mean()) < 2.5
    for member in curved.members:
        assert member.draws is None
        episode = CURVED.episodes(1, 9)[0]
        states = episode.states
        noise = member.abduct(episode)
        again = member.step(states[:-1], episode.actions, noise)
        assert again == pytest.approx(states[1:])


def test_members_know_less_where_data_is_missing() -> None:
    """Only small actions were tried: members agree on these, and not on large ones."""
    episodes = [
        replace(one, actions=np.minimum(one.actions, 1.0)) for one in CURVED.episodes(60, 3)
    ]
    scm = SmoothSCM.fit(episodes, fixed=1, members=12)
    states = np.concatenate([one.states[:-1] for one in episodes[:20]])

    def spread(dose: float) -> float:
        actions, nothing = np.full((len(states), 1), dose), np.zeros((len(states), 2))
        return float(
            np.std([one.step(states, actions, nothing) for one in scm.members], axis=0).mean()
        )

    assert spread(4.0) > 1.5 * spread(0.5)


def test_no_members_may_be_asked_for() -> None:
    scm = SmoothSCM.fit(LINEAR.episodes(30, 0), fixed=1, members=0)
    assert scm.draws is None
    assert scm.members == ()


# --- Files and settings -----------------------------------------------------------------------


def test_the_same_seed_gives_the_same_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        scm = SmoothSCM.fit(LINEAR.episodes(30, 0), fixed=1, seed=4)
        scm.save(tmp_path / f"{name}.safetensors")
    files = [(tmp_path / f"{name}.safetensors").read_bytes() for name in ("a", "b")]
    assert files[0] == files[1]


def test_draws_of_another_shape_are_refused(curved: SmoothSCM) -> None:
    assert curved.draws is not None
    with pytest.raises(InputError, match="draws: expected finite numbers of shape"):
        replace(curved, draws=curved.draws[:, :, 1:])


@pytest.mark.parametrize(
    ("settings", "says"),
    [({"members": -1}, "members"), ({"fixed": 3}, "fixed is 3"), ({"validation": 1.5}, "valid")],
)
def test_wrong_settings_are_refused(settings: dict[str, int], says: str) -> None:
    with pytest.raises(InputError, match=says):
        SmoothSCM.fit(LINEAR.episodes(30, 0), **{"fixed": 1, **settings})  # type: ignore[arg-type]


def test_categories_have_no_order() -> None:
    """Drug 1 helps, 0 and 2 harm: no line through 0, 1, 2 says so."""
    rng = np.random.default_rng(0)
    drug = rng.integers(0, 3, size=(80, 8))
    states = [rng.normal(size=80)]
    for t in range(8):
        effect = np.array([0.5, -0.8, 0.6])[drug[:, t]]
        states.append(0.8 * states[-1] + effect + 0.1 * rng.normal(size=80))
    course = np.stack(states, axis=1)
    episodes = [cp.Episode(course[i][:, None], drug[i][:, None].astype(float)) for i in range(80)]
    scaling = Scaling([0.0], [4.0], [0.0], [1.0], None, [3])
    scm = SmoothSCM.fit(episodes, scaling=scaling)
    after = scm.step(np.zeros((3, 1)), np.arange(3.0)[:, None], np.zeros((3, 1)))
    assert after[:, 0] == pytest.approx([0.5, -0.8, 0.6], abs=0.05)


# --- Slopes -----------------------------------------------------------------------------------


@given(st.floats(-50.0, 50.0), st.floats(0.0, 20.0), st.floats(-1.0, 1.0))
def test_gates_hold_every_chord(argument: float, reach: float, share: float) -> None:
    low, high = gate_interval(np.array(argument), np.array(reach))
    moved = share * reach
    # The chord's slope is the mean of the cosine's slopes along it, without cancellation.
    slope = quad_vec(lambda part: -np.sin(argument + part * moved), 0.0, 1.0)[0]
    assert low - 1e-9 <= slope <= high + 1e-9


def test_a_learned_model_and_its_members_pass_the_checks(curved: SmoothSCM) -> None:
    episodes = CURVED.episodes(3, 11)
    for scm in (curved, curved.members[0]):
        check_scm(scm, episodes=episodes)


@pytest.mark.parametrize("size", [0.0, 0.1, 1e3, 1e7])
def test_rows_without_effects_are_those_of_the_covariance(size: float) -> None:
    """However much larger effects are than noise: the sums of products stay positive."""
    rng = np.random.default_rng(4)
    starts = np.array([0, 3, 4, 11])
    psi, a = rng.normal(size=(15, 6)), size * rng.normal(size=(15, 2))
    left = _without_effects(psi, a, starts)
    for first, end in zip(starts, [3, 4, 11, 15], strict=True):
        rows = slice(first, end)
        if size < 1e6:
            covariance = np.eye(end - first) + a[rows] @ a[rows].T
            expected = psi[rows].T @ np.linalg.solve(covariance, psi[rows])
        else:  # what effects span is as good as gone
            rest = psi[rows] - a[rows] @ np.linalg.lstsq(a[rows], psi[rows])[0]
            expected = rest.T @ rest
        assert left[rows].T @ left[rows] == pytest.approx(expected, abs=1e-6)
    assert np.linalg.eigvalsh(left.T @ left).min() > -1e-12


@pytest.mark.parametrize("noise", ["normal", "heavy"])
def test_a_dose_that_does_nothing_is_not_advised(noise: str) -> None:
    """Not even for what it seems to do to the scale of the noise, which a counterfactual keeps."""
    rng, episodes = np.random.default_rng(2), []
    for number in range(300):
        x, doses = [rng.normal(10.0, 2.0)], []
        for _ in range(9):
            doses.append(float(np.clip(np.floor((x[-1] - 8) / 2 + 3 * rng.uniform() - 1), 0, 2)))
            luck = rng.normal() if noise == "normal" else rng.standard_t(3) / 1.7
            x.append(2.0 + 0.8 * x[-1] + 0.8 * luck)
        episodes.append(cp.Episode(np.array(x)[:, None], np.array(doses)[:, None], id=str(number)))
    model = SmoothSCM.fit(episodes, seed=0)
    options = np.array([[0.0], [1.0], [2.0]])
    given = {"actions": options, "reward": cp.LinearReward([-1.0])}
    sure = [cp.explain(model, one, k=2, **given).interval.low > 0.0 for one in episodes[:25]]
    assert not any(sure)


def test_actions_that_change_the_scale_are_found() -> None:
    rng = np.random.default_rng(2)
    inputs = rng.normal(size=(2_000, 3))
    linear = np.column_stack([inputs, np.ones(len(inputs))])
    spread = np.exp(0.4 * inputs[:, 2])
    found = chosen_scale(linear, spread * rng.normal(size=len(inputs)), 2)
    assert found[2] > 0.2
    assert abs(found[:2]).max() < 0.1
    assert chosen_scale(linear, rng.normal(size=len(inputs)), 2)[2] == 0.0
    assert chosen_scale(linear, rng.standard_t(3, size=len(inputs)), 2)[2] == 0.0
