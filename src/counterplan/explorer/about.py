"""What a run is about, as the page needs it to draw anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import counterplan
from counterplan.cohort.cases import budgets_of
from counterplan.cohort.subject import ContinuousSubject
from counterplan.explorer import models
from counterplan.explorer.desk import Desk
from counterplan.explorer.plain import table
from counterplan.explorer.plans import PlanDesk
from counterplan.explorer.settings import Settings
from counterplan.explorer.walks import PLAYERS
from counterplan.io.schema import Column
from counterplan.viz.data.labels import with_unit

# A column with more names than this is told by those that occur.
MOST_NAMES = 100
# What the scenarios of a problem are called.
NOUNS = {"bunkering": "voyage", "hybrid": "drive", "options": "option path", "basket": "basket"}


def about_cases(desk: Desk, settings: Settings) -> models.RunAbout:
    """A run of explanations."""
    subject, labels = desk.subject, desk.labels
    quantity = labels.quantity
    leading = subject.layout.fixed if isinstance(subject, ContinuousSubject) else 0
    return models.RunAbout(
        kind="explain",
        noun=desk.terms.noun,
        unit=desk.terms.unit,
        discrete=subject.is_discrete,
        budgets=budgets_of(desk.folder.run),
        outcomes=desk.outcomes,
        quantity=quantity.unit or quantity.name,
        solver=desk.question.solver,
        features=[
            _column(column, is_fixed=place < leading)
            for place, column in enumerate(labels.features)
        ],
        doses=[_column(column) for column in labels.doses],
        actions=table(labels.actions),
        names=[subject.words.action(action) for action in range(len(labels.actions))],
        sense="max",
        planner=None,
        players=[],
        **_common(desk, settings),
    )


def about_plans(desk: PlanDesk, settings: Settings) -> models.RunAbout:
    """A run of judged plans."""
    description = desk.description
    domain = description["problem"]["domain"]
    return models.RunAbout(
        kind="regret",
        noun=NOUNS[domain],
        unit="",
        discrete=False,
        budgets=[],
        outcomes=[],
        quantity="cost" if desk.problem.sense == "min" else "reward",
        solver="exact",
        features=[],
        doses=[],
        actions=[],
        names=[],
        sense=desk.problem.sense,
        planner=description.get("planner"),
        players=list(PLAYERS),
        **_common(desk, settings),
    )


def _common(desk: Desk | PlanDesk, settings: Settings) -> dict[str, Any]:
    run = desk.folder.run
    done = len(run.done)
    return {
        "title": Path(run.layout.out).resolve().name,
        # A run that was under way when it was opened may have come to its end since.
        "complete": done == run.manifest.parts,
        "parts": run.manifest.parts,
        "done": done,
        "limits": models.Limits(seconds=settings.seconds, jobs=settings.per_client),
        "version": counterplan.__version__,
    }


def _column(column: Column, is_fixed: bool = False) -> models.ColumnAbout:
    few = (column.size or 0) <= MOST_NAMES
    return models.ColumnAbout(
        name=column.name,
        title=with_unit(column),
        unit=column.unit,
        fixed=is_fixed or column.role == "fixed",
        # Names alone have no order.
        ordered=column.levels is not None or column.labels is None,
        better=column.better,
        values=list(column.values) if column.values is not None and few else None,
        labels=list(column.labels) if column.labels is not None and few else None,
    )
