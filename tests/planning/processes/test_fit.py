"""Laws of recorded prices: estimated, chosen, doubted, and planned with."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counterplan as cp
from counterplan.errors import FileError, InputError, MistakesError
from counterplan.planning.processes.autoregression import Autoregression, Clock
from counterplan.planning.processes.fit import estimated, values_of
from counterplan.planning.processes.series import read_series
from counterplan.tables.models import save_model

BRENT = Path(__file__).resolve().parents[4] / "shared/data/oil_prices/brent-daily.csv"
DAY = 86_400.0
BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
WEEK = Clock(BEGIN.timestamp(), DAY)
SWITCHING: dict[str, Any] = {
    "covariance": [[[0.01**2]], [[0.04**2]]],
    "shift": [[0.002], [-0.003]],
    "chances": [[0.95, 0.05], [0.1, 0.9]],
    "belief": 0.3,
}
EFFECTS = np.array([45.0, 3.0, 1.0, 0.0, 0.0, -1.0, -1.5])[:, None]
LAWS = {
    "gbm": Autoregression(50.0, 1.0, 0.002, 0.0025, logs=True),
    "walk": Autoregression(5.0, 1.0, 0.02, 4.0),
    "ou": Autoregression(45.0, 0.8, 45.0, 4.0),
    "log-ou": Autoregression(45.0, 0.9, np.log(45.0), 0.04, logs=True),
    "seasonal": Autoregression(
        45.0, 0.7, EFFECTS, 4.0, seasons=(("weekday", tuple(range(7))),), clock=WEEK
    ),
    "regimes": Autoregression(50.0, 1.0, 0.0, logs=True, **SWITCHING),
    "two": Autoregression([50.0, 40.0], [0.8, 0.9], [[45.0, 40.0]], [[4.0, 2.0], [2.0, 3.0]]),
}
DATES = [BEGIN.replace(tzinfo=None) + timedelta(days=i) for i in range(1500)]


def drawn(name: str, rows: int, seed: int) -> np.ndarray:
    law = LAWS[name]
    return law.sample_paths(1, rows, seed=seed)[0, :, : law.series]


# --- The law itself -----------------------------------------------------------------------------


@pytest.mark.parametrize("regimes", [{}, SWITCHING])
@pytest.mark.parametrize("phi", [1.0, 0.8])
@pytest.mark.parametrize("logs", [True, False])
def test_means_are_those_of_paths(logs: bool, phi: float, regimes: dict[str, Any]) -> None:
    level = np.log(3.0) if logs else 3.0
    law = Autoregression(
        2.0, phi, level if phi < 1 else 0.1, **{"covariance": 0.04} | regimes, logs=logs
    )
    paths, means = law.sample_paths(40_000, 6, seed=1), law.mean_path(6)
    errors = paths.std(axis=0)[1:] / 200.0
    assert (np.abs(paths.mean(axis=0) - means)[1:] < 4.5 * errors).all()
    values, chances = law.quantiles(2, law.start, 9)
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)
    assert chances @ values[:, 0] == pytest.approx(law.mean_path(2, t=2)[1, 0], rel=1e-12)


def test_closed_forms() -> None:
    """Geometric Brownian motion is the library's own, Ornstein-Uhlenbeck that of textbooks."""
    gbm = cp.processes.GBM(50.0, 0.002 + 0.0025 / 2, 0.05, dt=1.0)
    np.testing.assert_allclose(LAWS["gbm"].mean_path(9), gbm.mean_path(9), rtol=1e-12)
    np.testing.assert_allclose(
        LAWS["gbm"].quantiles(0, np.array([7.0]), 5)[0], gbm.quantiles(0, np.array([7.0]), 5)[0]
    )
    steps = np.arange(9)
    law = Autoregression(2.0, 0.8, np.log(3.0), 0.04, logs=True)
    mean = np.log(3.0) + 0.8**steps * np.log(2.0 / 3.0)
    variance = 0.04 * (1 - 0.64**steps) / (1 - 0.64)
    np.testing.assert_allclose(law.mean_path(9)[:, 0], np.exp(mean + variance / 2), rtol=1e-12)
    shocks = np.array([[-0.3], [0.1], [0.2]])
    law = Autoregression(2.0, 0.5, 0.0, 0.04, logs=True, shocks=shocks)
    every = [np.exp(0.5**2 * np.log(2.0) + 0.5 * a + b) for a in shocks for b in shocks]
    assert law.mean_path(3)[2, 0] == pytest.approx(np.mean(every), rel=1e-12)


@pytest.mark.parametrize("phi", [1.0, 0.5])
def test_recorded_shocks_need_not_be_centred(phi: float) -> None:
    shocks = np.array([[-1.0], [1.0], [3.0]])
    law = Autoregression(2.0, phi, 0.0, 1.0, shocks=shocks)
    every = [phi**2 * 2.0 + phi * a + b for a in shocks for b in shocks]
    assert law.mean_path(3)[2, 0] == pytest.approx(np.mean(every), rel=1e-12)
    values, chances = law.quantiles(0, law.start, 3)
    assert chances @ values[:, 0] == pytest.approx(law.mean_path(2)[1, 0], rel=1e-12)


def test_a_belief_follows_what_is_observed() -> None:
    law = LAWS["regimes"]
    calm, wild = (law.observe(0, law.start, [50.0 * np.exp(move)]) for move in (0.001, 0.2))
    assert calm[1] < 0.2 < 0.99 < wild[1]
    rng = np.random.default_rng(0)
    after = law.draw(0, law.start[None], rng)[0]
    np.testing.assert_allclose(law.observe(0, law.start, after[:1]), after, rtol=1e-9)
    assert law.mean_path(3, start=np.array([50.0])).shape == (3, 2)


def test_the_calendar_goes_on() -> None:
    friday = datetime(2024, 1, 5, tzinfo=UTC).timestamp()
    days = Clock(friday, 1.0, "business days").stamps(np.arange(3))
    assert ((days - friday) / DAY).tolist() == [0.0, 3.0, 4.0]
    months = Clock(datetime(2023, 11, 30, tzinfo=UTC).timestamp(), 1.0, "months")
    effects = np.array([10.0, *range(1, 12)])[:, None]
    law = Autoregression(
        1.0, 0.0, effects, 1.0, seasons=(("month", tuple(range(12))),), clock=months
    )
    np.testing.assert_allclose(law.mean_path(4)[1:, 0], [10 - 66, 11, 12])


# --- What was known is found ---------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rows"),
    [("gbm", 300), ("ou", 300), ("log-ou", 400), ("seasonal", 400), ("two", 300), ("regimes", 800)],
)
def test_intervals_hold_what_is_true(name: str, rows: int) -> None:
    """90 % intervals in 85 to 95 % of records, within three errors of 200 of them."""
    hits, law = Counter[str](), LAWS[name]
    structure, shocks = {"two": ("ou", "normal"), "regimes": ("gbm", "regimes")}.get(
        name, (name, "normal")
    )
    seeds = 200 if name != "regimes" else 60
    for seed in range(seeds):
        record = read_series(drawn(name, rows, 1000 + seed), DATES[:rows], None, None)
        found = estimated(record, structure, shocks)
        truth = values_of(law, found.names)
        for what, one in found.parameters.items():
            hits[what] += one.low <= truth[what] <= one.high
    shares = {what: count / seeds for what, count in hits.items()}
    slack = 3 * np.sqrt(0.09 / seeds) - 0.05
    assert all(0.85 - slack <= share <= 0.95 + slack for share in shares.values()), shares
    assert 0.85 <= np.mean([*shares.values()]) <= 0.95, shares


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gbm", "walk", "ou", "seasonal", "regimes"])
def test_a_law_wins_where_it_made_the_record(name: str) -> None:
    """Simple ones are not beaten by richer ones that are better by luck."""
    won = Counter[str]()
    for seed in (0, 2, 3):
        record = drawn(name, 600, seed)
        record = record - 200.0 if name == "walk" else record
        found = cp.processes.fit(record[:, 0], time=DATES[:600])
        won[found.name.replace("log-", "").replace("gbm with regimes", "regimes")] += 1
    assert won[name] >= 2, won


def test_a_process_is_saved_and_plans(tmp_path: Path) -> None:
    found = cp.processes.fit(drawn("two", 300, 0), families=("ou", "bootstrap"))
    found.save(tmp_path / "two.safetensors")
    again = cp.processes.load(tmp_path / "two.safetensors")
    np.testing.assert_array_equal(again.sample_paths(3, 5), found.sample_paths(3, 5))
    assert (again.parameters, again.name) == (found.parameters, found.name)
    first, second = again.members(40, seed=1), found.members(40, seed=1)
    assert np.array_equal(first[3].phi, second[3].phi)
    spread = np.std([np.asarray(one.phi)[0] for one in first])
    assert 0.5 < spread / found.parameters["price 1: phi"].se < 1.5
    save_model(cp.TabularMDP(np.ones((1, 1, 1)), np.zeros((1, 1))), tmp_path / "m.safetensors")
    with pytest.raises(FileError, match="expected a counterplan price process"):
        cp.processes.load(tmp_path / "m.safetensors")


def test_members_draw_their_drift_once() -> None:
    record = np.random.default_rng(0).standard_t(3, 400).cumsum()
    found = cp.processes.fit(record, families=("walk", "bootstrap"))
    assert found.name == "walk with bootstrap"
    for member in found.members(4, seed=1):
        drift = float(np.asarray(member.profile)[0, 0])
        assert np.asarray(member.shocks).mean() == pytest.approx(0.0, abs=1e-12)
        assert member.mean_path(13)[-1, 0] == pytest.approx(record[-1] + 12 * drift, rel=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("noise", [0.05, 1e-6])
def test_what_swings_to_and_fro_is_stationary(tmp_path: Path, noise: float) -> None:
    record = 10 + (-1.0) ** np.arange(60) + noise * np.random.default_rng(0).normal(size=60)
    found = cp.processes.fit(record, families=("ou",))
    assert -1.0 < found.parameters["phi"].value < -0.9
    assert np.isfinite([*found.parameters.values()]).all()
    found.save(tmp_path / "swings.safetensors")
    cp.processes.fit(record)


@pytest.mark.parametrize("name", ["ou", "log-ou", "regimes", "seasonal"])
def test_plans_take_a_fitted_process(name: str) -> None:
    """The bound of the plan made once is what it earns, and a search does not do worse."""
    structure, shocks = ("gbm", "regimes") if name == "regimes" else (name, "normal")
    record = read_series(drawn(name, 300, 3), DATES[:300], None, None)
    process = estimated(record, structure, shocks)
    problem = cp.ExogenousMDP(
        process,
        [[1.0]],
        cp.Resource(start=3.0),
        [(0.0, 1.0)] * 6,
    )
    means = process.mean_path(6)[:, 0]
    open_loop = np.sort(means)[-3:].sum()
    bounds = cp.value_bounds(problem, samples=500, seed=0)
    assert bounds.upper + 4 * bounds.upper_se > open_loop - 1e-9
    plan = cp.plan(problem, planner=cp.UCT(2000), seed=0)
    assert plan.value > open_loop - 0.05 * abs(open_loop)


@pytest.mark.skipif(not BRENT.exists(), reason="needs the table of Brent prices")
def test_bands_hold_on_brent() -> None:
    found = cp.processes.fit(BRENT, every="month", horizon=12)
    assert found.about["held_out"] >= 180
    assert all(0.85 <= share <= 0.95 for share in found.coverage.values()), found.coverage


# --- Records -----------------------------------------------------------------------------------


def table(rows: int = 60, step: timedelta = timedelta(days=1), **columns: Any) -> pl.DataFrame:
    times = [datetime(2024, 1, 1) + i * step for i in range(rows)]
    values = np.random.default_rng(0).normal(size=rows).cumsum() + 50.0
    return pl.DataFrame({"time": times, "price": values} | columns)


PRICE = pl.col("price")
ODD: dict[str, Any] = {
    r"row 20.*2024-01-22.*gap": lambda t: pl.concat([t[:20], t[21:]]),
    r"row 9.*2024-01-09.*occurs twice": lambda t: pl.concat([t[:9], t[8:]]),
    "row 10.*is before the row above": lambda t: pl.concat([t[:9], t[12:13], t[9:12], t[13:]]),
    "no column holds numbers": lambda t: t.with_columns(price=pl.lit(None, pl.Float64)),
    "is missing": lambda t: t.with_columns(price=pl.when(PRICE > 50).then(PRICE)),
    "is not a number": lambda t: t.with_columns(time=pl.lit("soon")),
    "5 rows: a law needs 30": lambda t: t[:5],
    "is 7 in every row: nothing varies": lambda t: t.with_columns(price=pl.lit(7.0)),
    "is a straight line: nothing varies": lambda t: t.with_columns(price=pl.int_range(60)),
    "follows in every row from the row before": lambda t: t.with_columns(
        price=1.0 + pl.int_range(60) % 2
    ),
    r"does not move in its first 40 of 60 rows \(0 to 39\).*begin where": lambda t: t.with_columns(
        price=pl.when(pl.int_range(60) < 40).then(50.1).otherwise(PRICE)
    ),
    "price, other: the series move alike": lambda t: t.with_columns(other=2.0 * PRICE),
    "may have the day or the month first": lambda t: t.with_columns(time=pl.lit("01/02/2024")),
}


@pytest.mark.parametrize("says", ODD)
def test_odd_tables_get_a_line(says: str) -> None:
    with pytest.raises(InputError, match=says):
        cp.processes.fit(ODD[says](table()), time="time")


def test_hours_on_local_clocks_are_explained() -> None:
    hours = table(24 * 40, timedelta(hours=1))
    jump = pl.when(pl.col("time") >= datetime(2024, 1, 20, 2)).then(
        pl.col("time") + timedelta(hours=1)
    )
    with pytest.raises(MistakesError, match=r"set forward, add the offset from UTC"):
        cp.processes.fit(hours.with_columns(time=jump.otherwise(pl.col("time"))))
    with pytest.raises(MistakesError, match=r"set back, add the offset from UTC"):
        cp.processes.fit(pl.concat([hours[:30], hours[29:]]))


def test_steps_are_recognised(tmp_path: Path) -> None:
    days = table(400)
    weekdays = days.filter(pl.col("time").dt.weekday() < 6)
    record = read_series(weekdays, None, None, None)
    assert (record.clock.unit, record.seasons[0][1], record.remarks) == (
        "business days",
        (0, 1, 2, 3, 4),
        (),
    )
    holiday = read_series(weekdays.filter(pl.col("time") != datetime(2024, 5, 1)), None, None, None)
    assert holiday.remarks == ("steps are business days; 1 weekday without a row are closed over",)
    days[::-1].write_csv(tmp_path / "p.csv")
    turned = read_series(tmp_path / "p.csv", None, None, None)
    np.testing.assert_array_equal(turned.values[:, 0], days["price"].to_numpy())
    months = read_series(days, None, None, "month")
    assert (months.clock.unit, len(months.values)) == ("months", 13)
    assert months.remarks == (
        "the last row of each month is taken, without the month that is not over",
    )
    pandas = pytest.importorskip("pandas")
    frame = pandas.Series(days["price"].to_list(), pandas.DatetimeIndex(days["time"].to_list()))
    weeks = read_series(frame, None, None, "week")
    assert (weeks.clock.step, weeks.fine is None) == (7 * DAY, False)
    assert read_series(np.arange(40.0), None, None, None).seasons == ()


def test_families_must_apply() -> None:
    values = np.random.default_rng(0).normal(size=60).cumsum()
    assert cp.processes.fit(values).logs is False
    for family, why in (
        ("gbm", "not positive"),
        ("seasonal", "no season"),
        ("arma", "is not one of"),
    ):
        with pytest.raises(InputError, match=why):
            cp.processes.fit(values, families=(family,))
    with pytest.raises(InputError, match="t=4, column 0 is nan"):
        cp.processes.fit([1.0, 2.0, 3.0, 4.0, np.nan] * 10)


def test_what_the_past_does_not_vouch_for_is_told() -> None:
    rng = np.random.default_rng(1)
    calm, wild = rng.normal(size=300) * 0.01, rng.normal(size=300) * 0.05
    broken = cp.processes.fit(np.exp(np.cumsum([*calm, *wild])), families=("gbm",), horizon=400)
    told = " ".join(broken.warnings)
    for part in (
        "sizes of its shocks differ",
        "too sure of itself",
        "67% of the 600",
        "wider than all",
    ):
        assert part in told, told
    halves = [datetime(2024, 1, 1) + i * timedelta(hours=12) for i in range(36)]
    short = cp.processes.fit(rng.normal(size=36) + 9.0, time=halves, families=("seasonal",))
    assert "only 2.6 weeks were seen, fewer than 3" in " ".join(short.warnings)


@pytest.mark.filterwarnings("error")
def test_blocks_that_differ_by_rounding_are_no_break() -> None:
    assert "differ" not in " ".join(cp.processes.fit(np.tile([1.0, 2.0, 3.0], 60)).warnings)


def test_bands_that_hold_too_often_are_told_but_do_not_lose() -> None:
    record = np.random.default_rng(1).integers(0, 3, 120).astype(float)
    found = cp.processes.fit(record, families=("walk", "ou"), horizon=12)
    told = " ".join(found.warnings)
    assert (found.name, found.coverage[1]) == ("ou", 1.0)
    assert "bands are wider than needed: those of 90 % held 100%" in told
    assert "wider than all of the record" in told
    assert "nothing pulls it back" not in told
    assert "nothing pulls it back" in " ".join(
        cp.processes.fit(record, families=("walk",), horizon=12).warnings
    )


def test_a_mistake_in_the_record_is_told_of() -> None:
    rng = np.random.default_rng(0)
    prices = 50.0 + rng.normal(0.0, 2.0, 200).cumsum()
    assert not any("two largest" in one for one in cp.processes.fit(prices).warnings)
    prices[100] *= 100.0
    found = cp.processes.fit(prices, families=["walk"])
    assert any("the largest at step 10" in one for one in found.warnings)
