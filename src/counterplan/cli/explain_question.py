"""What a call of `explain` asks: its files, its schema, the model made ready, the question."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from counterplan.cli.explain_options import ExplainOptions, SolverName
from counterplan.cli.support import refuse
from counterplan.errors import FileError, InputError

if TYPE_CHECKING:
    from counterplan.cohort.inputs import Input, Model
    from counterplan.cohort.question import Question
    from counterplan.cohort.subject import Subject
    from counterplan.io.schema import Schema


def inputs_of(options: ExplainOptions) -> tuple[Path | None, ...]:
    """The files that are read."""
    return options.episodes, options.model, options.schema


def schema_of(options: ExplainOptions) -> Schema | None:
    """The schema asked for."""
    from counterplan.io.schema import read_schema

    return None if options.schema is None else read_schema(options.schema)


def subject_of(options: ExplainOptions, model: Model, given: Input) -> Subject:
    """The model ready to be asked; what keeps it from that is told with the file to blame."""
    from counterplan.cohort.subject import open_subject

    try:
        return open_subject(model, given.about)
    except InputError as problem:
        raise FileError(f"{options.schema or options.model}: {problem}") from None


def question_of(
    options: ExplainOptions, model: Model, seconds: float | None, nodes: int | None
) -> Question:
    """What is asked; `seconds` and `nodes` limit the searches of neural models unless another
    limit is given."""
    from counterplan.cohort.question import MOST_BUDGETS, Question
    from counterplan.scm.tabular import TabularMDP

    _refuse_options(options, isinstance(model, TabularMDP))
    budgets = options.k
    if options.all_k:
        if len(budgets) > 1:
            raise InputError("--all-k goes up to one number: give a single --k with it")
        if budgets[0] > MOST_BUDGETS:
            raise InputError(f"--all-k goes up to --k {MOST_BUDGETS:,} at most, got {budgets[0]}")
        budgets = tuple(range(budgets[0] + 1))
    if isinstance(model, TabularMDP) or options.solver is not SolverName.EXACT:
        seconds, nodes = None, None
    return Question(
        budgets=budgets,
        solver=options.solver.value,
        nodes=nodes if options.nodes is None and options.seconds is None else options.nodes,
        seconds=seconds if options.seconds is None else options.seconds,
        gap=options.gap,
        max_move=options.max_move,
        robust=options.robust,
        seed=options.seed,
    )


def _refuse_options(options: ExplainOptions, is_discrete: bool) -> None:
    if is_discrete and options.max_move is not None:
        raise InputError("--max-move is about doses: discrete actions have none; leave it out")
    if is_discrete and options.solver is SolverName.TOP_K:
        raise InputError(
            "--solver top-k changes a fixed sequence, but a discrete model asks for a policy: use "
            "--solver greedy"
        )
    if options.solver is not SolverName.EXACT:
        limits = {
            "--seconds": options.seconds is not None,
            "--nodes": options.nodes is not None,
            "--gap": options.gap > 0.0,
        }
        why = f"limits the exact search; --solver {options.solver} ends by itself: leave it out"
        refuse(limits, why)
    if not is_discrete and options.robust:
        raise InputError(
            "--robust is for discrete models: a neural model has one counterfactual, no range"
        )
