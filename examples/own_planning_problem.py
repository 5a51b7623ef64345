"""A planning problem of your own: when to charge a battery, in plain Python.

Every hour the price of power jumps among three; a battery of four units must supply one unit an
hour; up to two units can be bought at a time. What no action touches is the price's number, the
resource is what is in the battery, and the cost is linear in what is bought.
"""

import numpy as np

import counterplan as cp
from counterplan.errors import InfeasibleError
from counterplan.planning import State
from counterplan.testing import check_model

PRICES = np.array([1.0, 3.0, 8.0])
JUMPS = np.array([[0.6, 0.3, 0.1], [0.3, 0.4, 0.3], [0.1, 0.4, 0.5]])
CAPACITY, NEED, MOST = 4.0, 1.0, 2.0


class Battery:
    """State: x = (the price's number,), d = (units in the battery,); action: (units bought,)."""

    horizon = 8
    sense = "min"

    @property
    def start(self) -> State:
        return State(0, np.array([1.0]), np.array([1.0]))

    def draw(self, t: int, exogenous: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """The next price of each of n hours, whatever is done."""
        below = np.cumsum(JUMPS, axis=1)[exogenous[:, 0].astype(int), :-1]
        return (generator.random((len(exogenous), 1)) > below).sum(axis=1, keepdims=True) + 0.0

    def successors(self, t: int, exogenous: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All next prices: with them there is an exact value, and the search averages better."""
        return np.arange(3.0)[:, None], JUMPS[int(exogenous[0])]

    def actions(self, state: State) -> np.ndarray:
        """(m, 1) whole units that keep the lights on and fit in."""
        level = state.resource[0]
        units = np.arange(0.0, MOST + 1.0)
        return units[(level + units >= NEED) & (level + units <= CAPACITY)][:, None]

    def step(
        self, t: int, exogenous: np.ndarray, resource: np.ndarray, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Costs (n,) and levels (n, 1); what is not possible is refused."""
        filled = resource + actions
        if (actions < 0).any() or (actions > MOST).any() or (filled > CAPACITY).any():
            raise InfeasibleError(f"buying {actions.ravel().tolist()} at t={t} is too much")
        if (filled < NEED).any():
            raise InfeasibleError(f"buying {actions.ravel().tolist()} at t={t} is too little")
        return PRICES[exogenous[:, 0].astype(int)] * actions[:, 0], filled - NEED


battery = Battery()
check_model(battery)

plan = cp.plan(battery, planner=cp.UCT(simulations=500), seed=0)
best = cp.policies.Optimal().prepare(battery)(0, *(part[None] for part in battery.start[1:]))
print(f"the search buys {plan.action[0]:g} now, the optimal policy {best[0, 0]:g}")
print(f"expected cost of the optimal policy {cp.exact_value(battery):.2f}")

prices = np.array([[1.0], [0.0], [1.0], [2.0], [2.0], [1.0], [0.0], [2.0]])
bought = np.array([[0.0], [1.0], [1.0], [1.0], [1.0], [1.0], [1.0], [1.0]])
best = cp.explain(battery, cp.Episode(prices, bought), k=2)
print(f"paid {best.factual_value:g}; with two changes {best.value:g}, {best.status}")
for change in best.changes:
    print(f"  hour {change.t}: buy {change.alternative[0]:g} instead of {change.observed[0]:g}")
