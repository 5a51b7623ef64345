"""A planning problem as one file: how much water to let through the turbines, month by month.

The price of power is seen, then water is released; two units flow in every month, and what the
reservoir cannot hold runs over. What the class says of itself is all that the command line, tables,
figures, reports and the explorer need:

    counterplan plan examples/reservoir.py --help
    counterplan plan examples/reservoir.py --step 3 --price 55 --storage 8
    counterplan plan examples/reservoir.py --scenarios-template months.csv
    counterplan plan examples/reservoir.py --scenarios months.csv -o run
    counterplan report run --problem examples/reservoir.py -o report.html
    counterplan serve run --problem examples/reservoir.py
"""

import numpy as np

import counterplan as cp
from counterplan.planning.description import Axes, Column, Columns

MONTHS, MOST = 6, 5.0


class Reservoir(cp.ExogenousMDP):
    """Water behind a dam: how much to release each month, the price of power being known.

    capacity    of the reservoir in million cubic metres
    inflow      of a month
    volatility  of the price of power, for a year
    """

    def __init__(
        self, capacity: float = 12.0, inflow: float = 2.0, volatility: float = 0.6
    ) -> None:
        super().__init__(
            process=cp.processes.GBM(40.0, 0.0, volatility, dt=1 / 12),
            reward=[[1.0]],
            resources=cp.Resource(6.0, capacity, change=inflow, spill=True),
            step_bounds=[(0.0, MOST)] * MONTHS,
        )

    def columns(self) -> Columns:
        """Tables with a price, the water released and the water stored."""
        most = self.program.resources[0].capacity
        return Columns(
            self,
            (Column("price", "the price of power", "price", unit="EUR/MWh"),),
            (Column("release", "the water released", "amount", unit="hm3", most=MOST),),
            (Column("storage", "the water stored", "amount", unit="hm3", most=most),),
        )

    def axes(self) -> Axes:
        """What figures and the explorer write at their axes."""
        titles = (("price (EUR/MWh)",), ("released (hm3)",), ("stored (hm3)",))
        return Axes(*titles, step="month t", scenario="half-year")

    def describe(self, action: np.ndarray) -> str:
        """An action in words."""
        return f"release {action[0]:g} hm3" if action[0] > 0 else "release nothing"


if __name__ == "__main__":
    dam = Reservoir()
    plan = cp.plan(dam, planner=cp.UCT(simulations=500), seed=0)
    print(f"{dam.describe(plan.action)} now; worth {plan.value:.0f} in all")
    prices = dam.sample_path(seed=1)
    known = cp.hindsight(dam, prices)
    released = ", ".join(f"{amount:g}" for amount in known.actions[:, 0])
    print(f"had the prices been known: {known.value:.0f} by {released}")
