"""Expected ranges: every figure has some, and they can be broken. That the figures keep them is
tested where the figures are made (`test_*_figures`)."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from experiments import expected_numbers as numbers
from experiments.expected import EXPECTED, Expectation, broken
from experiments.registry import FIGURES, Options, reproduce, unexpected

PAGE = Path(__file__).parents[2] / "experiments" / "README.md"


def test_every_figure_has_ranges() -> None:
    assert list(EXPECTED) == list(FIGURES)
    for name, expectations in EXPECTED.items():
        assert len(expectations) >= 2, name
        assert all(one.low <= one.high for one in expectations)


@pytest.mark.parametrize("name", FIGURES)
def test_the_page_tells_every_figure_and_its_ranges(name: str) -> None:
    """A row of the first table, and a row of the second for each range."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith(f"| `{name}` |") for line in lines) >= 1
    for one in EXPECTED[name]:
        wanted = f"| {name} | {one.what} | {one.range} |"
        assert any(line.startswith(wanted) for line in lines), wanted


@pytest.mark.parametrize("value", [-0.1, 2.1, float("nan")])
def test_a_number_out_of_its_range_is_told(value: float) -> None:
    one = Expectation("height", 0.0, 2.0, numbers.mean_of("height"))
    assert one.broken_by(pl.DataFrame({"height": [value]})) == (
        f"height is {value:.6g}, expected 0 to 2"
    )
    assert one.broken_by(pl.DataFrame({"height": [2.0]})) is None


def test_a_changed_table_is_noticed(tmp_path: Path) -> None:
    written = reproduce(["discrete-fig1"], tmp_path, Options(quick=True))
    assert unexpected(written) == []
    table = pl.read_csv(written[1])
    worse = table.with_columns(pl.col("relative_difference_percent") * -1)
    found = broken("discrete-fig1", worse)
    assert [message.split(" is ")[0] for message in found] == [
        "discrete-fig1: smallest improvement, %",
        "discrete-fig1: mean improvement at k = 1, %",
        "discrete-fig1: mean improvement at k = 5, %",
        "discrete-fig1: mean improvement at k = 10, %",
    ]


def played(**means: float) -> pl.DataFrame:
    """A comparison of one bunkering problem with V* = 100."""
    methods = [name.replace("_", " ") for name in means]
    return pl.DataFrame({"method": methods, "mean": list(means.values())}).with_columns(
        domain=pl.lit("bunkering"),
        variant=pl.lit("independent"),
        config=pl.lit("A"),
        v_star_low=pl.lit(100.0),
        loss=pl.col("mean") - 100.0,
        budget=pl.lit(None, dtype=pl.String),
    )


def test_losses_are_in_per_cent_of_the_optimum() -> None:
    table = played(hindsight=90.0, optimal=100.0, open_loop=117.0)
    assert numbers.loss("bunkering", "open loop")(table) == pytest.approx(17.0)
    assert numbers.smallest_foresight(table) == pytest.approx(10.0)


def test_whoever_beats_hindsight_is_found_out() -> None:
    table = played(hindsight=90.0, optimal=100.0, UCT=89.0)
    assert numbers.smallest_foresight(table) == pytest.approx(-1.0)


def test_equal_time_does_not_count() -> None:
    table = played(UCT=104.0)
    timed = table.with_columns(budget=pl.lit("equal time"), loss=pl.lit(50.0))
    both = pl.concat([table, timed])
    assert numbers.loss("bunkering", "UCT")(both) == pytest.approx(4.0)
