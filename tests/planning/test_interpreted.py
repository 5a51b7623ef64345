"""Plain Python models: the same search, the user's own errors, and clear words for wrong shapes."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from counterplan.errors import InputError
from counterplan.planning.model import State
from counterplan.planning.search import interpreted
from counterplan.planning.search.planners import BTS, DENTS, MENTS, UCT, TreePlanner, plan

from .small_models import BUYING, STICKY, Bounded, Plain, continuous


@pytest.mark.parametrize("model", [STICKY, BUYING, continuous(STICKY)], ids=["max", "min", "drawn"])
@pytest.mark.parametrize(
    "planner",
    [
        UCT(300, leaf="rollout"),
        MENTS(300, leaf="rollout"),
        BTS(300, leaf="rollout"),
        DENTS(300, bellman=True, leaf="rollout"),
    ],
    ids=lambda one: one.name,
)
def test_the_same_as_compiled(model: Any, planner: TreePlanner) -> None:
    """The search is one, and so is the stream of chance: not nearly but exactly the same."""
    without = () if model.successors is not None else ("successors",)
    slow, fast = (plan(one, planner=planner) for one in (Plain(model, *without), model))
    assert np.array_equal(slow.values, fast.values, equal_nan=True)
    assert np.array_equal(slow.visits, fast.visits)
    assert slow.stats["nodes"] == fast.stats["nodes"]


class Twisted(Plain):
    """A model one of whose methods is replaced."""

    def __init__(self, **methods: Any) -> None:
        super().__init__(STICKY)
        self.__dict__.update(methods)


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"actions": lambda state: np.zeros(3)}, r"actions at t=0, .* must be \(m, A\)"),
        ({"actions": lambda state: np.zeros((0, 1))}, r"actions at t=0, .* must be"),
        (
            {"actions": lambda state: np.zeros((2, 1 + min(state.t, 1)))},
            r"actions at t=1: expected shape \(2, 1\), got \(2, 2\)",
        ),
        ({"actions": lambda state: [["many"]]}, "actions at t=0: expected an array of numbers"),
        ({"step": lambda t, x, d, a: (np.zeros(2), d)}, r"step at t=0 gives shapes \(2,\)"),
        ({"step": lambda t, x, d, a: (np.zeros(1), np.ones(3))}, r"expected \(1,\) and \(1, 1\)"),
        (
            {"step": lambda t, x, d, a: (np.array([np.nan]), d)},
            "action=.* gives reward nan",
        ),
        ({"draw": lambda t, x, rng: np.zeros(4)}, "draw at t=1: expected shape"),
        (
            {"successors": lambda t, x: (np.zeros((2, 1)), np.array([0.5, 0.6]))},
            "probabilities at t=0, .* must be at least 0 and sum to 1",
        ),
        ({"successors": lambda t, x: (np.zeros((2, 1)), np.ones(1))}, "successors at t=0"),
        ({"rollout": lambda state: 7}, r"rollout at t=1 chose action 7 of"),
        ({"bounds": lambda state: (2.0, 1.0)}, "bounds at t=1: lower 2.0 exceeds upper 1.0"),
    ],
)
def test_wrong_shapes_get_one_line(methods: dict[str, Any], message: str) -> None:
    # The root is valued too: t=0 unless it is the last to be asked.
    message = message.replace("t=1", "t=[01]") if "actions" not in methods else message
    with pytest.raises(InputError, match=message) as raised:
        plan(Twisted(**methods), planner=UCT(20))
    assert "\n" not in str(raised.value)


def test_errors_of_the_model_reach_the_user() -> None:
    def step(t: int, x: Any, d: Any, a: Any) -> Any:
        raise ZeroDivisionError("the user's own mistake")

    with pytest.raises(ZeroDivisionError, match="the user's own mistake"):
        plan(Twisted(step=step), planner=UCT(20))


def test_the_rollout_policy_is_used() -> None:
    """Never sell unless forced: a rollout from the start sells the least, one unit, at the end."""
    asked: list[State] = []

    def rollout(state: State) -> int:
        asked.append(state)
        return 0

    plan(Twisted(rollout=rollout), planner=UCT(20))
    assert asked
    asked.clear()
    plan(Twisted(rollout=rollout), planner=UCT(20, leaf="uniform"))
    assert not asked


def test_models_are_not_kept() -> None:
    """The registry forgets a model when its plan is made."""
    plan(Bounded(STICKY), planner=UCT(5))
    gc.collect()
    assert len(interpreted._registered) == 0
