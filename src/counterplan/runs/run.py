"""A run, opened: what was asked, the model that answers, the results, and the episodes themselves.

    run = open_run("out")
    run.results(k=3).head(10).collect()      rows of results, a lazy scan over the parts done
    run.cases(limit=20)                      the episodes worth a look, the most improvable first
    run.rows_of("trajectories", ["p17"])     all rows of some items in a table, by item
    run.episode("p17")                       an episode as it was read
    run.question, run.budgets, run.explainer, run.model        of a run of `explain`
    run.problem, run.columns, run.scenario("v3")                  of a run of `plan`

Everything is read when it is asked for, and of the tables only what is needed: filters and order
are applied file by file, and the rows of one item are read from the file of its part alone. A run
may be complete or under way; only parts that are done are seen.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from counterplan.core.parquet import check_density, decoded
from counterplan.core.shown import Drawn, higher, takes
from counterplan.errors import FileError, InputError
from counterplan.runs.answer import COHORT, DISCRETE, ICU, SCHEMA, stored_explainer
from counterplan.runs.question import Question
from counterplan.runs.store import (
    INPUTS,
    Manifest,
    RunFolder,
    missing_line,
    read_manifest,
    read_receipt,
    refuse_link,
    refuse_links,
)
from counterplan.runs.task import EXPLAIN, REGRET

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from counterplan.planning.description import Columns
    from counterplan.planning.model import ExogenousModel
    from counterplan.runs.explainer import Explainer
    from counterplan.scm.learned import LearnedSCM
    from counterplan.scm.tabular import TabularMDP
    from counterplan.tables.parts import Recorded
    from counterplan.tables.scenarios import Scenario

RESULTS, TRAJECTORIES, DECISIONS = "results", "trajectories", "decisions"
# How many rows a byte of results, or of a table of steps, holds at most: packed, the dullest steps
# (one state, one action) take an eighth of a byte.
ROWS_PER_BYTE, STEPS_PER_BYTE = 1, 20
# The column of `Run.scan(..., parts=True)` that says which part a row is of.
PART = "(part)"
OUTCOME = "outcome:"
# Files that a problem is made from keep their kind: CSV, or what the name says.
PARQUET = ".parquet"
KEPT_ENDINGS = (PARQUET, ".safetensors")
# The least that an improvement is, whatever is left open; see `ranked`.
LOWER = "(lower)"
# Items whose part is remembered.
MOST_REMEMBERED = 10_000
# By what to rank cases: the column, and whether the largest comes first.
ORDERS = {
    "lower": (LOWER, True),
    "improvement": ("improvement", True),
    "relative": ("relative_improvement", True),
    "gap": ("gap", True),
    "factual": ("factual", False),
}
# What became of a search: how it is called, and what that means.
STATUSES = {
    "optimal": ("proved optimal", "no other choice of so few changes is better in this model"),
    "limit": ("within a gap", "the best may be better, by at most the gap"),
    "heuristic": ("without proof", "a simple method, to compare with"),
    "failed": ("failed", "there is no answer; the reason is given"),
}
# Actions and parts of actions that are listed where none of them was meant.
SHOWN_ACTIONS = 8


class AbsentError(FileError):
    """An item that is not in the run."""


@dataclass(frozen=True)
class CaseQuery:
    """Which episodes, and in which order.

    k                the budget; None for the largest of the run
    min_improvement  at least this much better
    statuses         with one of these; none given means any but failed
    supported        only what the data supports
    established      only improvements that hold whatever is left open
    max_changes      with at most so many changes
    outcomes         (name, text) pairs that the table must tell of the episode
    changed_action   with a change to this action, or of this component of actions
    by               lower (the least that it is), improvement, relative, gap (largest first) or
                     factual (lowest first)
    limit            at most so many; None for all
    """

    k: int | None = None
    min_improvement: float | None = None
    statuses: tuple[str, ...] = ()
    supported: bool = False
    established: bool = False
    max_changes: int | None = None
    outcomes: tuple[tuple[str, str], ...] = ()
    changed_action: str | None = None
    by: str = "lower"
    limit: int | None = None


class Terms(NamedTuple):
    """How the episodes of a run are talked about: the noun, the unit of times, their states,
    and what the outcome is."""

    noun: str
    unit: str
    is_discrete: bool
    outcome: str = ""


class Run(Drawn, RunFolder):
    """A run in a folder; `open_run` makes one. Threads may share it."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        super().__init__(folder, manifest)
        # What was done with every item (EXPLAIN, REGRET, or a task of one's own), and the column
        # that names items.
        self.kind = manifest.task.kind
        self.id_column = "scenario_id" if self.kind == REGRET else "episode_id"
        self._part_of: dict[str, int] = {}
        # Parts that were looked at, and what they were then; checksums of contents whose rows were
        # counted; how many parts from the first on are done.
        self._known: dict[Path, tuple[int, ...]] = {}
        self._counted: set[str] = set()
        self._in_a_row = 0

    def _facts(self) -> dict[str, object]:
        parts = f"{len(self.done)} of {self.manifest.parts}"
        return {"folder": str(self.folder), "kind": self.kind, "parts": parts}

    def plot(self, *, k: int | None = None) -> Figure:
        """All improvements with `k` changes (None: the largest budget), or what was lost."""
        return self._drawn(k=k)

    def report(
        self,
        path: str | Path = "report.html",
        *,
        k: int | None = None,
        cases: int | None = None,
        case: str | None = None,
        pseudonyms: Any = None,
        actors: Callable[[Sequence[str]], Mapping[str, Sequence[str]]] | None = None,
    ) -> Path:
        """Write the report, one page to open.

        k           the budget; None for the largest of the run
        cases       how many cases have a section of their own
        case        one case alone, by its id
        pseudonyms  how cases are called, as `viz.report.page.Pseudonyms` says it
        actors      who decided at each step of a case, by its id, where that is told
        """
        given = {"k": k, "cases": cases, "case": case, "pseudonyms": pseudonyms, "actors": actors}
        given = {name: value for name, value in given.items() if value is not None}
        higher("counterplan.viz.report").write_report(self, path, **given)
        return Path(path)

    @property
    def done(self) -> tuple[int, ...]:
        """The parts that are done: all of them if the run is complete."""
        # What is done stays done: lists of large runs ask often.
        every = self.manifest.parts
        later = (index for index in range(self._in_a_row, every) if self.receipt(index).exists())
        found = (*range(self._in_a_row), *later)
        missing = next((index for index, one in enumerate(found) if one != index), len(found))
        if self.manifest.complete and missing < every:
            raise FileError(missing_line(self.receipt(missing)))
        self._in_a_row = missing
        return found

    def read_done(self, table: str, index: int) -> pl.DataFrame:
        """A part of a table that came out, or an error if it is not what it was, or none: whoever
        wrote a run may have sealed anything."""
        return decoded(self.table(table, index), self._sealed(table, index))

    def check_done(self, table: str, index: int) -> Path:
        """The file of such a part, looked at anew if it has changed since."""
        path = self.table(table, index)
        try:
            places = (os.lstat(path.parent), os.lstat(path))
        except FileNotFoundError:
            raise FileError(missing_line(path)) from None
        for place, about in zip((path.parent, path), places, strict=True):
            refuse_link(place, about)
        found = places[1]
        now = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if self._known.get(path) != now:
            # Decoded when its rows are needed: for all parts that would take longer than to hash.
            self._sealed(table, index)
            self._known[path] = now
        return path

    def _sealed(self, table: str, index: int) -> bytes:
        """The contents of such a file."""
        receipt = read_receipt(self.receipt(index))
        if receipt is None or table not in receipt.sha256:
            raise FileError(missing_line(self.receipt(index)))
        return self._read_counted(table, index, receipt.sha256[table])

    def _read_counted(self, table: str, index: int, checksum: str) -> bytes:
        """A part of any table, its rows counted when these contents were first read."""
        path = self.table(table, index)
        content = self.read_checked(path, checksum)
        if checksum not in self._counted:
            check_density(path, content, ROWS_PER_BYTE if table == RESULTS else STEPS_PER_BYTE)
            self._counted.add(checksum)
        return content

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """What polars says of a table of the run, in one line."""
        import polars as pl

        try:
            yield
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as problem:
            reason = (str(problem).splitlines() or [type(problem).__name__])[0][:200]
            raise FileError(f"{self.folder}: its tables cannot be read: {reason}") from None

    def scan(self, table: str, *, parts: bool = False) -> pl.LazyFrame:
        """A table such as "results" or "trajectories", in the order of the episodes.

        parts  whether to add the column PART: the part of each row
        """
        import polars as pl

        paths = {str(self.check_done(table, index)): index for index in self.done}
        if not paths:
            raise FileError(
                f"{self.folder}: no part of this run is done yet; run the same command again"
            )
        found = scan_files([*paths], **({"include_file_paths": PART} if parts else {}))
        if not parts:
            return found
        return found.with_columns(pl.col(PART).replace_strict(paths, return_dtype=pl.UInt32))

    def results(self, k: int | None = None, *, parts: bool = False) -> pl.LazyFrame:
        """The results, one row per item and budget, or for the budget `k` alone."""
        import polars as pl

        found = self.scan(RESULTS, parts=parts)
        return found if k is None else found.filter(pl.col("k") == k)

    def rows_of(
        self, table: str, ids: Iterable[str], k: int | None = None
    ) -> dict[str, list[dict[str, Any]]]:
        """By item: its rows of a table, for all budgets or one, in the order of budget and step."""
        import polars as pl

        found: dict[str, list[dict[str, Any]]] = {name: [] for name in ids}
        rows = self.scan(table).filter(pl.col(self.id_column).is_in([*found]))
        if k is not None:
            rows = rows.filter(pl.col("k") == k)
        with self.decoding():
            order = [name for name in ("k", "t") if name in rows.collect_schema()]
            for row in rows.sort(order, maintain_order=True).collect().iter_rows(named=True):
                found[row[self.id_column]].append(row)
        return found

    def part_of(self, name: str) -> int:
        """The part that an item is in; AbsentError if it is in none that is done."""
        import polars as pl

        if name not in self._part_of:
            wanted = self.results(parts=True).filter(pl.col(self.id_column) == name)
            with self.decoding():
                found = wanted.select(PART).head(1).collect(engine="streaming")
            if not found.height:
                what = self.id_column.removesuffix("_id")
                raise AbsentError(f"the run has no {what} {name!r}")
            self.remember_part(name, int(found.item()))
        return self._part_of[name]

    def remember_part(self, name: str, part: int) -> None:
        """Note the part of an item, so that it need not be looked for."""
        if len(self._part_of) >= MOST_REMEMBERED:
            self._part_of.clear()
        self._part_of[name] = part

    def item(self, table: str, name: str) -> pl.LazyFrame:
        """The rows of one item in a table; only the file of its part is read."""
        import polars as pl

        rows = self.read_done(table, self.part_of(name)).lazy()
        return rows.filter(pl.col(self.id_column) == name)

    def episode(self, name: str) -> Recorded:
        """An episode of the input by its id, as the table has it: `.episode`, `.times`, and what
        else was told of it. `rows_of("trajectories", [name])` has it beside its alternatives."""
        return self.episodes([name])[name]

    def episodes(self, names: Iterable[str]) -> dict[str, Recorded]:
        """Episodes of the input by their ids; one part of the input is in memory at a time."""
        from counterplan.tables.parts import episodes_from_bytes

        found: dict[str, Recorded] = {}
        for content in self._input_of(names):
            found |= {one.episode.id or "": one for one in episodes_from_bytes(content)}
        return found

    def scenario(self, name: str) -> Scenario:
        from counterplan.tables.scenarios import scenarios_from_bytes

        (content,) = self._input_of([name])
        (found,) = scenarios_from_bytes(content, self.columns)
        return found

    def _input_of(self, names: Iterable[str]) -> Iterator[bytes]:
        """The input of some items, for each part that has one of them, in the format of a part."""
        import polars as pl

        parts, sums = {name: self.part_of(name) for name in names}, self.input_sums()
        for part in sorted({*parts.values()}):
            here, found = [name for name in parts if parts[name] == part], io.BytesIO()
            content = self._read_counted(INPUTS, part, sums[part])
            rows = decoded(self.table(INPUTS, part), content)
            rows.filter(pl.col(self.id_column).is_in(here)).write_parquet(found)
            yield found.getvalue()

    def file(self, name: str) -> bytes:
        known = self.manifest.task.files
        if name not in known:
            raise FileError(f"{self.folder}: is a run without a file {name!r}")
        return self.read_checked(self.file_path(name), known[name])

    def verify(self) -> None:
        """Raise if a file is not what it was when it was written, or gone."""
        found = self.survey()
        found.refuse()
        if self.manifest.complete and found.pending:
            raise FileError(missing_line(self.receipt(found.pending[0])))

    @cached_property
    def description(self) -> Mapping[str, Any]:
        """What was asked about episodes; FileError if this is no run of `explain`."""
        if self.kind != EXPLAIN:
            plans = "; look at it with `counterplan report` or `serve`"
            is_plans = self.kind == REGRET
            what = "`counterplan plan`" if is_plans else repr(self.kind)
            raise FileError(
                f"{self.folder}: is a run of {what}, which has no cases{plans if is_plans else ''}"
                "; give one of `counterplan explain -o OUT`"
            )
        found = self.manifest.task.description
        if not _is_whole(found):
            raise FileError(
                f"{self.manifest_path}: is damaged at 'task'; choose another folder for a new run"
            )
        return found

    @property
    def budgets(self) -> list[int]:
        """The budgets that were asked about, in rising order."""
        return [*self.description["question"]["budgets"]]

    def budget(self, k: int | None) -> int:
        """`k` if it was asked about, the largest budget for None."""
        if k is not None and k not in self.budgets:
            there = ", ".join(map(str, self.budgets))
            raise InputError(f"{self.folder}: was run for k = {there}, not for {k}; choose one")
        return self.budgets[-1] if k is None else k

    @property
    def outcomes(self) -> list[str]:
        """Names of what the table says of an episode besides; columns "outcome:NAME"."""
        return [*self.description["outcomes"]]

    @cached_property
    def question(self) -> Question:
        """What was asked about every episode."""
        try:
            return Question(**self.description["question"])
        except TypeError as problem:
            raise self._damaged(problem) from None

    @cached_property
    def explainer(self) -> Explainer:
        """The model, ready to explain the run's episodes."""
        try:
            return stored_explainer(self.description, self.file)
        except (KeyError, TypeError) as problem:
            raise self._damaged(problem) from None

    @property
    def model(self) -> TabularMDP | LearnedSCM:
        return self.explainer.model

    @cached_property
    def terms(self) -> Terms:
        """How its episodes are talked about; the model is opened only where nothing else says what
        the outcome is."""
        about: Mapping[str, Any] = self.description["subject"]
        if about["kind"] == SCHEMA:
            from counterplan.tables.schema import schema_from_dict

            schema = schema_from_dict(about.get("schema"), str(self.manifest_path))
            outcome = schema.outcome_in_words or self.explainer.outcome
            return Terms("episode", schema.unit, schema.is_discrete, outcome)
        if about["kind"] == DISCRETE:
            return Terms("episode", "", True, self.explainer.outcome)
        return Terms("stay", "h", False, "−SOFA in points")

    @takes(CaseQuery)
    def cases(self, query: CaseQuery | None = None, **conditions: Any) -> pl.DataFrame:
        """The review list: rows of results that a query asks for, in its order; its fields may be
        given one by one."""
        query = CaseQuery(**conditions) if query is None else query
        wanted = self._conditions(query)
        chosen = ranked(self.results().filter(wanted), query.by)
        if query.limit is not None:
            chosen = chosen.head(query.limit)
        with self.decoding():
            found = chosen.collect(engine="streaming")
        if query.changed_action is not None and found.is_empty():
            self._check_action(query.changed_action)
        return found

    def count_far(self) -> int:
        """How many episodes lie far outside what the model has learned from."""
        import polars as pl

        counted = pl.col("episode_id").filter(is_far()).n_unique()
        return int(self.results().select(counted).collect(engine="streaming").item())

    def _conditions(self, query: CaseQuery) -> list[pl.Expr]:
        import polars as pl

        status = pl.col("status")
        found = [
            pl.col("k") == self.budget(query.k),
            status.is_in(list(query.statuses)) if query.statuses else status != "failed",
        ]
        if query.min_improvement is not None:
            found.append(pl.col("improvement") >= query.min_improvement)
        for name in ("supported", "established"):
            if getattr(query, name):
                found.append(pl.col(name))
        if query.max_changes is not None:
            found.append(pl.col("n_changes") <= query.max_changes)
        if query.changed_action is not None:
            found.append(_changes_to(query.changed_action))
        for name, text in query.outcomes:
            if name not in self.outcomes:
                known = ", ".join(self.outcomes)
                hint = f"there are {known}" if known else "its table had none"
                raise InputError(f"{self.folder}: has no outcome {name!r}: {hint}; leave it out")
            found.append(pl.col(OUTCOME + name) == text)
        return found

    def _check_action(self, name: str) -> None:
        """Raise if there is no such action, and no action has such a part."""
        explainer = self.explainer
        actions = [explainer.action_name(number) for number in range(explainer.n_actions)]
        known = [*explainer.components, *actions]
        if name in known:
            return
        more = f" and {len(known) - SHOWN_ACTIONS:,} more" if len(known) > SHOWN_ACTIONS else ""
        raise InputError(
            f"{self.folder}: has no action {name!r}, and no action has such a part: there are "
            f"{', '.join(map(repr, known[:SHOWN_ACTIONS]))}{more}; choose one"
        )

    @cached_property
    def problem(self) -> ExogenousModel:
        if self.kind != REGRET:
            raise FileError(f"{self.folder}: is a run of {self.kind!r}, which has no scenarios")
        task = self.manifest.task
        try:
            return open_problem(task.description, {name: self.file(name) for name in task.files})
        except (KeyError, TypeError) as problem:
            raise self._damaged(problem) from None

    @cached_property
    def columns(self) -> Columns:
        """How its scenarios are written down."""
        from counterplan.planning.description import columns_of

        return columns_of(self.problem)

    def _damaged(self, problem: Exception) -> FileError:
        return FileError(f"{self.manifest_path}: is damaged: {problem}; make the run anew")


def open_run(out: str | Path) -> Run:
    """The run in a folder, or an error if there is none."""
    folder = Path(out)
    path = folder / "manifest.json"
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "no such folder"
        raise FileError(f"{out}: {what}; give the folder of a run")
    if not path.is_file():
        raise FileError(
            f"{out}: is no run of counterplan: it has no manifest.json; give the folder of a run"
        )
    refuse_links(folder)
    return Run(folder, read_manifest(path))


def open_problem(description: Mapping[str, Any], files: Mapping[str, bytes]) -> ExogenousModel:
    """The problem of a run of `plan`, made ready from its task. Files are the run's own: it cannot
    name others, which would be read and quoted."""
    from counterplan.domains.problems import ProblemChoice, options_of, problem_class

    options = description.get("problem")
    if not isinstance(options, dict) or not isinstance(options.get("domain"), str):
        raise FileError("the manifest names no problem: choose another folder")
    domain = options["domain"]
    known = options_of(problem_class(domain))
    options = {name: value for name, value in options.items() if name != "domain"}
    for name, value in options.items():
        kind = known[name].kind if name in known else Path
        kinds = (int, float) if kind is float else kind
        if (
            kind is Path
            or not isinstance(value, kinds)
            or isinstance(value, bool) != (kind is bool)
        ):
            raise FileError(
                f"the manifest gives {name!r} as {value!r:.80}, which is nothing that {domain} can "
                "be told: choose another folder"
            )
    with tempfile.TemporaryDirectory() as folder:
        for name, option in known.items():
            for ending in ("", *KEPT_ENDINGS):
                content = files.get(name + ending)
                if option.kind is Path and content is not None:
                    options[name] = Path(folder) / (name + ending)
                    options[name].write_bytes(content)
        return ProblemChoice(domain, options).make()


def scan_files(paths: list[Any], **options: Any) -> pl.LazyFrame:
    """Parquet files of one table."""
    import polars as pl

    # Brackets in the name of a folder are no pattern, and k=3 in it is no column.
    return pl.scan_parquet(paths, glob=False, hive_partitioning=False, **options)


def _is_whole(description: Mapping[str, Any]) -> bool:
    """Whether a description says all that review lists need."""
    match description:
        case {
            "question": {"budgets": [_, *_] as budgets},
            "subject": {"kind": str(kind)},
            "outcomes": [*outcomes],
        }:
            return (
                all(type(k) is int for k in budgets)
                and kind in (COHORT, ICU, DISCRETE, SCHEMA)
                and all(type(name) is str for name in outcomes)
            )
    return False


def ranked(results: pl.LazyFrame, by: str = "lower") -> pl.LazyFrame:
    """Rows of results by what they promise, the same every time, ties and all: what means nothing
    comes last, and by default before it what changes nothing, is not established or has no data
    under it."""
    import polars as pl

    column, is_falling = ORDERS[by]
    known = [pl.col(name).fill_null(True) for name in ("established", "supported")]
    holds = pl.all_horizontal(*known, pl.col("status") != "failed")
    key = claim_ends()[0].fill_nan(0.0) if column == LOWER else pl.col(column)
    last = [is_far()]
    if column == LOWER:
        last += [~holds, pl.col("n_changes") == 0]
    columns = [*last, key, pl.col("improvement"), pl.col("episode_id")]
    falling = [*(False for _ in last), is_falling, True, False]
    return results.sort(columns, descending=falling, nulls_last=True, maintain_order=True)


def claim_ends() -> tuple[pl.Expr, pl.Expr]:
    """The lower and the upper end of the interval of each row's improvement: over causal models, or
    of a model with members."""
    import polars as pl

    is_causal = pl.col("guaranteed").is_not_null()
    causal = (pl.col(name) - pl.col("factual") for name in ("guaranteed", "interval_high"))
    low, high = (
        pl.when(is_causal).then(one).otherwise(pl.col(name))
        for one, name in zip(causal, ("improvement_low", "improvement_high"), strict=True)
    )
    return low, high


def is_withheld() -> pl.Expr:
    """Whether an answer is not established, whatever its interval: its model is known to leave out
    what matters."""
    import polars as pl

    return (~pl.col("established") & (claim_ends()[0] > 0.0)).fill_null(False)


def is_far() -> pl.Expr:
    """Whether an episode lies far outside what the model has learned from: what it says about it
    means nothing, so it comes last and is in no average."""
    import polars as pl

    return pl.col("far_outside_training").fill_null("") != ""


def _changes_to(name: str) -> pl.Expr:
    """Whether a change is to the action `name`, or of the component `name`."""
    import polars as pl

    change = pl.element().struct
    parts = change.field("parts").list.eval(pl.element().struct.field("name") == name).list.any()
    wanted = (change.field("alternative_label") == name) | parts.fill_null(False)
    return pl.col("changes").list.eval(wanted).list.any().fill_null(False)
