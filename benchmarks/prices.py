"""Laws of prices from data: `python -m benchmarks.prices [--records 200]`.

Three questions: how often 90 % bands of the chosen law hold on the held-out part of the Brent table
(the folder `shared` beside the repository), 1, 3, 6 and 12 steps ahead; how often 90 % intervals
hold the parameter that made a simulated record; and how often the law that made a record is chosen.

Writes results/prices.md.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

import counterplan as cp
from counterplan.planning.processes.autoregression import Autoregression, Clock
from counterplan.planning.processes.fit import HORIZONS, estimated, values_of
from counterplan.planning.processes.series import read_series

RESULTS = Path(__file__).parent / "results" / "prices.md"
BRENT = Path(__file__).resolve().parents[2] / "shared/data/oil_prices/brent-daily.csv"
BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
EFFECTS = np.array([45.0, 3.0, 1.0, 0.0, 0.0, -1.0, -1.5])[:, None]
SWITCHING = Autoregression(
    50.0, 1.0, 0.0, [[[0.01**2]], [[0.04**2]]], True, [[0.002], [-0.003]],
    [[0.95, 0.05], [0.1, 0.9]], 0.3,
)  # fmt: skip
# What makes a record, how many rows it has, and the law that is estimated.
LAWS = {
    "geometric Brownian motion": (Autoregression(50.0, 1.0, 0.002, 0.0025, True), 300, "gbm"),
    "mean reversion": (Autoregression(45.0, 0.8, 45.0, 4.0), 300, "ou"),
    "mean reversion of logs": (
        Autoregression(45.0, 0.9, np.log(45.0), 0.04, True), 400, "log-ou",
    ),
    "weekdays and autoregression": (
        Autoregression(
            45.0, 0.7, EFFECTS, 4.0, seasons=(("weekday", tuple(range(7))),),
            clock=Clock(BEGIN.timestamp(), 86_400.0),
        ), 400, "seasonal",
    ),
    "two correlated prices": (
        Autoregression([50.0, 40.0], [0.8, 0.9], [[45.0, 40.0]], [[4.0, 2.0], [2.0, 3.0]]),
        300, "ou",
    ),
    "two regimes": (SWITCHING, 800, "gbm with regimes"),
}  # fmt: skip


def drawn(law: Autoregression, rows: int, seed: int) -> np.ndarray:
    return law.sample_paths(1, rows, seed=seed)[0, :, : law.series]


def brent() -> list[str]:
    lines = [
        "90 % bands on the last half of the Brent table, which each law was not shown:\n",
        f"| steps | rows | chosen law | {' | '.join(f'{h} ahead' for h in HORIZONS)} | seconds |",
        f"|---|---:|---|{'---:|' * len(HORIZONS)}---:|",
    ]
    for every in ("month", "week", None):
        start = time.process_time()
        found = cp.processes.fit(BRENT, every=every)
        seconds = time.process_time() - start
        held = " | ".join(f"{found.coverage[h]:.1%}" for h in HORIZONS)
        what = f"{every or 'business day'}s"
        lines.append(f"| {what} | {found.about['rows']} | {found.name} | {held} | {seconds:.1f} |")
    return lines


def intervals(records: int) -> list[str]:
    lines = [
        f"\nHow many of {records} simulated records have the truth in the 90 % interval:\n",
        "| record | rows | parameters, in order | mean |\n|---|---:|---|---:|",
    ]
    for what, (law, rows, name) in LAWS.items():
        structure, _, shocks = name.partition(" with ")
        dates = [BEGIN + timedelta(days=i) for i in range(rows)]
        hits = Counter[str]()
        for seed in range(records):
            record = read_series(drawn(law, rows, seed), dates, None, None)
            found = estimated(record, structure, shocks or "normal")
            truth = values_of(law, found.names)
            for parameter, one in found.parameters.items():
                hits[parameter] += one.low <= truth[parameter] <= one.high
        shares = {parameter: count / records for parameter, count in hits.items()}
        told = ", ".join(f"{parameter} {share:.1%}" for parameter, share in shares.items())
        lines.append(f"| {what} | {rows} | {told} | {np.mean([*shares.values()]):.1%} |")
    return lines


def choices(records: int, rows: int = 600) -> list[str]:
    lines = [
        f"\nWhich law is chosen for {records} simulated records of {rows} rows each:\n",
        "| record | chosen |\n|---|---|",
    ]
    dates = [BEGIN + timedelta(days=i) for i in range(rows)]
    for what, (law, _, _) in LAWS.items():
        won = Counter(
            cp.processes.fit(drawn(law, rows, seed), time=dates).name for seed in range(records)
        )
        told = ", ".join(f"{name} {count}" for name, count in won.most_common())
        lines.append(f"| {what} | {told} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200)
    parser.add_argument("--chosen", type=int, default=20)
    options = parser.parse_args()
    lines = brent() if BRENT.exists() else ["The Brent table is not here."]
    lines += intervals(options.records) + choices(options.chosen)
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
