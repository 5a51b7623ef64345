"""The pool of open nodes against a plain sorted list."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from counterplan.counterfactual.continuous.astar import Nodes, Pool

# Few distinct promises, so that ties are common.
PROMISES = st.lists(st.integers(0, 9), max_size=12)


def nodes(promises: list[int], first: int) -> Nodes:
    """Nodes whose `used` is a number of their own, to be known by."""
    n = len(promises)
    names = np.arange(first, first + n)
    return Nodes(
        np.zeros((n, 2)), names, np.zeros(n), np.array(promises, float), np.zeros((n, 3), np.int8)
    )


@given(
    st.lists(
        st.one_of(PROMISES, st.tuples(st.integers(1, 7), st.integers(-1, 8))),
        max_size=40,
    )
)
def test_takes_the_most_promising_and_loses_none(calls: list[list[int] | tuple[int, int]]) -> None:
    pool, held, named = Pool(), {}, 0
    for call in calls:
        if isinstance(call, list):
            pool.push(nodes(call, named))
            held |= {named + i: float(promise) for i, promise in enumerate(call)}
            named += len(call)
        elif held:
            count, above = call
            taken, dropped = pool.pop(count, above)
            below = [promise for promise in held.values() if promise <= above]
            assert dropped == max(below, default=-math.inf)
            held = {name: promise for name, promise in held.items() if promise > above}
            best = sorted(held.values(), reverse=True)[:count]
            assert sorted(taken.promise, reverse=True) == best
            for name, promise in zip(taken.used, taken.promise, strict=True):
                assert held.pop(int(name)) == promise
        assert len(pool) == len(held)
        assert pool.largest == max(held.values(), default=-math.inf)
