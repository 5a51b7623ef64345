"""A run of explanations opened for its report: the model, the question, and the words for both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.cohort.cases import Terms, budgets_of, description_of, terms_of
from counterplan.cohort.explain_task import stored_subject
from counterplan.cohort.question import Question, question_from_dict
from counterplan.cohort.reading import Run
from counterplan.cohort.subject import ContinuousSubject, DiscreteSubject, Subject
from counterplan.cohort.tables import RESULTS, TRAJECTORIES
from counterplan.errors import FileError, InputError
from counterplan.io.schema import Column
from counterplan.scm.tabular import TabularMDP
from counterplan.viz.data.label_sources import labels_of
from counterplan.viz.data.labels import Labels
from counterplan.viz.quantity import Quantity
from counterplan.viz.report.names import Names

if TYPE_CHECKING:
    import polars as pl

    from counterplan.scm.neural import NeuralSCM

# What a model may tell of itself in `about`, for those who look at its answers: how the outcome is
# called, how severe each discrete state is (null where a course is over), and what else there is to
# know about it, in sentences.
OUTCOME, SEVERITY, NOTES = "outcome", "severity", "notes"


@dataclass(frozen=True, eq=False)
class Source:
    """All that a report of explanations is made of.

    k         the budget that is reported on
    budgets   all that were asked about
    subject   the model with the words for its actions
    quantity  what an outcome is
    labels    names of features and doses
    """

    run: Run
    names: Names
    k: int
    budgets: tuple[int, ...]
    question: Question
    subject: Subject
    terms: Terms
    quantity: Quantity
    labels: Labels

    @property
    def model(self) -> TabularMDP | NeuralSCM:
        """The model itself."""
        return self.subject.model

    @property
    def outcomes(self) -> list[str]:
        """What the table tells of an episode besides."""
        return list(description_of(self.run)["outcomes"])

    @property
    def outcome(self) -> str:
        """What the outcome is, in words."""
        quantity = self.quantity
        if quantity.name != Quantity().name:
            return f"{quantity.name} ({quantity.unit})" if quantity.unit else quantity.name
        return quantity.unit or "the sum of the model's rewards"

    def results(self) -> pl.LazyFrame:
        """The results for the budget that is reported on."""
        import polars as pl

        return self.run.scan(RESULTS).filter(pl.col("k") == self.k)

    def rows_of(self, ids: list[str]) -> dict[str, list[dict[str, Any]]]:
        """By episode: its results for all budgets, in rising order."""
        return self._by_episode(RESULTS, ids, None, "k")

    def courses_of(self, ids: list[str]) -> dict[str, list[dict[str, Any]]]:
        """By episode: its steps for the budget that is reported on."""
        return self._by_episode(TRAJECTORIES, ids, self.k, "t")

    def _by_episode(
        self, table: str, ids: list[str], k: int | None, order: str
    ) -> dict[str, list[dict[str, Any]]]:
        import polars as pl

        wanted = pl.col("episode_id").is_in(ids)
        if k is not None:
            wanted &= pl.col("k") == k
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in ids}
        for row in self.run.scan(table).filter(wanted).sort(order).collect().iter_rows(named=True):
            found[row["episode_id"]].append(row)
        return found


def open_source(run: Run, names: Names, k: int | None = None) -> Source:
    """A run with its model; `k` None for the largest budget."""
    about = description_of(run)
    budgets = budgets_of(run)
    if k is not None and k not in budgets:
        there = ", ".join(map(str, budgets))
        raise InputError(f"{run.layout.out}: was run for k = {there}, not for {k}; choose one")
    try:
        subject = stored_subject(about, run.file)
        question = question_from_dict(about["question"])
    except (KeyError, TypeError) as problem:
        raise FileError(
            f"{run.layout.manifest}: is damaged: {problem}; make the run anew"
        ) from None
    labels = _labels(subject)
    return Source(
        run,
        names,
        budgets[-1] if k is None else k,
        tuple(budgets),
        question,
        subject,
        terms_of(run),
        _quantity(subject.model.about, labels, subject),
        labels,
    )


def _labels(subject: Subject) -> Labels:
    if isinstance(subject, ContinuousSubject):
        return labels_of(subject.layout)
    assert isinstance(subject, DiscreteSubject)
    found = labels_of(subject.mdp if subject.layout is None else subject.layout)
    return _with_severity(found, subject.mdp)


def _with_severity(labels: Labels, mdp: TabularMDP) -> Labels:
    """What the model knows of the severity of its states, instead of their names."""
    given = mdp.about.get(SEVERITY)
    if given is None:
        return labels
    if not isinstance(given, Mapping) or not isinstance(given.get("values"), list):
        raise FileError("the model's severity of states is damaged; save the model anew")
    try:
        levels = [math.nan if level is None else float(level) for level in given["values"]]
        column = Column(
            str(given["name"]), "state", unit=str(given.get("unit", "")), better=given.get("better")
        )
    except (KeyError, TypeError, ValueError):
        raise FileError("the model's severity of states is damaged; save the model anew") from None
    if len(levels) != mdp.n_states or column.better not in (None, "lower", "higher"):
        raise FileError("the model's severity does not fit its states; save the model anew")
    endings = {s: mdp.state_name(s) for s, level in enumerate(levels) if math.isnan(level)}
    return replace(
        labels, features=(column,), states=np.array(levels)[:, np.newaxis], endings=endings
    )


def _quantity(about: Mapping[str, Any], labels: Labels, subject: Subject) -> Quantity:
    """How the model calls its outcome, or what the features that are good or bad make it."""
    given = about.get(OUTCOME)
    if isinstance(given, Mapping) and isinstance(given.get("name"), str):
        return Quantity(given["name"], given.get("percent") is True, str(given.get("unit", "")))
    if isinstance(subject, DiscreteSubject) and subject.layout is None:
        return Quantity()
    good = [column for column in labels.features if column.better]
    if not good:
        return Quantity()
    weighted = " ".join(_worth(column) for column in good)
    return Quantity(unit=f"summed {weighted.removeprefix('+ ')}")


def _worth(column: Column) -> str:
    sign = "−" if column.merit < 0 else "+"
    weight = "" if abs(column.merit) == 1.0 else f"{abs(column.merit):g} × "
    name = f"{weight}{column.name}"
    return f"{sign}{name}" if sign == "−" else f"+ {name}"
