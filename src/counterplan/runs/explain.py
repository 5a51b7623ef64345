"""The task of explaining the episodes of a cohort, part by part.

What an episode's rows say depends on the model, the question and the episode alone. One that cannot
be explained has a row with the reason, and the others go on.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from counterplan.runs.answer import (
    Answer,
    answers,
    failed_answer,
    parquet_bytes,
    results_table,
    trajectories_table,
)
from counterplan.runs.question import (
    MODEL,
    Explainer,
    Question,
    question_from_dict,
    stored_explainer,
)
from counterplan.runs.run import RESULTS, STATUSES, TRAJECTORIES
from counterplan.runs.task import EXPLAIN, PartResult, TaskSpec, reason_of
from counterplan.tables.parts import Recorded, episodes_from_bytes


class ExplainTask:
    """Explains episodes."""

    def __init__(self, explainer: Explainer, question: Question, outcomes: Sequence[str]) -> None:
        self._explainer, self._question, self._outcomes = explainer, question, tuple(outcomes)

    def solve(self, part: bytes) -> PartResult:
        """The results and trajectories of the episodes of a part."""
        found: list[Answer] = []
        for recorded in episodes_from_bytes(part):
            try:
                found += answers(self._explainer, recorded, self._question)
            # Whatever goes wrong with one episode, a fault of the program included, must not cost
            # the others their answers.
            except Exception as problem:
                found += self._failed(recorded, reason_of(problem))
        return self._result(found)

    def failed(self, part: bytes, reason: str) -> PartResult:
        """A part that could not be solved at all."""
        recorded = episodes_from_bytes(part)
        return self._result([answer for one in recorded for answer in self._failed(one, reason)])

    def _failed(self, recorded: Recorded, reason: str) -> list[Answer]:
        return [failed_answer(recorded, k, reason) for k in self._question.budgets]

    def _result(self, found: list[Answer]) -> PartResult:
        tables = {
            RESULTS: results_table(found, self._outcomes),
            TRAJECTORIES: trajectories_table(self._explainer, found),
        }
        contents = {name: parquet_bytes(table) for name, table in tables.items()}
        return PartResult(contents, _summary(found, self._question.budgets[-1]))


def _summary(found: Sequence[Answer], k: int) -> dict[str, float]:
    """Numbers of the episodes for the largest budget: how many, their status, and what they gain
    together (where that is finite)."""
    last = [one for one in found if one.k == k]
    statuses = Counter(one.status for one in last)
    gains = [one.improvement for one in last if one.improvement is not None]
    return {
        "episodes": float(len(last)),
        **{name: float(statuses[name]) for name in STATUSES},
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
    about     what the episodes are about, see `open_explainer`
    outcomes  names of what the table tells of an episode besides
    """
    description = {
        "model_suffix": suffix,
        "subject": dict(about),
        "question": question.as_dict(),
        "outcomes": list(outcomes),
    }
    return TaskSpec(EXPLAIN, description, {MODEL + suffix: model})


def open_task(spec: TaskSpec) -> ExplainTask:
    """The task that a specification stands for."""
    about = spec.description
    explainer = stored_explainer(about, spec.files.__getitem__)
    return ExplainTask(explainer, question_from_dict(about["question"]), about["outcomes"])
