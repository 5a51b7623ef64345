"""`episodes`: clinical events to a table of episodes with its schema."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counterplan.cli import support as cli
from counterplan.errors import InputError


@dataclass(frozen=True, kw_only=True)
class EpisodesOptions(cli.SharedOptions):
    """Options of `counterplan episodes`."""

    events: Path = cli.argument(
        "Folder of MEDS shards (.parquet), or of OMOP tables (visit_occurrence, measurement, "
        "drug_exposure, person, death; .csv or .parquet).",
        "FOLDER",
    )
    config: Path | None = cli.option(
        "Which events are states, actions and outcomes (.toml). Not given: the frequent codes are "
        "listed, to write one from."
    )
    output: Path | None = cli.output(
        "Table to write, .csv or .parquet; its schema is written beside it, with the ending "
        ".schema.toml."
    )


@cli.command()
def episodes(options: EpisodesOptions) -> None:
    """Make a table of episodes from clinical events (MEDS or OMOP).

    Events fall into windows; a state is what was known when its window began, an action what was
    done in it. Then: counterplan fit TABLE --schema TABLE.schema.toml -o model.safetensors
    """
    from counterplan.tables.events import episodes_from_events, frequent_codes

    if options.config is None:
        _list(frequent_codes(options.events), options.as_json)
        return
    if options.output is None:
        raise InputError("--output: say where the table goes, such as -o episodes.parquet")
    from counterplan.core.files import atomic_file, check_target, suffix_of
    from counterplan.tables.schema import schema_toml

    suffix = suffix_of(options.output, (".csv", ".parquet"), "tables of episodes")
    beside = options.output.with_suffix(".schema.toml")
    for path in (options.output, beside):
        check_target(path)
    found = episodes_from_events(options.events, options.config)
    with atomic_file(options.output) as file, atomic_file(beside) as described:
        if suffix == ".csv":
            found.frame.write_csv(file)
        else:
            found.frame.write_parquet(file)
        described.write(schema_toml(found.schema, "", {}).encode())
    counts = {"episodes": found.frame["episode_id"].n_unique(), "rows": found.frame.height}
    if options.as_json:
        files = {"table": str(options.output), "schema": str(beside)}
        cli.print_json({**files, **counts, "notes": found.notes})
        return
    for line in found.notes:
        cli.note(line)
    many = f"{counts['episodes']:,} episodes, {counts['rows']:,} rows"
    cli.note(f"Wrote {options.output} ({many}) and {beside}. Read the schema, then fit a model.")


def _list(codes: Any, as_json: bool) -> None:
    if as_json:
        cli.print_json({"codes": codes.to_dicts()})
        return
    heads = {name: "left" if name in ("code", "unit") else "right" for name in codes.columns}
    rows = [["" if one is None else f"{one:,.4g}" if isinstance(one, float) else f"{one}"
             for one in row] for row in codes.iter_rows()]  # fmt: skip
    cli.print_table("Frequent codes", heads, rows)
    cli.note("Say which are features and actions in a .toml, and give it with --config.")
