"""Two resources that share a quota: ranked by comparative advantage, not by reward."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplan.errors import InfeasibleError, InputError
from counterplan.planning.allocation import allocate_advantage

from .support import EXACT, REWARDS, TIGHT, Floats, close


def program_value(first: Floats, second: Floats, quotas: Floats, stocks: Floats) -> float:
    """By the linear program in both resources, with equalities for the quotas."""
    from scipy.optimize import linprog

    T = len(quotas)
    totals = np.vstack([np.r_[np.ones(T), np.zeros(T)], np.r_[np.zeros(T), np.ones(T)]])
    solved = linprog(
        -np.r_[first, second],
        A_ub=totals,
        b_ub=stocks,
        A_eq=np.hstack([np.eye(T), np.eye(T)]),
        b_eq=quotas,
        options=TIGHT,
    )
    assert solved.status == 0
    return -float(solved.fun)


@given(st.data())
def test_equals_the_linear_program(data: st.DataObject) -> None:
    T = data.draw(st.integers(1, 8))
    first, second = (np.array([data.draw(REWARDS) for _ in range(T)]) for _ in range(2))
    quotas = np.array([data.draw(st.integers(0, 5)) for _ in range(T)], dtype=float)
    share = data.draw(st.integers(0, 4)) / 4
    spare = data.draw(st.integers(0, 3))
    stocks = np.array([share * quotas.sum() + spare, (1 - share) * quotas.sum()])
    values, actions = allocate_advantage(first, second, quotas, (stocks[0], stocks[1]))
    assert close(values[0], program_value(first, second, quotas, stocks))
    assert close(values[0], float(first @ actions[0, :, 0] + second @ actions[0, :, 1]))
    assert actions[0].sum(axis=1) == pytest.approx(quotas, abs=EXACT)
    assert (actions[0].sum(axis=0) <= stocks + EXACT).all()
    assert (actions >= 0).all()


def ranked_by_reward(first: Floats, second: Floats, quotas: Floats, stock: float) -> float:
    """The first resource where its own reward is highest (Eq. 2.26), the second elsewhere."""
    spent = np.zeros_like(quotas)
    for t in np.argsort(-first, kind="stable"):
        spent[t] = min(quotas[t], stock - spent.sum())
    return float(first @ spent + second @ (quotas - spent))


def test_ranking_by_reward_is_wrong() -> None:
    """One unit of the first: it earns most at t=0, but the second does almost as well there."""
    first, second, quotas = np.array([10.0, 8.0]), np.array([9.0, 1.0]), np.ones(2)
    assert ranked_by_reward(first, second, quotas, 1.0) == 11
    values, actions = allocate_advantage(first, second, quotas, (1.0, 1.0))
    assert values[0] == 17
    assert actions[0].tolist() == [[0, 1], [1, 0]]


def test_ranking_by_reward_is_wrong_on_many_random_instances() -> None:
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(100):
        T = int(rng.integers(2, 8))
        first, second = rng.random((2, T)) * 10
        quotas = np.ones(T)
        stock = T / 2
        exact = allocate_advantage(first, second, quotas, (stock, stock))[0][0]
        assert close(exact, program_value(first, second, quotas, np.array([stock, stock])))
        wrong += ranked_by_reward(first, second, quotas, stock) < exact - EXACT
    assert wrong > 25


def test_ties_go_to_the_earlier_step() -> None:
    _, actions = allocate_advantage([3.0, 3.0, 3.0], [1.0, 1.0, 1.0], [2, 2, 2], (3.0, 9.0))
    assert actions[0, :, 0].tolist() == [2, 1, 0]


def test_bad_input() -> None:
    with pytest.raises(InfeasibleError, match="up to step t=1 exceed both stocks together, 3"):
        allocate_advantage([1.0, 1.0], [1.0, 1.0], [2, 2], (1.0, 2.0))
    with pytest.raises(InputError, match="quotas must be 2 numbers"):
        allocate_advantage([1.0, 1.0], [1.0, 1.0], [2, -1], (1.0, 2.0))
    with pytest.raises(InputError, match="one shape"):
        allocate_advantage([1.0, 1.0], [1.0], [2, 2], (1.0, 2.0))
