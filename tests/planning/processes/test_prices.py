"""Prices against their known laws: Brownian motion, the lattice, and whole runs of a record."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from counterplan.errors import FileError, InputError
from counterplan.planning.processes.prices import GBM, BinomialLattice, BootstrapPrices, read_prices

SAMPLES = 40_000


@pytest.mark.parametrize("kind", ["independent", "global"])
def test_logarithms_are_normal(kind: Any) -> None:
    """log x_t ~ N(log S + (mu - sigma^2 / 2) t dt, sigma^2 t dt)."""
    process = GBM(1000.0, 1.0, 0.9, 1 / 7, kind=kind)
    logs = np.log(process.sample_paths(SAMPLES, 7, seed=1)[:, :, 0] / 1000.0)
    times = np.arange(7) / 7
    # Five standard errors: of a mean s / sqrt(n), of a standard deviation s / sqrt(2 n).
    spread = 0.9 * np.sqrt(times)
    assert (np.abs(logs.mean(axis=0) - 0.595 * times) <= 5 * spread / SAMPLES**0.5 + 1e-12).all()
    assert (np.abs(logs.std(axis=0) - spread) <= 5 * spread / (2 * SAMPLES) ** 0.5 + 1e-12).all()


def test_independent_prices_are_independent_and_global_ones_are_not() -> None:
    logs = {}
    for kind in ("independent", "global"):
        process = GBM(1.0, 0.0, 0.9, 1 / 7, kind=kind)  # type: ignore[arg-type]
        logs[kind] = np.log(process.sample_paths(SAMPLES, 4, seed=2)[:, 1:, 0])
    # The correlation of W_1 and W_2 of one motion is sqrt(1 / 2); five errors of an estimate.
    allowed = 5 / SAMPLES**0.5
    correlation = np.corrcoef(logs["independent"].T)
    assert (np.abs(correlation - np.eye(3)) <= allowed).all()
    assert abs(np.corrcoef(logs["global"].T)[0, 1] - math.sqrt(0.5)) <= allowed


def test_increments_are_correlated_as_asked() -> None:
    given = np.array([[1.0, 0.8, -0.3], [0.8, 1.0, 0.1], [-0.3, 0.1, 1.0]])
    process = GBM([1.0, 2.0, 3.0], 0.0, 0.2, 0.5, given, "correlated")
    steps = np.diff(np.log(process.sample_paths(SAMPLES, 3, seed=3)), axis=1)
    for s in range(2):
        assert (np.abs(np.corrcoef(steps[:, s].T) - given) <= 5 / SAMPLES**0.5).all()
    assert process.mixing @ process.mixing.T == pytest.approx(given)


def test_a_common_correlation() -> None:
    process = GBM([1.0, 1.0, 1.0], 0.0, 0.2, 0.5, -0.5, "correlated")
    assert process.mixing @ process.mixing.T == pytest.approx(np.where(np.eye(3), 1.0, -0.5))
    together = GBM([1.0, 1.0], 0.0, 0.2, 0.5, 1.0, "correlated").sample_paths(5, 3, seed=0)
    assert together[:, :, 0] == pytest.approx(together[:, :, 1])


def test_no_volatility_is_no_chance() -> None:
    process = GBM(10.0, 0.5, 0.0, 1.0)
    assert process.sample_paths(3, 3, seed=0) == pytest.approx(
        np.tile(process.mean_path(3), (3, 1, 1))
    )
    assert process.quantiles(0, process.start, 4)[0] == pytest.approx(10 * math.exp(0.5))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"volatility": -0.1}, "volatility must be at least 0, got -0.1"),
        ({"dt": -0.1}, "dt must be greater than 0, got -0.1"),
        ({"dt": 0}, "dt must be greater than 0, got 0"),
        ({"initial": 0}, "initial must be greater than 0, got 0"),
        ({"initial": [1.0, -2.0], "kind": "correlated"}, "initial must be greater than 0, got -2"),
        ({"drift": math.nan}, "drift number 0 is nan: must be finite"),
        ({"drift": "up"}, "drift must be a number or a list of numbers"),
        ({"kind": "local"}, "kind 'local' is not one of independent, global, correlated"),
        ({"initial": [1.0, 2.0]}, "kind 'global' has one price; use kind='correlated' for 2"),
        (
            {"initial": [1.0, 2.0], "drift": [1.0, 2.0, 3.0], "kind": "correlated"},
            "initial must have 3 numbers, got 2",
        ),
        (
            {"initial": [1.0] * 3, "correlation": -0.6, "kind": "correlated"},
            "negative eigenvalue .*; a common correlation of 3 prices is at least -0.5",
        ),
        (
            {"initial": [1.0, 1.0], "correlation": [[1.0, 0.2], [0.1, 1.0]], "kind": "correlated"},
            "correlation must be one number or a symmetric",
        ),
        (
            {"initial": [1.0, 1.0], "correlation": 1.5, "kind": "correlated"},
            "ones on its diagonal, the rest in",
        ),
        ({"initial": 1e300}, r"initial is 1e\+300, too far from 0"),
        ({"drift": 700.0, "dt": 1 / 7}, r"prices move by a factor of e\^100 in one step"),
        ({"drift": -700.0, "dt": 1 / 7}, r"prices move by a factor of e\^100 in one step"),
        ({"volatility": 100.0}, r"a typical factor of e\^31\.6 in one step.*volatility=0\.2"),
    ],
)
def test_bad_motions(changes: dict[str, Any], words: str) -> None:
    plain: dict[str, Any] = {"initial": 1.0, "drift": 0.1, "volatility": 0.2, "dt": 0.1}
    with pytest.raises(InputError, match=words):
        GBM(**(plain | changes))


def test_a_lattice_by_hand() -> None:
    assert BinomialLattice(100.0, 0.5, 0.1, 0.04).probability == pytest.approx(1.0)  # as advised
    lattice = BinomialLattice(100.0, 0.05, 0.2, 0.25, dividend=0.01)
    up = math.exp(0.1)
    p = (math.exp(0.01) - 1 / up) / (up - 1 / up)
    values, chances = lattice.successors(0, np.array([100.0]))
    assert values.ravel() == pytest.approx([100 * up, 100 / up])
    assert chances == pytest.approx([p, 1 - p])
    assert lattice.mean_path(3).ravel() == pytest.approx(
        [100, 100 * math.exp(0.01), 100 * math.exp(0.02)]
    )


def test_european_call_converges_to_black_scholes() -> None:
    """A European call by backward induction through `successors`."""
    steps, strike, rate, sigma = 200, 105.0, 0.05, 0.3
    lattice = BinomialLattice(100.0, rate, sigma, 1.0 / steps)
    prices = 100.0 * lattice.up ** np.arange(steps, -steps - 1, -2)
    values = np.maximum(prices - strike, 0.0)
    p = lattice.probability
    for _ in range(steps):
        values = math.exp(-rate / steps) * (p * values[:-1] + (1 - p) * values[1:])
    d1 = (math.log(100 / strike) + rate + sigma**2 / 2) / sigma
    normal = NormalDist().cdf
    exact = 100 * normal(d1) - strike * math.exp(-rate) * normal(d1 - sigma)
    # The lattice's error is of the order of the price over the number of steps.
    assert values[0] == pytest.approx(exact, abs=0.05)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((100.0, 0.5, 0.1, 1.0), "probability of going up .* use a dt of at most 0.04"),
        ((100.0, -0.5, 0.1, 1.0), "use a dt of at most 0.04"),
        ((100.0, 0.05, 0.0, 1.0), "volatility must be greater than 0"),
        ((100.0, 0.05, -0.2, 1.0), "volatility must be greater than 0, got -0.2"),
        ((100.0, 0.05, 0.2, -1.0), "dt must be greater than 0"),
        ((0.0, 0.05, 0.2, 1.0), "initial must be greater than 0"),
        ((100.0, math.inf, 0.2, 1.0), "rate must be finite"),
        ((None, 0.1, 0.2, 1.0), "initial must be a number, got None"),
    ],
)
def test_bad_lattices(arguments: tuple[float, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        BinomialLattice(*arguments)


BRENT = Path(__file__).parents[4] / "shared" / "data" / "oil_prices" / "brent-weekly.csv"


def write(tmp_path: Path, lines: list[str], header: str = "Date,Price") -> Path:
    path = tmp_path / "prices.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_steps_are_runs_of_the_record() -> None:
    assert BootstrapPrices([1.0, 2.0, 3.0]).start.tolist() == [3.0]
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


def test_a_table_in_any_order_with_other_columns(tmp_path: Path) -> None:
    path = write(
        tmp_path, ["3,2024-01-03,x", "1,2024-01-01,y", "", "2,2024-01-02,z"], "USD,day,note"
    )
    process = BootstrapPrices(read_prices(path, ("day", "USD")), initial=5.0)
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
    process = BootstrapPrices(read_prices(BRENT), initial=80.0, block=4)
    paths = process.sample_paths(2000, 13, seed=1)[:, :, 0]
    # A year of Brent: annual volatility between 20 and 60 %.
    assert 0.2 < np.log(paths[:, -1] / 80.0).std() < 0.6
