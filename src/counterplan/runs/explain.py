"""Explaining the episodes of a table: at once, or as a run in a folder.

    answers = explain_table("stays.csv", "model.safetensors", k=2)
    run = explain_table("stays.csv", "model.safetensors", k=2, folder="out")

A run is a task that is done part by part. What an episode's rows say depends on the model, the
question and the episode alone. One that cannot be explained has a row with the reason, and the
others go on.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from counterplan.core.files import check_readable
from counterplan.core.problem import Progress, ProgressCallback
from counterplan.errors import CounterplanError, FileError, InputError
from counterplan.runs.answer import (
    Answer,
    answers,
    failed_answer,
    parquet_bytes,
    results_table,
    trajectories_table,
)
from counterplan.runs.cohort import RunSettings, RunSummary, run_cohort
from counterplan.runs.inputs import Input, Model, only, open_input
from counterplan.runs.question import (
    EXACT,
    MODEL,
    Explainer,
    Question,
    open_explainer,
    question_from_dict,
    stored_explainer,
)
from counterplan.runs.run import RESULTS, STATUSES, TRAJECTORIES, Run, open_run
from counterplan.runs.store import sha256
from counterplan.runs.task import EXPLAIN, PartResult, TaskSpec, reason_of
from counterplan.tables.models import model_bytes, model_from_bytes, save_model
from counterplan.tables.parts import Recorded, episodes_from_bytes
from counterplan.tables.schema import Schema, read_schema

if TYPE_CHECKING:
    from os import PathLike

# For the search of one episode of a neural model where the answer is given at once, in seconds.
COHORT_SECONDS = 60.0
# Where it goes into a folder, nodes are counted instead: the same answer every time. So many take
# about a minute on the longest stays of the MIMIC-III demo (43 steps, 200 hidden units), and 2 to
# 20 seconds on 20 steps.
COHORT_NODES = 20_000


@overload
def explain_table(
    table: Any, model: Any, k: int | Sequence[int] = 2, folder: None = None, **options: Any
) -> list[Answer]: ...


@overload
def explain_table(
    table: Any,
    model: Any,
    k: int | Sequence[int] = 2,
    folder: str | PathLike[str] = ...,
    **options: Any,
) -> Run: ...


def explain_table(
    table: Any,
    model: Any,
    k: int | Sequence[int] = 2,
    folder: str | PathLike[str] | None = None,
    *,
    schema: Schema | str | PathLike[str] | None = None,
    progress: ProgressCallback | None = None,
    **options: Any,
) -> Run | list[Answer]:
    """Explain every episode of a table, as `counterplan explain` does.

    table     a .csv, .parquet or .json file, or a frame of polars or pandas
    model     a model, or its file
    k         how many actions may change at most; several numbers are answered together
    folder    where results and trajectories are kept; the same call continues a run that was
              stopped. None: the answers are returned, in the order of the table
    schema    what the columns mean, or its file, if not as the model remembers
    progress  called as episodes (or parts of a run) are done; False stops
    options   the other fields of `Question`: solver, nodes, seconds, gap, max_move, robust, seed;
              `episodes`: ids, to explain no others; and for a folder `workers` and `cluster`
    """
    chosen = tuple(options.pop("episodes", ()))
    places = {name: options.pop(name) for name in ("workers", "cluster") if name in options}
    budgets = tuple(k) if isinstance(k, Sequence) else (k,)
    question = Question(budgets=budgets, **options)
    cohort = open_cohort(table, model, schema, chosen, is_run=folder is not None)
    if folder is None:
        return cohort.answers(question, progress)
    settings = RunSettings(question.arguments(chosen), **places)
    cohort.run(Path(folder), question, settings, progress)
    return open_run(Path(folder))


@dataclass(frozen=True, eq=False)
class Cohort:
    """The episodes of a table with the model that explains them.

    table      a file or a frame
    given      its episodes
    chosen     ids of episodes, if not all are to be explained
    explainer  the model made ready
    content    of the model's file, whose name ends in `suffix`
    """

    table: Any
    given: Input
    chosen: tuple[str, ...]
    explainer: Explainer
    content: bytes
    suffix: str

    def answers(self, question: Question, progress: ProgressCallback | None = None) -> list[Answer]:
        """The answers about all episodes, in the order of the table; raises if there is none to
        one of them. Searches of neural models are limited in seconds unless the question says."""
        if self._is_searched(question) and question.seconds is None:
            question = replace(question, seconds=COHORT_SECONDS)
        recorded, found = list(self.given.read()), []
        for number, one in enumerate(recorded):
            try:
                found += answers(self.explainer, one, question)
            except CounterplanError as problem:
                raise type(problem)(f"{_name_of(self.table)}: {problem}") from None
            reached = Progress("explaining", number + 1, len(recorded))
            if progress is not None and progress(reached) is False:
                break
        return found

    def run(
        self,
        folder: Path,
        question: Question,
        settings: RunSettings,
        progress: ProgressCallback | None = None,
    ) -> RunSummary:
        """Explain all episodes and keep everything in a folder; `settings` has the arguments of the
        run and where to work. Searches are limited in nodes unless the question says."""
        is_limited = question.nodes is not None or question.seconds is not None
        if self._is_searched(question) and not is_limited:
            question = replace(question, nodes=COHORT_NODES)
        given = self.given
        hashes = {"model": sha256(self.content), "input": _checksum(self.table)}
        if "schema" in given.about:
            hashes["schema"] = sha256(json.dumps(given.about["schema"], sort_keys=True).encode())
        settings = replace(
            settings,
            hashes=hashes,
            seed=question.seed,
            repeatable=question.is_repeatable,
            # What is left out of a whole table says nothing about a few chosen episodes.
            notes=() if self.chosen else given.notes,
        )
        spec = explain_spec(self.content, self.suffix, given.about, question, given.outcomes)
        return run_cohort(spec, given.parts(settings.part_size), folder, settings, progress)

    def _is_searched(self, question: Question) -> bool:
        """Whether a search might take very long."""
        return not self.explainer.is_discrete and question.solver == EXACT


def open_cohort(
    table: Any,
    model: Any,
    schema: Schema | str | PathLike[str] | None = None,
    chosen: Sequence[str] = (),
    *,
    is_run: bool = False,
) -> Cohort:
    """What `explain_table` is about, opened and checked: what keeps the model from explaining the
    table is said before anything is done.

    is_run  whether it is for a run, for which a table must be there from the beginning
    """
    content, suffix, opened = _open_model(model)
    if is_run and _is_path(table):
        check_readable(table, "a table of episodes")
    table = Path(table) if _is_path(table) else table
    described = (
        schema if schema is None or isinstance(schema, Schema) else read_schema(Path(schema))
    )
    name = model if _is_path(model) else "the model"
    given = open_input(table, opened, Path(name), described)
    if chosen:
        given = only(chosen, Path(_name_of(table)), given)
    try:
        explainer = open_explainer(opened, given.about)
    except InputError as problem:
        blamed = schema if _is_path(schema) else name
        raise FileError(f"{blamed}: {problem}") from None
    return Cohort(table, given, tuple(chosen), explainer, content, suffix)


def _open_model(model: Any) -> tuple[bytes, str, Model]:
    """Contents and ending of a model's file, and the model."""
    if _is_path(model):
        content = model_bytes(model)
        return content, Path(model).suffix.lower(), model_from_bytes(model, content)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_model(model, path)
        return path.read_bytes(), path.suffix, model


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


def _name_of(table: Any) -> str:
    return str(table) if _is_path(table) else "the table"


def _checksum(table: Any) -> str:
    if not _is_path(table):
        from counterplan.tables.reader import as_polars

        return sha256(parquet_bytes(as_polars(table)))
    with Path(table).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- The task -------------------------------------------------------------------------------------


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
