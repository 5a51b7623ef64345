"""Every figure in its quick version: the numbers it writes hold together."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pytest

import counterplan as cp
from counterplan.counterfactual import BudgetDP
from counterplan.errors import InputError
from experiments.discrete_synthetic import draw_realizations
from experiments.expected import broken
from experiments.registry import Options, reproduce
from experiments.simulated_sessions import write_sessions

pytestmark = pytest.mark.slow  # six figures, most of them twice
EXACT = Options(quick=True)
SAMPLED = Options(quick=True, sampled=True)
K = 10


@cache
def numbers(name: str, options: Options = EXACT) -> pl.DataFrame:
    """The table of a figure, computed once; its picture must be there too."""
    with TemporaryDirectory() as folder:
        picture, table = reproduce([name], Path(folder), options)
        assert picture.read_bytes().startswith(b"\x89PNG")
        return pl.read_csv(table)


def curve(table: pl.DataFrame, **which: object) -> np.ndarray:
    """Means by k of the chosen rows."""
    chosen = table.filter(**which)
    assert chosen["k"].to_list() == list(range(K + 1))
    assert (chosen["low"] <= chosen["mean"]).all()
    assert (chosen["mean"] <= chosen["high"]).all()
    return chosen["mean"].to_numpy()


def never_falls(values: np.ndarray) -> bool:
    return bool((np.diff(values) >= -1e-9).all())


@pytest.mark.parametrize("number", range(1, 7))
def test_numbers_are_in_their_expected_ranges(number: int) -> None:
    name = f"discrete-fig{number}"
    assert broken(name, numbers(name)) == []


def test_figure1() -> None:
    table = numbers("discrete-fig1")
    assert table.columns == [
        "instance", "realization", "k", "observed_outcome", "counterfactual_outcome",
        "relative_difference_percent", "kernel", "realizations",
    ]  # fmt: skip
    assert table.height == 10 * (K + 1)
    assert table["kernel"].unique().to_list() == ["exact"]
    assert table["realizations"].unique().to_list() == ["the authors' seeds"]
    values = table["counterfactual_outcome"].to_numpy().reshape(10, K + 1)
    differences = table["relative_difference_percent"].to_numpy().reshape(10, K + 1)
    np.testing.assert_array_equal(values[:, 0], table.filter(k=0)["observed_outcome"].to_numpy())
    np.testing.assert_allclose(differences, 100 * (values / values[:, :1] - 1), atol=1e-9)
    assert all(never_falls(row) for row in values)
    assert (differences[:, K] > 0.5).all()


def test_figure1_sampled_is_about_exact() -> None:
    sampled, exact = numbers("discrete-fig1", SAMPLED), numbers("discrete-fig1")
    assert sampled["kernel"].unique().to_list() == ["sampled d=100"]
    gap = sampled["relative_difference_percent"] - exact["relative_difference_percent"]
    by_budget = gap.to_numpy().reshape(10, K + 1).mean(axis=0)
    assert by_budget[0] == pytest.approx(0.0, abs=1e-9)
    # All realizations share 100 noise vectors, so their error does not average out: up to 0.45
    # points here, of differences up to 10 %. It is the same on every run.
    assert (np.abs(by_budget[1:]) < 1.0).all()
    assert (by_budget[1:] != 0.0).all()


def test_the_optimum_of_a_sampled_kernel_is_biased_upwards() -> None:
    realizations = draw_realizations(0.4, EXACT)
    gaps = []
    for one in realizations:
        exact = cp.explain(one.process.mdp, one.episode, K).value
        solver = BudgetDP(samples=20, seed=one.number)
        gaps.append(cp.explain(one.process.mdp, one.episode, K, solver=solver).value - exact)
    # Independent noise: the mean stands four standard errors above zero.
    assert np.mean(gaps) > 4 * np.std(gaps, ddof=1) / np.sqrt(len(gaps))


def test_figure1_draws_anew_for_another_seed() -> None:
    table = numbers("discrete-fig1", Options(quick=True, seed=5))
    assert table["realizations"].unique().to_list() == ["drawn anew, seed 5"]
    new, published = (
        one.filter(k=0)["observed_outcome"].to_list() for one in (table, numbers("discrete-fig1"))
    )
    assert new != published


@pytest.mark.parametrize("options", [EXACT, SAMPLED], ids=["exact", "sampled"])
def test_figure2(options: Options) -> None:
    table = numbers("discrete-fig2", options)
    assert table["alpha"].unique().sort().to_list() == [0.1, 0.4, 0.7, 1.0]
    assert table["n"].unique().to_list() == [10]
    for alpha in (0.1, 0.4, 0.7, 1.0):
        outcome = curve(table, quantity="average counterfactual outcome", alpha=alpha)
        difference = curve(table, quantity="relative difference (%)", alpha=alpha)
        unique = curve(table, quantity="unique explanations", alpha=alpha)
        assert never_falls(outcome)
        assert never_falls(difference)
        assert difference[0] == 0.0
        assert unique[0] == 0.0
        # Until the first change all is as observed, so a single change comes at a known step.
        assert 0.0 <= unique[1] <= 1.0
        assert unique[K] > 5 * unique[1]
        assert (unique <= 100).all()


def test_figure2_outcomes_fall_with_uncertainty() -> None:
    table = numbers("discrete-fig2")
    ends = [
        curve(table, quantity="average counterfactual outcome", alpha=alpha)[K]
        for alpha in (0.1, 0.4, 1.0)
    ]
    assert ends == sorted(ends, reverse=True)


@pytest.mark.parametrize("options", [EXACT, SAMPLED], ids=["exact", "sampled"])
def test_figure3(options: Options) -> None:
    table = numbers("discrete-fig3", options)
    assert table["data"].unique().to_list() == ["simulated sessions"]
    singles = table.filter(quantity="relative difference (%)")
    assert singles["patient"].n_unique() == singles.height == 38
    assert (singles["mean"] >= -1e-9).all()
    assert singles["k"].unique().to_list() == [3]
    assert never_falls(curve(table, quantity="average counterfactual outcome"))
    unique = curve(table, quantity="unique explanations")
    assert unique[0] == 0.0
    assert 0.0 < unique[1] <= 1.0
    assert unique[3] > 1.0


def patient_values(table: pl.DataFrame, patient: str, quantity: str) -> np.ndarray:
    return table.filter(patient=patient, quantity=quantity)["value"].to_numpy()


def check_patient(table: pl.DataFrame, patient: str) -> None:
    observed = patient_values(table, patient, "observed outcome").item()
    expected = patient_values(table, patient, "expected outcome").item()
    assert expected >= observed
    rows = table.filter(patient=patient, quantity="probability of outcome")
    outcomes, probabilities = rows["outcome"].to_numpy(), rows["value"].to_numpy()
    assert probabilities.sum() == pytest.approx(1.0)
    assert outcomes @ probabilities == pytest.approx(expected)
    frequencies = patient_values(table, patient, "frequency of outcome")
    assert frequencies.sum() == pytest.approx(1.0)
    # The mean of 1,000 realizations, within four standard errors.
    deviation = np.sqrt((outcomes - expected) ** 2 @ probabilities / 1000)
    assert outcomes @ frequencies == pytest.approx(expected, abs=4 * deviation + 1e-9)
    changes = patient_values(table, patient, "probability of change")
    assert changes[0] == changes[-1] == 0.0
    assert changes.min() >= 0.0
    assert changes.max() <= 1.0 + 1e-9
    assert changes.sum() <= 3.0 + 1e-9
    course = patient_values(table, patient, "observed severity")
    assert (5 - course).sum() == observed
    best = patient_values(table, patient, "severity in best realization")
    assert (5 - best).sum() == outcomes[frequencies > 0].max()


def test_figure4() -> None:
    table = numbers("discrete-fig4")
    (patient,) = table["patient"].unique()
    check_patient(table, patient)
    improvements = numbers("discrete-fig3").filter(quantity="relative difference (%)")
    best = improvements.sort("mean")["patient"].to_list()[-1]
    assert patient == best
    frequent = table.filter(quantity="frequency of explanation")
    assert frequent["value"].is_sorted(descending=True)
    assert frequent["value"].sum() <= 1.0 + 1e-9
    steps = [len(text.split("; ")) for text in frequent["changes"]]
    assert min(steps) >= 1
    assert max(steps) <= 3
    assert frequent["changes"].n_unique() == frequent.height
    outcomes = table.filter(quantity="mean outcome of explanation")["value"]
    everything = table.filter(quantity="probability of outcome")["outcome"]
    assert outcomes.is_between(everything.min(), everything.max()).all()


def test_figure5() -> None:
    table = numbers("discrete-fig5")
    optimal = curve(table, policy="optimal")
    assert never_falls(optimal)
    for policy in ("greedy", "noisy greedy", "random"):
        baseline = curve(table, policy=policy)
        assert baseline[0] == pytest.approx(optimal[0])
        assert (baseline <= optimal + 1e-9).all()
    assert curve(table, policy="random")[K] < curve(table, policy="greedy")[K]


def test_figure5_samples_the_optimum_only() -> None:
    table = numbers("discrete-fig5", SAMPLED)
    kernels = dict(table.select("policy", "kernel").unique().iter_rows())
    assert kernels.pop("optimal") == "sampled d=100"
    assert set(kernels.values()) == {"exact"}


def test_figure6() -> None:
    table = numbers("discrete-fig6")
    patients = table["patient"].unique(maintain_order=True).to_list()
    assert len(patients) == 5
    assert not set(patients) & set(numbers("discrete-fig4")["patient"])
    gains = []
    for patient in patients:
        check_patient(table, patient)
        observed = patient_values(table, patient, "observed outcome").item()
        gains.append(patient_values(table, patient, "expected outcome").item() / observed - 1)
    assert gains == sorted(gains)
    assert gains[0] > 0.0


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    path = tmp_path / "clinic.csv"
    write_sessions(path, patients=8, seed=1)
    return path


def test_figures_of_a_real_table_say_so(sessions: Path, tmp_path: Path) -> None:
    _, table = reproduce(["discrete-fig3"], tmp_path, Options(quick=True, data=sessions))
    assert pl.read_csv(table)["data"].unique().to_list() == ["clinic.csv"]


def test_a_table_with_one_patient(sessions: Path, tmp_path: Path) -> None:
    rows = pl.read_csv(sessions, infer_schema=False)
    rows.filter(patient=rows["patient"][-1]).write_csv(sessions)
    options = Options(quick=True, data=sessions)
    written = reproduce(["discrete-fig3", "discrete-fig4", "discrete-fig5"], tmp_path, options)
    assert all(path.stat().st_size > 0 for path in written)
    with pytest.raises(InputError, match=r"clinic\.csv: has one patient, .* figure 6 needs more"):
        reproduce(["discrete-fig6"], tmp_path, options)


def test_same_seed_same_files(tmp_path: Path) -> None:
    first = reproduce(["discrete-fig4"], tmp_path / "first", EXACT)
    second = reproduce(["discrete-fig4"], tmp_path / "second", EXACT)
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes()
