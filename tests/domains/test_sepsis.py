"""The invented cohort: looks like an ICU's, and its causal model reproduces it; its questions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import counterplan as cp
from counterplan.domains import sepsis
from counterplan.domains.icu_episodes import sofa_points
from counterplan.domains.sepsis import (
    draw_noise,
    recorded,
    smooth_score,
)
from counterplan.domains.sepsis_table import COLUMNS, MOVING, SOFA, SepsisCohort
from counterplan.errors import InputError


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    return sepsis.simulate_cohort(4000, seed=0)


@pytest.fixture(scope="module")
def cohort(table: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> SepsisCohort:
    path = tmp_path_factory.mktemp("sepsis") / "cohort.csv"
    table.write_csv(path)
    return sepsis.read_cohort(path, sepsis.EDGES)


def column(table: pl.DataFrame, name: str) -> np.ndarray:
    return table[name].to_numpy().astype(np.float64)


def test_it_is_the_pipelines_table(table: pl.DataFrame) -> None:
    assert tuple(table.columns) == COLUMNS
    assert table.null_count().sum_horizontal().item() == 0
    lengths = table.group_by("icustayid").len()["len"].to_numpy()
    assert lengths.max() == 20
    assert 0.70 < (lengths >= 10).mean() < 0.82


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [  # where the middle half should lie, and how far the rest may go
        ("age", (45 * 365, 65 * 365), (67 * 365, 85 * 365)),
        ("FiO2_1", (0.21, 0.45), (0.45, 0.75)),
        ("paO2", (60, 100), (95, 150)),
        ("Platelets_count", (90, 180), (180, 300)),
        ("Total_bili", (0.3, 0.9), (1.0, 3.0)),
        ("GCS", (8, 12), (13, 15)),
        ("MeanBP", (62, 74), (75, 90)),
        ("Creatinine", (0.6, 1.1), (1.3, 2.5)),
        ("output_4hourly", (40, 130), (150, 400)),
        ("SOFA", (2, 6), (6, 10)),
    ],
)
def test_plausible_ranges(
    table: pl.DataFrame, name: str, low: tuple[float, float], high: tuple[float, float]
) -> None:
    lower, upper = np.quantile(column(table, name), (0.25, 0.75))
    assert low[0] <= lower <= low[1]
    assert high[0] <= upper <= high[1]


def test_doses_have_many_zeros_and_the_quartiles_of_the_mechanism(table: pl.DataFrame) -> None:
    vasopressor, fluids = column(table, "max_dose_vaso"), column(table, "input_4hourly")
    assert 0.6 < (vasopressor == 0).mean() < 0.8
    assert 0.1 < (fluids == 0).mean() < 0.3
    found = sepsis.DoseEdges.quartiles(vasopressor, fluids)
    np.testing.assert_allclose(found.vasopressor, sepsis.EDGES.vasopressor, rtol=0.1)
    np.testing.assert_allclose(found.fluids, sepsis.EDGES.fluids, rtol=0.1)
    same = found.levels(vasopressor, fluids) == sepsis.EDGES.levels(vasopressor, fluids)
    assert same.mean() > 0.97


def test_sofa_is_whole_and_agrees_with_the_organs(table: pl.DataFrame) -> None:
    fio2, pao2, platelets, bilirubin, gcs, *others = (column(table, one) for one in MOVING[:-1])
    points = sofa_points(fio2, pao2, platelets, bilirubin, *others)
    nerves = sum((gcs <= start) * 1 for start in (14.0, 12.0, 9.0, 5.0))
    computed, given = sum(points.values(), nerves), column(table, "SOFA")
    assert (given == np.round(given)).all()
    assert np.corrcoef(computed, given)[0, 1] > 0.85
    assert np.abs(computed - given).mean() < 1.2
    smooth = smooth_score(np.stack([column(table, name) for name in MOVING[:-1]], axis=1))
    assert np.corrcoef(computed, smooth)[0, 1] > 0.93
    assert np.abs(smooth - computed).mean() < 1.0


def test_the_sicker_are_treated_more_and_die_more(table: pl.DataFrame) -> None:
    """Confounding by indication: treated patients look worse than untreated ones."""
    low = column(table, "MeanBP") < 65
    assert (
        table.filter(low)["max_dose_vaso"].mean() > 3 * table.filter(~low)["max_dose_vaso"].mean()
    )
    dry = column(table, "output_4hourly") < 60
    assert (
        table.filter(dry)["input_4hourly"].mean() > 1.5 * table.filter(~dry)["input_4hourly"].mean()
    )
    stays = table.group_by("icustayid").agg(
        pl.col("SOFA").mean(), pl.col("died_within_48h_of_out_time").first().alias("died")
    )
    died = stays["died"].to_numpy() == 1
    assert 0.04 < died.mean() < 0.2
    assert stays.filter(died)["SOFA"].mean() > stays.filter(~died)["SOFA"].mean() + 1.0


def test_noise_is_correlated_and_heavy_tailed() -> None:
    noise = draw_noise(200_000, np.random.default_rng(0))
    np.testing.assert_allclose(noise.std(axis=0), 1.0, atol=0.03)
    correlation = np.corrcoef(noise.T)
    assert correlation[MOVING.index("MeanBP"), MOVING.index("output_4hourly")] > 0.2
    assert correlation[MOVING.index("paO2"), MOVING.index("SOFA")] < -0.3
    assert ((np.abs(noise) > 4.0).mean(axis=0) > 20 * 6.3e-5).all()


def transitions(cohort: SepsisCohort) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    states = np.concatenate([episode.states[:-1] for episode in cohort.episodes])
    after = np.concatenate([episode.states[1:] for episode in cohort.episodes])
    actions = np.concatenate([episode.actions for episode in cohort.episodes])
    return states, actions, after


def test_the_noise_of_recorded_rows_reproduces_them(cohort: SepsisCohort) -> None:
    """And it is nearly what was drawn: its moments differ by rounding and clipping only."""
    scm = sepsis.SimulatedSepsis()
    states, actions, after = transitions(cohort)
    noise = scm.infer(states, actions, after)
    np.testing.assert_allclose(scm.step(states, actions, noise), after, rtol=1e-9, atol=1e-9)
    drawn = draw_noise(len(states), np.random.default_rng(1))
    np.testing.assert_allclose(noise.mean(axis=0), 0.0, atol=0.1)
    # SOFA is rounded to whole points: noise of 0.29 points on top of 0.4.
    expected = [*[1.0] * 8, np.hypot(1.0, 0.29 / 0.4)]
    np.testing.assert_allclose(noise.std(axis=0), expected, atol=0.06)
    found, wanted = np.cov(noise.T), np.cov(drawn.T)
    found[-1, -1] = wanted[-1, -1]
    np.testing.assert_allclose(found, wanted, atol=0.1)


def test_infer_undoes_step_and_recording_only_rounds(cohort: SepsisCohort) -> None:
    scm = sepsis.SimulatedSepsis()
    states, actions, _ = transitions(cohort)
    drawn = draw_noise(len(states), np.random.default_rng(1))
    stepped = scm.step(states, actions, drawn)
    np.testing.assert_allclose(scm.infer(states, actions, stepped), drawn, rtol=1e-5, atol=1e-5)
    rows = recorded(stepped)
    inside = np.clip(stepped, rows.min(axis=0), rows.max(axis=0))
    assert (np.abs(rows - inside) <= 0.5).all()
    np.testing.assert_array_equal(recorded(rows), rows)


def explained(episode: cp.Episode, k: int) -> cp.Explanation:
    asked = {"actions": sepsis.action_set(episode), "reward": sepsis.reward()}
    return cp.explain(sepsis.SimulatedSepsis(), episode, k, solver=cp.baselines.Greedy(), **asked)


def test_states_that_cannot_be(cohort: SepsisCohort) -> None:
    scm = sepsis.SimulatedSepsis()
    states, actions = cohort.episodes[0].states[:1].copy(), cohort.episodes[0].actions[:1]
    states[0, sepsis.FEATURES.index("GCS")] = 17.0
    with pytest.raises(
        InputError, match=r"GCS is 17\.0, which the simulated process never reaches"
    ):
        scm.step(states, actions, np.zeros((1, 9)))
    with pytest.raises(InputError, match=r"states have shape \(1, 4\), expected \(n, 12\)"):
        scm.step(states[:, :4], actions, np.zeros((1, 9)))


def test_action_set_replays_ventilation(cohort: SepsisCohort) -> None:
    for episode in cohort.episodes[:50]:
        vectors = sepsis.action_set(episode)
        assert vectors.shape == (len(episode) - 1, 25, 3)
        np.testing.assert_array_equal(vectors[0, :, 0], np.repeat(np.arange(5), 5))
        np.testing.assert_array_equal(vectors[0, :, 1], np.tile(np.arange(5), 5))
        observed = (5 * episode.actions[:, 0] + episode.actions[:, 1]).astype(int)
        taken = vectors[np.arange(len(observed)), observed]
        np.testing.assert_array_equal(taken, episode.actions)
        assert (vectors[:, :, 2] == episode.actions[:, None, 2]).all()


def test_what_an_episode_can_be_asked(cohort: SepsisCohort) -> None:
    states = cohort.episodes[0].states
    np.testing.assert_array_equal(sepsis.reward()(states), -states[:, SOFA])
    episode = cp.Episode(states=np.zeros((3, 12)), actions=[0, 1])
    with pytest.raises(InputError, match=r"actions have shape \(2,\), expected \(T-1, 3\)"):
        sepsis.action_set(episode)


def test_scaling_is_the_papers(cohort: SepsisCohort) -> None:
    scaling = sepsis.scaling(cohort)
    states = np.concatenate([episode.states for episode in cohort.episodes])
    encoded = scaling.encode_states(states)
    assert set(encoded[:, :2].ravel()) == {-0.5, 0.5}
    np.testing.assert_allclose(encoded[:, 2:].min(axis=0), -0.5)
    np.testing.assert_allclose(encoded[:, 2:].max(axis=0), 0.5)
    np.testing.assert_allclose(scaling.decode_states(encoded), states)
    levels = np.array([[0, 4, 0], [1, 2, 1], [3, 0, 1]])
    expected = [[-0.5, 0.5, -0.5], [-0.25, 0.0, 0.5], [0.25, -0.5, 0.5]]
    np.testing.assert_allclose(scaling.encode_actions(levels), expected)


def test_scaling_needs_two_values_of_each_feature_but_the_flags(cohort: SepsisCohort) -> None:
    with pytest.raises(InputError, match=r"column 'age' is .* in every row"):
        sepsis.scaling(replace(cohort, recorded=cohort.recorded[:1]))
    women = tuple(one for one in cohort.recorded if one.episode.states[0, 0] == 1)
    scaling = sepsis.scaling(replace(cohort, recorded=women))
    np.testing.assert_array_equal(scaling.state_offset[:2], [0.5, 0.5])


def test_explanations_against_the_true_process(cohort: SepsisCohort) -> None:
    """Alternatives matter: a few changes in hindsight lower SOFA, for some patients by a lot."""
    gains = []
    for episode in cohort.episodes[:8]:
        greedy = explained(episode, 3)
        np.testing.assert_allclose(greedy.factual_value, -episode.states[:, SOFA].sum())
        gains.append((greedy.value - greedy.factual_value) / -greedy.factual_value)
    assert 0.02 < np.median(gains) < 0.2
    assert max(gains) > 1.5 * np.median(gains)


def test_treatments_interact(cohort: SepsisCohort) -> None:
    """Vasopressors raise pressure more with fluids, and cut urine without them."""
    scm = sepsis.SimulatedSepsis()
    pressure, urine = (sepsis.FEATURES.index(name) for name in ("MeanBP", "output_4hourly"))
    states = np.stack([episode.states[0] for episode in cohort.episodes])

    def after(vasopressor: float, fluids: float) -> np.ndarray:
        actions = np.tile([vasopressor, fluids, 0.0], (len(states), 1))
        return scm.step(states, actions, np.zeros((len(states), 9)))

    none, alone, filled, both = after(0, 0), after(4, 0), after(0, 4), after(4, 4)
    assert (alone[:, pressure] > none[:, pressure]).all()
    extra = both[:, pressure] - filled[:, pressure]
    assert (extra > 1.5 * (alone[:, pressure] - none[:, pressure])).all()
    assert (alone[:, urine] < none[:, urine]).all()
    assert (both[:, urine] > none[:, urine]).all()
