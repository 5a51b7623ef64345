"""Random resource programs: every solver equals brute force by the definition, and each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplan.errors import InfeasibleError, NotApplicableError
from counterplan.planning.allocation import PATHS_AT_ONCE, allocate_transport, refuses_transport
from counterplan.planning.hindsight import allocate, refusals
from counterplan.planning.model import State
from counterplan.planning.resource import Resource, ResourceProgram

from .programs import best_by_enumeration, programs
from .support import EXACT, Floats, close


@dataclass(frozen=True)
class Fixed:
    """A model with given rewards: x_t holds them."""

    program: ResourceProgram
    sense: str = "max"

    @property
    def start(self) -> State:
        return State(0, np.zeros(len(self.program.resources)), self.program.start)

    def unit_rewards(self, t: int, paths: Floats) -> Floats:
        return paths if self.sense == "max" else -paths


def random_rewards(data: st.DataObject, program: ResourceProgram, n: int = 3) -> Floats:
    shape = (n, program.horizon, len(program.resources))
    size = int(np.prod(shape))
    numbers = data.draw(st.lists(st.integers(-3, 4), min_size=size, max_size=size))
    rewards = np.array(numbers, dtype=float).reshape(shape)
    resource = program.resources[0]
    # What is paid for filling a tank that spills over is no linear program: refused, see below.
    return -np.abs(rewards) if resource.effect > 0 and resource.spill else rewards


@given(programs(), st.data())
def test_every_solver_equals_brute_force(
    program: ResourceProgram | InfeasibleError, data: st.DataObject
) -> None:
    if isinstance(program, InfeasibleError):
        assert "t=" in str(program)
        return
    model = Fixed(program)
    rewards = random_rewards(data, program)
    expected = [best_by_enumeration(program, one) for one in rewards]
    tried = 0
    for method, refusal in refusals(program, model.start).items():
        if refusal is not None:
            with pytest.raises(NotApplicableError, match=f"method '{method}' does not apply"):
                allocate(model, rewards, method)  # type: ignore[arg-type]
            continue
        found = allocate(model, rewards, method)  # type: ignore[arg-type]
        tried += 1
        assert found.method.startswith(f"{method}: ")
        assert found.values == pytest.approx(expected, abs=EXACT), method
        assert_feasible(program, rewards, found.values, found.actions)
    assert tried >= 1


def assert_feasible(
    program: ResourceProgram, rewards: Floats, values: Floats, actions: Floats
) -> None:
    """Within all bounds, and worth what is said."""
    A = len(program.resources)
    resource = np.repeat(program.start[None], len(values), axis=0)
    for t in range(program.horizon):
        room = program.room(t, resource)
        totals = actions[:, t].sum(axis=1)
        assert (totals >= room.low - EXACT).all()
        assert (totals <= room.high + EXACT).all()
        if program.resources[0].effect < 0:
            assert (actions[:, t] <= resource[:, :A] + EXACT).all()
        resource = program.levels_after(t, resource, actions[:, t])
    assert (actions >= -EXACT).all()
    assert (rewards * actions).sum(axis=(1, 2)) == pytest.approx(values, abs=EXACT)


@given(programs())
def test_programs_are_refused_exactly_where_nothing_is_feasible(
    program: ResourceProgram | InfeasibleError,
) -> None:
    """What is accepted has an allocation, and the room for the first action is exactly what can be
    continued (every total in it, none outside)."""
    if isinstance(program, InfeasibleError):
        return
    A = len(program.resources)
    none = np.zeros((program.horizon, A))
    room = program.room(0, program.start[None])
    possible = {
        sum(action)
        for action in np.ndindex(*(5,) * A)
        if best_by_enumeration(program, none, action) > -np.inf
    }
    low, high = float(room.low[0]), float(room.high[0])
    assert possible == {total for total in range(5) if low <= total <= high}
    assert possible


@given(st.data())
def test_refused_programs_have_no_allocation(data: st.DataObject) -> None:
    """The refusal of a single resource is right: brute force finds nothing either."""
    T = data.draw(st.integers(1, 4))
    lows = [data.draw(st.integers(0, 2)) for _ in range(T)]
    bounds = np.array([(low, low + data.draw(st.integers(0, 2))) for low in lows], dtype=float)
    change = [data.draw(st.integers(-3, 3)) for _ in range(T)]
    resource = Resource(
        data.draw(st.integers(0, 4)), 4.0, data.draw(st.sampled_from([-1, 1])), change
    )
    budget = data.draw(st.sampled_from([(0.0, np.inf), (0.0, 2.0), (4.0, 6.0)]))
    try:
        ResourceProgram((resource,), bounds, budget)
    except InfeasibleError:
        unchecked = object.__new__(ResourceProgram)
        for name, value in (
            ("resources", (resource,)),
            ("step_bounds", bounds),
            ("budget", budget),
        ):
            object.__setattr__(unchecked, name, value)
        assert best_by_enumeration(unchecked, np.zeros((T, 1))) == -np.inf


@given(programs(), st.data())
def test_duals_prove_the_optimum(
    program: ResourceProgram | InfeasibleError, data: st.DataObject
) -> None:
    if isinstance(program, InfeasibleError) or refuses_transport(program) is not None:
        return
    found = allocate_transport(random_rewards(data, program), program)
    assert found.bounds == pytest.approx(found.values, abs=EXACT)


def test_more_paths_than_one_program_holds() -> None:
    program = ResourceProgram((Resource(3), Resource(2)), np.tile([0.0, 2.0], (4, 1)))
    rewards = np.random.default_rng(9).normal(size=(2 * PATHS_AT_ONCE + 5, 4, 2))
    found = allocate_transport(rewards, program)
    alone = [allocate_transport(one[None], program).values[0] for one in rewards[::40]]
    assert found.values[::40] == pytest.approx(alone, abs=EXACT)


def test_from_a_later_state() -> None:
    """The budget left and the level there count."""
    program = ResourceProgram((Resource(6),), np.tile([0.0, 3.0], (4, 1)), (2.0, 5.0))
    state = State(2, np.zeros(1), np.array([3.0, 3.0]))
    rewards = np.array([[[5.0], [4.0]]])
    for method in ("knapsack", "nested", "lp"):
        found = allocate(Fixed(program), rewards, method, state)  # type: ignore[arg-type]
        assert close(found.values[0], 10.0)
        assert found.actions[0].ravel() == pytest.approx([2, 0])


def test_filling_a_tank_that_spills_for_pay_is_refused() -> None:
    program = ResourceProgram((Resource(0, 2, +1, 1, True),), np.tile([0.0, 2.0], (3, 1)))
    with pytest.raises(NotApplicableError, match="pays although it spills over"):
        allocate(Fixed(program), np.ones((1, 3, 1)))  # type: ignore[arg-type]
    with pytest.raises(NotApplicableError, match=r"to make room for more$"):
        allocate_transport(np.ones((1, 3, 1)), program)


def test_an_impossible_state_is_refused() -> None:
    program = ResourceProgram((Resource(9),), np.tile([2.0, 3.0], (3, 1)))
    empty = State(1, np.zeros(1), np.zeros(1))
    with pytest.raises(InfeasibleError, match="no allocation meets all bounds"):
        allocate(Fixed(program), np.ones((1, 2, 1)), "lp", empty)  # type: ignore[arg-type]
    with pytest.raises(InfeasibleError, match="step t=0"):
        allocate(Fixed(program), np.ones((1, 2, 1)), "nested", empty)  # type: ignore[arg-type]
