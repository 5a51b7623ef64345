"""The figures of the 2025 paper, smaller than quick: files, columns, and what must hold."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from experiments import registry, sdmdp_study
from experiments.expected import broken
from experiments.sdmdp_domains import DOMAINS, Case
from experiments.sdmdp_study import Sizes, Study
from experiments.sdmdp_table import HINDSIGHT, OPEN_LOOP, OPTIMAL

pytestmark = pytest.mark.slow  # twelve figures, each with all planners

TINY = Sizes(
    configs=("A",),
    episodes=0.01,
    simulations=0.05,
    budgets=(10, 300),
    seeds=5,
    samples=500,
    prepared=200,
)
COMPARISONS = {4: None, **dict(zip(range(6, 15, 2), DOMAINS, strict=True))}
CONVERGENCES = {3: None, **dict(zip(range(7, 16, 2), DOMAINS, strict=True))}
PLANNERS = {"UCT", "UCT clipped", "UCT+", "UCT+ clipped", "MENTS", "MENTS clipped"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All twelve figures."""
    out = tmp_path_factory.mktemp("figures")
    names = [f"sdmdp-fig{number}" for number in sorted(COMPARISONS | CONVERGENCES)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sdmdp_study, "QUICK", TINY)
        written = registry.reproduce(names, out, registry.Options(quick=True))
    assert sorted(written) == sorted(out.iterdir())
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in out.glob("*.png"))
    return out


def table(folder: Path, number: int) -> pl.DataFrame:
    return pl.read_csv(folder / f"sdmdp-fig{number}.csv", infer_schema_length=None)


def places(numbers: pl.DataFrame) -> set[tuple[str, ...]]:
    return set(numbers.select("domain", "variant", "config").unique().iter_rows())


@pytest.mark.parametrize("number", sorted(COMPARISONS | CONVERGENCES))
def test_numbers_are_in_their_expected_ranges(folder: Path, number: int) -> None:
    assert broken(f"sdmdp-fig{number}", table(folder, number)) == []


@pytest.mark.parametrize("number", COMPARISONS)
def test_a_comparison_has_every_column(folder: Path, number: int) -> None:
    numbers = table(folder, number)
    domain = COMPARISONS[number]
    wanted = (
        {(domain, variant, "A") for variant in DOMAINS[domain].variants}
        if domain
        else {(name, one.variants[0], one.featured) for name, one in DOMAINS.items()}
    )
    assert places(numbers) == wanted
    for place, rows in numbers.group_by("domain", "variant", "config"):
        baseline = DOMAINS[str(place[0])].baseline().name
        policies = {HINDSIGHT, OPTIMAL, OPEN_LOOP, baseline}
        assert set(rows["method"]) == policies | PLANNERS
        assert len(rows) == len(policies) + 2 * len(PLANNERS)
        planned = rows.filter(pl.col("method").is_in(list(PLANNERS)))
        # Fewer simulations than the paper's are not called the paper's.
        assert set(planned["budget"]) == {"reduced", "equal time"}
        assert (planned["milliseconds"] > 0).all()
        assert (planned["simulations"] >= 2).all()
        # UCT without clipping is the clock of the others.
        assert planned.filter(method="UCT")["simulations"].n_unique() == 1
        assert rows.filter(~pl.col("method").is_in(list(PLANNERS)))["simulations"].is_null().all()
        clips = rows["method"].str.ends_with(" clipped")
        assert (rows["clip_gain_p"].is_not_null() == clips).all()
        assert rows["episodes"].n_unique() == 1


@pytest.mark.parametrize("number", COMPARISONS)
def test_nobody_beats_hindsight_and_hardly_anyone_the_optimum(folder: Path, number: int) -> None:
    for place, rows in table(folder, number).group_by("domain", "variant", "config"):
        cost = 1.0 if place[0] == "bunkering" else -1.0
        means = dict(zip(rows["method"], cost * rows["mean"], strict=True))
        # On every single future, so without any error.
        assert min(means.values()) >= means[HINDSIGHT] - 1e-6
        optimal = rows.filter(method=OPTIMAL)
        assert optimal.select("loss", "loss_se").row(0) == (0.0, 0.0)
        assert (optimal["v_star_low"] <= optimal["v_star_high"]).all()
        others = rows.filter(pl.col("method") != HINDSIGHT)
        # Without foresight one loses in the mean; 5 standard errors for a dozen episodes.
        assert (others["loss"] >= -5.0 * others["loss_se"] - 1e-9).all()
        assert rows["loss_p"].is_between(0.0, 1.0).all()


def test_with_one_price_for_all_ports_nobody_beats_open_loop(folder: Path) -> None:
    alike = table(folder, 6).filter(variant="global")
    assert alike["gap_closed_percent"].is_null().all()
    assert alike.filter(method=OPEN_LOOP)["loss"].to_list() == [pytest.approx(0.0, abs=1e-6)]


def test_greedy_is_optimal_with_half_and_three_modes(folder: Path) -> None:
    half = table(folder, 8).filter(variant="half", method="greedy")
    assert half["loss"].to_list() == [pytest.approx(0.0, abs=1e-9)]


@pytest.mark.parametrize("number", CONVERGENCES)
def test_a_convergence_has_every_curve(folder: Path, number: int) -> None:
    numbers = table(folder, number)
    domain = CONVERGENCES[number]
    planners = PLANNERS if domain else {"MENTS", "MENTS clipped"}
    count = len(DOMAINS[domain].variants) if domain else len(DOMAINS)
    assert set(numbers["method"]) == planners
    assert len(places(numbers)) == count
    assert len(numbers) == count * len(planners) * len(TINY.budgets)
    assert (numbers["se"] >= 0).all()
    error = 5.0 * (numbers["hindsight_se"] + numbers["open_loop_se"])
    low = numbers.select(pl.min_horizontal("hindsight", "open_loop")).to_series() - error
    high = numbers.select(pl.max_horizontal("hindsight", "open_loop")).to_series() + error
    assert (low <= numbers["v_star_low"]).all()
    assert (numbers["v_star_high"] <= high).all()


def test_clipping_brings_the_value_of_random_rollouts_nearer(folder: Path) -> None:
    numbers = table(folder, 7).filter(variant="independent", simulations=300)
    away = {
        row["method"]: abs(row["mean"] - row["v_star_low"]) for row in numbers.iter_rows(named=True)
    }
    assert away["UCT clipped"] < away["UCT"]
    assert away["UCT clipped"] < 0.15 * numbers["v_star_low"][0]


def test_each_number_of_simulations_was_timed(folder: Path) -> None:
    """UCT without clipping needs the same number for the same time: it was measured once."""
    rows = table(folder, 6)
    clock = rows.filter(method="UCT").group_by("variant", "config").agg(pl.col("milliseconds"))
    for times in clock["milliseconds"]:
        assert len(set(times)) == 1
    others = rows.filter(pl.col("method").is_in(["MENTS", "MENTS clipped"]))
    key = ["variant", "config", "method", "simulations"]
    assert others.select(*key, "milliseconds").unique().height == others.select(key).unique().height


def test_a_full_study_has_the_papers_problems_and_budgets() -> None:
    study = Study(registry.Options())
    assert study.budget == "paper"
    assert Study(registry.Options(quick=True)).budget == "reduced"
    cases = study.cases(list(DOMAINS))
    assert len(cases) == 6 * (2 + 2 + 2 + 1 + 1)
    budgets = {
        config: study.simulations(Case("bunkering", "global", config)) for config in "ABCDEF"
    }
    assert budgets == {"A": 1000, "B": 1000, "C": 100, "D": 1000, "E": 1000, "F": 100}
    assert {study.simulations(case) for case in cases if case.domain != "bunkering"} == {1000}
    assert len({study.seed(case) for case in cases}) == len(cases)
