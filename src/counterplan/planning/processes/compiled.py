"""The shipped processes, compiled: draw, mean and successors from flat numbers.

A process is `block`, the array of its `kernel_parameters`; block[0] says which it is:

    GBM        code, independent?, X, dt, Q; initial (X,), drift (X,), volatility (X,),
               mixing (X, X), strata (rows, Q): the row of time t + 1 (independent) or one row
    lattice    code, up, down, probability
    modes      code, indicators?, M; matrix (M, M)
    hidden     code, M, O, K; matrix (M, M), values (K, O), probabilities (M, K)
    gaussian   code, M, O, 0; matrix (M, M), means (M, O), spreads (M, O)
    bootstrap  code, independent?, initial, Q, rows; where each row's factors begin (rows + 1,),
               their means (rows,), strata (rows, Q), then all factors

`process_draw`, `process_mean` and `process_successors` serve a domain's own kernel, too.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from counterplan.planning.processes.base import (
    BOOTSTRAP_CODE,
    GAUSSIAN_CODE,
    GBM_CODE,
    HIDDEN_CODE,
    LATTICE_CODE,
    MODES_CODE,
)

GBM_HEAD = 5
MODES_HEAD = 3
HIDDEN_HEAD = 4
BOOTSTRAP_HEAD = 5


@njit(cache=True, nogil=True)
def process_draw(block, t, x, generator, out):  # type: ignore[no-untyped-def]
    """x_{t+1} given x_t."""
    code = block[0]
    if code == GBM_CODE:
        _gbm_draw(block, t, x, generator, out)
    elif code == LATTICE_CODE:
        out[0] = x[0] * (block[1] if generator.random() < block[3] else block[2])
    elif code == MODES_CODE:
        mode_draw(block, 0, x, generator, out)
    elif code == BOOTSTRAP_CODE:
        _bootstrap_draw(block, t, x, generator, out)
    else:
        _hidden_draw(block, x, generator, out)


@njit(cache=True, nogil=True)
def process_mean(block, t, x, out):  # type: ignore[no-untyped-def]
    """E[x_{t+1} | x_t]: affine in x_t, so means of means are means."""
    code = block[0]
    if code == GBM_CODE:
        X = int(block[2])
        for i in range(X):
            drift = block[GBM_HEAD + X + i]
            if block[1] > 0:
                out[i] = block[GBM_HEAD + i] * np.exp(drift * (t + 1) * block[3])
            else:
                out[i] = x[i] * np.exp(drift * block[3])
    elif code == LATTICE_CODE:
        out[0] = x[0] * (block[3] * block[1] + (1.0 - block[3]) * block[2])
    elif code == MODES_CODE:
        _modes_mean(block, x, out)
    elif code == BOOTSTRAP_CODE:
        rows = int(block[4])
        row = t if block[1] > 0 else 0
        base = block[2] if block[1] > 0 else x[0]
        out[0] = base * block[BOOTSTRAP_HEAD + rows + 1 + row]
    else:
        _hidden_mean(block, x, out)


@njit(cache=True, nogil=True)
def process_successors(block, t, x, states, probabilities):  # type: ignore[no-untyped-def]
    """Values and probabilities of x_{t+1}; how many, 0 if there are infinitely many."""
    code = block[0]
    if code == GBM_CODE:
        return _gbm_strata(block, t, x, states, probabilities)
    if code == LATTICE_CODE:
        states[0, 0] = x[0] * block[1]
        states[1, 0] = x[0] * block[2]
        probabilities[0] = block[3]
        probabilities[1] = 1.0 - block[3]
        return 2
    if code == MODES_CODE:
        return _modes_successors(block, x, states, probabilities)
    if code == BOOTSTRAP_CODE:
        return _bootstrap_strata(block, t, x, states, probabilities)
    if code == HIDDEN_CODE:
        return _hidden_successors(block, x, states, probabilities)
    return 0


@njit(cache=True, nogil=True)
def pick(row, uniform):  # type: ignore[no-untyped-def]
    """The index that a uniform number picks from a distribution."""
    total = 0.0
    last = row.shape[0] - 1
    for i in range(last):
        total += row[i]
        if uniform < total:
            return i
    return last


@njit(cache=True, nogil=True)
def _row(block, begin, i, width):  # type: ignore[no-untyped-def]
    return block[begin + i * width : begin + (i + 1) * width]


# --- Geometric Brownian motion ----------------------------------------------------------------


@njit(cache=True, nogil=True)
def gbm_price(price, drift, volatility, time, normal):  # type: ignore[no-untyped-def]
    """A price after some time (Eq. C.2), given a standard normal."""
    log = (drift - 0.5 * volatility * volatility) * time + volatility * np.sqrt(time) * normal
    return price * np.exp(log)


@njit(cache=True, nogil=True)
def one_price_draw(numbers, at, t, x, generator, out):  # type: ignore[no-untyped-def]
    """The next price of a GBM with X = 1 whose block begins at a place: no slice of it is made."""
    price, time = x[0], numbers[at + 3]
    if numbers[at + 1] > 0:
        price, time = numbers[at + GBM_HEAD], (t + 1) * time
    drift, volatility = numbers[at + GBM_HEAD + 1], numbers[at + GBM_HEAD + 2]
    out[0] = gbm_price(price, drift, volatility, time, generator.standard_normal())


@njit(cache=True, nogil=True)
def _gbm_draw(block, t, x, generator, out):  # type: ignore[no-untyped-def]
    X = int(block[2])
    if X == 1:
        one_price_draw(block, 0, t, x, generator, out)
        return
    drifts, volatilities, mixing = (GBM_HEAD + X, GBM_HEAD + 2 * X, GBM_HEAD + 3 * X)
    normals = np.empty(X)
    for i in range(X):
        normals[i] = generator.standard_normal()
    for i in range(X):
        normal = 0.0
        for j in range(X):
            normal += block[mixing + i * X + j] * normals[j]
        out[i] = gbm_price(x[i], block[drifts + i], block[volatilities + i], block[3], normal)


@njit(cache=True, nogil=True)
def _gbm_strata(block, t, x, states, probabilities):  # type: ignore[no-untyped-def]
    Q = int(block[4])
    if Q == 0:
        return 0
    independent = block[1] > 0
    strata = GBM_HEAD + 4 + (t * Q if independent else 0)
    drift = block[GBM_HEAD + 1]
    if independent:
        mean = block[GBM_HEAD] * np.exp(drift * (t + 1) * block[3])
    else:
        mean = x[0] * np.exp(drift * block[3])
    for i in range(Q):
        states[i, 0] = mean * block[strata + i]
        probabilities[i] = 1.0 / Q
    return Q


# --- Modes ------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _mode(block, x):  # type: ignore[no-untyped-def]
    return int(np.argmax(x)) if block[1] > 0 else int(x[0])


@njit(cache=True, nogil=True)
def mode_draw(numbers, at, x, generator, out):  # type: ignore[no-untyped-def]
    """The next of M modes whose block begins at a place: no slice of it is made."""
    M, as_indicators = int(numbers[at + 2]), numbers[at + 1] > 0
    now = 0
    if as_indicators:
        while now < M - 1 and x[now] < 0.5:
            now += 1
    else:
        now = int(x[0])
    row, uniform = at + MODES_HEAD + now * M, generator.random()
    mode, total = 0, numbers[row]
    while mode < M - 1 and uniform >= total:
        mode += 1
        total += numbers[row + mode]
    _write_mode(as_indicators, mode, out)


@njit(cache=True, nogil=True)
def _write_mode(as_indicator, mode, out):  # type: ignore[no-untyped-def]
    if as_indicator:
        for i in range(out.shape[0]):
            out[i] = 0.0
        out[mode] = 1.0
    else:
        out[0] = mode


@njit(cache=True, nogil=True)
def _modes_successors(block, x, states, probabilities):  # type: ignore[no-untyped-def]
    M = int(block[2])
    row = _row(block, MODES_HEAD, _mode(block, x), M)
    found = 0
    for mode in range(M):
        if row[mode] > 0.0:
            _write_mode(block[1] > 0, mode, states[found])
            probabilities[found] = row[mode]
            found += 1
    return found


@njit(cache=True, nogil=True)
def _modes_mean(block, x, out):  # type: ignore[no-untyped-def]
    if block[1] > 0:
        M = int(block[2])
        out[:] = 0.0
        for mode in range(M):
            for target in range(M):
                out[target] += x[mode] * block[MODES_HEAD + mode * M + target]
    else:
        # The mean of a mode's number means nothing.
        out[0] = np.nan


# --- Hidden modes: x = observation (O,), belief (M,) ------------------------------------------


@njit(cache=True, nogil=True)
def _predict(block, belief, out):  # type: ignore[no-untyped-def]
    """P(next mode | belief)."""
    M = int(block[1])
    out[:] = 0.0
    for mode in range(M):
        for target in range(M):
            out[target] += belief[mode] * block[HIDDEN_HEAD + mode * M + target]


@njit(cache=True, nogil=True)
def _hidden_draw(block, x, generator, out):  # type: ignore[no-untyped-def]
    M, width, K = int(block[1]), int(block[2]), int(block[3])
    emissions = HIDDEN_HEAD + M * M
    predicted = np.empty(M)
    _predict(block, x[width:], predicted)
    mode = pick(predicted, generator.random())
    if block[0] == HIDDEN_CODE:
        k = pick(_row(block, emissions + K * width, mode, K), generator.random())
        _filter_discrete(block, predicted, k, out)
        return
    for i in range(width):
        mean = block[emissions + mode * width + i]
        spread = block[emissions + M * width + mode * width + i]
        out[i] = mean + spread * generator.standard_normal()
    _filter_gaussian(block, predicted, out)


@njit(cache=True, nogil=True)
def _filter_discrete(block, predicted, k, out):  # type: ignore[no-untyped-def]
    """Observation k and the belief after it (Eq. F.4) into out; its probability (Eq. F.5)."""
    M, width, K = int(block[1]), int(block[2]), int(block[3])
    values = HIDDEN_HEAD + M * M
    total = 0.0
    for mode in range(M):
        out[width + mode] = predicted[mode] * block[values + K * width + mode * K + k]
        total += out[width + mode]
    for mode in range(M):
        out[width + mode] /= total
    for i in range(width):
        out[i] = block[values + k * width + i]
    return total


@njit(cache=True, nogil=True)
def _filter_gaussian(block, predicted, out):  # type: ignore[no-untyped-def]
    """The belief after the observation in out (Eq. F.4), by logarithms: densities may vanish."""
    M, width = int(block[1]), int(block[2])
    means = HIDDEN_HEAD + M * M
    spreads = means + M * width
    best = -np.inf
    for mode in range(M):
        log = np.log(predicted[mode]) if predicted[mode] > 0.0 else -np.inf
        for i in range(width):
            spread = block[spreads + mode * width + i]
            z = (out[i] - block[means + mode * width + i]) / spread
            log -= 0.5 * z * z + np.log(spread)
        out[width + mode] = log
        best = max(best, log)
    total = 0.0
    for mode in range(M):
        out[width + mode] = np.exp(out[width + mode] - best)
        total += out[width + mode]
    for mode in range(M):
        out[width + mode] /= total


@njit(cache=True, nogil=True)
def _hidden_mean(block, x, out):  # type: ignore[no-untyped-def]
    M, width, K = int(block[1]), int(block[2]), int(block[3])
    emissions = HIDDEN_HEAD + M * M
    predicted = np.empty(M)
    _predict(block, x[width:], predicted)
    out[:] = 0.0
    for mode in range(M):
        out[width + mode] = predicted[mode]
        for i in range(width):
            if block[0] == GAUSSIAN_CODE:
                out[i] += predicted[mode] * block[emissions + mode * width + i]
            else:
                for k in range(K):
                    chance = block[emissions + K * width + mode * K + k]
                    out[i] += predicted[mode] * chance * block[emissions + k * width + i]


@njit(cache=True, nogil=True)
def _hidden_successors(block, x, states, probabilities):  # type: ignore[no-untyped-def]
    M, width, K = int(block[1]), int(block[2]), int(block[3])
    chances = HIDDEN_HEAD + M * M + K * width
    predicted = np.empty(M)
    _predict(block, x[width:], predicted)
    found = 0
    for k in range(K):
        chance = 0.0
        for mode in range(M):
            chance += predicted[mode] * block[chances + mode * K + k]
        if chance > 0.0:
            probabilities[found] = _filter_discrete(block, predicted, k, states[found])
            found += 1
    return found


# --- Bootstrapped prices ----------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _bootstrap_draw(block, t, x, generator, out):  # type: ignore[no-untyped-def]
    independent = block[1] > 0
    row = t if independent else 0
    begin = int(block[BOOTSTRAP_HEAD + row])
    count = int(block[BOOTSTRAP_HEAD + row + 1]) - begin
    factor = block[begin + int(generator.random() * count)]
    out[0] = (block[2] if independent else x[0]) * factor


@njit(cache=True, nogil=True)
def _bootstrap_strata(block, t, x, states, probabilities):  # type: ignore[no-untyped-def]
    Q, rows = int(block[3]), int(block[4])
    independent = block[1] > 0
    strata = BOOTSTRAP_HEAD + 2 * rows + 1 + (t if independent else 0) * Q
    base = block[2] if independent else x[0]
    for i in range(Q):
        states[i, 0] = base * block[strata + i]
        probabilities[i] = 1.0 / Q
    return Q
