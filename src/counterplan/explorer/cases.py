"""Cases: the episodes of a run of `explain`, what the run says about each, and questions about it.

    what if   the observed actions with some changed by hand are replayed (`cp.replay`)
    solve     the best alternative is searched for anew, under rules of one's own (`cp.explain`),
              more or less careful
    rests     what an improvement rests on: luck and hidden causes (`cp.sensitivity`), or causal
              models and doubts

A stored answer and one that was just found are shown by the same fields: those of `Answer` in
`runs.answer`. What the dictionaries hold is said in `app.Service`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.limits import ProgressCallback
from counterplan.core.result import Explanation, Status
from counterplan.counterfactual.replay import RowCache, replay
from counterplan.errors import CounterplanError, InputError
from counterplan.explorer import models
from counterplan.explorer.lists import Items, collect, contains
from counterplan.runs.answer import FAILED, OTHER, answer_of, changes_in_words, trajectory
from counterplan.runs.explainer import (
    ACTION,
    STATE,
    TIPPING_DRAWS,
    ContinuousExplainer,
    DiscreteExplainer,
)
from counterplan.runs.question import EXACT, Question
from counterplan.runs.run import (
    OUTCOME,
    RESULTS,
    STATUSES,
    TRAJECTORIES,
    Run,
    claim_ends,
    is_withheld,
)
from counterplan.tables.parts import ID, Recorded
from counterplan.viz.labels import labels_of_run, with_unit
from counterplan.viz.quantity import ROUNDING, Quantity, claim_of

if TYPE_CHECKING:
    import polars as pl

    from counterplan.tables.schema import Column

# Episodes that are kept ready.
EPISODES = 64
# A column with more names than this is told by those that occur.
MOST_NAMES = 100
CHANGE = ("t", "observed", "alternative", "text", "probability", "taken")

Row = Mapping[str, Any]


class Cases(Items):
    """A run of `explain`, opened for questions."""

    sorts: ClassVar = {"relative": "relative_improvement", "changes": "n_changes", "id": ID}

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._explainer, self._rows = run.explainer, RowCache()
        layout = getattr(run.explainer, "layout", None)
        self._labels = labels_of_run(run.model, layout)
        # Episodes by their id, as they were read.
        self.recorded = lru_cache(EPISODES)(run.episode)

    def warm(self) -> None:
        try:
            self.page(models.CaseQuery())
            first = str(collect(self.results().select(ID).head(1))[0].item())
            taken = self._explainer.actions_taken(self.recorded(first).episode)[0]
            other: Any = 1 if taken == 0 else 0
            if isinstance(taken, list):
                other = [dose.bounds[0] for dose in self._labels.doses]
            for edits in ({}, {0: other}):
                self.what_if(first, edits)
        except CounterplanError:
            # Neither a run that has just begun nor an episode that cannot be answered is a reason
            # not to start.
            return

    def about(self) -> dict[str, Any]:
        """What the run is about."""
        run, labels, explainer = self.run, self._labels, self._explainer
        fixed = explainer.layout.fixed if isinstance(explainer, ContinuousExplainer) else 0
        allowed = explainer.rules(run.question).allowed
        barred = np.zeros(0) if allowed is None else ~np.asarray(allowed)[: explainer.n_actions]
        return {
            "kind": run.kind,
            "noun": run.terms.noun,
            "unit": run.terms.unit,
            "discrete": explainer.is_discrete,
            "budgets": run.budgets,
            "outcomes": run.outcomes,
            "quantity": labels.quantity.unit or labels.quantity.name,
            "values_in": labels.quantity.unit,
            "as_done": explainer.as_done,
            "solver": run.question.solver,
            "rule": explainer.rule(run.question),
            "features": [_about(one, n < fixed) for n, one in enumerate(labels.features)],
            "doses": [_about(column) for column in labels.doses],
            "actions": labels.actions,
            "names": [explainer.action_name(action) for action in range(len(labels.actions))],
            "notes": explainer.notes(run.question),
            "barred": np.flatnonzero(barred).tolist(),
            "statuses": STATUSES,
            "sense": "max",
            "dial": self._dial,
            "usual": getattr(explainer.completed(run.question), self._dial, None),
        }

    @property
    def _doses(self) -> list[Column]:
        """The parts of actions that may be any number; none where actions are listed."""
        return [one for one in self._labels.doses if one.is_dose]

    @property
    def _dial(self) -> str:
        """What a search can be more or less careful about."""
        if self._explainer.is_discrete:
            return "doubt"
        return "risk" if getattr(self._explainer.model, "members", ()) else ""

    def sort_key(self, name: str) -> pl.Expr:
        return _vouched_for() if name == "low" else super().sort_key(name)

    def overview(self, k: int | None) -> dict[str, Any]:
        """All cases together, for one budget."""
        import polars as pl

        low = claim_ends()[0]
        sure = pl.when(low.count() > 0).then(((low > ROUNDING) & ~is_withheld()).sum())
        return self.spread(_vouched_for(), self.run.outcomes, self._budget(k), established=sure)

    def page(self, query: models.CaseQuery) -> dict[str, Any]:
        """A page of the list."""
        page = self.listed(query)
        lines = [
            {
                **_told(row),
                "id": row[ID],
                "steps": row["steps"],
                "changes": changes_in_words(row),
                "new_actions": row["new_actions"],
                "far": row["far_from_data"],
                "supported": row["supported"],
                "outcomes": self._outcomes(row),
            }
            for row in page.pop("lines")
        ]
        return page | {"k": self._budget(query.k), "lines": lines}

    def _budget(self, k: int | None) -> int:
        known = self.run.budgets
        if k is not None and k not in known:
            raise InputError(
                f"the run has answers for k = {', '.join(map(str, known))}, not for {k}"
            )
        return known[-1] if k is None else k

    def conditions(self, query: models.CaseQuery) -> list[pl.Expr]:
        import polars as pl

        found = [pl.col("k") == self._budget(query.k), *super().conditions(query)]
        if query.min_improvement is not None:
            found.append(_vouched_for() >= query.min_improvement)
        if query.established:
            is_sure = (claim_ends()[0] > ROUNDING).fill_null(False) & ~is_withheld()
            found.append(is_sure.eq(query.established == "yes"))
        if query.max_changes is not None:
            found.append(pl.col("n_changes") <= query.max_changes)
        if query.support:
            found.append(pl.col("supported").eq(query.support == "yes"))
        for text in query.outcome:
            name, sign, value = text.partition("=")
            if not sign or name not in self.run.outcomes:
                known = ", ".join(self.run.outcomes) or "none"
                raise InputError(f"outcome {text!r}: write NAME=VALUE; names here: {known}")
            found.append(pl.col(OUTCOME + name) == value)
        if query.changed:
            texts = contains(pl.element().struct.field("text"), query.changed)
            found.append(pl.col("changes").list.eval(texts).list.any().fill_null(False))
        return found

    def _outcomes(self, row: Row) -> dict[str, str | None]:
        return {name: row[OUTCOME + name] for name in self.run.outcomes}

    def case(self, name: str, k: int | None) -> dict[str, Any]:
        """An episode with what the run has about it; no answer for a k that was not asked about."""
        recorded, rows, explainer = self.recorded(name), self.rows(RESULTS, name), self._explainer
        wanted = rows[-1]["k"] if k is None else k
        row = next((one for one in rows if one["k"] == wanted), None)
        answer = course = None
        if row is not None:
            (steps,) = collect(self.run.item(TRAJECTORIES, name))
            steps = steps.filter(steps["k"] == wanted).sort("t")
            if len(steps):
                course = self._course(
                    recorded.episode, row["changes"], steps.to_dict(as_series=False)
                )
            if course is not None and self._dial == "risk":
                edits = {one["t"]: course["actions"][one["t"]] for one in row["changes"]}
                course["band"] = self._band(self._replayed(recorded.episode, edits))
            answer = _answer(row, course)
        observed = self._observed(recorded)
        return {
            "id": name,
            "steps": len(recorded.episode),
            "times": recorded.times,
            "dates": recorded.dates,
            "outcomes": self._outcomes(rows[0]),
            "filled": recorded.filled,
            "outside": rows[0]["far_outside_training"] or None,
            "fixed": [*range(explainer.decisions(recorded.episode), len(recorded.episode))],
            "observed": observed,
            "budgets": [_picked(one, ("k", "value", "bound", "status")) for one in rows],
            "answer": answer,
            **self._legend(observed, course),
        }

    def what_if(self, name: str, edits: Mapping[int, Any]) -> dict[str, Any]:
        """What the observed actions with these edits, step -> action, would have led to."""
        started = time.perf_counter()
        recorded = self.recorded(name)
        episode = recorded.episode
        self._check(episode, edits.keys(), edits.values(), " to edit")
        solved = self._solved(recorded, self._replayed(episode, edits))
        return solved | {"milliseconds": 1000 * (time.perf_counter() - started)}

    def _replayed(self, episode: Episode, edits: Mapping[int, Any]) -> Any:
        problem = self._explainer.problem(episode)
        return replay(**problem, episode=episode, changes=edits, cache=self._rows)

    def _band(self, found: Any) -> tuple[Any, Any] | None:
        """(T, features) between which nine in ten members of the model see the course."""
        if getattr(found, "member_states", None) is None:
            return None
        from counterplan.viz.explained import MODELS, band_around

        every = np.moveaxis(self._features(found.member_states), -1, 0)
        low, high = zip(*(band_around(one, MODELS.outside) for one in every), strict=True)
        return np.stack(low, axis=-1), np.stack(high, axis=-1)

    def check(self, question: models.SolveQuestion) -> None:
        """Raise if a question makes no sense."""
        episode = self.recorded(question.id).episode
        if question.k > len(episode):
            raise InputError(f"{episode.name} has {len(episode)} steps: k cannot be {question.k}")
        self._check(episode, question.fixed, question.forbidden)
        if isinstance(question, models.RestsQuestion):
            edits = {edit.t: edit.action for edit in question.edits}
            self._check(episode, edits.keys(), edits.values())
        self._asked(question)

    def _asked(self, question: models.SolveQuestion) -> Question:
        """A question as the run would have asked it; what it does not say is as the run had it."""
        usual = self.run.question
        # Who turns one of the two leaves the other.
        dials = usual if question.doubt is None and question.risk is None else question
        asked = replace(
            usual,
            budgets=(question.k,),
            solver=EXACT,
            nodes=None,
            seconds=question.seconds,
            forbid=(*usual.forbid, *question.forbidden),
            keep=(*usual.keep, *question.fixed),
            allow=self._allowed(question),
            supported=False if question.anywhere else usual.supported,
            doubt=dials.doubt,
            risk=dials.risk,
        )
        return self._explainer.completed(asked)

    def _allowed(self, question: models.SolveQuestion) -> tuple[Any, ...]:
        """Of the run's rule for doses and that of a question what both allow."""
        explainer: Any = self._explainer
        usual, doses = self.run.question, self._doses
        if not question.ranges:
            return usual.allow
        if not doses or len(question.ranges) != len(doses):
            raise InputError("ranges are for doses: give the least and the most of each")
        low, high = explainer.box(replace(usual, supported=False))
        ends = zip(doses, question.ranges, low, high, strict=True)
        parts = [f"{one.name}={max(a, b):.12g}..{min(c, d):.12g}" for one, (a, c), b, d in ends]
        return (" & ".join(parts),)

    def answer(self, asked: Mapping[str, Any], progress: ProgressCallback) -> dict[str, Any]:
        """The answer to a question that takes longer."""
        kind = models.RestsQuestion if asked["kind"] == "rests" else models.SolveQuestion
        question = kind.model_validate(asked)
        self.check(question)
        recorded, wanted = self.recorded(question.id), self._asked(question)
        if isinstance(question, models.RestsQuestion):
            if self._explainer.is_discrete:
                return self._rests_on_model(recorded.episode, wanted, progress)
            return self._rests_on_luck(recorded.episode, question)
        (found,) = self._explainer.explain(recorded.episode, wanted, progress)
        return self._solved(recorded, found, wanted)

    def _rests_on_luck(self, episode: Episode, question: models.RestsQuestion) -> dict[str, Any]:
        from counterplan.counterfactual.sensitivity import sensitivity
        from counterplan.viz.explained import MODELS

        scm: Any = self._explainer.model
        found = self._replayed(episode, {edit.t: edit.action for edit in question.edits})
        curves = sensitivity(scm, episode, found, TIPPING_DRAWS)
        outside = [MODELS.outside, 1.0 - MODELS.outside]
        both: Any = {}
        for name, values in (("rho", curves.at_rho), ("gamma", curves.at_gamma)):
            low, high = np.quantile(values, outside, axis=0)
            tipping = getattr(curves, f"tipping_{name}")
            at, mean = getattr(curves, name).round(9) + 0.0, values.mean(axis=0)
            both[name] = {"at": at, "mean": mean, "low": low, "high": high, "tipping": tipping}
        words = f"No data can tell: {curves}"
        return {"words": words, **both, "ranges": [], "by_doubt": []}

    def _rests_on_model(
        self, episode: Episode, question: Question, progress: ProgressCallback
    ) -> dict[str, Any]:
        from counterplan.viz.claims import ASSUMPTIONS, plans_by_doubt

        explainer = self._explainer
        assert isinstance(explainer, DiscreteExplainer)
        found: Any = explainer.explain(episode, question, progress)[0]
        ranges = [found.interval_in(explainer.mdp, one) for one in ASSUMPTIONS]
        words = f"Depending on the causal model, it is worth {Quantity().write_range(*ranges[0])}."
        others = plans_by_doubt(explainer, episode, question, progress=progress)
        rows = [[doubt, *both] for doubt, both in others.items()]
        both = {"rho": None, "gamma": None}
        return {"words": words, **both, "ranges": ranges, "by_doubt": rows}

    def _check(
        self, episode: Episode, steps: Iterable[int], actions: Iterable[Any], to_do: str = ""
    ) -> None:
        decisions, count = self._explainer.decisions(episode), self._explainer.n_actions
        for t in steps:
            if not 0 <= t < decisions:
                raise InputError(
                    f"{episode.name}: step {t} has no decision{to_do}; there are 0..{decisions - 1}"
                )
        if self._doses:
            for action in actions:
                if not isinstance(action, list) or len(action) != len(self._doses):
                    names = ", ".join(one.name for one in self._doses)
                    raise InputError(f"action {action} is no list of doses: {names}")
            return
        for action in actions:
            if isinstance(action, list):
                raise InputError(f"action {action} is unknown; here actions are numbers")
            if not 0 <= action < count:
                raise InputError(f"action {action} is unknown; there are 0..{count - 1}")

    def _solved(
        self, recorded: Recorded, found: Explanation, question: Question | None = None
    ) -> dict[str, Any]:
        """An explanation that was just found."""
        answer = answer_of(self._explainer, recorded, found, question)
        row = answer.row()
        course = self._course(recorded.episode, row["changes"], trajectory(self._explainer, answer))
        course["band"] = self._band(found)
        answered = _answer(row, course)
        answered["notes"] += self._notes(found, row["changes"])
        return {"answer": answered, **self._legend(course)}

    def _notes(self, found: Any, changes: Iterable[Mapping[str, Any]]) -> list[str]:
        """What to be told about changes by hand that a discrete model does not admit, or that
        hardly occur in the data."""
        admissible = getattr(self._explainer.model, "admissible", None)
        layout = getattr(self._explainer, "layout", None)
        known, notes = None if layout is None else layout.offer.known, []
        if self._doses:
            explainer: Any = self._explainer
            return [*explainer.beyond(found)]
        notes += [f"-inf because of {one}" for one in getattr(found, "barred", ())]
        for change in changes:
            action, why = change["alternative"], ""
            if known is not None and not known[action]:
                why = "hardly anybody in the data had this"
            elif admissible is not None and not admissible[found.states[change["t"]], action]:
                why = "the model has no such action in the likeliest state there"
            if why:
                notes.append(f"{change['text']}: {why}; what the model says about it means little")
        return notes

    def _observed(self, recorded: Recorded) -> dict[str, Any]:
        """What happened; nothing where the model knows nothing of the episode's states or actions:
        it has failed."""
        episode = recorded.episode
        try:
            taken = self._explainer.actions_taken(episode)
            actions = episode.actions if self._explainer.is_discrete else taken
            left_over = self._explainer.left_over(recorded)
            return {
                "states": self._features(episode.states),
                "band": None,
                "actions": taken,
                "rewards": self._explainer.rewards(episode, episode.states, actions) + left_over,
                "changed": [0.0] * len(episode),
            }
        except (CounterplanError, IndexError):
            nothing = np.zeros((0, len(self._labels.features)))
            course: dict[str, Any] = {"states": nothing, "band": None, "actions": []}
            return {**course, "rewards": [], "changed": []}

    def _course(
        self, episode: Episode, changes: Iterable[Mapping[str, Any]], steps: Mapping[str, Any]
    ) -> dict[str, Any]:
        """What would have happened, by the columns of a trajectory."""
        actions = self._explainer.actions_taken(episode)
        if f"{OTHER}{STATE}" in steps:
            features = self._features(steps[f"{OTHER}{STATE}"])
            # The number that stands for no action is none to choose.
            both = zip(actions, steps[f"{OTHER}{ACTION}"], strict=True)
            actions = [None if old is None else int(new) for old, new in both]
        else:
            named = [name for name in steps if name.startswith(f"{OTHER}{STATE}:")]
            features = np.stack([np.asarray(steps[name]) for name in named], axis=-1)
            rows = [dict(zip(steps, row, strict=True)) for row in zip(*steps.values(), strict=True)]
            for t, action in self._explainer.edits([*changes], rows).items():
                actions[t] = action
        return {
            "states": features,
            "band": None,
            "actions": actions,
            "rewards": steps[f"{OTHER}reward"],
            "changed": steps["change_probability"],
        }

    def _features(self, states: Any) -> Any:
        """(T, features) of states as episodes have them."""
        labels = self._labels
        places = range(len(labels.features))
        return np.stack([labels.values(states, place) for place in places], axis=-1)

    def _legend(self, *courses: Mapping[str, Any] | None) -> dict[str, Any]:
        """What the numbers in courses stand for."""
        labels, explainer = self._labels, self._explainer
        states = np.concatenate([course["states"] for course in courses if course is not None])
        occurring = [np.unique(one[np.isfinite(one)]).tolist() for one in states.T]
        names = [
            {f"{value:g}": labels.text(place, value) for value in values}
            if labels.features[place].labels is not None
            else {}
            for place, values in enumerate(occurring)
        ]
        order: list[list[float]] = [[] for _ in labels.features]
        if isinstance(explainer, DiscreteExplainer) and explainer.layout is None:
            # The numbers of such states say nothing: the reward does.
            rewards = explainer.mdp.rewards_at(0, 1)
            worth = np.where(np.isfinite(rewards), rewards, -np.inf).max(axis=1)
            order = [sorted(occurring[0], key=lambda state: (worth[int(state)], state))]
        return {"names": names, "order": order}


def _vouched_for() -> pl.Expr:
    """The lower end of an improvement, or all of it where no interval is known."""
    import polars as pl

    return pl.coalesce(claim_ends()[0], "improvement")


def _picked(row: Row, names: Iterable[str]) -> dict[str, Any]:
    return {name: row[name] for name in names}


def _told(row: Row) -> dict[str, Any]:
    """What a row of results claims, how sure that is, and how it was found."""
    claim = None if row["status"] == FAILED else claim_of(row)
    return {
        **_picked(row, ("factual", "value", "improvement")),
        "relative": row["relative_improvement"],
        "low": None if claim is None else claim.low,
        "high": None if claim is None else claim.high,
        **_picked(row, ("harm", "guaranteed")),
        "claim": "" if claim is None else claim.verdict,
        **_picked(row, ("gap", "status", "reason")),
    }


def _answer(row: Row, course: Mapping[str, Any] | None) -> dict[str, Any]:
    """A row of results with its course."""
    ends = [f"At the end: {one['text']}" for one in row["predicted"] or ()]
    changes = [_picked(change, CHANGE) for change in row["changes"] or ()]
    for change in changes:
        if course is not None and change["alternative"] is None:  # doses
            change["alternative"] = course["actions"][change["t"]]
    failed = row["status"] == FAILED
    return {
        **_told(row),
        **_picked(row, ("k", "bound")),
        "holds": "" if failed else claim_of(row).sentence(Quantity(), row["factual"]),
        **_picked(row, ("risk", "doubt")),
        "advice": "" if failed else Status(row["status"]).advice,
        **_picked(row, ("method", "nodes")),
        "changes": changes,
        "support": {
            "supported": row["supported"],
            "far": row["far_from_data"],
            **_picked(row, ("distance_max", "distance_mean")),
            "unseen": row["unseen_probability"],
            "new_actions": row["new_actions"],
        },
        "course": course,
        "notes": ends,
    }


def _about(column: Column, is_fixed: bool = False) -> dict[str, Any]:
    """A feature or a part of actions."""
    few = (column.size or 0) <= MOST_NAMES
    return {
        "name": column.name,
        "title": with_unit(column),
        "unit": column.unit_beside,
        "fixed": is_fixed or column.role == "fixed",
        # Names alone have no order.
        "ordered": column.levels is not None or column.labels is None,
        "better": column.better,
        # Of a dose: between which numbers, and with how many decimals it is written.
        "bounds": column.bounds if column.is_dose else None,
        "decimals": column.decimals if column.is_dose else None,
        "values": column.values if few else None,
        "labels": column.labels if few else None,
    }
