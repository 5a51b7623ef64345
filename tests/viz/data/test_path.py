"""A path figure shows what everyone did, for every shipped problem and for one's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import counterplan as cp
from counterplan.errors import InputError
from counterplan.planning.evaluate import played
from counterplan.viz import PathNames
from counterplan.viz.path import path_data

from ..results import ship, voyage


def test_a_voyage() -> None:
    path, lost = voyage()
    data = path_data(lost, ship(), path)
    np.testing.assert_array_equal(data.seen, path)
    executed, planned, hindsight = data.players
    np.testing.assert_array_equal(executed.actions, lost.actions)
    np.testing.assert_array_equal(planned.actions, lost.policy_actions)
    np.testing.assert_array_equal(hindsight.actions, lost.hindsight_actions)
    np.testing.assert_allclose(executed.levels, lost.levels)
    legs = np.asarray(ship().legs)
    np.testing.assert_allclose(np.diff(hindsight.levels[:, 0]), lost.hindsight_actions[:, 0] - legs)
    np.testing.assert_array_equal(data.losses, lost.expected_losses)
    assert [player.name for player in data.players] == [
        f"executed: {lost.executed:,.0f}",
        f"planned (optimal): {lost.without_foresight:,.0f}",
        f"hindsight: {lost.hindsight:,.0f}",
    ]
    titles = [panel.title for panel in data.panels]
    assert titles == ["price", "units bought", "units in the tank", "expected loss"]
    assert f"{lost.expected_regret:,.0f} in expectation" in data.heading


def test_modes_of_a_car_have_names() -> None:
    car = cp.domains.HybridVehicle("A")
    path = car.sample_path(seed=1)
    done = played(car, cp.policies.Greedy().prepare(car), path, car.start)
    data = path_data(cp.regret(car, path, done.actions), car, path)
    np.testing.assert_array_equal(data.seen[:, 0], np.argmax(path, axis=1))
    kinds = [panel.kind for panel in data.panels]
    assert kinds[:5] == ["modes", "amounts", "amounts", "levels", "levels"]
    assert data.names.modes == ("gas", "electric", "braking")


@pytest.mark.parametrize("domain", [cp.domains.AmericanOption("C"), cp.domains.OptionBasket("A")])
def test_options_are_exercised_or_not(domain: Any) -> None:
    path = domain.sample_path(seed=2)
    done = played(domain, cp.policies.Greedy().prepare(domain), path, domain.start)
    data = path_data(cp.regret(domain, path, done.actions), domain, path)
    assert data.is_yes_or_no
    assert not data.has_levels
    assert {panel.kind for panel in data.panels} <= {"seen", "choices", "losses"}
    assert len(data.names.observed) == path.shape[1]


def test_a_problem_of_ones_own() -> None:
    stock = cp.ExogenousMDP(
        process=cp.processes.GBM(20.0, 0.05, 0.4, dt=1 / 12, kind="global"),
        reward=[[1.0]],
        resources=cp.Resource(start=30),
        step_bounds=[(0, 10)] * 4,
    )
    path = stock.sample_paths(1, seed=0)[0]
    lost = cp.regret(stock, path, [10.0, 0.0, 10.0, 5.0], policy=cp.policies.Greedy())
    assert path_data(lost, stock, path).names.actions == ("action",)
    names = PathNames(("offer",), ("sold",), ("left",), step="month")
    data = path_data(lost, stock, path, names=names)
    assert [panel.title for panel in data.panels[:3]] == ["offer", "sold", "left"]
    assert data.axis_title.startswith("month")


def test_rows_of_a_run() -> None:
    path, lost = voyage()
    level = [*lost.levels[:-1, 0]]
    frame = pl.DataFrame(
        {
            "scenario_id": ["s"] * 7,
            "t": range(7),
            "price": path[:, 0],
            "executed_level": level,
            "executed": lost.actions[:, 0],
            "policy_level": level,
            "policy": lost.policy_actions[:, 0],
            "planned_level": [None] * 7,
            "planned": [None] * 7,
            "hindsight": lost.hindsight_actions[:, 0],
            "expected_loss": lost.expected_losses,
        }
    )
    data = path_data(frame.reverse(), ship())
    np.testing.assert_array_equal(data.seen, path)
    np.testing.assert_array_equal(data.players[1].actions, lost.policy_actions)
    for player, level in zip(data.players, (lost.levels, None, None), strict=True):
        assert player.levels[0, 0] == lost.levels[0, 0]
        if level is not None:
            np.testing.assert_allclose(player.levels, level)
    assert data.players[0].name == "executed"
    planned = frame.with_columns(planned="hindsight", planned_level="executed_level")
    found = path_data(planned, ship()).players[1]
    np.testing.assert_array_equal(found.actions, lost.hindsight_actions)
    alone = frame.with_columns(executed=None, expected_loss=None)
    data = path_data(alone, ship())
    assert [player.name for player in data.players] == ["planned", "hindsight"]
    assert data.losses is None
    nobody = alone.with_columns(policy=None, hindsight=None)
    with pytest.raises(InputError, match="this scenario failed"):
        path_data(nobody, ship())
    with pytest.raises(InputError, match="several scenarios"):
        path_data(pl.concat([frame, frame.with_columns(scenario_id=pl.lit("r"))]), ship())


def test_bad_input() -> None:
    _, lost = voyage()
    with pytest.raises(InputError, match="say which problem"):
        path_data(lost)
    with pytest.raises(InputError, match="pass it, path="):
        path_data(lost, ship())
    with pytest.raises(InputError, match="cannot draw a float"):
        path_data(3.0, ship())  # type: ignore[arg-type]
