"""Chains with few values that stand for any process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplan import processes
from counterplan.domains.exogenous_mdp import ExogenousMDP
from counterplan.planning.lattice import Lattice
from counterplan.planning.resource import Resource

from .staged import random_staged


def selling(process: Any, steps: int = 6) -> ExogenousMDP:
    rates = np.ones((1, len(process.start)))
    return ExogenousMDP(process, rates, Resource(4.0), step_bounds=[(0, 1)] * steps)


def test_few_values_are_listed() -> None:
    model = random_staged(3)
    found = Lattice.of(model)
    assert found.exact
    for t, (values, chances) in enumerate(zip(found.values, found.chances, strict=False)):
        for x, row in zip(values, chances, strict=True):
            following, odds = model.successors(t, x)
            assert row[found.nearest(t + 1, following)] == pytest.approx(odds)
    up = Lattice.of(selling(processes.BinomialLattice(10.0, 0.0, 0.3, 0.25)))
    assert [len(values) for values in up.values] == [1, 2, 3, 4, 5, 6]


def test_sampled_chains_keep_means_and_autocorrelation() -> None:
    model = selling(processes.GBM(100.0, 0.1, 0.4, dt=0.25))
    found = Lattice.of(model, nodes=25, seed=1)
    assert not found.exact
    sampled = model.sample_paths(20_000, np.random.default_rng(1))
    chance, nodes = np.ones(1), found.sample(20_000, 2)
    for t, row in enumerate((*found.chances, None)):
        assert chance @ found.values[t] == pytest.approx(sampled[:, t].mean(axis=0), rel=1e-9)
        assert np.bincount(nodes[:, t], minlength=len(chance)) / 20_000 == pytest.approx(
            chance, abs=0.02
        )
        if row is not None:
            assert row.sum(axis=1) == pytest.approx(np.ones(len(row)))
            i = len(row) // 2
            ahead = model.mean_path(model.start._replace(exogenous=found.values[t][i], t=t))[1]
            assert row[i] @ found.values[t + 1] == pytest.approx(ahead, rel=0.03)
            chance = chance @ row


def test_what_is_drawn_anew_has_the_same_chances_everywhere() -> None:
    model = selling(
        processes.GBM([100.0, 5.0], 0.0, [0.4, 0.2], dt=0.25, kind="correlated"), steps=3
    )
    found = Lattice.of(model, nodes=4, independent=[0])
    assert [len(values) for values in found.values] == [1, 16, 16]
    rows = found.chances[1].reshape(4, 4, 4, 4)  # second number's cell, first's; what follows
    assert rows[:, 0] == pytest.approx(rows[:, 3])
    assert len({values.tobytes() for values in found.values[1][:, 1:]}) == 4
