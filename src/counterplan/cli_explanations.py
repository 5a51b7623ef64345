"""What `explain` does alike for discrete episodes and for stays of a cohort table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from counterplan.cli_options import ExplainOptions, SolverName
from counterplan.cli_support import note, print_table
from counterplan.errors import FileError, InputError

if TYPE_CHECKING:
    from counterplan.core.episode import Episode
    from counterplan.core.limits import Limits
    from counterplan.core.problem import Solver


class Column(NamedTuple):
    """A further column of the printed table: its alignment, and what it says of a record."""

    alignment: str
    text: Callable[[Mapping[str, Any]], str]


def chosen(
    options: ExplainOptions, episodes: Sequence[Episode], what: str = "episode"
) -> list[Episode]:
    """Those asked for, each once; all if none is named."""
    known, wanted = {episode.id: episode for episode in episodes}, options.episode
    for name in wanted or ():
        if name not in known:
            shown = ", ".join(repr(known_name) for known_name in list(known)[:5])
            raise FileError(
                f"{options.episodes}: has no {what} {name!r}; the first of its {len(known)} are "
                f"{shown}"
            )
    return [known[name] for name in dict.fromkeys(wanted)] if wanted else list(episodes)


def refuse_continuous(options: ExplainOptions) -> None:
    """Options that a discrete model has no use for."""
    if options.max_move is not None:
        raise InputError("--max-move is about doses: discrete actions have none")
    if options.solver is SolverName.TOP_K:
        raise InputError(
            "--solver top-k changes a fixed sequence, but a discrete model asks for a policy: use "
            "--solver greedy"
        )


def solver_of(options: ExplainOptions, exact: Solver) -> Solver:
    """The solver asked for."""
    from counterplan.counterfactual.baselines import Greedy, NoisyGreedy, Random, TopK

    solvers: dict[SolverName, Solver] = {
        SolverName.EXACT: exact,
        SolverName.GREEDY: Greedy(),
        SolverName.NOISY_GREEDY: NoisyGreedy(options.seed),
        SolverName.TOP_K: TopK(),
        SolverName.RANDOM: Random(options.seed),
    }
    return solvers[options.solver]


def limits_of(options: ExplainOptions, seconds: float = math.inf) -> Limits:
    """When to stop; `seconds` if nothing else is said."""
    from counterplan.core.limits import Limits

    given = seconds if options.seconds is None else options.seconds
    return Limits(seconds=given, nodes=options.nodes, gap=options.gap)


def number(value: float | str) -> str:
    """As tables show it."""
    from counterplan.viz.quantity import Quantity

    return Quantity().write(float(value))


def print_explanations(
    options: ExplainOptions,
    records: Sequence[Mapping[str, Any]],
    what: str,
    detail: str,
    extra: Mapping[str, Column],
) -> None:
    """A table with one row for each record; `what` they are, and what else its title says."""
    from counterplan.io.explanations import changes_in_words

    columns = {what: "left", "observed": "right", "value": "right", "improvement": "right"}
    columns |= {heading: column.alignment for heading, column in extra.items()}
    columns["changes"] = "left"
    rows = [
        [
            str(record["episode"]),
            *(number(record[name]) for name in ("observed", "value", "improvement")),
            *(column.text(record) for column in extra.values()),
            "\n".join(changes_in_words(record)) or "none",
        ]
        for record in records
    ]
    count = f"1 {what}" if len(records) == 1 else f"{len(records)} {what}s"
    title = f"{count}, k = {options.k}, {options.solver.value}{detail}, according to the model"
    print_table(title, columns, rows)
    if options.output is not None:
        note(f"Wrote {options.output}.")
