"""`schema`: a first draft of what the columns of a table mean."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from counterplan.cli import support as cli
from counterplan.errors import InputError


@dataclass(frozen=True, kw_only=True)
class SchemaOptions(cli.TableOptions):
    """Options of `counterplan schema`."""

    output: Path | None = cli.output("Schema file to write: .toml.")


@cli.command()
def schema(options: SchemaOptions) -> None:
    """Draft what the columns of a table of episodes mean.

    Looks at the names and values of the columns and writes a schema as TOML, with what was seen of
    each as a comment: read it, correct the roles, and say what is good. Then use it:
    counterplan fit EPISODES --schema schema.toml -o model.safetensors
    """
    from counterplan.core.files import atomic_file, check_target, suffix_of
    from counterplan.tables.draft import draft
    from counterplan.tables.schema import schema_toml

    if options.output is not None:
        suffix_of(options.output, (".toml",), "schema files")
        check_target(options.output)
        if options.output.exists():
            raise InputError(f"{options.output}: exists already; remove it or choose another name")
    found = draft(options.table)
    text = schema_toml(found.schema, found.head, found.comments)
    if options.output is not None:
        with atomic_file(options.output) as file:
            file.write(text.encode())
    if options.as_json:
        counts = {"episodes": found.episodes, "rows": found.rows}
        cli.print_json({"schema": found.schema.as_dict(), "comments": found.comments, **counts})
    elif options.output is None:
        typer.echo(text, nl=False)
    else:
        many = len(found.schema.columns)
        cli.note(f"Wrote {options.output}: {many} columns. Read it and correct the roles.")
