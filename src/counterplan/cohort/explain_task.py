"""The task of explaining the episodes of a cohort, part by part.

What an episode's rows say depends on the model, the question and the episode alone. One that cannot
be explained has a row with the reason, and the others go on.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from counterplan.cohort.answers import Answer, answers, failed_row
from counterplan.cohort.question import Question, question_from_dict
from counterplan.cohort.subject import Subject, open_subject
from counterplan.cohort.tables import (
    RESULTS,
    TRAJECTORIES,
    results_to_bytes,
    trajectories_to_bytes,
)
from counterplan.cohort.task import EXPLAIN, PartResult, TaskSpec, reason_of
from counterplan.io.episode_parts import Recorded, episodes_from_bytes
from counterplan.io.models import model_from_bytes

MODEL = "model"


class ExplainTask:
    """Explains episodes."""

    def __init__(self, subject: Subject, question: Question, outcomes: Sequence[str]) -> None:
        self._subject, self._question, self._outcomes = subject, question, tuple(outcomes)

    def solve(self, part: bytes) -> PartResult:
        """The results and trajectories of the episodes of a part."""
        rows: list[dict[str, Any]] = []
        found: list[Answer] = []
        for recorded in episodes_from_bytes(part):
            try:
                answered = answers(self._subject, recorded, self._question)
            # Whatever goes wrong with one episode, a fault of the program included, must not cost
            # the others their answers.
            except Exception as problem:
                rows += self._failed(recorded, reason_of(problem))
            else:
                rows += [answer.row() for answer in answered]
                found += answered
        return self._result(rows, found)

    def failed(self, part: bytes, reason: str) -> PartResult:
        """A part that could not be solved at all."""
        recorded = episodes_from_bytes(part)
        return self._result([row for one in recorded for row in self._failed(one, reason)], [])

    def _failed(self, recorded: Recorded, reason: str) -> list[dict[str, Any]]:
        return [failed_row(recorded, k, reason) for k in self._question.budgets]

    def _result(self, rows: list[dict[str, Any]], found: list[Answer]) -> PartResult:
        tables = {
            RESULTS: results_to_bytes(rows, self._outcomes),
            TRAJECTORIES: trajectories_to_bytes(self._subject, found),
        }
        return PartResult(tables, summary(rows, self._question.budgets[-1]))


def summary(rows: Sequence[dict[str, Any]], k: int) -> dict[str, float]:
    """Numbers of the episodes for the largest budget: how many, their status, and what they gain
    together (where that is finite)."""
    last = [row for row in rows if row["k"] == k]
    statuses = Counter(row["status"] for row in last)
    gains = [row["improvement"] for row in last if row["status"] != "failed"]
    return {
        "episodes": float(len(last)),
        **{name: float(statuses[name]) for name in ("optimal", "limit", "heuristic", "failed")},
        "improvement": math.fsum(gain for gain in gains if math.isfinite(gain)),
    }


def explain_spec(
    model: bytes,
    suffix: str,
    about: Mapping[str, Any],
    question: Question,
    outcomes: Sequence[str],
) -> TaskSpec:
    """The task of explaining episodes.

    model     the contents of a model file, whose name ends in `suffix`
    about     what the episodes are about, see `open_subject`
    outcomes  names of what the table tells of an episode besides
    """
    description = {
        "model_suffix": suffix,
        "subject": dict(about),
        "question": question.as_dict(),
        "outcomes": list(outcomes),
    }
    return TaskSpec(EXPLAIN, description, {MODEL + suffix: model})


def stored_subject(about: Mapping[str, Any], read: Callable[[str], bytes]) -> Subject:
    """The model among the files of a task and what its episodes are about."""
    name = MODEL + about["model_suffix"]
    return open_subject(model_from_bytes(name, read(name)), about["subject"])


def open_task(spec: TaskSpec) -> ExplainTask:
    """The task that a specification stands for."""
    about = spec.description
    subject = stored_subject(about, spec.files.__getitem__)
    return ExplainTask(subject, question_from_dict(about["question"]), about["outcomes"])
