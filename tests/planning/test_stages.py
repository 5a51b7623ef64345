"""Models that are linear programs at every step: a path's optimum, one step, refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.errors import InfeasibleError, InputError, NotApplicableError
from counterplan.planning.model import SamplesPaths, State
from counterplan.planning.policies import futures
from counterplan.planning.stages import (
    HasStages,
    Stage,
    allocate_stages,
    best_flows,
    closest_flows,
    stages_of,
)

from .staged import Staged, random_staged, tree_value


def certain(model: Staged, path: np.ndarray) -> Staged:
    """The same model with one future."""
    values = [x[None] for x in path]
    return replace(model, values=values, chances=[np.ones((1, 1))] * (len(path) - 1))


@pytest.mark.parametrize("seed", range(6))
def test_hindsight_is_the_tree_of_a_certain_future(seed: int) -> None:
    model = random_staged(seed, ("max", "min")[seed % 2])
    paths = futures(model, 3, seed)
    found = allocate_stages(model, paths)
    for path, value, actions in zip(paths, found.values, found.actions, strict=True):
        assert value == pytest.approx(tree_value(certain(model, path)), abs=1e-8)
        assert cp.hindsight(model, path).certificate.replayed == pytest.approx(value, abs=1e-8)
        assert actions.shape == (4, len(model.stages[0].least))
    assert isinstance(model, HasStages)
    assert not isinstance(model, SamplesPaths)


def test_a_step_alone() -> None:
    """Best now, best with a worth of what is left, and closest to what is wanted."""
    stage = Stage.of([[-1.0]], 1, most_level=10.0, most=4.0, price_x=[[1.0]])
    x, d = np.array([3.0]), np.array([2.5])
    assert best_flows(stage, x, d, np.zeros(1)) == pytest.approx([2.5])
    assert best_flows(stage, x, d, np.array([3.5])) == pytest.approx([0.0])
    assert best_flows(stage, x, d, np.zeros(1), sign=-1.0) == pytest.approx([0.0])
    assert closest_flows(stage, x, d, np.array([3.0])) == pytest.approx([2.5])
    assert closest_flows(stage, x, d, np.array([1.25])) == pytest.approx([1.25])
    assert stage.misses(x[None], d[None], np.array([[3.0]])) == pytest.approx([0.5])
    with pytest.raises(InfeasibleError, match="no flows keep all bounds"):
        closest_flows(stage, x, np.array([20.0]), np.zeros(1))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sell": [1.0]}, "no field 'sell'"),
        ({"most": [1.0, 2.0]}, r"most must be \(A\) = \(1,\), got \(2,\)"),
        ({"rows": [[1.0]], "low": 2.0, "high": 1.0}, "low number 0 is 2, more than high 1"),
        ({"price": ["dear"]}, "price must hold numbers"),
        ({"hold": [np.inf]}, "hold must be finite"),
        ({"least": [np.nan]}, "least must be finite"),
    ],
)
def test_wrong_stages_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Stage.of([[-1.0]], 1, **given)


def test_wrong_models_are_refused() -> None:
    model = random_staged(0)
    with pytest.raises(NotApplicableError, match="does not say that its steps are linear"):
        stages_of(cp.domains.Bunkering())
    model.stages = [*model.stages[:-1], Stage.of([[1.0]], 7)]
    with pytest.raises(InputError, match=r"the stage at t=3 has \(1, 1, 7\)"):
        stages_of(model)


def test_flows_without_bound_are_refused() -> None:
    stage = Stage.of([[0.0]], 1, price=[1.0])
    model = Staged([stage], [np.zeros((1, 1))], [], np.zeros(1))
    with pytest.raises(InputError, match="earn without end"):
        allocate_stages(model, np.zeros((1, 1, 1)), State(0, np.zeros(1), np.zeros(1)))
