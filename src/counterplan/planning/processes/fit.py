"""The law of a record of prices or demand: estimated, chosen by what it was not shown, and doubted.

    process = cp.processes.fit("brent.csv", every="month")       # a process for any problem
    process.name, process.scores, process.parameters, process.coverage, process.warnings
    process.members(16), process.save("brent.safetensors"), cp.processes.load("brent.safetensors")

Every law is an `Autoregression` of levels, or of logs where all numbers are positive:

    gbm, walk             phi = 1, of logs and of levels
    log-ou, ou            mean reversion
    log-seasonal, seasonal  and a profile of hours, weekdays and months, as far as the times tell
    ... with regimes      the best of these for logs and for levels, shocks from two hidden regimes
    ... with bootstrap    or drawn from the record's own; of a walk with `every`, from the runs of
                          rows that are as long as a step

The last HELD_OUT of the record is predicted step by step, each of FOLDS parts by laws that know
what came before it. A law takes the place of a simpler one if its log density there is higher by
more than BETTER standard errors of the difference, and in all by EVIDENCE for each series; of
equally simple ones the higher counts. A law whose 90 % bands held too seldom there stands back
while others held. Recorded shocks have no density: theirs is smoothed by kernels, Student's t, so
that one shock beyond all recorded ones does not decide.

`members` are draws from the posterior of `estimates`, and intervals are its.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from counterplan.core.tensors import TensorFormat, Tensors, read_tensors, write_tensors
from counterplan.core.validation import FloatArray, Seed, generator, whole_number
from counterplan.errors import FileError, InputError, counted
from counterplan.planning.processes.autoregression import Autoregression, Clock
from counterplan.planning.processes.estimates import (
    Noise,
    Structure,
    estimate,
    fits_of,
    noise_of,
    posterior,
    regimes,
)
from counterplan.planning.processes.series import Series, read_series

# Structures from simple to rich, of logs and of levels; what shocks may be, from simple to rich.
STRUCTURES = {
    "gbm": ("walk", True), "walk": ("walk", False),
    "log-ou": ("reversion", True), "ou": ("reversion", False),
    "log-seasonal": ("seasonal", True), "seasonal": ("seasonal", False),
}  # fmt: skip
RANKS = {"walk": 0, "reversion": 1, "seasonal": 2}
SHOCKS = ("normal", "bootstrap", "regimes")
FAMILIES = (*STRUCTURES, *SHOCKS[1:])
FEWEST, HELD_OUT, FOLDS = 30, 0.5, 5
# What a richer law must be better by: standard errors, and nats for each series (odds of 20 to 1).
BETTER, EVIDENCE = 1.0, 3.0
NINETY = 1.645
HORIZONS = (1, 3, 6, 12)
# Recorded shocks that are kept, and that a density is made of; paths and origins that longer bands
# are judged by; steps of a fan and lags that are drawn.
MOST_SHOCKS, MOST_KERNELS, PATHS, ORIGINS, FAN, LAGS = 5000, 1000, 400, 200, 24, 24
# Series that switch regimes together, since each has all covariances of its own.
MOST_SWITCHING = 4
# Degrees of freedom of kernels.
TAILS = 4
FAN_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
# What makes a warning: horizon by history, seasons seen, chance of coverage or of a break by luck,
# and the share of the variance that two shocks make.
LONGEST_SHARE, FEW_CYCLES, LUCK, FEW_MAKE_ALL = 0.25, 3.0, 0.01, 0.5
ARRAYS = ("initial", "phi", "profile", "covariance", "shift", "chances", "shocks", "theta",
          "theta_covariance", "pit", "shock_correlation", "fan", "seen", "range")  # fmt: skip
PROCESS = TensorFormat(
    "counterplan price process", 1, dict.fromkeys(ARRAYS, "F64"),
    ("name", "names", "logs", "belief", "seasons", "clock", "about"),
)  # fmt: skip


class Parameter(NamedTuple):
    """An estimate, its standard error, and the ends of its 90 % interval."""

    value: float
    se: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class FittedProcess(Autoregression):
    """A law that `fit` chose, a process like others; t = 0 is the last row of the record.

    name     of the law
    names    of the series
    about    scores of all laws, parameters, coverage of held-out 90 % bands by steps ahead, what
             was done to the record, warnings, and how long the record is
    records  theta and its covariance (all that was estimated), and what a figure shows of the
             held-out part: pit (n, S), correlation of shocks (LAGS, S), fan (levels, steps, S), and
             what was seen around it (steps before and after, S)
    """

    name: str = ""
    names: tuple[str, ...] = ()
    about: dict[str, Any] = field(default_factory=dict, repr=False)
    records: dict[str, FloatArray] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        return f"FittedProcess(name={self.name!r}, names={self.names!r})"

    @property
    def scores(self) -> list[dict[str, Any]]:
        """Of each law: its mean log density of held-out steps, its lead over the chosen one with
        standard error, and coverage of its 90 % bands."""
        return list(self.about["scores"])

    @property
    def parameters(self) -> dict[str, Parameter]:
        """By name; per step, in logs where the law is."""
        return {name: Parameter(*numbers) for name, numbers in self.about["parameters"].items()}

    @property
    def coverage(self) -> dict[int, float]:
        """Share of held-out numbers within 90 % bands, by how many steps ahead."""
        return {int(steps): share for steps, share in self.about["coverage"].items()}

    @property
    def warnings(self) -> list[str]:
        """Where the past does not vouch for what comes."""
        return list(self.about["warnings"])

    def members(self, n: int = 16, seed: Seed = 0) -> tuple[Autoregression, ...]:
        """Draws from the posterior of the parameters, each a process."""
        rng = generator(seed)
        thetas = self._draws(whole_number(n, "members", minimum=1), rng)
        return tuple(self._with(theta, rng) for theta in thetas)

    def _draws(self, n: int, rng: np.random.Generator) -> FloatArray:
        """(n, p) parameters; of phi below 1."""
        theta, S = self.records["theta"], self.series
        values, vectors = np.linalg.eigh(self.records["theta_covariance"])
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        drawn = theta + rng.standard_normal((20 * n, len(theta))) @ root.T
        if not self.walks:
            good = (np.abs(drawn[:, :S]) < 1.0).all(axis=1)
            drawn = np.concatenate([drawn[good], drawn[~good]])
            drawn[:, :S] = np.clip(drawn[:, :S], -0.9999, 0.9999)
        return np.asarray(drawn[:n])

    def _with(self, theta: FloatArray, rng: np.random.Generator | None = None) -> Autoregression:
        """The law with other parameters; recorded shocks are drawn anew."""
        S, K, count = self.series, self.regimes, len(np.asarray(self.profile))
        phi, theta = (np.ones(S), theta) if self.walks else (theta[:S], theta[S:])
        shift, covariance, chances = noise_of(theta[count * S :], K, S)
        shocks = np.asarray(self.shocks)
        if len(shocks) and rng is not None:
            shocks = shocks[rng.integers(len(shocks), size=len(shocks))]
            shocks = shocks - shocks.mean(axis=0)  # the drift has been drawn with theta
        profile = theta[: count * S].reshape(count, S)
        return Autoregression(
            self.initial, phi, profile, covariance, self.logs, shift, chances, self.belief, shocks,
            self.seasons, self.clock,
        )  # fmt: skip

    def doubts(self, horizon: int) -> list[str]:
        """Warnings about plans of so many steps."""
        steps, rows = whole_number(horizon, "horizon", minimum=1), self.about["rows"]
        found = []
        if steps > LONGEST_SHARE * rows:
            found.append(
                f"a horizon of {steps} steps is {steps / rows:.0%} of the {rows} that the record "
                f"has: it shows only {rows / steps:.1f} such stretches"
            )
        low, high = self.records["range"]
        bands = self.bands(steps + 1)[:, -1]
        for i in np.flatnonzero(bands[1] - bands[0] > high - low):
            free = np.asarray(self.phi)[i] > 0.5 ** (1 / steps)  # half-lives beyond the horizon
            why = f"nothing pulls it back within {steps} steps, " if free else ""
            found.append(
                f"{self.names[i]}: {why}its 90 % band after {counted(steps, 'step')} goes from "
                f"{bands[0, i]:.4g} to {bands[1, i]:.4g}, wider than all of the record "
                f"({low[i]:.4g} to {high[i]:.4g})"
            )
        return found

    def save(self, path: str | Path) -> None:
        """Write a .safetensors file, which `load` reads."""
        arrays = {name: np.asarray(getattr(self, name)) for name in ARRAYS[:7]} | self.records
        entries = {name: getattr(self, name) for name in PROCESS.entries}
        entries["clock"] = asdict(self.clock)
        write_tensors(path, Tensors(PROCESS, arrays, entries))


def load(path: str | Path) -> FittedProcess:
    """The process in a file that `save` or `counterplan fit --process` wrote."""
    found = read_tensors(path, (PROCESS,))
    given = {name: found.arrays[name] for name in ARRAYS[:7]} | found.entries
    try:
        given["seasons"] = tuple((str(name), tuple(map(int, n))) for name, n in given["seasons"])
        given |= {"clock": Clock(**given["clock"]), "names": tuple(given["names"])}
        return FittedProcess(**given, records={name: found.arrays[name] for name in ARRAYS[7:]})
    except (TypeError, ValueError) as problem:
        raise FileError(f"{path}: {problem}; save the process anew") from None


def fit(
    series: Any,
    *,
    time: Any = None,
    columns: Sequence[str] | None = None,
    every: str | None = None,
    families: Sequence[str] | None = None,
    horizon: int | None = None,
    seed: Seed = 0,
) -> FittedProcess:
    """The law of a record, as a process that begins where the record ends.

    series    (T,) or (T, S) numbers at equal steps, a frame of polars or pandas, or a table file
    time      name of the column of times; of an array, the times themselves
    columns   names of the series (all other columns that hold numbers)
    every     'hour', 'day', 'week' or 'month': take the last row of each
    families  which laws to choose from: gbm, walk, log-ou, ou, log-seasonal, seasonal, regimes,
              bootstrap (all that apply)
    horizon   steps of the plans to come, to warn where the record does not vouch for them
    """
    record = read_series(series, time, columns, every)
    T = len(record.values)
    if T < FEWEST:
        raise InputError(f"the record has {T} rows: a law needs {FEWEST} at least; give more")
    for name, values in zip(record.names, record.values.T, strict=True):
        _check_moves(name, values)
    try:
        found = _contest(record, families, generator(seed))
    except np.linalg.LinAlgError:
        why = "the series move alike, or one not by chance at all"
        raise InputError(f"{', '.join(record.names)}: {why}; leave one out") from None
    if horizon is not None:
        found.about["warnings"] += found.doubts(horizon)
    return found


def _check_moves(name: str, values: FloatArray) -> None:
    """A series, and what the first laws are estimated from, must vary by chance."""
    T, moves = len(values), np.diff(values)
    line = np.abs(moves - moves[0]) <= 1e-9 * np.ptp(values)
    lagged = np.column_stack([np.ones(T - 1), values[:-1] - values[0]])
    rest = values[1:] - lagged @ np.linalg.lstsq(lagged, values[1:], rcond=None)[0]
    how = "follows in every row from the row before"
    if line.all():
        how = f"is {values[0]:g} in every row" if not np.ptp(values) else "is a straight line"
    if line.all() or np.abs(rest).max() <= 1e-9 * np.ptp(values):
        raise InputError(f"{name!r} {how}: nothing varies by chance; state it as known")
    rows = int(np.argmin(line)) + 1
    if rows >= round(T * (1 - HELD_OUT)):
        how = "is a straight line" if moves[0] else "does not move"
        raise InputError(
            f"{name!r} {how} in its first {rows} of {T} rows (0 to {rows - 1}): too long to judge "
            "laws by the others; begin where it varies"
        )


def _contest(
    record: Series, families: Sequence[str] | None, rng: np.random.Generator
) -> FittedProcess:
    """The best of all laws that are asked for."""
    asked = _asked(record, families)
    tried = dict[str, _Tried]()
    for name in asked[0]:
        tried[name] = _try(record, name, "normal")
    for logs in (True, False):
        alike = {name: one for name, one in tried.items() if STRUCTURES[one.structure][1] == logs}
        for shocks in asked[1] if alike else ():
            best = _choose({name: one for name, one in alike.items() if one.shocks == "normal"})
            tried[f"{best} with {shocks}"] = _try(record, best, shocks)
    if families is not None and not set(families) & set(STRUCTURES):
        tried = {name: one for name, one in tried.items() if one.shocks != "normal"}
    chosen = _choose(tried)
    return _finished(record, chosen, tried, rng)


def _asked(record: Series, families: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Structures and shocks to try, or why a wanted one does not apply."""
    positive = bool((record.values > 0).all())
    wanted = tuple(families or FAMILIES)
    for name in wanted:
        if name not in FAMILIES:
            raise InputError(f"family {name!r} is not one of {', '.join(FAMILIES)}")
        kind, logs = STRUCTURES.get(name, ("", False))
        why = "the record has numbers that are not positive, so no logs" * (logs and not positive)
        if name == "regimes" and record.values.shape[1] > MOST_SWITCHING:
            why = f"more than {MOST_SWITCHING} series leave too many covariances for each regime"
        if kind == "seasonal" and not record.seasons:
            why = why or "no season is seen twice: it needs dates, and two days, weeks or years"
        if why and families is not None:
            raise InputError(f"family {name!r} does not apply: {why}; leave it out")
        if why:
            wanted = tuple(one for one in wanted if one != name)
    structures = [name for name in wanted if name in STRUCTURES]
    return structures or ["gbm" if positive else "walk"], [s for s in SHOCKS[1:] if s in wanted]


# --- The contest ------------------------------------------------------------------------------


class _Law(NamedTuple):
    """Structure, noise and recorded shocks, estimated from the first rows of a record."""

    made: Structure
    noise: Noise
    recorded: FloatArray

    def process(self, record: Series, name: str, row: int, belief: float) -> Autoregression:
        """That begins with a row."""
        kind, logs = STRUCTURES[name]
        when = 0.0 if record.stamps is None else float(record.stamps[row])
        return Autoregression(
            record.values[row], self.made.phi, self.made.profile, self.noise.covariance, logs,
            self.noise.shift, self.noise.chances, belief, self.recorded,
            record.seasons if kind == "seasonal" else (), replace(record.clock, start=when),
        )  # fmt: skip


class _Tried(NamedTuple):
    """A law and how it did: (n,) log densities of held-out steps, (n, S) where in its predictions
    they fell, and of each part its law, first row, and beliefs of all rows before."""

    structure: str
    shocks: str
    fits: FloatArray
    pit: FloatArray
    parts: list[tuple[_Law, int, FloatArray]]

    @property
    def rank(self) -> tuple[int, int]:
        return SHOCKS.index(self.shocks), RANKS[STRUCTURES[self.structure][0]]

    @property
    def covered(self) -> float:
        return float(((self.pit >= 0.05) & (self.pit <= 0.95)).mean())

    @property
    def holds(self) -> bool:
        """Whether its 90 % bands held often enough, one step ahead."""
        return self.covered >= 0.9 or _held(self.covered, self.pit.size)


def _held(share: float, count: float) -> bool:
    """Whether 90 % bands held in 85 to 95 % of so many numbers, or missed that by chance."""
    from scipy.stats import binom

    inside = round(share * count)
    chance = 2 * min(binom.cdf(inside, round(count), 0.9), binom.sf(inside - 1, round(count), 0.9))
    return bool(0.85 <= share <= 0.95 or chance >= LUCK)


def _estimated(record: Series, name: str, shocks: str, rows: int, upto: int) -> _Law:
    made = estimate(record, STRUCTURES[name], rows, upto)
    seen = made.shocks[: rows - 1]
    S, recorded = seen.shape[1], np.empty((0, seen.shape[1]))
    if shocks == "regimes":
        return _Law(made, regimes(seen), recorded)
    free = max(len(seen) - made.slopes[0].shape[1], 1)
    if shocks == "bootstrap":
        recorded = seen
        if record.fine is not None and STRUCTURES[name][0] == "walk":
            T, fine = len(record.values), record.fine
            fine = fine[: len(fine) * rows // T]
            fine = np.log(fine) if STRUCTURES[name][1] else fine
            block = max(round(len(record.fine) / T), 1)
            recorded = fine[block:] - fine[:-block]
        some = np.linspace(0, len(recorded) - 1, min(len(recorded), MOST_SHOCKS)).astype(int)
        recorded = recorded[some] - recorded[some].mean(axis=0)
    covariance = (seen.T @ seen / free)[None]
    return _Law(made, Noise(np.zeros((1, S)), covariance, np.ones((1, 1))), recorded)


def _try(record: Series, name: str, shocks: str) -> _Tried:
    """The law's predictions of all held-out steps."""
    T, logs = len(record.values), STRUCTURES[name][1]
    edges = np.linspace(round(T * (1 - HELD_OUT)), T, FOLDS + 1).astype(int).tolist()
    fits, pits, parts = [], [], []
    for begin, end in pairwise(edges):
        law = _estimated(record, name, shocks, begin, end)
        before, after, fit = fits_of(law.made.shocks, law.noise)
        held = law.made.shocks[begin - 1 :]
        if shocks == "bootstrap":
            fit, pit = _smoothed_density(held, law.recorded, law.noise.covariance[0])
        else:
            fit, pit = fit[begin - 1 :], _below(held, law.noise, before[begin - 1 :])
        fits.append(fit - (np.log(record.values[begin:end]).sum(axis=1) if logs else 0.0))
        pits.append(pit)
        parts.append((law, begin, after[:, -1] * (len(law.noise.chances) > 1)))
    return _Tried(name, shocks, np.concatenate(fits), np.concatenate(pits), parts)


def _below(shocks: FloatArray, noise: Noise, before: FloatArray) -> FloatArray:
    """(n, S) chance of a lower shock."""
    from scipy.special import ndtr

    sigma = np.sqrt(np.diagonal(noise.covariance, axis1=1, axis2=2))
    found = ndtr((shocks[:, None] - noise.shift) / sigma)
    return np.asarray((before[:, :, None] * found).sum(axis=1))


def _smoothed_density(
    held: FloatArray, recorded: FloatArray, covariance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(n,) log densities by kernels around recorded shocks, as wide as Silverman's rule has it,
    and (n, S) shares of these that are lower."""
    from scipy.special import logsumexp
    from scipy.stats import multivariate_t

    some = recorded[np.linspace(0, len(recorded) - 1, min(len(recorded), MOST_KERNELS)).astype(int)]
    n, S = some.shape
    width = (4.0 / (S + 2.0) / n) ** (1.0 / (S + 4.0))
    kernel = multivariate_t(np.zeros(S), covariance * width**2, TAILS)
    fits = [logsumexp(np.atleast_1d(kernel.logpdf(one - some))) - np.log(n) for one in held]
    places = [np.searchsorted(np.sort(a), b) for a, b in zip(recorded.T, held.T, strict=True)]
    return np.array(fits), (np.column_stack(places) + 0.5) / (len(recorded) + 1.0)


def _lead(one: _Tried, other: _Tried) -> tuple[float, float]:
    """Mean difference of log densities, and its standard error."""
    more = one.fits - other.fits
    return float(more.mean()), float(more.std(ddof=1) / len(more) ** 0.5)


def _choose(tried: dict[str, _Tried]) -> str:
    """From simple to rich: a law is replaced by one that is better by more than chance. Those whose
    bands held too seldom stand back while others held."""
    tried = {name: one for name, one in tried.items() if one.holds} or tried
    chosen = ""
    for rank in sorted({one.rank for one in tried.values()}):
        alike = {name: one for name, one in tried.items() if one.rank == rank}
        best = max(alike, key=lambda name: float(alike[name].fits.mean()))
        if chosen:
            lead, error = _lead(tried[best], tried[chosen])
        n, S = tried[best].pit.shape
        if not chosen or lead > max(BETTER * error, EVIDENCE * S / n):
            chosen = best
    return chosen


# --- What is told of the chosen one -----------------------------------------------------------


def estimated(record: Series, structure: str, shocks: str = "normal") -> FittedProcess:
    """One law from all rows, with its parameters and correlation of shocks."""
    T = len(record.values)
    law = _estimated(record, structure, shocks, T, T)
    moves = law.made.shocks
    after = fits_of(moves, law.noise)[1]
    plain = law.process(record, structure, T - 1, float(after[-1, -1] * (after.shape[1] > 1)))
    theta, covariance = posterior(law.made, law.noise, moves)
    lags = [np.sum(moves[k:] * moves[:-k], axis=0) for k in range(1, min(LAGS, T // 4) + 1)]
    records = {
        "theta": theta,
        "theta_covariance": covariance,
        "shock_correlation": np.array(lags) / (moves**2).sum(axis=0),
        "range": np.array([record.values.min(axis=0), record.values.max(axis=0)]),
    }
    about = {"rows": T, "remarks": list(record.remarks), "breaks": _breaks(moves, record.names)}
    inner = {name: getattr(plain, name) for name in plain.__dataclass_fields__}
    found = FittedProcess(**inner, names=record.names, about=about, records=records)
    about["parameters"] = _parameters(found)
    return found


def _finished(
    record: Series, chosen: str, tried: dict[str, _Tried], rng: np.random.Generator
) -> FittedProcess:
    """The chosen law from all rows, with how it did on what was held out."""
    best = tried[chosen]
    found = replace(estimated(record, best.structure, best.shocks), name=chosen)
    coverage, fan, seen = _held_out(record, best, rng)
    found.records.update(pit=best.pit, fan=fan, seen=seen)
    found.about.update(
        held_out=len(best.fits),
        scores=[_scored(name, one, best) for name, one in tried.items()],
        coverage={str(steps): share for steps, share in coverage.items()},
    )
    found.about["warnings"] = _warnings(found, record.cycles, best) + found.about.pop("breaks")
    return found


def _scored(name: str, one: _Tried, best: _Tried) -> dict[str, Any]:
    lead, error = _lead(one, best)
    score = float(one.fits.mean())
    return {"law": name, "score": score, "lead": lead, "lead_se": error, "covered": one.covered}


def _held_out(
    record: Series, best: _Tried, rng: np.random.Generator
) -> tuple[dict[int, float], FloatArray, FloatArray]:
    """Coverage by steps ahead, of one step exactly and of more by paths from up to ORIGINS rows;
    and the fan of the last steps, with what was seen before and in it."""
    values, T = record.values, len(record.values)
    first, ends = best.parts[0][1], [*(begin for _, begin, _ in best.parts[1:]), T]
    origins = np.unique(np.linspace(first - 1, T - 2, ORIGINS).astype(int))
    inside = {steps: list[float]() for steps in HORIZONS[1:] if steps <= (T - first) // 3}
    fan, last = np.empty(0), max(best.parts[-1][1] - 1, T - 1 - FAN)
    for o in sorted({*origins.tolist(), last}) if inside or T > FAN else [last]:
        law, _, beliefs = best.parts[int(np.searchsorted(ends, o, side="right").clip(0, FOLDS - 1))]
        process = law.process(record, best.structure, o, float(beliefs[o - 1]))
        most = FAN if o == last else max(inside, default=0)
        paths = process.sample_paths(PATHS, min(most, T - 1 - o) + 1, rng)[:, :, : process.series]
        for steps in inside:
            if o + steps < T and steps < paths.shape[1]:
                low = (paths[:, steps] < values[o + steps]).mean(axis=0)
                inside[steps] += ((low >= 0.05) & (low <= 0.95)).tolist()
        if o == last:
            fan = np.quantile(paths, FAN_LEVELS, axis=0)
    covered = {1: best.covered} | {steps: float(np.mean(ok)) for steps, ok in inside.items()}
    return covered, fan, values[max(last - 2 * FAN, 0) :]


def values_of(process: Autoregression, names: Sequence[str]) -> dict[str, float]:
    """The parameters by name."""
    K, found = process.regimes, dict[str, float]()
    covariance, shift = np.asarray(process.covariance), np.asarray(process.shift)
    profile, phi = np.asarray(process.profile), np.asarray(process.phi)
    sigma = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    for i in range(process.series):
        of = f"{names[i]}: " if process.series > 1 else ""
        which = [f" {k + 1}" * (K > 1) for k in range(K)]
        if process.walks:
            bent = sigma[:, i] ** 2 / 2 if process.logs else np.zeros(K)
            drifts = profile[0, i] + shift[:, i] + bent
            found |= {f"{of}drift{w}": float(d) for w, d in zip(which, drifts, strict=True)}
        else:
            level = np.exp(profile[0, i]) if process.logs else profile[0, i]
            found |= {f"{of}level": float(level), f"{of}phi": float(phi[i])}
            if 0 < phi[i] < 1:
                found[f"{of}half-life"] = float(np.log(0.5) / np.log(phi[i]))
            if K > 1:
                found |= {
                    f"{of}shift{w}": float(s) for w, s in zip(which, shift[:, i], strict=True)
                }
        found |= {f"{of}volatility{w}": float(s) for w, s in zip(which, sigma[:, i], strict=True)}
        row = 1
        for season, numbers in process.seasons:
            some = profile[row : row + len(numbers) - 1, i].tolist()
            row += len(some)
            all_of = zip(numbers, [*some, -sum(some)], strict=True)
            first = int(season == "month")
            found |= {f"{of}{season} {number + first}": float(v) for number, v in all_of}
    for k, w in enumerate(which):
        for i in range(process.series):
            for j in range(i):
                share = covariance[k, i, j] / (sigma[k, i] * sigma[k, j])
                found[f"correlation of {names[j]} and {names[i]}{w}"] = float(share)
        if K > 1:
            found[f"stay{w}"] = float(np.asarray(process.chances)[k, k])
    return found


def _parameters(found: FittedProcess) -> dict[str, list[float]]:
    """Estimate, standard error and 90 % interval of each, by its slopes in theta."""
    theta, covariance = found.records["theta"], found.records["theta_covariance"]
    values = values_of(found, found.names)
    scales = {name: _scale(name, found.logs) for name in values}
    steps = 1e-4 * np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    slopes = {name: np.zeros(len(theta)) for name in values}
    for k, move in enumerate(np.diag(steps)):
        ends = [values_of(found._with(theta + sign * move), found.names) for sign in (1, -1)]
        for name, (there, _) in scales.items():
            high, low = (there(end.get(name, values[name])) for end in ends)
            slopes[name][k] = (high - low) / (2 * steps[k])
    made = {}
    for name, (there, back) in scales.items():
        middle, error = there(values[name]), np.sqrt(slopes[name] @ covariance @ slopes[name])
        down, up, *interval = (float(back(middle + z * error)) for z in (-1, 1, -NINETY, NINETY))
        made[name] = [values[name], (up - down) / 2, *interval]
    return made


def _scale(name: str, logs: bool) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Where the estimate of a parameter is closest to normal, there and back: logs of what is
    positive, logits of chances, arcsines of phi (and of that of a half-life)."""
    from scipy.special import expit, logit

    def sine(angle: float) -> float:
        return float(np.sin(np.clip(angle, 1e-6 - np.pi / 2, np.pi / 2 - 1e-6)))

    scales: dict[str, Any] = {
        "volatility": (np.log, np.exp),
        "stay": (logit, expit),
        "correlation": (np.arctanh, np.tanh),
        "phi": (np.arcsin, sine),
        "half-life": (
            lambda life: np.arcsin(0.5 ** (1 / life)),
            lambda angle: np.log(0.5) / np.log(max(sine(angle), 1e-9)),
        ),
    } | ({"level": (np.log, np.exp)} if logs else {})
    return scales.get(name.rpartition(": ")[2].partition(" ")[0], (float, float))  # type: ignore[no-any-return]


def _warnings(found: FittedProcess, cycles: dict[str, float], best: _Tried) -> list[str]:
    """Profiles of few cycles, and bands that did not hold."""
    made = []
    for season, _ in found.seasons:
        period = {"hour": "days", "weekday": "weeks", "month": "years"}[season]
        if cycles[season] < FEW_CYCLES:
            made.append(
                f"only {cycles[season]:.1f} {period} were seen, fewer than {FEW_CYCLES:.0f}: the "
                f"profile of the {season} may be chance"
            )
    for steps, share in found.coverage.items():
        # Of stretches that overlap only one in `steps` counts.
        count = min(best.pit.size / steps, ORIGINS * found.series) if steps > 1 else best.pit.size
        if not _held(share, count):
            what = f"held {share:.0%} of held-out numbers {counted(steps, 'step')} ahead"
            made.append(
                f"90 % bands {what}: the law is too sure of itself"
                if share < 0.9
                else f"bands are wider than needed: those of 90 % {what}"
            )
    return made


def _breaks(shocks: FloatArray, names: Sequence[str]) -> list[str]:
    """Series with a few shocks that make most of their variance; and those whose shocks, or sizes
    of shocks, differ between the halves of the record: by means over twenty blocks, within which
    shocks may depend on each other."""
    from scipy.stats import ttest_ind_from_stats

    made, squares = [], shocks**2
    for i, name in enumerate(names):  # a mistake is a step there and one back
        share = np.sort(squares[:, i])[-2:].sum() / max(squares[:, i].sum(), 1e-300)
        largest = int(squares[:, i].argmax()) + 1
        if len(shocks) >= 30 and share > FEW_MAKE_ALL:
            made.append(
                f"{name}: the two largest of its {len(shocks)} shocks, the largest at step "
                f"{largest} of the record, make {share:.0%} of its variance: "
                "correct them if they are mistakes; else how often such comes again is hardly known"
            )
    for what, moves in (("means", shocks), ("sizes", np.abs(shocks))) if len(shocks) >= 60 else ():
        parts = np.array([part.mean(axis=0) for part in np.array_split(moves, 20)])
        # Blocks that differ by rounding are alike.
        least = 1e-9 * np.abs(shocks).max(axis=0)
        halves = [(half.mean(axis=0), half.std(axis=0, ddof=1) + least, 10)
                  for half in (parts[:10], parts[10:])]  # fmt: skip
        chance = np.atleast_1d(ttest_ind_from_stats(*halves[0], *halves[1], False).pvalue)
        made += [
            f"{names[i]}: the {what} of its shocks differ between the halves of the record, as by "
            "chance less than one time in 100: leave out what is too old to come back"
            for i in np.flatnonzero(chance < LUCK / (2 * len(names))).tolist()
        ]
    return made
