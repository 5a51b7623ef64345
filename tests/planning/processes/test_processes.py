"""What every process has in common: its draws, paths, means and successors are one law, and the
compiled functions are the same one."""

from __future__ import annotations

import numpy as np
import pytest

from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.processes.base import (
    CompiledProcess,
    FiniteProcess,
    HasQuantiles,
    Process,
)
from counterplan.planning.processes.laws import process_draw, process_mean, process_successors

from .support import PROCESSES, Floats, assert_same_mean

SAMPLES = 20_000
STEPS = 5
NAMES = list(PROCESSES)
WITH_MEAN = [name for name in NAMES if name != "modes"]
FINITE = [name for name in NAMES if isinstance(PROCESSES[name], FiniteProcess)]
QUANTILES = ["independent", "global", "bootstrap", "independent bootstrap"]


def somewhere(process: Process, t: int = 3) -> Floats:
    """Some x_t."""
    return np.ascontiguousarray(process.sample_paths(1, t + 1, seed=11)[0, t])


def parameters(name: str, quantiles: int = 0) -> Floats:
    process = PROCESSES[name]
    assert isinstance(process, CompiledProcess)
    return process.kernel_parameters(STEPS, quantiles)


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


@pytest.mark.parametrize("name", WITH_MEAN)
def test_draws_have_the_mean_of_the_next_step(name: str) -> None:
    process, x = PROCESSES[name], somewhere(PROCESSES[name])
    drawn = process.draw(3, np.repeat(x[None], SAMPLES, axis=0), np.random.default_rng(8))
    assert_same_mean(drawn, process.mean_path(2, 3, x)[1])


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


@pytest.mark.parametrize("name", NAMES)
def test_compiled_successors_and_means(name: str) -> None:
    process, x = PROCESSES[name], somewhere(PROCESSES[name])
    assert isinstance(process, CompiledProcess)
    quantiles = 6 if name in QUANTILES else 0
    block = parameters(name, quantiles)
    most = process.most_successors(quantiles)
    states, chances = np.empty((most, len(x))), np.empty(most)
    found = process_successors(block, 3, x, states, chances)
    if quantiles:
        assert isinstance(process, HasQuantiles)
        expected = process.quantiles(3, x, quantiles)
    elif isinstance(process, FiniteProcess):
        expected = process.successors(3, x)
    else:
        assert found == most == 0
        return
    assert found == len(expected[1]) <= most
    assert states[:found] == pytest.approx(expected[0], rel=1e-12)
    assert chances[:found] == pytest.approx(expected[1], rel=1e-12)


@pytest.mark.parametrize("name", WITH_MEAN)
def test_compiled_means(name: str) -> None:
    process, x = PROCESSES[name], somewhere(PROCESSES[name])
    following = np.empty(len(x))
    process_mean(parameters(name), 3, x, following)
    assert following == pytest.approx(process.mean_path(2, 3, x)[1], rel=1e-12)


@pytest.mark.parametrize("name", WITH_MEAN)
def test_compiled_draws(name: str) -> None:
    process, x = PROCESSES[name], somewhere(PROCESSES[name])
    block, rng = parameters(name), np.random.default_rng(12)
    drawn = np.empty((SAMPLES, len(x)))
    for row in drawn:
        process_draw(block, 3, x, rng, row)
    assert_same_mean(drawn, process.mean_path(2, 3, x)[1])
    same = process.draw(3, np.repeat(x[None], SAMPLES, axis=0), rng)
    # Second moments agree as well, so volatilities and correlations do.
    spread = np.cov(drawn.T), np.cov(same.T)
    scale = np.sqrt(np.outer(np.diag(np.atleast_2d(spread[1])), np.diag(np.atleast_2d(spread[1]))))
    assert (np.abs(np.subtract(*spread)) <= 0.1 * scale + 1e-12).all()


def test_the_mean_of_a_mode_number_is_refused() -> None:
    with pytest.raises(NotApplicableError, match="means nothing; use MarkovModes"):
        PROCESSES["modes"].mean_path(3)


@pytest.mark.parametrize("name", ["correlated", "gaussian"])
def test_quantiles_that_are_not_defined_are_refused(name: str) -> None:
    with pytest.raises(NotApplicableError, match=r"quantiles of .* are not defined"):
        parameters(name, 8)
