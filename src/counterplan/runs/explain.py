"""Explaining the episodes of a table: at once, or as a run in a folder.

    answers = explain_table("stays.csv", "model.safetensors", k=2)
    run = explain_table("stays.csv", "model.safetensors", k=2, folder="out")

A table that a schema describes, or one of discrete states, is checked as a whole and then given a
few episodes at a time, so that memory does not grow with it; the built-in tables of intensive care
and JSON files are read whole. A run is a task that is done part by part. What an episode's rows say
depends on the model, the question and the episode alone. One that cannot be explained has a row
with the reason, and the others go on.
"""

from __future__ import annotations

import gc
import hashlib
import json
import math
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, overload

from counterplan.core.files import check_readable
from counterplan.core.limits import Progress, ProgressCallback
from counterplan.core.shown import Drawn, takes
from counterplan.core.table import table_columns
from counterplan.errors import CounterplanError, FileError, InputError
from counterplan.runs.answer import (
    COHORT,
    DISCRETE,
    ICU,
    MODEL,
    SCHEMA,
    Answer,
    answers,
    failed_answer,
    open_explainer,
    parquet_bytes,
    results_table,
    stored_explainer,
    trajectories_table,
)
from counterplan.runs.cohort import RunSettings, RunSummary, run_cohort
from counterplan.runs.explainer import ContinuousExplainer, Explainer
from counterplan.runs.question import EXACT, Question
from counterplan.runs.run import RESULTS, STATUSES, TRAJECTORIES, Run, open_run
from counterplan.runs.store import sha256
from counterplan.runs.task import EXPLAIN, PartResult, TaskSpec, reason_of
from counterplan.scm.tabular import TabularMDP
from counterplan.tables.models import model_bytes, model_from_bytes, save_model
from counterplan.tables.parts import Recorded, episodes_from_bytes, episodes_to_bytes

if TYPE_CHECKING:
    from os import PathLike

    from counterplan.scm.learned import LearnedSCM
    from counterplan.tables.layout import SchemaLayout
    from counterplan.tables.schema import Schema

    Model = TabularMDP | LearnedSCM
    Read = Callable[[list[str], dict[str, str]], Iterable[Recorded]]
    # The kind of a table, what reads its episodes, and names of what it says of them besides.
    Opened = tuple[Mapping[str, Any], Read, tuple[str, ...]]

# For the search of one episode of a neural model where the answer is given at once, in seconds.
COHORT_SECONDS = 60.0
# Where it goes into a folder, nodes are counted instead: the same answer every time. So many take
# about a minute on the longest stays of the MIMIC-III demo (43 steps, 200 hidden units), and 2 to
# 20 seconds on 20 steps.
COHORT_NODES = 20_000
# Of boxes of doses: some 5 seconds with 16 members.
DOSE_NODES = 1_000
# Options of a run that decide nothing of its results.
PLACES = ("workers", "cluster", "again")
# Every built-in table of intensive care has one of these columns.
SOME_OF_STAYS = frozenset({"icustayid", "bloc", "a_vaso", "a_iv"})


class Answers(list[Answer], Drawn):
    """Answers in the order of the table; `to_frame` has them as rows."""

    def _facts(self) -> dict[str, object]:
        return {"episodes": len({one.episode_id for one in self}), "answers": len(self)}


class TableOptions(TypedDict, total=False):
    """What `explain_table` takes besides what is asked.

    episodes  ids of episodes, to explain no others
    workers   processes of a run in a folder
    cluster   address of a Dask scheduler, for a run in a folder
    again     whether to do anew what failed in the folder
    """

    episodes: Sequence[str]
    workers: int | None
    cluster: str | None
    again: bool


@overload
def explain_table(
    table: Any, model: Any, k: int | Sequence[int] = 2, folder: None = None, **options: Any
) -> Answers: ...


@overload
def explain_table(
    table: Any,
    model: Any,
    k: int | Sequence[int] = 2,
    folder: str | PathLike[str] = ...,
    **options: Any,
) -> Run: ...


@takes(Question, TableOptions, besides=("budgets",))
def explain_table(
    table: Any,
    model: Any,
    k: int | Sequence[int] = 2,
    folder: str | PathLike[str] | None = None,
    *,
    schema: Schema | str | PathLike[str] | Mapping[str, Any] | None = None,
    progress: ProgressCallback | None = None,
    **options: Any,
) -> Run | Answers:
    """Explain every episode of a table, as `counterplan explain` does.

    table     a .csv, .parquet or .json file, or a frame of polars or pandas
    model     a model, or its file
    k         how many actions may change at most; several numbers are answered together
    folder    where results and trajectories are kept; the same call continues a run that was
              stopped. None: the answers are returned, in the order of the table
    schema    what the columns mean (a schema, its file, TOML text or plain values), if not as the
              model remembers
    progress  called as episodes (or parts of a run) are done; False stops
    """
    chosen = tuple(options.pop("episodes", ()))
    places = {name: options.pop(name) for name in PLACES if name in options}
    budgets = tuple(k) if isinstance(k, Sequence) else (k,)
    question = Question(budgets=budgets, **options)
    cohort = open_cohort(table, model, schema, chosen)
    if folder is None:
        return Answers(cohort.answers(question, progress))
    cohort.run(Path(folder), question, RunSettings(**places), progress)
    return open_run(Path(folder))


@dataclass(frozen=True, eq=False)
class Cohort:
    """The episodes of a table with the model that explains them.

    table      a file or a frame
    about      the kind of table, for `open_explainer`
    explainer  the model made ready
    model      the contents of the model's file, whose name ends in `suffix`
    read       reads the episodes, and adds lines to `notes` and reasons to `dropped`
    outcomes   names of what the table says of an episode besides
    chosen     ids of episodes, if not all are to be explained
    notes      lines about the table, once it has been read
    dropped    why each episode that is left out is left out, once the table has been read
    """

    table: Any
    about: Mapping[str, Any]
    explainer: Explainer
    model: bytes
    suffix: str
    read: Read
    outcomes: tuple[str, ...]
    chosen: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)

    @property
    def noun(self) -> str:
        return "stay" if self.about["kind"] in (COHORT, ICU) else "episode"

    @property
    def name(self) -> str:
        return str(self.table) if _is_path(self.table) else "the table"

    def episodes(self) -> Iterator[Recorded]:
        """The episodes that are to be explained; raises if one that was chosen is not there."""
        first: list[str] = []
        left, count = set(self.chosen), 0
        for count, one in enumerate(self.read(self.notes, self.dropped), start=1):
            name = one.episode.id or ""
            if count <= 5:
                first.append(name)
            if not self.chosen or name in left:
                left.discard(name)
                yield one
        for name in self.chosen:
            if name in self.dropped:
                reason = self.dropped[name]
                raise FileError(f"{self.name}: {self.noun} {name!r} is left out: {reason}")
            if name in left:
                shown = ", ".join(map(repr, first))
                raise FileError(
                    f"{self.name}: has no {self.noun} {name!r}; the first of its {count} are "
                    f"{shown}"
                )

    def parts(self, size: int) -> Iterator[bytes]:
        """The episodes, `size` at a time, as files."""
        every, names = self.episodes(), list[tuple[str, ...]]()
        if isinstance(self.explainer, ContinuousExplainer):
            names = [self.explainer.layout.features, self.explainer.layout.actions]
        while part := list(islice(every, size)):
            yield episodes_to_bytes(part, *names)

    def answers(self, question: Question, progress: ProgressCallback | None = None) -> list[Answer]:
        """The answers about all episodes, in the order of the table; raises if there is none to
        one of them. Searches of neural models are limited in seconds unless the question says."""
        question = self.explainer.completed(question)
        if self._is_searched(question) and question.seconds is None:
            question = replace(question, seconds=COHORT_SECONDS)
        self.explainer.rules(question)
        recorded, found = list(self.episodes()), []
        for number, one in enumerate(recorded, start=1):
            try:
                found += answers(self.explainer, one, question)
            except CounterplanError as problem:
                raise type(problem)(f"{self.name}: {problem}") from None
            reached = Progress("explaining", number, len(recorded))
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
        """Explain all episodes and keep everything in a folder; `settings` says where to work.
        Searches are limited in nodes unless the question says."""
        asked, question = question, self.explainer.completed(question)
        self.explainer.rules(question)
        is_limited = question.nodes is not None or question.seconds is not None
        if self._is_searched(question) and not is_limited:
            doses = self.explainer.layout is not None and bool(self.explainer.layout.doses)
            question = replace(question, nodes=DOSE_NODES if doses else COHORT_NODES)
        hashes = {"model": sha256(self.model), "input": _checksum(self.table)}
        if "schema" in self.about:
            hashes["schema"] = sha256(json.dumps(self.about["schema"], sort_keys=True).encode())
        settings = replace(
            settings,
            arguments=asked.arguments(self.chosen),
            hashes=hashes,
            seed=question.seed,
            repeatable=question.is_repeatable,
            # What is left out of a whole table says nothing about a few chosen episodes.
            notes=() if self.chosen else self.notes,
        )
        spec = explain_spec(self.model, self.suffix, self.about, question, self.outcomes)
        return run_cohort(spec, self.parts(settings.part_size), folder, settings, progress)

    def _is_searched(self, question: Question) -> bool:
        """Whether a search might take very long."""
        return not self.explainer.is_discrete and question.solver == EXACT


def open_cohort(
    table: Any,
    model: Any,
    schema: Schema | str | PathLike[str] | Mapping[str, Any] | None = None,
    chosen: Sequence[str] = (),
) -> Cohort:
    """What `explain_table` is about, opened and checked: what keeps the model from explaining the
    table is said before anything is done."""
    content, suffix, opened = _open_model(model)
    name, blamed = (str(one) if _is_path(one) else "the model" for one in (model, schema or model))
    own = _own_schema(opened, name)
    if schema is not None:
        from counterplan.tables.schema import read_schema

        schema = read_schema(schema)
    if own is not None and schema is not None and len(schema.rewards) == 1:
        # `fit` learned the reward as a state: the model knows.
        schema = own if schema.with_reward_as_state == own else schema
    if (described := schema or own) is not None:
        about, read, outcomes = _by_schema(table, opened, name, described)
    elif isinstance(opened, TabularMDP):
        about, read, outcomes = _discrete(table, opened, name)
    else:
        about, read, outcomes = _stays(table, opened, name)
    try:
        explainer = open_explainer(opened, about)
    except InputError as problem:
        raise FileError(f"{blamed}: {problem}") from None
    chosen = tuple(dict.fromkeys(chosen))
    return Cohort(table, about, explainer, content, suffix, read, outcomes, chosen)


def _open_model(model: Any) -> tuple[bytes, str, Model]:
    """Contents and ending of a model's file, and the model."""
    if _is_path(model):
        content = model_bytes(model)
        return content, Path(model).suffix.lower(), model_from_bytes(model, content)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_model(model, path)
        return path.read_bytes(), path.suffix, model


def _own_schema(model: Model, name: str) -> Schema | None:
    """What a model remembers of the table it was learned from."""
    if not model.about:
        return None
    from counterplan.tables.layout import layout_of_model, means_of_model

    try:
        own, _ = layout_of_model(model), means_of_model(model)
    except InputError as problem:
        raise FileError(f"{name}: {str(problem).splitlines()[0]}") from None
    return None if own is None else own.schema


def _by_schema(table: Any, model: Model, name: str, schema: Schema) -> Opened:
    from counterplan.tables.layout import SchemaLayout, means_of_model
    from counterplan.tables.reader import open_table

    _check_fit(model, name, SchemaLayout(schema))
    means = means_of_model(model)

    def read(notes: list[str], dropped: dict[str, str]) -> Iterator[Recorded]:
        with open_table(table, schema, means) as opened:
            notes.append(f"{opened.summary()}.")
            yield from opened

    outcomes = tuple(column.name for column in (*schema.of("outcome"), *schema.finals))
    return {"kind": SCHEMA, "schema": schema.as_dict()}, read, outcomes


def _stays(table: Any, model: LearnedSCM, name: str) -> Opened:
    from counterplan.domains.sepsis_table import CohortLayout, layout_of, stays_for

    if not _is_path(table):
        raise InputError(f"{name}: remembers no schema: give one for the table")
    layout = layout_of(table)
    if layout is None:
        raise FileError(
            f"{name}: holds a neural model, but {table} is no cohort table (with the columns "
            "icustayid, bloc, ... or episode_id, t, a_vaso, a_iv, ...); give one, or a --schema"
        )

    def read(notes: list[str], dropped: dict[str, str]) -> Iterable[Recorded]:
        stays = stays_for(model, name, table, layout)
        notes.append(f"{stays.summary()}.")
        dropped.update(stays.dropped)
        return stays.recorded

    return {"kind": COHORT if isinstance(layout, CohortLayout) else ICU}, read, ("died",)


def _discrete(table: Any, mdp: TabularMDP, name: str) -> Opened:
    from counterplan.tables.episodes import open_episodes

    if _is_path(table) and not SOME_OF_STAYS.isdisjoint(table_columns(table)):
        # Here, since the tables of intensive care load what neural models are made of.
        from counterplan.domains.sepsis_table import layout_of

        if layout_of(table) is not None:
            raise FileError(
                f"{name}: holds a model of discrete states, but {table} is a cohort table; use "
                "`counterplan fit` on such a table to get a neural model"
            )

    def read(notes: list[str], dropped: dict[str, str]) -> Iterator[Recorded]:
        states, actions = mdp.state_labels or mdp.n_states, mdp.action_labels or mdp.n_actions
        with open_episodes(table, states, actions, rewards=False) as opened:
            yield from opened

    return {"kind": DISCRETE}, read, ()


def _check_fit(model: Model, name: str, layout: SchemaLayout) -> None:
    """Raise unless a model is about what a schema describes."""
    is_discrete = isinstance(model, TabularMDP)
    if is_discrete != (layout.states is not None):
        holds = "model of discrete states" if is_discrete else "neural model"
        states = "those of the schema are continuous"
        if not is_discrete:
            states = "the states of the schema are discrete"
        raise FileError(
            f"{name}: holds a {holds}, but {states}; give a model learned with this schema"
        )
    if not isinstance(model, TabularMDP):
        try:
            model.check_schema(layout.features, layout.actions)
        except InputError as problem:
            raise FileError(f"{name}: does not fit the schema: {problem}; give another") from None
        return
    assert layout.states is not None
    sizes = (model.n_states, model.n_actions)
    if sizes[0] != len(layout.states) or sizes[1] - len(layout.choices) not in (0, 1):
        raise FileError(
            f"{name}: has {sizes[0]} states and {sizes[1]} actions, but those of the schema "
            f"combine to {len(layout.states)} and {len(layout.choices)}; give a model learned with "
            "this schema"
        )


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


def _checksum(table: Any) -> str:
    if not _is_path(table):
        from counterplan.core.stores import as_polars

        return sha256(parquet_bytes(as_polars(table)))
    path, options = Path(table), getattr(table, "options", {})
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    # What a database has not written into its file yet lies beside it.
    files += [one for one in [Path(f"{path}-wal")] if one.is_file() and one.stat().st_size]
    digests = []
    for one in files:
        check_readable(one, "a table of episodes")
        with one.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    if len(digests) == 1 and not options:
        return digests[0]
    return sha256(json.dumps([digests, options], sort_keys=True).encode())


class ExplainTask:
    """Explains episodes; one that cannot be explained has the reason."""

    def __init__(self, explainer: Explainer, question: Question, outcomes: Sequence[str]) -> None:
        self._explainer, self._outcomes = explainer, tuple(outcomes)
        self._question = explainer.completed(question)

    def solve(self, part: bytes) -> PartResult:
        """The results and trajectories of the episodes of a part."""
        found: list[Answer] = []
        with _uncollected():
            for recorded in episodes_from_bytes(part):
                try:
                    found += answers(self._explainer, recorded, self._question)
                # Whatever goes wrong with one episode, a fault of the program included, must not
                # cost the others their answers.
                except Exception as problem:
                    reason = reason_of(problem)
                    found += [failed_answer(recorded, k, reason) for k in self._question.budgets]
            return self._result(found)

    def failed(self, part: bytes, reason: str) -> PartResult:
        """A part that could not be solved at all."""
        every, budgets = episodes_from_bytes(part), self._question.budgets
        return self._result([failed_answer(one, k, reason) for one in every for k in budgets])

    def _result(self, found: list[Answer]) -> PartResult:
        """With numbers of the episodes for the largest budget: how many, their status, and what
        they gain together (where that is finite)."""
        tables = {
            RESULTS: results_table(found, self._outcomes),
            TRAJECTORIES: trajectories_table(self._explainer, found),
        }
        last = [one for one in found if one.k == self._question.budgets[-1]]
        statuses = Counter(one.status for one in last)
        known = [one.established for one in last if one.established is not None]
        gains = [one.improvement for one in last if one.improvement is not None]
        summary = {
            "episodes": float(len(last)),
            **{name: float(statuses[name]) for name in STATUSES},
            **({"established": float(sum(map(bool, known)))} if known else {}),
            "improvement": math.fsum(gain for gain in gains if math.isfinite(gain)),
        }
        return PartResult({name: parquet_bytes(one) for name, one in tables.items()}, summary)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Let no garbage be looked for: what answers leave behind goes with the last name for it."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


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
        "question": asdict(question),
        "outcomes": list(outcomes),
    }
    return TaskSpec(EXPLAIN, description, {MODEL + suffix: model})


def open_task(spec: TaskSpec) -> ExplainTask:
    """The task that a specification stands for."""
    about = spec.description
    explainer = stored_explainer(about, spec.files.__getitem__)
    return ExplainTask(explainer, Question(**about["question"]), about["outcomes"])
