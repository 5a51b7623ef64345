"""What a reproduced figure is: how it is asked for, how it is run, and what comes out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from counterplan.counterfactual.discrete.budget_dp import BudgetDP

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure as Drawing

Item = TypeVar("Item")
Result = TypeVar("Result")

# d of the paper's estimate of the counterfactual law (Eq. 5).
PAPER_SAMPLES = 1000
QUICK_SAMPLES = 100
# Stands for the seeds of the paper's authors (see `published`).
PAPER_SEED = 0


@dataclass(frozen=True)
class Options:
    """How figures are computed.

    quick    a small version in seconds, to see that everything runs
    sampled  the paper's Monte Carlo estimate of the counterfactual law instead of the exact one
    seed     0 draws synthetic realizations and noise by the seeds of the paper's authors, others
             draw independent ones; also seeds simulated therapy sessions and all sampling
    data     a table of real therapy sessions (see `experiments.therapy`), else simulated ones
    parts    file that keeps what a resumable figure has finished, None to keep nothing
    """

    quick: bool = False
    sampled: bool = False
    seed: int = PAPER_SEED
    data: Path | None = None
    parts: Path | None = None

    @property
    def samples(self) -> int | None:
        """How many noise vectors estimate the counterfactual law, None where it is exact."""
        if not self.sampled:
            return None
        return QUICK_SAMPLES if self.quick else PAPER_SAMPLES

    @property
    def kernel(self) -> str:
        """How captions and tables call the counterfactual law."""
        return "exact" if self.samples is None else f"sampled d={self.samples}"

    def solver(self, number: int) -> BudgetDP:
        """The solver of the realization of this number; sampled ones have noise of their own."""
        if self.samples is None:
            return BudgetDP()
        noise = np.random.SeedSequence([self.seed, number]).generate_state(1)
        return BudgetDP(samples=self.samples, seed=int(noise[0]))

    def generator(self, *place: int) -> np.random.Generator:
        """A stream of random numbers for one place in the work, whoever comes there first."""
        return np.random.default_rng([self.seed, *place])


class Track(Protocol):
    """Passes items through while it shows how far the work has come."""

    def __call__(self, items: Iterable[Item], total: int, what: str) -> Iterable[Item]: ...


@dataclass(frozen=True)
class Drawn:
    """A finished figure and the numbers in it, one observation a row."""

    drawing: Drawing
    numbers: pl.DataFrame


@dataclass(frozen=True)
class Figure:
    """A figure that can be reproduced.

    run         computes and draws it
    reads_data  whether it is about therapy sessions, so that `Options.data` makes a difference
    resumable   whether it keeps what is finished in `Options.parts`
    """

    name: str
    title: str
    run: Callable[[Options, Track], Drawn]
    reads_data: bool = False
    resumable: bool = False


def in_parallel(
    work: Callable[[Item], Result], items: Sequence[Item], track: Track, what: str
) -> list[Result]:
    """Results in the order of the items; threads suffice, since compiled code runs beside them."""
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return list(track(pool.map(work, items), len(items), what))
