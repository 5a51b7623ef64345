"""A small model with names that are markup, and an explained case of it."""

from __future__ import annotations

import numpy as np
import pytest

import counterplan as cp
from counterplan.viz.case import Case

STEPS = 5


@pytest.fixture(scope="session")
def problem() -> tuple[cp.TabularMDP, cp.Episode]:
    """An episode that two changes improve, most probably but not surely."""
    rng = np.random.default_rng(3)
    mdp = cp.TabularMDP(
        rng.dirichlet(np.ones(4), size=(4, 3)),
        rng.integers(0, 5, size=(4, 3)).astype(float),
        action_labels=["none", "<b>dose & more</b>", "rest"],
    )
    states, actions = [0], [int(rng.integers(3))]
    for _ in range(STEPS - 1):
        states.append(int(rng.choice(4, p=mdp.row(states[-1], actions[-1]))))
        actions.append(int(rng.integers(3)))
    return mdp, cp.Episode(states, actions, id="<script>alert(1)</script>")


@pytest.fixture(scope="session")
def mdp(problem: tuple[cp.TabularMDP, cp.Episode]) -> cp.TabularMDP:
    return problem[0]


@pytest.fixture(scope="session")
def episode(problem: tuple[cp.TabularMDP, cp.Episode]) -> cp.Episode:
    return problem[1]


@pytest.fixture(scope="session")
def case(mdp: cp.TabularMDP, episode: cp.Episode) -> Case:
    frontier = cp.frontier(mdp, episode, k_max=2)
    return Case(
        frontier=frontier,
        interval=cp.value_interval(mdp, episode, frontier[-1]),
        stable_interval=cp.value_interval(mdp, episode, frontier[-1], stability=True),
        robust=cp.robust_explain(mdp, episode, 2),
        probability_better=frontier[-1].probability_better().value,
    )
