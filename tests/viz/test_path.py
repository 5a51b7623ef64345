"""A path figure shows what everyone did, for every shipped problem and for one's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

import counterplan as cp
from counterplan.errors import InputError
from counterplan.planning.policies import played
from counterplan.viz import PathNames, path_figure

from .results import FIGURES, legend, line, ship, voyage

NAMES = ("executed", "planned", "hindsight")


def titles(figure: Figure) -> list[str]:
    return [axes.get_ylabel() for axes in figure.axes]


def test_a_voyage() -> None:
    path, lost = voyage()
    figure = FIGURES["path"]()
    assert titles(figure) == ["price", "units bought", "units in the tank", "expected loss"]
    price, _, tank, loss = figure.axes
    np.testing.assert_array_equal(price.lines[0].get_ydata(), path[:, 0])
    names = [
        f"executed: {lost.executed:,.0f}",
        f"planned (optimal): {lost.without_foresight:,.0f}",
        f"hindsight: {lost.hindsight:,.0f}",
    ]
    assert legend(figure) == set(names)
    decided = (lost.actions, lost.policy_actions, lost.hindsight_actions)
    for name, actions, offset in zip(names, decided, (-0.2, 0.0, 0.2), strict=True):
        points = line(figure, name)
        np.testing.assert_array_equal(points[:, 1], actions[:, 0])
        np.testing.assert_allclose(points[:, 0], np.arange(7) + offset)
    # Drawn from the solid line up to the dashed one.
    _, hindsight, executed = (one.get_ydata() for one in tank.lines)
    np.testing.assert_allclose(executed, lost.levels[:, 0])
    np.testing.assert_allclose(
        np.diff(hindsight), lost.hindsight_actions[:, 0] - np.asarray(ship().legs)
    )
    np.testing.assert_array_equal(
        [bar.get_height() for bar in loss.containers[0]], lost.expected_losses
    )
    assert f"{lost.expected_regret:,.0f} in expectation" in loss.get_xlabel()


def greedy(problem: Any, seed: int) -> tuple[np.ndarray, Figure]:
    """A path and the figure of greedy decisions along it."""
    path = problem.sample_path(seed=seed)
    done = played(problem, cp.policies.Greedy().prepare(problem), path, problem.start)
    return path, path_figure(cp.regret(problem, path, done.actions), problem, path)


def test_modes_of_a_car_have_names() -> None:
    path, figure = greedy(cp.domains.HybridVehicle("A"), 1)
    modes = figure.axes[0]
    np.testing.assert_array_equal(modes.lines[0].get_ydata(), np.argmax(path, axis=1))
    assert [label.get_text() for label in modes.get_yticklabels()] == ["gas", "electric", "braking"]
    used = ["gas used", "electricity used", "gas left", "electricity left"]
    assert titles(figure)[:5] == ["mode", *used]


@pytest.mark.parametrize("problem", [cp.domains.AmericanOption("C"), cp.domains.OptionBasket("A")])
def test_options_are_exercised_or_not(problem: Any) -> None:
    path, figure = greedy(problem, 2)
    assert titles(figure)[:2] == ["price", ""]
    assert set(titles(figure)[2:]) <= {"expected loss"}
    assert len(figure.axes[0].lines) == path.shape[1]


def test_a_problem_of_ones_own() -> None:
    stock = cp.ExogenousMDP(
        process=cp.processes.GBM(20.0, 0.05, 0.4, dt=1 / 12, kind="global"),
        reward=[[1.0]],
        resources=cp.Resource(start=30),
        step_bounds=[(0, 10)] * 4,
    )
    path = stock.sample_paths(1, seed=0)[0]
    lost = cp.regret(stock, path, [10.0, 0.0, 10.0, 5.0], policy=cp.policies.Greedy())
    assert titles(path_figure(lost, stock, path))[:3] == ["x", "action", "resource"]
    names = PathNames(("offer",), ("sold",), ("left",), step="month")
    figure = path_figure(lost, stock, path, names=names)
    assert titles(figure)[:3] == ["offer", "sold", "left"]
    assert figure.axes[-1].get_xlabel().startswith("month")


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
    figure, direct = path_figure(frame.reverse(), ship()), FIGURES["path"]()
    assert legend(figure) == set(NAMES)
    for panel, same in zip(figure.axes, direct.axes, strict=True):
        for one, other in zip(panel.lines, same.lines, strict=True):
            np.testing.assert_allclose(one.get_xydata(), other.get_xydata())
    planned = frame.with_columns(planned="hindsight", planned_level="executed_level")
    points = line(path_figure(planned, ship()), "planned")
    np.testing.assert_array_equal(points[:, 1], lost.hindsight_actions[:, 0])
    alone = frame.with_columns(executed=None, expected_loss=None)
    figure = path_figure(alone, ship())
    assert legend(figure) == {"planned", "hindsight"}
    assert "expected loss" not in titles(figure)
    nobody = alone.with_columns(policy=None, hindsight=None)
    with pytest.raises(InputError, match="this scenario failed"):
        path_figure(nobody, ship())
    with pytest.raises(InputError, match="several scenarios"):
        path_figure(pl.concat([frame, frame.with_columns(scenario_id=pl.lit("r"))]), ship())


def test_bad_input() -> None:
    _, lost = voyage()
    with pytest.raises(InputError, match="say which problem"):
        path_figure(lost)
    with pytest.raises(InputError, match="pass it, path="):
        path_figure(lost, ship())
    with pytest.raises(InputError, match="cannot draw a float"):
        path_figure(3.0, ship())  # type: ignore[arg-type]
