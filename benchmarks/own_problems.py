"""Six problems as users bring them: own classes with `draw`, `actions` and `step`, nothing more.

Each is played on the same futures by the default `cp.plan` (a tree search whose leaf is what is
cheap for the problem), by the plan for expected values made anew at every step, made once, and by
greed; V* comes from a dynamic program that shares no code with the library (loops over the states
that the problem itself was written with). Share of the gap between the plan made once and V* that
the default closes, paired with the optimal policy on the same futures:

    closed = 1 - (optimal - default) / (optimal - plan made once)

    python benchmarks/own_problems.py --futures 200 --simulations 200 --write
    python benchmarks/own_problems.py --speed --advice --write
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import counterplan as cp
from counterplan.planning.model import State
from counterplan.planning.policies import KnownRule
from counterplan.planning.processes.base import draw_paths
from counterplan.planning.search import grounded
from counterplan.planning.search.grounded import basis_of, on_lattice
from counterplan.planning.search.planners import Session

RESULTS = Path(__file__).parent / "results" / "own_problems.md"
SPEED = RESULTS.with_name("own_problems_speed.md")
SPEED_HEAD = """# Own problems, compiled: speed, and what advice loses

`python benchmarks/own_problems.py --speed --advice --write`: processor time.
"""


class Chain:
    """x jumps among rows of `points` by the rows of `matrix`; its mean may have a season."""

    points: np.ndarray
    matrix: np.ndarray
    first: int
    season: Any = None  # t -> a number that is added to x

    def numbers(self, t: int) -> np.ndarray:
        """(M, X) what x may be at t."""
        shift = 0.0 if self.season is None else self.season(t)
        return np.asarray(self.points + shift, dtype=float)

    def place(self, t: int, x: np.ndarray) -> np.ndarray:
        away = np.abs(x[:, None] - self.numbers(t)[None]).sum(axis=2)
        return np.asarray(away.argmin(axis=1))

    def draw(self, t: int, x: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        rows = np.cumsum(self.matrix[self.place(t, x)], axis=1)
        chosen = (rows < generator.random((len(x), 1))).sum(axis=1)
        return self.numbers(t + 1)[np.minimum(chosen, len(self.points) - 1)]


def persistent(count: int, reversion: float, spread: float) -> np.ndarray:
    """(count, count) a chain that drifts back to the middle."""
    i, middle = np.arange(count), (count - 1) / 2
    means = middle + reversion * (i[:, None] - middle)
    rows = np.exp(-0.5 * ((i[None] - means) / spread) ** 2)
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


class PriceLattice(Chain):
    """An own process for `ExogenousMDP`, with its successors: 25 prices."""

    points = 20.0 * np.exp(np.linspace(-0.8, 0.8, 25))[:, None]
    matrix = persistent(25, 0.85, 3.0)
    first = 12
    start = points[12]

    def successors(self, t: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.points.copy(), self.matrix[self.place(t, x[None])[0]]

    def mean_path(self, steps: int, t: int = 0, start: np.ndarray | None = None) -> np.ndarray:
        x = self.start if start is None else np.asarray(start)
        chances, found = np.eye(25)[self.place(t, x[None])[0]], [x]
        for _ in range(steps - 1):
            chances = chances @ self.matrix
            found.append(chances @ self.points)
        return np.array(found)

    def sample_paths(
        self, n: int, steps: int, seed: Any = 0, t: int = 0, start: Any = None
    ) -> np.ndarray:
        return draw_paths(self, n, steps, seed, t, start)


def warehouse() -> Any:
    """Buy for twelve months at an own lattice of prices, 60 fit in."""
    changes = [-8, -12, -9, -15, -11, -7, -13, -10, -14, -9, -12, -8]
    stock = cp.Resource(start=5, capacity=60, effect=+1, change=changes)
    return cp.ExogenousMDP(
        PriceLattice(), [[1.0]], stock, [(0, 40)] * 12, sense="min", action_set="order-up-to"
    )


class Battery(Chain):
    """Buy and sell power by the hour, at prices that may be any number; the chain is a fine grid
    of them, for the truth alone."""

    horizon, sense, capacity, power = 24, "max", 8.0, 2.0
    points = np.linspace(-80.0, 80.0, 81)[:, None]
    matrix = persistent(81, 0.75, 7.0)
    first = 40

    @staticmethod
    def season(t: int) -> float:
        return 50.0 + 20.0 * np.sin(2 * np.pi * (t - 8) / 24) + 10.0 * np.sin(4 * np.pi * t / 24)

    @property
    def start(self) -> State:
        return State(0, self.numbers(0)[self.first], np.array([4.0]))

    def draw(self, t: int, x: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        noise = 14.0 * generator.standard_normal(x.shape)
        return self.season(t + 1) + 0.75 * (x - self.season(t)) + noise

    def actions(self, state: State) -> np.ndarray:
        level = state.resource[0]
        least, most = max(-self.power, -level), min(self.power, self.capacity - level)
        return np.arange(least, most + 0.5)[:, None]

    def step(self, t: int, x: np.ndarray, d: np.ndarray, a: np.ndarray) -> Any:
        bought, sold = np.maximum(a[:, 0], 0.0), np.maximum(-a[:, 0], 0.0)
        cash = x[:, 0] * (0.92 * sold - bought / 0.92) - 1.0 * sold
        return cash, d + a


class TwoBatteries(Chain):
    """A fast small one and a slow large one that loses less, on one market."""

    horizon, sense, season = 18, "max", staticmethod(Battery.season)
    points = np.linspace(-30.0, 30.0, 11)[:, None]
    matrix = persistent(11, 0.7, 1.8)
    first = 5
    capacities, powers, efficiency = np.array([4.0, 10.0]), np.array([2.0, 1.0]), (0.85, 0.95)

    @property
    def start(self) -> State:
        return State(0, self.numbers(0)[self.first], np.array([0.0, 3.0]))

    def actions(self, state: State) -> np.ndarray:
        axes = [
            np.arange(max(-power, -level), min(power, most - level) + 0.5)
            for level, most, power in zip(state.resource, self.capacities, self.powers, strict=True)
        ]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)

    def step(self, t: int, x: np.ndarray, d: np.ndarray, a: np.ndarray) -> Any:
        cash = np.zeros(len(a))
        for i, kept in enumerate(self.efficiency):
            cash += x[:, 0] * np.where(a[:, i] > 0, -a[:, i] / kept, -a[:, i] * kept)
        return cash - 0.5 * np.abs(a).sum(axis=1), d + a


class Reservoirs(Chain):
    """Two dams in a row: what the upper lets through the lower may use again."""

    horizon, sense, sizes = 16, "max", np.array([8.0, 6.0])
    points = np.array(list(product([0.0, 1.0, 3.0], [20.0, 35.0, 50.0, 80.0])))
    matrix = np.kron(
        [[0.6, 0.3, 0.1], [0.25, 0.5, 0.25], [0.1, 0.4, 0.5]],
        persistent(4, 0.6, 0.9),
    )
    first = 5

    @property
    def start(self) -> State:
        return State(0, self.numbers(0)[self.first], np.array([4.0, 3.0]))

    def actions(self, state: State) -> np.ndarray:
        upper, lower = state.resource
        return np.array(
            [(u, v) for u in range(int(min(upper, 2)) + 1) for v in range(int(min(lower, 3)) + 1)],
            dtype=float,
        )

    def step(self, t: int, x: np.ndarray, d: np.ndarray, a: np.ndarray) -> Any:
        after = np.stack([d[:, 0] - a[:, 0] + x[:, 0], d[:, 1] - a[:, 1] + a[:, 0]], axis=1)
        after = np.minimum(after, self.sizes)
        earned = x[:, 1] * (1.0 * a[:, 0] + 1.6 * a[:, 1])
        if t == self.horizon - 1:
            earned = earned + 45.0 * after[:, 0] + 25.0 * after[:, 1]
        return earned, after


class Season(Chain):
    """Order before it sells: lost sales cost, what is left over too; orders arrive a week later."""

    horizon, sense = 20, "max"
    points = np.arange(0.0, 9.0)[:, None]
    matrix = persistent(9, 0.75, 1.5)
    first = 4

    @staticmethod
    def season(t: int) -> float:
        return float(round(4.0 + 4.0 * np.sin(np.pi * t / 19)))

    @property
    def start(self) -> State:
        return State(0, self.numbers(0)[self.first], np.array([9.0]))

    def actions(self, state: State) -> np.ndarray:
        return np.arange(0.0, min(14.0, 30.0 - state.resource[0]) + 0.5)[:, None]

    def step(self, t: int, x: np.ndarray, d: np.ndarray, a: np.ndarray) -> Any:
        sold = np.minimum(d[:, 0], x[:, 0])
        left = d[:, 0] - sold
        earned = 6.0 * sold - 3.0 * (x[:, 0] - sold) - 2.5 * a[:, 0] - 0.3 * left
        after = left + a[:, 0]
        if t == self.horizon - 1:
            earned = earned + 1.0 * after
        return earned, after[:, None]


class Staffing(Chain):
    """Hire, dismiss and ask for overtime while the work comes as it comes; backlog is penalised."""

    horizon, sense = 14, "min"
    points = np.arange(0.0, 14.0, 2.0)[:, None]
    matrix = persistent(7, 0.8, 1.0)
    first = 3

    @staticmethod
    def season(t: int) -> float:
        return 6.0 if t % 7 < 4 else 2.0

    @property
    def start(self) -> State:
        return State(0, self.numbers(0)[self.first], np.array([5.0, 0.0]))

    def actions(self, state: State) -> np.ndarray:
        staff = state.resource[0]
        moves = [m for m in (-1.0, 0.0, 1.0, 2.0) if 1 <= staff + m <= 10]
        return np.array([(m, o) for m in moves for o in (0.0, 1.0)])

    def step(self, t: int, x: np.ndarray, d: np.ndarray, a: np.ndarray) -> Any:
        staff = d[:, 0] + a[:, 0]
        open_work = d[:, 1] + x[:, 0] - d[:, 0] * (2.0 + a[:, 1])  # hired today, here tomorrow
        backlog = np.maximum(open_work, 0.0)
        sent_out = np.maximum(backlog - 12.0, 0.0)
        backlog = backlog - sent_out
        cost = 10.0 * staff + 15.0 * np.maximum(a[:, 0], 0) + 8.0 * np.maximum(-a[:, 0], 0)
        cost = cost + 7.0 * d[:, 0] * a[:, 1] + 2.0 * backlog + 9.0 * sent_out
        if t == self.horizon - 1:
            cost = cost + 7.0 * backlog
        return cost, np.stack([staff, backlog], axis=1)


PROBLEMS = {
    "warehouse": warehouse,
    "battery": Battery,
    "two batteries": TwoBatteries,
    "reservoirs": Reservoirs,
    "seasonal stock": Season,
    "staffing": Staffing,
}


class Truth:
    """V* of a problem on a chain, by recursion over its whole-numbered levels, and two rules that
    look at the mean alone. Shares nothing with the library but the problem."""

    def __init__(self, problem: Any) -> None:
        self.problem = problem
        self.chain: Any = getattr(problem, "process", problem)
        self.sign = 1.0 if problem.sense == "max" else -1.0
        self.V: list[dict[tuple[int, tuple[float, ...]], tuple[float, np.ndarray]]] = [
            {} for _ in range(problem.horizon + 1)
        ]
        self.columns: dict[Any, np.ndarray] = {}
        self.means: dict[tuple[int, int], Any] = {}
        _, x, d = problem.start
        self.value = self.sign * self.at(0, int(self.chain.place(0, x[None])[0]), tuple(d))[0]

    def options(self, t: int, x: np.ndarray, d: tuple[float, ...]) -> Any:
        actions = np.asarray(self.problem.actions(State(t, x, np.array(d))))
        given = np.tile(x, (len(actions), 1)), np.tile(d, (len(actions), 1))
        rewards, after = self.problem.step(t, *given, actions)
        return actions, self.sign * rewards, [tuple(e.round(9)) for e in after]

    def ahead(self, t: int, d: tuple[float, ...]) -> np.ndarray:
        """(M,) V* at all nodes."""
        if (t, d) not in self.columns:
            nodes = range(len(self.chain.points))
            self.columns[t, d] = np.array([self.at(t, j, d)[0] for j in nodes])
        return self.columns[t, d]

    def at(self, t: int, i: int, d: tuple[float, ...]) -> tuple[float, Any]:
        """V* at node i and levels d, and the best action."""
        if t == self.problem.horizon:
            return 0.0, None
        known = self.V[t].get((i, d))
        if known is None:
            actions, totals, after = self.options(t, self.chain.numbers(t)[i], d)
            totals = totals.copy()
            if t + 1 < self.problem.horizon:
                totals += np.array([self.chain.matrix[i] @ self.ahead(t + 1, e) for e in after])
            best = int(np.argmax(totals))
            known = self.V[t][i, d] = float(totals[best]), actions[best]
        return known

    def optimal(self, t: int, x: np.ndarray, d: np.ndarray) -> np.ndarray:
        pairs = zip(self.chain.place(t, x), d, strict=True)
        return np.array([self.at(t, int(i), tuple(e.round(9)))[1] for i, e in pairs])

    def _mean_path(self, t: int, i: int) -> tuple[list[np.ndarray], dict[Any, Any]]:
        """E[x_s | node i at t] for s = t, ..., and what plans along it were found."""
        if (t, i) not in self.means:
            row, means = np.eye(len(self.chain.points))[i], []
            for s in range(t, self.problem.horizon):
                means.append(row @ self.chain.numbers(s))
                row = row @ self.chain.matrix
            self.means[t, i] = means, {}
        return self.means[t, i]

    def mean_plan(self, t: int, i: int, d: tuple[float, ...]) -> np.ndarray:
        """(T - t, A) the best plan if x were its mean, levels rounded to whole numbers."""
        means, later = self._mean_path(t, i)

        def best(s: int, e: tuple[float, ...]) -> Any:
            if s == self.problem.horizon:
                return 0.0, ()
            if (s, e) not in later:
                actions, totals, after = self.options(s, means[s - t], e)
                ahead = [best(s + 1, tuple(np.round(one))) for one in after]
                totals = totals + np.array([one[0] for one in ahead])
                k = int(np.argmax(totals))
                later[s, e] = float(totals[k]), (actions[k], *ahead[k][1])
            return later[s, e]

        return np.array(best(t, d)[1])

    def resolve(self, t: int, x: np.ndarray, d: np.ndarray) -> np.ndarray:
        pairs = zip(self.chain.place(t, x), d, strict=True)
        return np.array([self.mean_plan(t, int(i), tuple(np.round(e)))[0] for i, e in pairs])

    def once(self, t: int, x: np.ndarray, d: np.ndarray) -> np.ndarray:
        """The plan made at the start; the offered action that is closest to it."""
        _, first, level = self.problem.start
        plan = self.mean_plan(0, int(self.chain.place(0, first[None])[0]), tuple(level))
        chosen = []
        for one, e in zip(x, d, strict=True):
            offered = np.asarray(self.problem.actions(State(t, one, e)))
            chosen.append(offered[((offered - plan[t]) ** 2).sum(axis=1).argmin()])
        return np.array(chosen)


class Row(NamedTuple):
    """What one problem came to."""

    name: str
    exact: float
    once: float
    resolved: float
    greedy: float
    planned: float
    closed: float
    closed_se: float
    worse_by: float
    worse_se: float
    milliseconds: float
    basis: str


def measure(name: str, episodes: int = 200, simulations: int = 1000, seed: int = 0) -> Row:
    """A problem played by all, on the same futures."""
    problem = PROBLEMS[name]()
    truth = Truth(problem)
    rules = {
        "optimal": KnownRule("optimal", truth.optimal),
        "once": KnownRule("plan made once", truth.once),
        "resolved": KnownRule("re-solved", truth.resolve),
        "greedy": cp.policies.Greedy(),
        "planned": cp.UCT(simulations),
    }
    began, basis = time.perf_counter(), cp.plan(problem, planner=rules["planned"]).basis
    played = {}
    for key, rule in rules.items():
        began = time.perf_counter()
        played[key] = cp.evaluate(problem, rule, episodes, seed=seed)
    per = 1000 * (time.perf_counter() - began) / (episodes * problem.horizon)
    lost = played["planned"].compare(played["optimal"])
    gap = played["once"].compare(played["optimal"])
    better = played["planned"].compare(played["resolved"])
    return Row(
        name,
        truth.value,
        *(played[key].mean for key in ("once", "resolved", "greedy", "planned")),
        1.0 - lost.difference / gap.difference,
        abs(lost.se / gap.difference),
        -truth.sign * better.difference,
        better.se,
        per,
        basis,
    )


def speed(name: str, simulations: int = 1000, repetitions: int = 10) -> str:
    """Processor time of simulations from the start in plain Python and compiled, and of advice."""
    problem = PROBLEMS[name]()
    problem.numba = True
    known: Any = basis_of(problem, problem.start).known
    planner, taken = cp.UCT(simulations, leaf=on_lattice), list[float]()
    for is_open in (False, True):
        session = Session(planner, problem, False, 0, known.tables)
        if is_open:
            began = time.process_time()
            session.ready()
            compiling = time.process_time() - began
        session(problem.start)
        began = time.process_time()
        for _ in range(repetitions):
            session(problem.start)
        taken.append((time.process_time() - began) / repetitions)
    advisor, chance, advice = (
        cp.Advisor(problem, cp.UCT(simulations)),
        np.random.default_rng(0),
        list[float](),
    )
    for _ in range(repetitions + 1):
        t, x, d = problem.start
        while t < problem.horizon:
            began = time.process_time()
            action = advisor.advise(State(t, x, d)).action
            advice.append(1000 * (time.process_time() - began))
            d = problem.step(t, x[None], d[None], action[None])[1][0]
            t, x = t + 1, problem.draw(t, x[None], chance)[0]
    warm = advice[problem.horizon :]
    return (
        f"{name}: {1e6 * taken[0] / simulations:.1f} us a simulation in plain Python, "
        f"{1e6 * taken[1] / simulations:.2f} compiled ({taken[0] / taken[1]:.1f} times), "
        f"compiling {compiling:.1f} s; advice {np.median(warm):.1f} ms (median), "
        f"{np.quantile(warm, 0.99):.1f} ms (99 %)"
    )


def met(truth: Truth, known: Any, count: int) -> list[tuple[State, int]]:
    """States on the chain that the lattice's policy comes to, with mistakes; and their nodes."""
    problem, rng, found = truth.problem, np.random.default_rng(3), list[tuple[State, int]]()
    while len(found) < count:
        _, x, d = problem.start
        i = int(truth.chain.place(0, x[None])[0])
        for t in range(problem.horizon):
            x = truth.chain.numbers(t)[i]
            if rng.random() < 0.25:
                found.append((State(t, x, d), i))
            offered = problem.actions(State(t, x, d))
            action = known.actions(t, x[None], d[None])[0]
            action = offered[rng.integers(len(offered))] if rng.random() < 0.2 else action
            d = problem.step(t, x[None], d[None], action[None])[1][0].round(9)
            i = int(rng.choice(len(truth.chain.points), p=truth.chain.matrix[i]))
    return found[:count]


def advice(name: str, simulations: int = 1000, states: int = 150) -> str:
    """What compiled advice loses to V* in a decision, with the futures that it compares by and with
    a hundred at least, and what the lattice's policy loses; processor time."""
    problem = PROBLEMS[name]()
    problem.numba = True
    truth, known = Truth(problem), basis_of(problem, problem.start).known
    asked, advisor = met(truth, known, states), cp.Advisor(problem, cp.UCT(simulations))

    def loss(state: State, i: int, action: np.ndarray) -> float:
        actions, totals, after = truth.options(state.t, state.exogenous, tuple(state.resource))
        if state.t + 1 < problem.horizon:
            ahead = [truth.chain.matrix[i] @ truth.ahead(state.t + 1, one) for one in after]
            totals = totals + np.array(ahead)
        return float(totals.max() - totals[np.abs(actions - action).sum(axis=1).argmin()])

    usual, parts = (grounded.LEAST_ADVISED, grounded.ADVISED), []
    for least, most in (usual, (100, 10**9)):
        grounded.LEAST_ADVISED, grounded.ADVISED = least, most
        losses, taken = list[float](), list[float]()
        for state, i in asked:
            began = time.process_time()
            action = advisor.advise(state).action
            taken.append(1000 * (time.process_time() - began))
            losses.append(loss(state, i, action))
        parts.append(
            f"loses {np.mean(losses):.4f} (at most {max(losses):.3f}) in {np.median(taken):.1f} ms"
        )
    grounded.LEAST_ADVISED, grounded.ADVISED = usual
    by_lattice = [loss(s, i, known.actions(s.t, *(p[None] for p in s[1:]))[0]) for s, i in asked]
    return f"{name}: {parts[0]}; with 100 futures {parts[1]}; the lattice {np.mean(by_lattice):.4f}"


def table(rows: list[Row], episodes: int, simulations: int) -> str:
    lines = [
        "# Own problems, planned by default",
        "",
        f"`python benchmarks/own_problems.py --futures {episodes} --simulations {simulations} "
        "--write`: means over the same futures. Closed: the share of the gap between the plan "
        "made once and the optimum, with its standard error; worse: than re-solving the "
        "plan for expected values at every step "
        "(below 0: better). Where the chance of the optimum's own luck allows, more than 100 % is "
        "closed.",
        "",
        "| problem | V* | plan made once | re-solved | greedy | default `plan` | closed | worse "
        "than re-solved | ms per decision | basis |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for one in rows:
        numbers = (one.exact, one.once, one.resolved, one.greedy, one.planned)
        cells = [one.name, *(f"{value:,.1f}" for value in numbers)]
        cells += [f"{100 * one.closed:.1f} % ({100 * one.closed_se:.1f})"]
        cells += [f"{one.worse_by:.2f} ({one.worse_se:.2f})", f"{one.milliseconds:.0f}", one.basis]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--futures", type=int, default=200)
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--only", choices=PROBLEMS)
    parser.add_argument("--speed", action="store_true", help="plain Python against compiled")
    parser.add_argument("--advice", action="store_true", help="what fewer futures cost")
    parser.add_argument("--write", action="store_true", help=f"to {RESULTS.name}")
    given = parser.parse_args()
    rows, chosen = [], [given.only] if given.only else list(PROBLEMS)
    said = list[str]()
    for wanted, measured in ((given.speed, speed), (given.advice, advice)):
        for name in chosen if wanted else ():
            if name != "warehouse":  # it is solved, not searched
                said.append(f"- {measured(name)}")
                print(said[-1], flush=True)
    if said:
        if given.write:
            SPEED.write_text("\n".join([SPEED_HEAD, *said]) + "\n")
        return
    for name in chosen:
        rows.append(measure(name, given.futures, given.simulations))
        print(rows[-1], flush=True)
    text = table(rows, given.futures, given.simulations)
    print(text)
    if given.write:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
