"""Published simulators: their equations and facts, and that replaying what was done gives back what
happened."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import counterplan as cp
from experiments import glucose, tumour
from experiments.diabetes_sepsis import (
    ENDS,
    HORIZON,
    N_ACTIONS,
    N_STATES,
    OVER,
    Patient,
    Program,
    decode,
    doctors,
    encode,
    starts,
)

SHARED = Path(os.environ.get("COUNTERPLAN_SHARED", Path(__file__).parents[3] / "shared"))
needs_simglucose = pytest.mark.skipif(
    not glucose.installed(), reason="pip install --no-deps simglucose"
)


# --- The diabetes-sepsis program ----------------------------------------------------------------


@pytest.fixture(scope="module")
def mdp() -> cp.TabularMDP:
    return Program().mdp


@pytest.fixture(scope="module")
def patients(mdp: cp.TabularMDP) -> list[Patient]:
    return Program().simulate(doctors(mdp, 0.3), starts(60, 2), 2)


def published(name: str) -> np.ndarray:
    path = SHARED / "data" / "sepsis_sim" / name
    if not path.exists():
        pytest.skip("the published MDP is not here")
    return np.load(path)


def test_probabilities_are_those_of_the_published_mdp(mdp: cp.TabularMDP) -> None:
    """Which was counted from 10,000 draws of each pair: 47,176 deviations are standard normal, so
    the largest is below 6 (one in ten million runs would not be), and their spread is 1."""
    data = published("mdp.npz")
    counted = np.zeros((2, N_ACTIONS, OVER // 2, OVER // 2))
    counted[tuple(data["coords"].astype(int))] = data["prob"]
    found = []
    for diabetic, a, s in product(range(2), range(N_ACTIONS), range(OVER // 2)):
        start = diabetic * OVER // 2
        if ENDS[start + s] == 0.0:
            row = mdp.row(start + s, a)[start : start + OVER // 2]
            assert counted[diabetic, a, s][row == 0.0].max() == 0.0
            p = row[row > 0.0]
            off = counted[diabetic, a, s][row > 0.0] - p
            found.append((off / np.sqrt(p * (1.0 - p) / 1e4 + 1e-12))[p < 1.0])
    deviations = np.concatenate(found)
    assert abs(deviations).max() < 6.0
    assert deviations.std() == pytest.approx(1.0, abs=0.02)
    ends = data["reward"][:: len(data["reward"]) // 5000]
    places = data["coords"][:, :: len(data["reward"]) // 5000]
    np.testing.assert_array_equal(ends, ENDS[places[0].astype(int) * (OVER // 2) + places[3]])


def test_first_states_are_those_of_the_published_program() -> None:
    """Both are samples: the published of 10,000, ours of 20,000; five standard errors."""
    wanted = published("p_initial_state.npy")
    drawn = starts(20_000, 0)
    shares = np.bincount(drawn, minlength=OVER)[:OVER].reshape(2, -1)
    assert shares[1].sum() / shares.sum() < 0.2  # more diabetics start at an end
    for diabetic in range(2):
        n = shares[diabetic].sum()
        p = wanted[diabetic]
        error = np.sqrt(p * (1 - p) * (1 / n + 1 / 10_000)) + 1e-3
        assert (abs(shares[diabetic] / n - p) < 5.0 * error).all()


def test_both_ways_to_draw_have_one_mdp(mdp: cp.TabularMDP) -> None:
    other = Program("vitals").mdp
    for s, a in product(range(0, N_STATES, 37), range(N_ACTIONS)):
        np.testing.assert_allclose(other.row(s, a), mdp.row(s, a), atol=1e-12)


@pytest.mark.parametrize("version", ["draws", "vitals"])
def test_the_same_numbers_give_back_the_episode(version: str, mdp: cp.TabularMDP) -> None:
    program = Program(version)
    for patient in program.simulate(doctors(mdp, 0.3), starts(20, 3), 3):
        states, actions = patient.episode.states, patient.episode.actions
        for t in range(HORIZON - 1):
            step = program.step(int(states[t]), int(actions[t]), patient.numbers[t])
            assert step == states[t + 1]
        done = program.replay(patient, lambda t, s, used, taken=actions: int(taken[t]))
        assert done == mdp.outcome(patient.episode)
        assert program.expected(patient.episode, lambda t, s, used, taken=actions: int(taken[t])) \
            == pytest.approx(done, abs=1e-12)  # fmt: skip


@pytest.mark.parametrize("version", ["draws", "vitals"])
def test_counterfactual_rows_are_what_kept_numbers_do(version: str) -> None:
    """A million numbers, those kept that explain a step: shares within five standard errors."""
    program, rng = Program(version), np.random.default_rng(0)
    s, a = encode(1, (2, 1, 0, 3), 0), 1
    other, b = encode(1, (2, 0, 1, 3), 4), 6
    numbers = rng.uniform(size=(20_000, 13))
    seen = program.step(s, a, numbers[0])
    kept = [one for one in numbers if program.step(s, a, one) == seen]
    led = np.bincount([program.step(other, b, one) for one in kept], minlength=N_STATES)
    row = program.counterfactual_row(s, a, seen, other, b)
    error = np.sqrt(row * (1 - row) / len(kept))
    assert (abs(led / len(kept) - row) <= 5.0 * error + 1e-12).all()
    # Where nothing is known it is the MDP's row, whose chances average over what could be seen.
    before = sum(
        chance * program.counterfactual_row(s, a, int(after), other, b)
        for after, chance in enumerate(program.mdp.row(s, a))
        if chance > 0.0
    )
    np.testing.assert_allclose(before, program.mdp.row(other, b), atol=1e-12)


def test_intervals_hold_what_the_program_says(mdp: cp.TabularMDP, patients: list[Patient]) -> None:
    """The program is a causal model of its MDP, so no interval over all of them may miss it; what
    is best by the program is at least what the plan brings."""
    asked = [one for one in patients if mdp.outcome(one.episode) < 0.0][:4]
    assert len(asked) == 4
    for patient in asked:
        plan = cp.explain(mdp, patient.episode, 2)
        low, high = cp.value_interval(mdp, patient.episode, plan)
        for version in ("draws", "vitals"):
            program = Program(version)
            true = program.expected(patient.episode, plan.policy)
            assert low - 1e-9 <= true <= high + 1e-9
            assert true <= program.best(patient.episode, 2) + 1e-9


@pytest.mark.slow
def test_best_by_the_program_is_what_the_solver_finds(patients: list[Patient]) -> None:
    program = Program()
    episode = next(one.episode for one in patients if ENDS[one.episode.states].sum() < 0.0)
    assert program.best(episode, 2) == pytest.approx(
        cp.explain(program, episode, 2).value, abs=1e-9
    )


def test_states_have_numbers_both_ways() -> None:
    for state in range(0, OVER, 13):
        diabetic, vitals, action = decode(state)
        assert encode(diabetic, vitals, action) == state


# --- Tumour growth ------------------------------------------------------------------------------


def test_a_day_of_the_published_equation() -> None:
    rho, alpha, beta_c = 0.005, 0.1, 0.03
    volume, before, e = 100.0, 2.0, 0.004
    growth = 1 + rho * np.log(tumour.CAPACITY / volume) + e
    killed = beta_c * (before + 5.0) + alpha * 2.0 + alpha / 10 * 4.0
    after, left = tumour.day(
        np.array([volume]),
        np.array([before]),
        np.array([[1.0, 1.0]]),
        np.array([rho, alpha, beta_c]),
        np.array([e, 0.5]),
    )
    assert after[0] == pytest.approx(volume * (growth - killed), rel=1e-12)
    assert left[0] == pytest.approx(3.5)


def test_ends_stay() -> None:
    parameters, luck, nothing = np.array([0.01, 0.1, 0.03]), np.array([0.0, 0.5]), np.zeros((2, 2))
    volumes = np.array([0.0, tumour.DEADLY])
    after, _ = tumour.day(volumes, np.zeros(2), nothing, parameters, luck)
    np.testing.assert_array_equal(after, volumes)
    gone, _ = tumour.day(np.array([1e-10]), np.zeros(1), nothing[:1], parameters, luck)
    assert gone[0] == 0.0  # exp(-5.8e8 V) is above one half


def test_tumours_replayed_as_treated_are_what_was_seen() -> None:
    for patient in tumour.simulate(50, 4):
        diameters, drug = tumour.replay(patient, patient.actions[None])
        np.testing.assert_array_equal(diameters[0], patient.diameters)
        np.testing.assert_array_equal(drug[0], patient.drug)


def test_parameters_and_treatment_follow_what_was_published() -> None:
    """Truncated at 0, so means by drawing the same law directly; five standard errors."""
    patients = tumour.simulate(2000, 5)
    found = np.array([one.parameters for one in patients])
    assert (found > 0.0).all()
    drugs = {kind: found[[p.type == kind for p in patients], 2] for kind in (1, 2, 3)}
    for kind, mean in ((1, 0.028), (2, 0.028), (3, 0.0308)):
        assert drugs[kind].mean() == pytest.approx(mean, abs=5 * 0.0007 / np.sqrt(600))
    draws = np.random.default_rng(0).multivariate_normal(
        [7e-5, 0.0398],
        [[7.23e-3**2, 0.87 * 7.23e-3 * 0.168], [0.87 * 7.23e-3 * 0.168, 0.168**2]],
        200_000,
    )
    kept = draws[(draws > 0.0).all(axis=1)]
    others = found[[p.type != 1 for p in patients]]
    error = 5 * kept.std(axis=0) / np.sqrt(len(others))
    assert (abs(others[:, :2].mean(axis=0) - kept.mean(axis=0)) < error).all()
    first = [(p.diameters[0], p.actions[0]) for p in patients]
    large, small = [a for d, a in first if d > 9], [a for d, a in first if d < 2]
    # The logistic of 5 / 13 (d - 6.5): above 0.72 from 9 cm on, below 0.15 up to 2 cm.
    assert np.mean([a & 1 for a in large]) > 0.65
    assert np.mean([a & 1 for a in small]) < 0.2


# --- Glucose ------------------------------------------------------------------------------------


@needs_simglucose
def test_slopes_are_those_of_the_package() -> None:
    rng = np.random.default_rng(0)
    package = glucose._package().patient
    for person in glucose.people()[::7]:
        import pandas as pd

        numbers = np.array([float(person[name]) for name in glucose.NUMBERS])
        for _ in range(20):
            x = rng.uniform(-1.0, 400.0, size=13)
            meal, insulin, stomach, eaten = rng.uniform(0.0, [5.0, 1.0, 9e4, 60.0])
            action = package.Action(CHO=meal, insulin=insulin)
            wanted = package.T1DPatient.model(0.0, x, action, pd.Series(person), stomach, eaten)
            got = glucose.slopes(x, meal, insulin, numbers, stomach, eaten)
            np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-9)


@needs_simglucose
def test_days_replayed_as_lived_are_what_was_seen() -> None:
    for day in glucose.simulate(3, 1):
        other = (day.actions + 1) % len(glucose.LEVELS)
        found = glucose.replay(day, np.stack([day.actions, other, day.actions]))
        np.testing.assert_array_equal(found[0], day.states)
        np.testing.assert_array_equal(found[2], day.states)
        assert (found[1, 1:, 0] != day.states[1:, 0]).any()


@needs_simglucose
def test_thirty_people_and_what_insulin_does() -> None:
    assert [one["Name"] for one in glucose.people()[::10]] == [
        "adolescent#001", "adult#001", "child#001",
    ]  # fmt: skip
    assert len(glucose.people()) == 30
    day = glucose.simulate(1, 2)[0]
    plans = np.zeros((2, glucose.HOURS), dtype=np.int64)
    plans[1, 0] = 3
    courses = glucose.replay(day, plans)
    assert courses[1, 4, 0] < courses[0, 4, 0] - 10.0
    # The risk index of the literature: 0 near 112.5 mg/dl, 10 times a square on both sides.
    assert glucose.risk(np.array([112.5])) == pytest.approx(0.0, abs=0.01)
    both = [10 * (1.509 * (np.log(g) ** 1.084 - 5.381)) ** 2 for g in (60.0, 250.0)]
    assert glucose.risk(np.array([60.0, 250.0])) == pytest.approx(np.mean(both), rel=1e-9)
