"""The binomial lattice of Cox, Ross and Rubinstein: one price that goes up or down by a factor.

    u = exp(sigma sqrt(dt)),    d = 1 / u,    p = (exp((r - q) dt) - d) / (u - d)

x_{t+1} is u x_t with probability p and d x_t with 1 - p, so E[x_{t+1} | x_t] = x_t e^{(r-q) dt}.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplan.core.validation import FloatArray, Seed, whole_number
from counterplan.errors import InputError
from counterplan.exogenous.checks import number
from counterplan.exogenous.process import LATTICE_CODE, draw_paths, given_start


@dataclass(frozen=True)
class BinomialLattice:
    """One price, x (1,), with two successors at every step.

    initial     price at time 0
    rate        r per unit of time
    volatility  sigma, above 0
    dt          time between steps
    dividend    yield q per unit of time
    """

    initial: float
    rate: float
    volatility: float
    dt: float
    dividend: float = 0.0

    def __post_init__(self) -> None:
        for name in ("initial", "volatility", "dt"):
            object.__setattr__(self, name, number(getattr(self, name), name, 0.0, above=True))
        for name in ("rate", "dividend"):
            object.__setattr__(self, name, number(getattr(self, name), name))
        if not 0.0 <= self.probability <= 1.0:
            longest = (self.volatility / (self.rate - self.dividend)) ** 2
            raise InputError(
                f"the probability of going up would be {self.probability:.4g}: dt = {self.dt:g} is "
                f"too long for this volatility and rate; use a dt of at most {longest:.4g}"
            )

    @property
    def up(self) -> float:
        """u, the factor of a rise."""
        return float(np.exp(self.volatility * np.sqrt(self.dt)))

    @property
    def down(self) -> float:
        """d = 1 / u."""
        return 1.0 / self.up

    @property
    def probability(self) -> float:
        """p, of a rise."""
        growth = float(np.exp((self.rate - self.dividend) * self.dt))
        return (growth - self.down) / (self.up - self.down)

    @property
    def start(self) -> FloatArray:
        """(1,) the initial price."""
        return np.array([self.initial])

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        """x_{t+1} for each x_t: (n, 1) -> (n, 1)."""
        rises = generator.random(np.shape(exogenous)) < self.probability
        return np.asarray(exogenous * np.where(rises, self.up, self.down))

    def successors(self, t: int, exogenous: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values (2, 1), the rise first, and probabilities (2,)."""
        price = float(np.asarray(exogenous)[0])
        p = self.probability
        return np.array([[price * self.up], [price * self.down]]), np.array([p, 1.0 - p])

    def sample_paths(
        self, n: int, steps: int, seed: Seed = 0, t: int = 0, start: FloatArray | None = None
    ) -> FloatArray:
        """(n, steps, 1): futures that all begin with x_t."""
        return draw_paths(self, n, steps, seed, t, start)

    def mean_path(self, steps: int, t: int = 0, start: FloatArray | None = None) -> FloatArray:
        """(steps, 1): E[x_s | x_t]."""
        ahead = self.dt * np.arange(whole_number(steps, "steps", minimum=1))[:, None]
        growth = np.exp((self.rate - self.dividend) * ahead)
        return np.asarray(given_start(self, start) * growth)

    def kernel_parameters(self, steps: int, quantiles: int = 0) -> FloatArray:
        """The layout is in `process_kernel`; the support is finite as it is."""
        return np.array([LATTICE_CODE, self.up, self.down, self.probability])

    def most_successors(self, quantiles: int = 0) -> int:
        """Up and down."""
        return 2
