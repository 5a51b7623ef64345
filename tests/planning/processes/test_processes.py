"""What every process has in common: its draws, paths, means and successors are one law."""

from __future__ import annotations

import numpy as np
import pytest

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.processes import (
    GBM,
    BinomialLattice,
    BootstrapPrices,
    FiniteProcess,
    HasQuantiles,
    HiddenModes,
    MarkovModes,
    Process,
    ResampledTraces,
)
from counterplan.planning.processes.laws import Shipped, draw_rare_rows

MATRIX = [[0.3, 0.5, 0.2], [0.1, 0.7, 0.2], [0.3, 0.3, 0.4]]
MILEAGES = [[10, 8], [8, 9], [8, 8]]
EMISSIONS = [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.0, 0.1, 0.9]]
RECORD = np.exp(np.cumsum(np.random.default_rng(0).normal(0.0, 0.1, 60)))
TRACE = [0, 1, 1, 2, 0, 2, 2, 1, 0, 1, 2, 2, 0]

PROCESSES: dict[str, Process] = {
    "independent": GBM(1000.0, 1.0, 0.5, 1 / 7, kind="independent"),
    "global": GBM(1000.0, 1.0, 0.5, 1 / 7),
    "correlated": GBM([10.0, 20.0, 30.0], 0.1, [0.1, 0.2, 0.3], 0.1, 0.5, "correlated"),
    "lattice": BinomialLattice(100.0, 0.05, 0.2, 0.1, 0.02),
    "modes": MarkovModes(MATRIX),
    "indicators": MarkovModes(MATRIX, 1, indicators=True),
    "hidden": HiddenModes(MATRIX, MILEAGES, EMISSIONS),
    "bootstrap": BootstrapPrices(RECORD, initial=100.0, block=2),
    "independent bootstrap": BootstrapPrices(RECORD, 100.0, 3, "independent"),
    "traces": ResampledTraces.from_modes([TRACE], indicators=True),
}


def assert_same_mean(samples: FloatArray, expected: FloatArray, sigmas: float = 5.0) -> None:
    """Within five standard errors of the mean of samples (n, ...): seeds are fixed, and a right
    mean would be refused once in two million."""
    error = samples.std(axis=0) / np.sqrt(len(samples))
    off = np.abs(samples.mean(axis=0) - expected)
    assert (off <= sigmas * error + 1e-9 * (1 + np.abs(expected))).all(), (off, error)


SAMPLES = 20_000
STEPS = 5
NAMES = list(PROCESSES)
WITH_MEAN = [name for name in NAMES if name != "modes"]
FINITE = [name for name in NAMES if isinstance(PROCESSES[name], FiniteProcess)]
QUANTILES = ["independent", "global", "bootstrap", "independent bootstrap"]


def somewhere(process: Process, t: int = 3) -> FloatArray:
    """Some x_t."""
    return np.ascontiguousarray(process.sample_paths(1, t + 1, seed=11)[0, t])


@pytest.mark.parametrize("name", NAMES)
def test_paths_are_reproducible_and_begin_where_asked(name: str) -> None:
    process = PROCESSES[name]
    assert isinstance(process, Process)
    paths = process.sample_paths(7, STEPS, seed=4)
    assert paths.shape == (7, STEPS, len(process.start))
    assert (paths[:, 0] == process.start).all()
    assert (process.sample_paths(7, STEPS, seed=4) == paths).all()
    assert (process.sample_paths(7, STEPS, np.random.default_rng(4)) == paths).all()
    x = somewhere(process)
    assert (process.sample_paths(7, 2, 0, 3, x)[:, 0] == x).all()
    with pytest.raises(InputError, match="steps must be at least 1"):
        process.sample_paths(7, 0)
    with pytest.raises(InputError, match="n must be at least 1"):
        process.sample_paths(0, 3)
    with pytest.raises(InputError, match="start must have shape"):
        process.sample_paths(2, 3, start=np.zeros(17))


@pytest.mark.parametrize("name", WITH_MEAN)
def test_mean_paths(name: str) -> None:
    process = PROCESSES[name]
    assert_same_mean(process.sample_paths(SAMPLES, STEPS, seed=6), process.mean_path(STEPS))
    x = somewhere(process)
    later = process.mean_path(3, 3, x)
    assert later[0] == pytest.approx(x)
    assert_same_mean(process.sample_paths(SAMPLES, 3, 7, 3, x), later)
    drawn = process.draw(3, np.repeat(x[None], SAMPLES, axis=0), np.random.default_rng(8))
    assert_same_mean(drawn, later[1])


@pytest.mark.parametrize("name", FINITE)
def test_successors_are_what_is_drawn(name: str) -> None:
    process, x = PROCESSES[name], somewhere(PROCESSES[name])
    assert isinstance(process, FiniteProcess)
    values, chances = process.successors(3, x)
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)
    assert (chances > 0).all()
    drawn = process.draw(3, np.repeat(x[None], SAMPLES, axis=0), np.random.default_rng(9))
    hits = np.array([[np.allclose(row, value) for value in values] for row in drawn[:2000]])
    assert (hits.sum(axis=1) == 1).all()
    # Five standard errors of a share.
    allowed = 5 * np.sqrt(chances * (1 - chances) / len(hits))
    assert (np.abs(hits.mean(axis=0) - chances) <= allowed).all()


@pytest.mark.parametrize("count", [1, 2, 8, 33])
@pytest.mark.parametrize("name", QUANTILES)
def test_quantiles_keep_the_mean(name: str, count: int) -> None:
    process, x = PROCESSES[name], somewhere(PROCESSES[name])
    assert isinstance(process, HasQuantiles)
    values, chances = process.quantiles(3, x, count)
    assert values.shape == (count, 1)
    assert (np.diff(values[:, 0]) >= 0).all()
    assert chances.tolist() == [1 / count] * count
    assert chances @ values == pytest.approx(process.mean_path(2, 3, x)[1], rel=1e-12)


@pytest.mark.parametrize("name", QUANTILES)
def test_quantiles_are_the_means_of_equally_likely_parts(name: str) -> None:
    process, x = PROCESSES[name], somewhere(PROCESSES[name])
    assert isinstance(process, HasQuantiles)
    values, _ = process.quantiles(3, x, 4)
    drawn = process.draw(3, np.repeat(x[None], SAMPLES, axis=0), np.random.default_rng(10))
    parts = np.sort(drawn[:, 0]).reshape(4, -1)
    # Where the parts begin is estimated, too: twice the error of a part's mean covers both.
    error = parts.std(axis=1) / np.sqrt(parts.shape[1]) + drawn.std() / np.sqrt(SAMPLES)
    assert (np.abs(parts.mean(axis=1) - values[:, 0]) <= 5 * error).all()


@pytest.mark.parametrize("name", ["bootstrap", "independent bootstrap"])
def test_the_search_draws_as_python_does(name: str) -> None:
    """Bootstrapped prices are drawn in two places, since compiled code has no whole numbers."""
    process, x = PROCESSES[name], somewhere(PROCESSES[name])
    assert isinstance(process, BootstrapPrices)
    rng, drawn = np.random.default_rng(12), np.empty((SAMPLES, 1))
    block, rows = process.kernel_parameters(STEPS), np.repeat(x[None], SAMPLES, axis=0)
    draw_rare_rows(block, 3, rows, rng, drawn)
    assert_same_mean(drawn, process.mean_path(2, 3, x)[1])
    listed = x * process.factors(3) if name == "bootstrap" else 100.0 * process.factors(3)
    assert np.isin(np.round(drawn, 9), np.round(listed, 9)).all()


def test_the_mean_of_a_mode_number_is_refused() -> None:
    with pytest.raises(NotApplicableError, match="means nothing; use MarkovModes"):
        PROCESSES["modes"].mean_path(3)


def test_quantiles_that_are_not_defined_are_refused() -> None:
    process = PROCESSES["correlated"]
    assert isinstance(process, Shipped)
    with pytest.raises(NotApplicableError, match=r"quantiles of .* are not defined"):
        process.kernel_parameters(STEPS, 8)
