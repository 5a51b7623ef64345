"""The figures of the 2025 paper by number: what each is about, and how it is run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from experiments.figure import Drawn, Options, Track
from experiments.sdmdp_compare import compare
from experiments.sdmdp_convergence import converge
from experiments.sdmdp_domains import DOMAINS

Run = Callable[[Options, Track], Drawn]
CONVERGES, COMPARES = "value at the root against simulations", "what policies and planners reach"


def _runs() -> dict[int, tuple[str, Run]]:
    """Figures 3 and 4 show a problem of each domain; then each domain has a pair of its own."""
    every = tuple(DOMAINS)
    runs: dict[int, tuple[str, Run]] = {
        3: (f"All domains: MENTS, {CONVERGES}", partial(converge, figure=3, domains=every)),
        4: (f"All domains: {COMPARES}", partial(compare, figure=4, domains=every)),
    }
    for number, (name, domain) in zip(range(6, 15, 2), DOMAINS.items(), strict=True):
        first, second = number, number + 1
        runs[first] = (
            f"{domain.title}: {COMPARES}",
            partial(compare, figure=first, domains=(name,)),
        )
        runs[second] = (
            f"{domain.title}: {CONVERGES}",
            partial(converge, figure=second, domains=(name,)),
        )
    return runs


RUNS = _runs()
