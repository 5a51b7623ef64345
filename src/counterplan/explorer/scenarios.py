"""Scenarios: the paths of a run of `plan`, what everyone did along each, and a planner's advice.

Everyone's decisions are replayed along the path that was, see `viz.path.journeys`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from counterplan.core.limits import ProgressCallback
from counterplan.core.result import Status
from counterplan.core.validation import FloatArray
from counterplan.errors import CounterplanError, InputError
from counterplan.explorer import models
from counterplan.explorer.lists import Items, collect
from counterplan.planning.advisor import Advisor
from counterplan.planning.bounds import value_bounds
from counterplan.planning.description import action_in_words, axes_of, plan_record, state_in_words
from counterplan.planning.model import State
from counterplan.planning.policies import Played
from counterplan.planning.risk import Risk
from counterplan.planning.search.planners import PLANNERS
from counterplan.runs.regret import planned_for
from counterplan.runs.run import DECISIONS, RESULTS, Run
from counterplan.tables.scenarios import ID
from counterplan.viz.path import journeys, numbers_of

if TYPE_CHECKING:
    import polars as pl

# Futures that bounds on the optimum are means over.
BOUND_SAMPLES = 10_000
EXECUTED = "executed"
# Players, how the page calls them, and the column of the results with what they come to.
PLAYERS = {
    EXECUTED: ("Executed", "executed"),
    "policy": ("Best without foresight", "without_foresight"),
    "open_loop": ("Plan made once", "open_loop"),
    "planned": ("Planner", "planned"),
    "hindsight": ("Hindsight", "hindsight"),
}

LINE = (
    *("executed", "hindsight", "without_foresight", "planned", "regret_hindsight"),
    *("regret_policy", "expected_regret", "costliest", "status", "reason"),
)


class Scenarios(Items):
    """A run of `plan`, opened for questions."""

    sorts: ClassVar = {"id": ID}

    def sort_key(self, name: str) -> pl.Expr:
        return _lost() if name == "expected_regret" else super().sort_key(name)

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._problem, self._columns = run.problem, run.columns
        self._axes = axes_of(run.problem)
        self._risk = Risk.read(run.manifest.task.description.get("risk"))
        # Opened once for each planner asked for, and then asked again and again.
        self._advisors: dict[Any, Advisor] = {}

    def about(self) -> dict[str, Any]:
        """What the run is about."""
        sense, description = self._problem.sense, self.run.manifest.task.description
        return {
            "kind": self.run.kind,
            "noun": self._axes.scenario,
            "quantity": self._axes.unit or ("cost" if sense == "min" else "reward"),
            "values_in": self._axes.unit,
            "solver": "exact",
            "sense": sense,
            "planner": description.get("planner"),
            "players": [*PLAYERS],
        }

    def overview(self, k: int | None) -> dict[str, Any]:
        """All scenarios together; there are no budgets."""
        import polars as pl

        known = pl.col("expected_regret").is_not_null().any()
        is_expected = collect(self.results().select(known))[0].item()
        of = "in expectation" if is_expected else "against the best policy known, luck included"
        return self.spread(_lost()) | {"of": of}

    def page(self, query: models.ScenarioQuery) -> dict[str, Any]:
        """A page of the list."""
        page = self.listed(query)
        return page | {"lines": [*map(_line, page["lines"])]}

    def conditions(self, query: models.ScenarioQuery) -> list[pl.Expr]:
        found = super().conditions(query)
        if query.min_expected_regret is not None:
            found.append(_lost() >= query.min_expected_regret)
        return found

    def scenario(self, name: str) -> dict[str, Any]:
        """A scenario with what everyone did."""
        scenario, steps = self.run.scenario(name), self.rows(DECISIONS, name)
        (row,) = self.rows(RESULTS, name)
        try:
            done = journeys(self._problem, steps)
        except CounterplanError:  # the scenario itself is impossible
            done = {}
        main = done.get(EXECUTED) or done.get("policy")
        losses = [step["expected_loss"] for step in steps]
        advised = None
        if EXECUTED in done:
            advised = numbers_of(steps, "advised", self._axes.action_keys)
        return {
            "id": name,
            "sense": self._problem.sense,
            "horizon": self._problem.horizon,
            "line": _line(row),
            "policy": row["policy"],
            "planner": row["planner"],
            "seen": [
                {"name": one.title, "values": values, "labels": one.names or None}
                for one, values in zip(self._columns.observed, scenario.observed.T, strict=True)
            ],
            "step": self._axes.step.removesuffix(" t"),
            "tanks": self._axes.levels,
            "parts": self._axes.actions,
            "choices": self._axes.choices,
            "tracks": [self._track(player, one, row) for player, one in done.items()],
            "states": [
                state_in_words(self._problem, state) for state in (main.states if main else ())
            ],
            "advised": None if advised is None else self._in_words(advised),
            "expected_losses": None if None in losses else losses,
        }

    def check(self, question: models.AdviseQuestion) -> None:
        """Raise if a question makes no sense."""
        self._state(question)

    def answer(self, asked: Mapping[str, Any], progress: ProgressCallback) -> dict[str, Any]:
        """What a planner would do."""
        question = models.AdviseQuestion.model_validate(asked)
        problem, seed, state = self._problem, self.run.manifest.seed, self._state(question)
        planner = PLANNERS[question.planner](question.simulations)
        if planner not in self._advisors:
            opened = Advisor(problem, planner, seed=seed, risk=self._risk, keep=False)
            self._advisors[planner] = opened
        found = self._advisors[planner].advise(state)
        bounds = value_bounds(problem, BOUND_SAMPLES, seed, state=state)
        record = plan_record(problem, state, found, bounds)
        between, known = ("lower", "lower_se", "upper", "upper_se"), ("words", "value", "se")
        return {
            "t": question.t,
            "words": record["words"],
            "state": record["state"]["words"],
            **{name: record[name] for name in ("action", "value", "se")},
            **{name: record["bounds"][name] for name in between},
            "exact": record["exact"],
            "choices": [
                {name: one[name] for name in (*known, "simulations")} for one in record["choices"]
            ],
            "planner": planned_for(planner.name, self._risk),
            "bounds_of": None if self._risk.is_mean else "the mean",
            "simulations": question.simulations,
        }

    def _state(self, question: models.AdviseQuestion) -> State:
        """Where a player made the decision that a question is about."""
        name, t, player = question.id, question.t, question.player
        scenario = self.run.scenario(name)
        last = len(scenario.observed) - 1
        if not 0 <= t <= last:
            raise InputError(f"scenario {name!r} has decisions 0..{last}, not {t}")
        done = journeys(self._problem, self.rows(DECISIONS, name))
        if player not in done:
            raise InputError(f"scenario {name!r} has no decisions of {player!r}")
        return done[player].states[t]

    def _track(self, player: str, done: Played, row: Mapping[str, Any]) -> dict[str, Any]:
        title, column = PLAYERS[player]
        if player == "planned" and not self._risk.is_mean:
            title = f"{title}: {row['planner']}"
        elif player == "policy" and row["status"] == Status.HEURISTIC:
            title = "Best policy known"
        return {
            "player": player,
            "title": title,
            "value": row[column],
            "actions": done.actions,
            "words": self._in_words(done.actions),
            "rewards": done.rewards,
            "levels": done.levels,
        }

    def _in_words(self, actions: FloatArray) -> list[str]:
        """Actions in words."""
        return [action_in_words(self._problem, action) for action in actions]


def _lost() -> pl.Expr:
    """What the decisions lost: in expectation, or where that is not known against the policy."""
    import polars as pl

    return pl.coalesce("expected_regret", "regret_policy")


def _line(row: Mapping[str, Any]) -> dict[str, Any]:
    """A line of the list, of a row of results."""
    return {"id": row[ID], **{name: row[name] for name in LINE}}
