"""The laws of the shipped processes, compiled: how x_{t+1} is drawn, its mean, and its successors.

A process is its `block` of numbers, in one of the layouts below; block[0] says in which. Here a law
is stated once: the search calls these functions, and `Shipped` gives a process its methods by
calling them for many x at once.

    GBM        S' = S exp((mu - sigma^2 / 2) h + sigma B Z), Z normal (Eq. C.2)
    lattice    up or down by a factor
    modes      the next mode by the matrix's row of the present one
    hidden     the next mode by the belief, an observation by the mode, then Bayes' rule (Eq. F.4)
    bootstrap  a recorded factor, all equally likely
    prices     y' = m_{t+1} + phi (y - m_t) + e, y = x or log x; e normal, of two hidden regimes or
               recorded, see `autoregression`

Where quantiles are asked for, a continuous x_{t+1} has Q successors: its mean times the row's
strata. `independent` processes have a row for every time, others one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from counterplan.core.validation import FloatArray, Seed, whole_number
from counterplan.planning.compiled import Layout, inlined, jit
from counterplan.planning.processes.base import draw_paths, given_start

GBM_CODE, LATTICE_CODE, MODES_CODE, BOOTSTRAP_CODE, HIDDEN_CODE, PRICES_CODE = range(1, 7)
# The laws up to this one are compiled apart from the others, which few first answers wait for.
COMMON = MODES_CODE

# The increments are lower @ upper @ independent normals, both triangular; upper_mixes is 0 where
# upper is the identity.
GBM_NUMBERS = Layout(
    f"code={GBM_CODE} independent dt upper_mixes",
    "X R Q",
    **dict.fromkeys(("initial", "drift", "volatility"), "X"),
    lower="X X",
    upper="X X",
    strata="R Q",
)
LATTICE_NUMBERS = Layout(f"code={LATTICE_CODE} up down probability")
# indicators: 1 where x is the mode's indicator, 0 where it is its number
MODES_NUMBERS = Layout(f"code={MODES_CODE} indicators", "M", matrix="M M")
# x is an observation (O,) and a belief (M,); K values (K, O), how likely in each mode (M, K)
HIDDEN_NUMBERS = Layout(f"code={HIDDEN_CODE}", "M O K", matrix="M M", values="K O", chances="M K")
# where each row's factors begin and end, and their mean; then the factors of all rows
BOOTSTRAP_NUMBERS = Layout(
    f"code={BOOTSTRAP_CODE} independent initial",
    "R Q",
    begins="R+1",
    means="R",
    strata="R Q",
    factors="*",
)
# m_t, t = 0 .. T; what k steps add to the mean (in logs: multiply it by), by regime; of each regime
# the mean, root of the covariance, its inverse and log determinant, and strata; recorded e, if any
PRICES_NUMBERS = Layout(
    f"code={PRICES_CODE} logs",
    "S K T Q N",
    phi="S",
    means="T+1 S",
    ahead="T+1 S K",
    shift="K S",
    root="K S S",
    inverse="K S S",
    log_determinant="K",
    chances="K K",
    strata="K Q",
    shocks="N S",
)

gbm, lattice, modes = GBM_NUMBERS.view, LATTICE_NUMBERS.view, MODES_NUMBERS.view
hidden, bootstrap = HIDDEN_NUMBERS.view, BOOTSTRAP_NUMBERS.view
fitted = PRICES_NUMBERS.view


@inlined
def _common_draw(block, t, x, generator, out):  # type: ignore[no-untyped-def]
    """x_{t+1} given x_t."""
    code = block[0]
    if code == GBM_CODE:
        _gbm_draw(block, t, x, generator, out)
    elif code == LATTICE_CODE:
        p = lattice(block)
        out[0] = x[0] * (p.up if generator.random() < p.probability else p.down)
    else:
        p = modes(block)
        _write_mode(p.indicators, pick(p.matrix[_mode(p, x)], generator.random()), out)


@inlined
def _rare_draw(block, t, x, generator, out):  # type: ignore[no-untyped-def]
    """Likewise, of the other laws."""
    code = block[0]
    if code == HIDDEN_CODE:
        _draw_mode(block, x, generator, out)
        _draw_observation(block, generator, out)
    elif code == BOOTSTRAP_CODE:
        _bootstrap_draw(block, t, x, generator, out)
    else:
        _prices_draw(block, t, x, generator, out)


@inlined
def _common_mean(block, t, x, out):  # type: ignore[no-untyped-def]
    """E[x_{t+1} | x_t]: affine in x_t, so means of means are means."""
    code = block[0]
    if code == GBM_CODE:
        p = gbm(block)
        for i in range(p.X):
            if p.independent > 0:
                out[i] = p.initial[i] * np.exp(p.drift[i] * (t + 1) * p.dt)
            else:
                out[i] = x[i] * np.exp(p.drift[i] * p.dt)
    elif code == LATTICE_CODE:
        p = lattice(block)
        out[0] = x[0] * (p.probability * p.up + (1.0 - p.probability) * p.down)
    else:
        p = modes(block)
        _multiply(x, p.matrix, out)
        if p.indicators == 0:  # the mean of a mode's number means nothing
            out[0] = np.nan


@inlined
def _rare_mean(block, t, x, s, here, out):  # type: ignore[no-untyped-def]
    """E[x_{s+1} | x_t], given here = E[x_s | x_t]: but for logs of prices, as before."""
    code = block[0]
    if code == BOOTSTRAP_CODE:
        p = bootstrap(block)
        out[0] = (p.initial * p.means[s]) if p.independent > 0 else (here[0] * p.means[0])
    elif code == PRICES_CODE:
        _prices_mean(block, t, x, s, here, out)
    else:
        p = hidden(block)
        _predict(p, here, out)
        for i in range(p.O):
            out[i] = 0.0
            for mode in range(p.M):
                for k in range(p.K):
                    out[i] += out[p.O + mode] * p.chances[mode, k] * p.values[k, i]


@jit
def process_ahead(block, t, x, s, here, out):  # type: ignore[no-untyped-def]
    """E[x_{s+1} | x_t], given here = E[x_s | x_t], of any law."""
    if block[0] <= COMMON:
        _common_mean(block, s, here, out)
    else:
        _rare_mean(block, t, x, s, here, out)


@inlined
def _common_successors(block, t, x, states, probabilities):  # type: ignore[no-untyped-def]
    """Values and probabilities of x_{t+1}; how many, 0 if there are infinitely many."""
    code, found = block[0], 0
    if code == GBM_CODE:
        p = gbm(block)
        if p.Q > 0:
            _common_mean(block, t, x, states[0])
            found = _spread(p, t, states[0, 0], states, probabilities)
    elif code == LATTICE_CODE:
        p = lattice(block)
        states[0, 0], states[1, 0] = x[0] * p.up, x[0] * p.down
        probabilities[0], probabilities[1] = p.probability, 1.0 - p.probability
        found = 2
    else:
        p = modes(block)
        now = _mode(p, x)
        for mode in range(p.M):
            if p.matrix[now, mode] > 0.0:
                _write_mode(p.indicators, mode, states[found])
                probabilities[found] = p.matrix[now, mode]
                found += 1
    return found


@inlined
def _rare_successors(block, t, x, states, probabilities):  # type: ignore[no-untyped-def]
    """Likewise, of the other laws."""
    code, found = block[0], 0
    if code == BOOTSTRAP_CODE:
        p = bootstrap(block)
        base = p.initial if p.independent > 0 else x[0]
        found = _spread(p, t, base, states, probabilities)
    elif code == HIDDEN_CODE:
        p = hidden(block)
        for k in range(p.K):
            _predict(p, x, states[found])
            probabilities[found] = _observe(p, k, states[found])
            found += probabilities[found] > 0.0
    else:
        found = _prices_strata(block, t, x, states, probabilities)
    return found


@inlined
def pick(row, uniform):  # type: ignore[no-untyped-def]
    """The index that a uniform number picks from a distribution."""
    last, i = row.shape[0] - 1, 0
    total = row[0]
    while i < last and uniform >= total:
        i += 1
        total += row[i]
    return i


@inlined
def _multiply(row, matrix, out):  # type: ignore[no-untyped-def]
    """row @ matrix."""
    for j in range(matrix.shape[1]):
        total = 0.0
        for i in range(matrix.shape[0]):
            total += row[i] * matrix[i, j]
        out[j] = total


@inlined
def _gbm_draw(block, t, x, generator, out):  # type: ignore[no-untyped-def]
    """Normals are mixed in place: from the first on, each row of an upper triangle needs none of
    those replaced before, and from the last on, each row of a lower one."""
    p = gbm(block)
    if p.X == 1:
        out[0] = _moved(p, t, np.int64(0), x[0], generator.standard_normal())
        return
    for i in range(p.X):
        out[i] = generator.standard_normal()
    if p.upper_mixes > 0:
        for i in range(p.X):
            normal = 0.0
            for j in range(i, p.X):
                normal += p.upper[i, j] * out[j]
            out[i] = normal
    for i in range(p.X - 1, -1, -1):
        normal = 0.0
        for j in range(i + 1):
            normal += p.lower[i, j] * out[j]
        out[i] = _moved(p, t, i, x[i], normal)


@jit
def _bootstrap_draw(block, t, x, generator, out):  # type: ignore[no-untyped-def]
    """Rarer than the others, so not compiled into every search."""
    p = bootstrap(block)
    row = t if p.independent > 0 else 0
    begin, end = int(p.begins[row]), int(p.begins[row + 1])
    factor = p.factors[begin + int(generator.random() * (end - begin))]
    out[0] = (p.initial if p.independent > 0 else x[0]) * factor


@jit
def _prices_draw(block, t, x, generator, out):  # type: ignore[no-untyped-def]
    """A regime by the belief, its shocks (mixed from the last on, as for GBM), then prices."""
    p = fitted(block)
    chance, regime = _second(p, x), 0
    if p.K > 1 and generator.random() < chance:
        regime = 1
    if p.N > 0:
        row = int(generator.random() * p.N)
        for i in range(p.S):
            out[i] = p.shocks[row, i]
    else:
        for i in range(p.S):
            out[i] = generator.standard_normal()
        for i in range(p.S - 1, -1, -1):
            shock = p.shift[regime, i]
            for j in range(i + 1):
                shock += p.root[regime, i, j] * out[j]
            out[i] = shock
    _prices_after(p, t, x, chance, out)


@inlined
def _second(p, x):  # type: ignore[no-untyped-def]
    """The chance of the second regime at the next time."""
    if p.K == 1:
        return 0.0
    return (1.0 - x[p.S]) * p.chances[0, 1] + x[p.S] * p.chances[1, 1]


@inlined
def _prices_after(p, t, x, chance, out):  # type: ignore[no-untyped-def]
    """From the shocks in out to the prices, and the belief after them by Bayes' rule."""
    if p.K > 1:
        odds = (1.0 - chance) / max(chance, 1e-300)
        exponent = 0.0
        for k in range(2):
            total = -2.0 * p.log_determinant[k]
            for i in range(p.S):
                z = 0.0
                for j in range(i + 1):
                    z += p.inverse[k, i, j] * (out[j] - p.shift[k, j])
                total -= z * z
            exponent += 0.5 * total if k == 0 else -0.5 * total
        out[p.S] = 1.0 / (1.0 + odds * np.exp(min(exponent, 700.0)))
    for i in range(p.S):
        now = np.log(x[i]) if p.logs > 0 else x[i]
        after = p.means[t + 1, i] + p.phi[i] * (now - p.means[t, i]) + out[i]
        out[i] = np.exp(after) if p.logs > 0 else after


@jit
def _prices_mean(block, t, x, s, here, out):  # type: ignore[no-untyped-def]
    """E[x_{s+1} | x_t], from x_t at once: the mean of an exponential is none of means."""
    p = fitted(block)
    k, chance = s + 1 - t, 0.0
    if p.K > 1:
        chance, out[p.S] = x[p.S], _second(p, here)
    for i in range(p.S):
        now = np.log(x[i]) if p.logs > 0 else x[i]
        base = p.means[s + 1, i] + p.phi[i] ** k * (now - p.means[t, i])
        more = (1.0 - chance) * p.ahead[k, i, 0] + chance * p.ahead[k, i, p.K - 1]
        out[i] = np.exp(base) * more if p.logs > 0 else base + more


@jit
def _prices_strata(block, t, x, states, probabilities):  # type: ignore[no-untyped-def]
    """One price: the strata of each regime."""
    p = fitted(block)
    chance, found = _second(p, x), 0
    for k in range(p.K):
        for i in range(p.Q):
            states[found, 0] = p.strata[k, i]
            _prices_after(p, t, x, chance, states[found])
            probabilities[found] = (chance if k > 0 else 1.0 - chance) / p.Q
            found += 1
    return found


@inlined
def _moved(p, t, i, price, normal):  # type: ignore[no-untyped-def]
    """Price i of the next time, given a standard normal."""
    time = p.dt
    if p.independent > 0:
        price, time = p.initial[i], (t + 1) * p.dt
    drift, sigma = p.drift[i], p.volatility[i]
    return price * np.exp((drift - 0.5 * sigma * sigma) * time + sigma * np.sqrt(time) * normal)


@inlined
def _spread(p, t, price, states, probabilities):  # type: ignore[no-untyped-def]
    """A price times the strata of the time."""
    row = t if p.independent > 0 else 0
    for i in range(p.Q):
        states[i, 0] = price * p.strata[row, i]
        probabilities[i] = 1.0 / p.Q
    return p.Q


@inlined
def _mode(p, x):  # type: ignore[no-untyped-def]
    """The number of the mode."""
    if p.indicators == 0:
        return int(x[0])
    now = 0
    while now < p.M - 1 and x[now] < 0.5:
        now += 1
    return now


@inlined
def _write_mode(as_indicator, mode, out):  # type: ignore[no-untyped-def]
    if as_indicator > 0:
        for i in range(out.shape[0]):
            out[i] = 0.0
        out[mode] = 1.0
    else:
        out[0] = mode


@inlined
def _predict(p, x, out):  # type: ignore[no-untyped-def]
    """P(next mode | belief) in the place of the belief."""
    _multiply(x[p.O :], p.matrix, out[p.O :])


@inlined
def _observe(p, k, out):  # type: ignore[no-untyped-def]
    """From the predicted modes in out to observation k and the belief after it (Eq. F.4); its
    probability (Eq. F.5)."""
    total = 0.0
    for mode in range(p.M):
        out[p.O + mode] *= p.chances[mode, k]
        total += out[p.O + mode]
    if total > 0.0:
        for mode in range(p.M):
            out[p.O + mode] /= total
    for i in range(p.O):
        out[i] = p.values[k, i]
    return total


@jit
def _draw_mode(block, x, generator, out):  # type: ignore[no-untyped-def]
    """The next hidden mode, into out[0], and its distribution in the place of the belief."""
    p = hidden(block)
    _predict(p, x, out)
    out[0] = pick(out[p.O :], generator.random())


@jit
def _draw_observation(block, generator, out):  # type: ignore[no-untyped-def]
    """What that mode emits, and the belief after it."""
    p = hidden(block)
    _observe(p, pick(p.chances[int(out[0])], generator.random()), out)


@jit
def draw_rows(block, t, x, generator, out):  # type: ignore[no-untyped-def]
    """x_{t+1} (n, X) for each x_t (n, X)."""
    for i in range(x.shape[0]):
        _common_draw(block, t, x[i], generator, out[i])


@jit
def draw_rare_rows(block, t, x, generator, out):  # type: ignore[no-untyped-def]
    """Likewise; of hidden modes first all modes, then what they emit."""
    if block[0] != HIDDEN_CODE:
        for i in range(x.shape[0]):
            _rare_draw(block, t, x[i], generator, out[i])
        return
    for i in range(x.shape[0]):
        _draw_mode(block, x[i], generator, out[i])
    for i in range(x.shape[0]):
        _draw_observation(block, generator, out[i])


@jit
def draw_prices(block, t, generator, paths):  # type: ignore[no-untyped-def]
    """Paths (n, steps, X) of a GBM from their first prices, at t, one path after the other."""
    for i in range(paths.shape[0]):
        for s in range(1, paths.shape[1]):
            _gbm_draw(block, t + s - 1, paths[i, s - 1], generator, paths[i, s])


@jit
def mean_path(block, t, path):  # type: ignore[no-untyped-def]
    """E[x_s | x_t] (steps, X) from the first x, at t."""
    for s in range(1, path.shape[0]):
        _common_mean(block, t + s - 1, path[s - 1], path[s])


@jit
def rare_mean_path(block, t, path):  # type: ignore[no-untyped-def]
    """Likewise."""
    for s in range(1, path.shape[0]):
        _rare_mean(block, t, path[0], t + s - 1, path[s - 1], path[s])


@jit
def draw(parameters, t, x, generator, out):  # type: ignore[no-untyped-def]
    """x_{t+1} given x_t, of a model whose parameters[0] says where its process begins."""
    _common_draw(parameters[int(parameters[0]) :], t, x, generator, out)


@jit
def draw_rare(parameters, t, x, generator, out):  # type: ignore[no-untyped-def]
    """Likewise."""
    _rare_draw(parameters[int(parameters[0]) :], t, x, generator, out)


@jit
def successors(parameters, t, x, states, probabilities):  # type: ignore[no-untyped-def]
    """All values of x_{t+1} and their probabilities; 0 where there are infinitely many."""
    return _common_successors(parameters[int(parameters[0]) :], t, x, states, probabilities)


@jit
def rare_successors(parameters, t, x, states, probabilities):  # type: ignore[no-untyped-def]
    """Likewise."""
    return _rare_successors(parameters[int(parameters[0]) :], t, x, states, probabilities)


def is_common(block: FloatArray) -> bool:
    """Whether a process's numbers are of one of the common laws."""
    return bool(block[0] <= COMMON)


def functions(parameters: FloatArray) -> dict[str, Any]:
    """`draw` and `successors` of a model whose parameters[0] says where its process begins."""
    if is_common(parameters[int(parameters[0]) :]):
        return {"draw": draw, "successors": successors}
    return {"draw": draw_rare, "successors": rare_successors}


class Shipped(ABC):
    """A process with a law of this module: its methods, given `start` and `_block`."""

    @property
    @abstractmethod
    def start(self) -> FloatArray:
        """(X,) the value at t = 0."""

    @abstractmethod
    def _block(self, rows: int, quantiles: int) -> FloatArray:
        """The process's numbers; rows: how many times they must be good for, if it is dated."""

    @abstractmethod
    def most_successors(self, quantiles: int = 0) -> int:
        """No x_t has more (0: continuous)."""

    @property
    def _dated(self) -> bool:
        """Whether the law depends on the time itself."""
        return getattr(self, "kind", "") == "independent"

    def kernel_parameters(self, steps: int, quantiles: int = 0) -> FloatArray:
        """The process as flat numbers for compiled functions, good for times 0 .. steps - 1."""
        return self._parameters(steps, quantiles)[1:]

    def _parameters(self, steps: int, quantiles: int) -> FloatArray:
        """These numbers as those of a model that has nothing else."""
        rows = steps if self._dated else 1
        known: dict[int, tuple[int, FloatArray]] = self.__dict__.setdefault("_blocks", {})
        if quantiles not in known or known[quantiles][0] < rows:
            known[quantiles] = rows, np.concatenate([[1.0], self._block(rows, quantiles)])
        return known[quantiles][1]

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        """x_{t+1} for each x_t: (n, X) -> (n, X)."""
        x = np.ascontiguousarray(exogenous, dtype=np.float64)
        out = np.empty_like(x)
        block = self.kernel_parameters(t + 1)
        (draw_rows if is_common(block) else draw_rare_rows)(block, t, x, generator, out)
        return out

    def sample_paths(
        self, n: int, steps: int, seed: Seed = 0, t: int = 0, start: FloatArray | None = None
    ) -> FloatArray:
        """(n, steps, X): futures that all begin with x_t."""
        return draw_paths(self, n, steps, seed, t, start)

    def mean_path(self, steps: int, t: int = 0, start: FloatArray | None = None) -> FloatArray:
        """(steps, X): E[x_s | x_t]."""
        path = np.empty((whole_number(steps, "steps", minimum=1), len(self.start)))
        path[0] = given_start(self, start)
        if steps > 1:
            block = self.kernel_parameters(t + steps - 1)
            (mean_path if is_common(block) else rare_mean_path)(block, t, path)
        return path

    def _listed(self, t: int, x: FloatArray, quantiles: int = 0) -> tuple[FloatArray, FloatArray]:
        """Values (M, X) and probabilities (M,) of x_{t+1}."""
        most = self.most_successors(quantiles)
        values, chances = np.empty((most, len(self.start))), np.empty(most)
        x = np.array(x, dtype=np.float64, ndmin=1)
        parameters = self._parameters(t + 1, quantiles)
        found = functions(parameters)["successors"](parameters, t, x, values, chances)
        return values[:found], chances[:found]


class Finite(Shipped):
    """x_{t+1} takes finitely many values."""

    def successors(self, t: int, exogenous: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values (M, X) and probabilities (M,) of what may follow one x_t (X,)."""
        return self._listed(t, exogenous)


class Continuous(Shipped):
    """x_{t+1} can be replaced by equally likely values, means of strata."""

    def quantiles(self, t: int, exogenous: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
        """Values (count, 1) and probabilities (count,): strata of equal probability."""
        return self._listed(t, exogenous, whole_number(count, "quantiles", minimum=1))

    def most_successors(self, quantiles: int = 0) -> int:
        """The quantiles, if any."""
        return quantiles
