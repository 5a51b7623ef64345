"""`schema`, and `fit` on a table with a schema."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from counterplan.cli.fit_kinds import label_options, neural_options, tabular_options
from counterplan.cli.fit_tabular import settings_of, tell
from counterplan.cli.options import FitOptions, SharedOptions
from counterplan.cli.support import note, print_json, refuse
from counterplan.errors import FileError, InputError

if TYPE_CHECKING:
    from counterplan.io.schema import Schema


@dataclass(frozen=True, kw_only=True)
class SchemaOptions(SharedOptions):
    """Options of `counterplan schema`."""

    episodes: Annotated[
        Path, typer.Argument(help="Table of episodes: .csv or .parquet.", metavar="EPISODES")
    ]
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PATH", help="Schema file to write: .toml."),
    ] = None


def write_draft(options: SchemaOptions) -> None:
    """Draft the schema of a table; print it, or write it to a file."""
    from counterplan.files.atomic import atomic_file, check_target
    from counterplan.files.contents import suffix_of
    from counterplan.io.schema_draft import draft
    from counterplan.io.schema_toml import schema_toml

    if options.output is not None:
        suffix_of(options.output, (".toml",), "schema files")
        check_target(options.output)
        if options.output.exists():
            raise InputError(f"{options.output}: exists already; remove it or choose another name")
    found = draft(options.episodes)
    text = schema_toml(found.schema, found.head, found.comments)
    if options.output is not None:
        with atomic_file(options.output) as file:
            file.write(text.encode())
    if options.as_json:
        print_json(
            {
                "schema": found.schema.as_dict(),
                "comments": found.comments,
                "episodes": found.episodes,
                "rows": found.rows,
            }
        )
    elif options.output is None:
        typer.echo(text, nl=False)
    else:
        roles = found.schema.columns
        note(f"Wrote {options.output}: {len(roles)} columns. Read it and correct the roles.")


def fit_by_schema(options: FitOptions) -> None:
    """Learn the model that the schema asks for."""
    from counterplan.io.schema import read_schema
    from counterplan.io.schema_fit import check_reward
    from counterplan.io.schema_layout import SchemaLayout

    assert options.schema is not None
    schema = read_schema(options.schema)
    try:
        check_reward(SchemaLayout(schema))
    except InputError as problem:
        raise FileError(f"{options.schema}: {problem}") from None
    if schema.is_discrete:
        _fit_discrete(options, schema)
    else:
        _fit_continuous(options, schema)


def _fit_discrete(options: FitOptions, schema: Schema) -> None:
    from counterplan.io.models import save_model
    from counterplan.io.schema_fit import fit_discrete
    from counterplan.io.schema_grid import Grid

    why = f"is for continuous states, but those of {options.schema} are discrete"
    refuse(neural_options(options), why)
    _refuse_labels(options)
    found = fit_discrete(options.episodes, schema, settings_of(options))
    save_model(found.model, options.output)
    # A last row without an action is no pair.
    observed = found.counts.observed[:, : len(Grid(schema.of("action")))]
    summary = {
        "model": str(options.output),
        "table": found.summary,
        "episodes": int(found.counts.starts.sum()),
        "steps": int(found.counts.visits.sum()),
        "states": found.model.n_states,
        "actions": observed.shape[1],
        "pairs": observed.size,
        "observed_pairs": int(observed.sum()),
    }
    tell(options, summary, f"; {found.summary}")


def _fit_continuous(options: FitOptions, schema: Schema) -> None:
    from counterplan.cli.fit_neural import fit_neural
    from counterplan.io.schema_fit import fit_continuous

    why = f"is for discrete states, but those of {options.schema} are continuous"
    refuse(tabular_options(options), why)
    _refuse_labels(options)
    fit_neural(options, lambda settings: fit_continuous(options.episodes, schema, settings))


def _refuse_labels(options: FitOptions) -> None:
    why = f"and --schema exclude each other: write the labels into {options.schema}"
    refuse(label_options(options), why)
