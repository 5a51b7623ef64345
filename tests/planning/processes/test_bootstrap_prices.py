"""Prices bootstrapped from a table: whole runs of returns, and every mistake in a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterplan.errors import FileError, InputError
from counterplan.planning.processes.prices import BootstrapPrices, read_prices

BRENT = Path(__file__).parents[4] / "shared" / "data" / "oil_prices" / "brent-weekly.csv"


def write(tmp_path: Path, lines: list[str], header: str = "Date,Price") -> Path:
    path = tmp_path / "prices.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_steps_are_runs_of_the_record() -> None:
    prices = np.array([1.0, 2.0, 1.0, 4.0])
    process = BootstrapPrices(prices, initial=10.0, block=2)
    # Runs of two returns: 1 -> 1 and 2 -> 4.
    assert process.factors(0) == pytest.approx([1.0, 2.0])
    drawn = process.draw(0, np.full((500, 1), 10.0), np.random.default_rng(0))
    assert sorted(set(drawn.ravel().round(9))) == [10.0, 20.0]
    assert process.mean_path(3).ravel() == pytest.approx([10.0, 15.0, 22.5])


def test_independent_prices_move_by_longer_runs() -> None:
    process = BootstrapPrices([1.0, 2.0, 1.0, 4.0], initial=10.0, kind="independent")
    assert process.factors(0) == pytest.approx([0.5, 2.0, 4.0])
    assert process.factors(1) == pytest.approx([1.0, 2.0])
    assert process.factors(2) == pytest.approx([4.0])
    assert process.mean_path(4).ravel() == pytest.approx([10, 65 / 3, 15, 40])
    with pytest.raises(InputError, match="4 prices has no run of 4 returns, needed for t=4"):
        process.mean_path(5)


def test_starts_at_the_last_price_unless_told() -> None:
    assert BootstrapPrices([1.0, 2.0, 3.0]).start.tolist() == [3.0]
    assert BootstrapPrices([1.0, 2.0, 3.0], 7.0).start.tolist() == [7.0]


def test_quantiles_of_uneven_parts() -> None:
    """Three factors in two parts: the middle one counts half to either."""
    process = BootstrapPrices([1.0, 0.5, 1.0, 4.0], initial=1.0)
    values, _ = process.quantiles(0, np.array([1.0]), 2)
    assert values.ravel() == pytest.approx([(0.5 + 2.0 / 2) / 1.5, (2.0 / 2 + 4.0) / 1.5])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([],), "prices must be a number or a list of numbers"),
        (([5.0],), "1 prices have no run of 1 returns"),
        (([5.0, 6.0, 7.0], None, 3), "3 prices have no run of 3 returns: give more prices"),
        (([5.0, 0.0],), "price number 1 is 0: prices must be positive"),
        (([5.0, 6.0], -1.0), "initial must be greater than 0"),
        (([5.0, 6.0], None, 0), "block must be at least 1"),
        (([5.0, 6.0], None, 1, "local"), "kind 'local' is not one of global, independent"),
    ],
)
def test_bad_records(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        BootstrapPrices(*arguments)


# --- Tables -----------------------------------------------------------------------------------


def test_a_table_in_any_order_with_other_columns(tmp_path: Path) -> None:
    path = write(
        tmp_path, ["3,2024-01-03,x", "1,2024-01-01,y", "", "2,2024-01-02,z"], "USD,day,note"
    )
    process = BootstrapPrices.from_csv(path, ("day", "USD"), initial=5.0)
    assert np.asarray(process.prices).tolist() == [1.0, 2.0, 3.0]
    assert process.start.tolist() == [5.0]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["2024-01-01,1", "soon,2"], "row 3, column 'Date': 'soon' is not a date; write it as"),
        (["2024-01-01,1", "2024-01-02,two"], "row 3, column 'Price': 'two' is not a number"),
        (["2024-01-01,1", "2024-01-02,"], "row 3, column 'Price': is missing"),
        (["2024-01-01,1", "2024-01-02,-37.63"], "row 3, column 'Price': '-37.63' is not positive"),
        (["2024-01-01,1", "2024-01-01,2"], "row 3, column 'Date': '2024-01-01' occurs twice"),
        (["2024-01-01,0", "x,2", "y,"], r"(?s)row 2, column 'Price'.*row 3, column 'Date'"),
        (["2024-01-01,1"], "has one row; add more: a return needs two prices"),
        ([], "has a header but no rows"),
    ],
)
def test_mistakes_name_file_row_column_and_value(
    tmp_path: Path, lines: list[str], words: str
) -> None:
    path = write(tmp_path, lines)
    with pytest.raises(FileError, match=words) as caught:
        read_prices(path)
    assert str(path) in str(caught.value)


def test_missing_columns_and_files(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no column 'Price'; name the columns Date, Price"):
        read_prices(write(tmp_path, ["2024-01-01,1"], "Date,USD"))
    with pytest.raises(FileError, match="no such file; check the path"):
        read_prices(tmp_path / "nowhere.csv")
    with pytest.raises(InputError, match="columns must name a date and a price column"):
        read_prices(write(tmp_path, ["2024-01-01,1"]), ["Date"])


@pytest.mark.skipif(not BRENT.exists(), reason="the Brent table is not at hand")
def test_brent() -> None:
    process = BootstrapPrices.from_csv(BRENT, initial=80.0, block=4)
    paths = process.sample_paths(2000, 13, seed=1)[:, :, 0]
    # A year of Brent: annual volatility between 20 and 60 %.
    assert 0.2 < np.log(paths[:, -1] / 80.0).std() < 0.6
