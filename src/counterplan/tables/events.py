"""Clinical events to a table of episodes with its schema: MEDS shards, or an extract of OMOP.

`Config` says how; docs/how-to/clinical-events.md has an example, and what each key means.

What a state holds was known when its step began, and an action is what was done until the next one:
of step t, which begins at b_t, a feature is taken from events in (b_{t-1}, b_t] (of the first: in
the window before), an amount from those in [b_t, b_{t+1}). So no effect is taken for a cause. Steps
before the first at which every feature is known are left out, unless a feature says `missing`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from counterplan.core.files import read_toml
from counterplan.core.parquet import open_parquet
from counterplan.errors import FileError, counted
from counterplan.tables.schema import Schema, schema_from_dict

if TYPE_CHECKING:
    import polars as pl

WHAT = "how events become episodes: [episodes], [features.NAME] and [actions.NAME]"
LARGEST_CONFIG = 10_000_000
MICROSECONDS = {"min": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
# After a time of day: Z, UTC, or how far it is ahead of UTC.
ZONE = r"(:\d\d(?:\.\d+)?) ?(?:Z|UTC|([+-]\d\d)(?::?(\d\d))?)$"
DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(min|h|d)\s*")
BIRTH, YEAR = "MEDS_BIRTH", 365.25 * MICROSECONDS["d"]
# What events are made of, whatever they come from.
EVENT = ("subject", "time", "code", "value", "unit", "until")
# Codes that are listed where there is no configuration yet, and units in a message.
MOST_CODES, MOST_UNITS = 40, 4
# What is given for longer has an end that is hardly one.
LONG = 30 * MICROSECONDS["d"]
OMOP_TABLES = ("visit_occurrence", "measurement", "drug_exposure", "person", "death")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _microseconds(text: Any) -> int:
    found = DURATION.fullmatch(text) if isinstance(text, str) else None
    if found is None or not float(found[1]):
        raise ValueError(f'{text!r} is no length of time: write "30min", "4h" or "7d"')
    return round(float(found[1]) * MICROSECONDS[found[2]])


class Episodes(_Strict):
    """Where episodes begin and end, and how long a step is."""

    window: int
    start: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    visit: str | None = None
    max_steps: int = Field(default=1_000, ge=1)
    min_steps: int = Field(default=2, ge=1)

    _read = field_validator("window", mode="before")(_microseconds)


class Taken(_Strict):
    """A column: which events, what is taken of them, and what it means."""

    codes: tuple[str, ...] = Field(min_length=1)
    unit: str = ""
    convert: Mapping[str, float | tuple[float, float]] = {}
    low: float | None = None
    high: float | None = None


class Feature(Taken):
    """A state, or what is fixed."""

    take: Literal["last", "mean", "min", "max", "sum", "count", "years"] = "last"
    carry: int | None = None
    age: bool = False
    missing: Literal["refuse", "mean", "median"] = "refuse"
    better: Literal["lower", "higher"] | None = None
    weight: float = 1.0

    _read = field_validator("carry", mode="before")(_microseconds)


class Amount(Taken):
    """An action: amounts that are summed."""

    bins: int | None = Field(default=None, ge=1, le=20)
    levels: tuple[float, ...] = ()


class Outcome(_Strict):
    """Whether something happened."""

    codes: tuple[str, ...] = Field(min_length=1)
    within: int = 0

    _read = field_validator("within", mode="before")(_microseconds)


class Config(_Strict):
    """How events become episodes."""

    episodes: Episodes
    features: dict[str, Feature] = Field(min_length=1)
    actions: dict[str, Amount] = Field(min_length=1)
    fixed: dict[str, Feature] = {}
    outcomes: dict[str, Outcome] = {}

    @property
    def columns(self) -> dict[str, Any]:
        return {**self.fixed, **self.features, **self.actions, **self.outcomes}


class EventTable(NamedTuple):
    """Episodes as a table with its schema, and what to say about them, a line each."""

    frame: pl.DataFrame
    schema: Schema
    notes: list[str]


def read_config(source: str | Path | Mapping[str, Any]) -> Config:
    """The configuration in a .toml file, or in plain values."""
    name = "config" if isinstance(source, Mapping) else str(source)
    given = source if isinstance(source, Mapping) else read_toml(Path(source), WHAT, LARGEST_CONFIG)
    try:
        found = Config.model_validate(given)
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        raise FileError(f"{name}, {where}: {reason}; expected {WHAT}") from None
    names = [*found.fixed, *found.features, *found.actions, *found.outcomes]
    names += [f"{one}_age" for one, each in found.features.items() if each.age]
    for one in {"episode_id", "t"} & {*names} or {x for x in names if names.count(x) > 1}:
        raise FileError(f"{name}: two columns are called {one!r}; choose another name")
    for one, column in {**found.fixed, **found.features, **found.actions}.items():
        if column.convert and not column.unit:
            raise FileError(f"{name}, {one}: convert says what other units are: give `unit`, too")
    for one, column in found.fixed.items():
        if column.take not in ("last", "years"):
            raise FileError(
                f"{name}, fixed.{one}.take: {column.take!r} is of a window, and this is the last "
                'that was known at the start; leave it out, or write take = "years"'
            )
    for one, each in found.actions.items():
        if (each.bins is None) == (not each.levels):
            raise FileError(f"{name}, actions.{one}: give either bins = 4 or levels = [0, 5, 10]")
    return found


def episodes_from_events(
    folder: str | Path, config: str | Path | Config | Mapping[str, Any]
) -> EventTable:
    """Episodes of the events in a folder: MEDS shards (.parquet, in folders at will), or tables of
    OMOP (visit_occurrence, measurement, drug_exposure, and where given person, death), .csv or
    .parquet."""
    found = config if isinstance(config, Config) else read_config(config)
    return _Build(open_events(folder, found.episodes.visit), found).table()


# --- Events, whatever they come from ----------------------------------------------------------


class Events(NamedTuple):
    """A row for each event (EVENT, and `visit` where it was asked for), and the visits if known:
    subject, start, end, name."""

    rows: pl.LazyFrame
    visits: pl.DataFrame | None
    has_units: bool
    name: str


def open_events(folder: str | Path, visit: str | None = None) -> Events:
    """The events of a folder."""
    root = Path(folder)
    if not root.is_dir():
        raise FileError(f"{folder}: no such folder; give one with MEDS shards or OMOP tables")
    tables = {
        one.stem.lower(): one
        for one in sorted(root.iterdir())
        if one.suffix in (".csv", ".parquet") and one.stem.lower() in OMOP_TABLES
    }
    if "visit_occurrence" in tables and visit is None:
        return _omop(root, tables)
    return _meds(root, visit)


def _meds(root: Path, visit: str | None) -> Events:
    import polars as pl

    files = [one for one in sorted(root.rglob("*.parquet")) if "metadata" not in one.parts]
    if not files:
        raise FileError(
            f"{root}: has neither MEDS shards (.parquet) nor OMOP tables (visit_occurrence.csv, "
            "measurement.csv, ...); give the folder that holds them"
        )
    parts, units, zones = [], False, set[Any]()
    for path in files:
        kinds = open_parquet(path).kinds
        for name in ("subject_id", "time", "code", "numeric_value", *([visit] if visit else ())):
            if name not in kinds:
                raise FileError(f"{path}: has no column {name!r}, so it is no MEDS table of events")
        kind, value = kinds["time"], kinds["numeric_value"]
        if not isinstance(kind, pl.Datetime | pl.Date) or not (
            value.is_numeric() or value == pl.Null
        ):
            raise FileError(
                f"{path}: time is {kind} and numeric_value {value}: MEDS has date-times and numbers"
            )
        zones.add(getattr(kind, "time_zone", None))
        unit = pl.col("unit").cast(pl.String) if "unit" in kinds else pl.lit(None, pl.String)
        units |= "unit" in kinds
        more = [_name(visit).alias("visit")] if visit else []
        parts.append(
            pl.scan_parquet(path, glob=False, hive_partitioning=False).select(
                _name("subject_id").alias("subject"),
                pl.col("time").cast(pl.Datetime("us")),
                pl.col("code").cast(pl.String),
                pl.col("numeric_value").cast(pl.Float64).fill_nan(None).alias("value"),
                unit.alias("unit"),
                pl.lit(None, pl.Datetime("us")).alias("until"),
                *more,
            )
        )
    if len(zones) > 1:
        told = " and ".join(sorted(str(one or "none") for one in zones))
        raise FileError(f"{root}: times of shards have different time zones, {told}: give one")
    return Events(pl.concat(parts), None, units, str(root))


def _name(column: str) -> pl.Expr:
    """An id as text: 7, "7" and 7.0 are the same one."""
    import polars as pl

    return pl.col(column).cast(pl.String).str.replace(r"\.0$", "")


def _omop_table(
    tables: Mapping[str, Path], zones: set[str], name: str, columns: Mapping[str, tuple[str, ...]]
) -> pl.LazyFrame | None:
    """Columns by the first of their names that is there; None of a table that is not. Whether times
    have a time zone is the same in all tables: `zones` holds what was seen so far."""
    import polars as pl

    if name not in tables:
        return None
    path = tables[name]
    if path.suffix == ".parquet":
        open_parquet(path)
        scan = pl.scan_parquet(path, glob=False, hive_partitioning=False)
    else:
        scan = pl.scan_csv(path, glob=False, infer_schema=False)
    known = {one.lower(): one for one in scan.collect_schema().names()}
    chosen = []
    for wanted, names in columns.items():
        there = [known[one] for one in names if one in known]
        if not there and wanted in ("subject", "time", "code", "start", "end", "name"):
            raise FileError(f"{path}: has no column {names[0]!r}; give OMOP's table {name}")
        # The first that says something, row by row: where there is no date-time there is a date.
        told = [pl.col(one).cast(pl.String).str.strip_chars().replace("", None) for one in there]
        text = pl.coalesce(told) if told else pl.lit(None, pl.String)
        is_id = wanted in ("subject", "code", "name")
        chosen.append((text.str.replace(r"\.0$", "") if is_id else text).alias(wanted))
    found = scan.select(chosen)
    for one in {"time", "until", "start", "end"} & columns.keys() if name != "person" else ():
        given = pl.col(one)
        has_zone, has_clock = given.str.contains(ZONE), given.str.contains(":")
        bad, zoned, plain = found.select(
            given.filter(_moment(one).is_null()).drop_nulls().first(),
            has_zone.any().alias("zoned"), (has_clock & ~has_zone).any().alias("plain"),
        ).collect().row(0)  # fmt: skip
        if bad is not None:
            raise FileError(
                f"{path}, {columns[one][0]}: {bad!r} is no time such as 2130-01-31 08:00:00, or "
                "2130-01-31 08:00:00+01:00"
            )
        zones |= {*(["a time zone"] if zoned else []), *(["none"] if plain else [])}
        if len(zones) > 1:
            raise FileError(
                f"{path}, {columns[one][0]}: some times have a time zone, and others, here or in a "
                "table before, have none: give all of them one"
            )
    return found


def _moment(name: str) -> pl.Expr:
    """Date-times and dates, as CSV or Parquet has them; those with a time zone in UTC."""
    import polars as pl

    given = pl.col(name)
    hours, minutes = (given.str.extract(ZONE, i).cast(pl.Int64).fill_null(0) for i in (2, 3))
    ahead = 60 * hours + pl.when(given.str.contains(r"-\d\d:?\d\d$")).then(-minutes).otherwise(
        minutes
    )
    text = given.str.replace(ZONE, "${1}").str.replace("T", " ").str.replace(r"\.\d+$", "")
    size = text.str.len_chars()
    minutes = pl.when(size == 16).then(text + ":00").otherwise(text)
    padded = pl.when(size == 10).then(text + " 00:00:00").otherwise(minutes)
    local = padded.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False, exact=True, time_unit="us")
    return (local - pl.duration(minutes=ahead)).alias(name)


def _omop(root: Path, tables: Mapping[str, Path]) -> Events:
    import polars as pl

    read, person = partial(_omop_table, tables, set[str]()), ("person_id",)
    visits = read("visit_occurrence", {
        "subject": person, "name": ("visit_occurrence_id",),
        "start": ("visit_start_datetime", "visit_start_date"),
        "end": ("visit_end_datetime", "visit_end_date"),
    })  # fmt: skip
    assert visits is not None
    measured = read("measurement", {
        "subject": person, "code": ("measurement_concept_id",),
        "time": ("measurement_datetime", "measurement_date"), "value": ("value_as_number",),
        "unit": ("unit_source_value", "unit_concept_id"),
    })  # fmt: skip
    given = read("drug_exposure", {
        "subject": person, "code": ("drug_concept_id",),
        "time": ("drug_exposure_start_datetime", "drug_exposure_start_date"),
        "until": ("drug_exposure_end_datetime",), "value": ("quantity",),
        "unit": ("dose_unit_source_value",),
    })  # fmt: skip
    died = read("death", {"subject": person, "time": ("death_datetime", "death_date")})
    people = read("person", {
        "subject": person, "time": ("birth_datetime", "year_of_birth"),
        "code": ("gender_concept_id",),
    })  # fmt: skip
    parts: list[pl.LazyFrame] = [one for one in (measured, given) if one is not None]
    if died is not None:
        parts.append(died.with_columns(pl.lit("MEDS_DEATH").alias("code")))
    if people is not None:
        year = pl.col("time").str.len_chars() == 4
        born = pl.when(year).then(pl.col("time") + "-07-01").otherwise(pl.col("time"))
        parts.append(people.with_columns(born.alias("time"), pl.lit(BIRTH).alias("code")))
        parts.append(people.select(
            "subject", (pl.lit("gender//") + pl.col("code")).alias("code"),
            pl.lit(None, pl.String).alias("time"),
        ))  # fmt: skip
    rows = pl.concat(parts, how="diagonal")
    known = rows.collect_schema().names()
    lacking = [pl.lit(None, pl.String).alias(one) for one in EVENT if one not in known]
    rows = rows.with_columns(lacking).with_columns(
        _moment("time"), _moment("until"),
        pl.col("value").cast(pl.Float64, strict=False).fill_nan(None),
        pl.col("value").alias("said"),
    )  # fmt: skip
    stays = visits.with_columns(_moment("start"), _moment("end")).unique().collect()
    return Events(rows.select(*EVENT, "said"), stays, True, str(root))


def frequent_codes(folder: str | Path) -> pl.DataFrame:
    """The codes of a folder, the most frequent first, with units and what their values are like:
    what a configuration is written from."""
    import polars as pl

    rows = open_events(folder).rows
    value = pl.col("value")
    found = rows.group_by("code", "unit").agg(
        pl.len().alias("events"), pl.col("subject").n_unique().alias("subjects"),
        value.quantile(0.05).alias("5 %"), value.median().alias("median"),
        value.quantile(0.95).alias("95 %"),
    )  # fmt: skip
    return found.sort("events", "code", descending=[True, False]).head(MOST_CODES).collect()


# --- Episodes ---------------------------------------------------------------------------------


@dataclass
class _Build:
    """One table in the making."""

    events: Events
    config: Config

    def __post_init__(self) -> None:
        self.notes: list[str] = []
        self.window = self.config.episodes.window

    def table(self) -> EventTable:
        import polars as pl

        codes = self._codes()
        stays = self._stays(codes)
        taken = self._taken(codes, stays)
        spine = stays.select("episode_id", pl.int_ranges("steps").alias("t")).explode("t")
        frame = spine.sort("episode_id", "t")
        for name, feature in {**self.config.fixed, **self.config.features}.items():
            frame = self._with_feature(frame, name, feature, taken, stays)
        for name in self.config.actions:
            frame = self._with_amount(frame, name, taken)
        frame = self._complete(frame)
        for name, outcome in self.config.outcomes.items():
            frame = self._with_outcome(frame, name, outcome, taken, stays)
        levels = {}
        for name, amount in self.config.actions.items():
            frame, levels[name] = self._in_levels(frame, name, amount)
        return EventTable(frame, self._schema(frame, levels), self.notes)

    def _codes(self) -> pl.DataFrame:
        """(code, column): which events belong to which columns; refuses codes that match none."""
        import polars as pl

        known = self.events.rows.select("code").unique().drop_nulls().collect()["code"].to_list()
        ends = {"(start)": self.config.episodes.start, "(end)": self.config.episodes.end}
        wanted = {name: one.codes for name, one in self.config.columns.items()} | ends
        found: list[tuple[str, str]] = []
        for name, patterns in wanted.items():
            for pattern in patterns:
                prefix = pattern.removesuffix("*")
                whole = prefix == pattern
                matched = [c for c in known if (c == pattern if whole else c.startswith(prefix))]
                found += [(code, name) for code in matched]
                if not matched:
                    near = get_close_matches(prefix, known, 3, 0.5)
                    hint = f": did you mean {', '.join(map(repr, near))}?" if near else ""
                    raise FileError(
                        f"{self.events.name}: no event has the code {pattern!r} of {name}{hint}; "
                        "`counterplan episodes FOLDER` lists the frequent ones"
                    )
        return pl.DataFrame(found, schema=["code", "column"], orient="row").unique()

    def _stays(self, codes: pl.DataFrame) -> pl.DataFrame:
        """(episode_id, subject, start, end, steps)"""
        import polars as pl

        every = self._known_stays(codes)
        stays = every.drop_nulls()
        if lacks := every.height - stays.height:
            self.notes.append(f"{counted(lacks, 'episode')} without a start or an end: left out")
        length = (pl.col("end") - pl.col("start")).dt.total_microseconds()
        whole, most = (length + self.window - 1) // self.window, self.config.episodes.max_steps
        steps = whole.clip(0, most).cast(pl.Int64).alias("steps")
        if cut := stays.filter(whole > most).height:
            self.notes.append(f"{counted(cut, 'episode')} longer than {most} steps: cut there")
        stays = stays.with_columns(steps)
        long = stays.filter(pl.col("steps") >= self.config.episodes.min_steps)
        least = counted(self.config.episodes.min_steps, "step")
        if short := stays.height - long.height:
            self.notes.append(f"{counted(short, 'episode')} shorter than {least}: left out")
        if long.is_empty():
            raise FileError(
                f"{self.events.name}: no episode has {least}; see `start`, `end` and `window`"
            )
        if "name" in long.columns:
            alone, name = pl.len().over("name") == 1, pl.col("name")
            ids = pl.when(alone).then(name).otherwise(pl.format("{}-{}", "subject", name))
        else:
            number = pl.int_range(pl.len()).over("subject") + 1
            alone = pl.len().over("subject") == 1
            ids = pl.when(alone).then("subject").otherwise(pl.format("{}-{}", "subject", number))
        found = long.sort("subject", "start").with_columns(ids.alias("episode_id"))
        for same in found.filter(pl.col("episode_id").is_duplicated())["episode_id"].head(1):
            raise FileError(
                f"{self.events.name}: two episodes are called {same!r}; name them apart"
            )
        later = pl.col("start").shift(-1).over("subject")
        if many := found.filter(later < pl.col("end")).height:
            told = "with the next of the same subject: events of both are counted twice"
            verb = "overlaps" if many == 1 else "overlap"
            self.notes.append(f"{counted(many, 'episode')} {verb} {told}")
        return found

    def _known_stays(self, codes: pl.DataFrame) -> pl.DataFrame:
        """(subject, start, end, and its name where it has one)"""
        import polars as pl

        if self.events.visits is not None:
            return self.events.visits
        timed = self.events.rows.filter(pl.col("time").is_not_null())
        relevant = timed.filter(pl.col("code").is_in(codes["code"].unique().to_list()))
        ends = [pl.col("time").min().alias("start"), pl.col("time").max().alias("end")]
        if self.config.episodes.visit is not None:
            within = relevant.filter(pl.col("visit").is_not_null())
            return within.group_by("subject", pl.col("visit").alias("name")).agg(ends).collect()
        if not self.config.episodes.start:
            alive = relevant.filter(pl.col("code") != BIRTH)
            return alive.group_by("subject").agg(ends).collect()
        marks = {
            kind: relevant.filter(
                pl.col("code").is_in(codes.filter(column=kind)["code"].to_list())
            ).select("subject", "time").unique().sort("time").collect()
            for kind in ("(start)", "(end)")
        }  # fmt: skip
        last = relevant.group_by("subject").agg(pl.col("time").max().alias("last")).collect()
        begun = marks["(start)"].sort("subject", "time").rename({"time": "start"})
        following = pl.col("start").shift(-1).over("subject").alias("next")
        begun = begun.with_columns(following).sort("start")
        ended = marks["(end)"].with_columns(pl.col("time").alias("over"))
        joined = begun.join_asof(
            ended, left_on="start", right_on="time", by="subject", strategy="forward",
            allow_exact_matches=False, check_sortedness=False,
        ).join(last, on="subject")  # fmt: skip
        end = pl.min_horizontal(pl.coalesce("over", "last"), "next")
        return joined.select("subject", "start", end.alias("end"))

    def _taken(self, codes: pl.DataFrame, stays: pl.DataFrame) -> pl.DataFrame:
        """The events of columns within reach of their episodes, with offsets from the start."""
        import polars as pl

        wanted = codes.filter(~pl.col("column").is_in(["(start)", "(end)"]))
        some = self.events.rows.join(wanted.lazy(), on="code").filter(
            pl.col("subject").is_in(stays["subject"].unique().to_list())
        )
        joined = some.join(stays.lazy(), on="subject").with_columns(
            (pl.col("time") - pl.col("start")).dt.total_microseconds().alias("offset")
        )
        after = max((one.within for one in self.config.outcomes.values()), default=0)
        length = (pl.col("end") - pl.col("start")).dt.total_microseconds()
        near = pl.col("offset").is_null() | (pl.col("offset") <= length + after)
        names = ("episode_id", "column", "code", "offset", "value", "unit", "until", "time")
        said = ("said",) if "said" in joined.collect_schema() else ()
        found = joined.filter(near).select(*names, *said).collect()
        self._remark(found)
        return self._plausible(self._in_units(found))

    def _remark(self, found: pl.DataFrame) -> None:
        """What is odd about the events, and changes nothing."""
        import polars as pl

        if "said" in found.columns:
            words = found.filter(pl.col("value").is_null() & pl.col("said").is_not_null())
            if words.height:
                told = f"{counted(words.height, 'value')} that are no numbers, such as"
                self.notes.append(f"{told} {words['said'][0]!r}: left out")
        for name in self.config.actions:
            if many := found.filter(pl.col("value").is_null(), column=name).height:
                told = f"{name}: {counted(many, 'event')} without an amount"
                self.notes.append(f"{told}: counted as nothing given")
        timed = found.drop_nulls("time")
        if twice := timed.height - timed.unique().height:
            verb = "is" if twice == 1 else "are"
            self.notes.append(f"{counted(twice, 'event')} {verb} there twice, and counted twice")
        times = timed.filter(~pl.col("column").is_in([*self.config.fixed]))["time"]
        if len(times) and (times == times.dt.truncate("1d")).all():
            self.notes.append(
                "all times are dates: what was measured on a day counts as known before what was "
                "done on it; make sure that it was"
            )

    def _in_units(self, taken: pl.DataFrame) -> pl.DataFrame:
        """Values in the units that columns say; refuses what is in others."""
        import polars as pl

        stated = {n: c for n, c in self.config.columns.items() if getattr(c, "unit", "")}
        if not self.events.has_units:
            taken = self._with_units_of_codes(taken, stated)
        value = pl.col("value")
        for name, column in self.config.columns.items():
            given = taken.filter(column=name)["unit"].drop_nulls().unique().sort().to_list()
            if name not in stated and hasattr(column, "unit") and len({*given} - {""}) > 1:
                some = ", ".join(map(repr, given[:MOST_UNITS]))
                told = f"{name} has events in {some}: say what is meant with unit and convert"
                raise FileError(f"{self.events.name}: {told}")
        for name, column in stated.items():
            if not self.events.has_units and not taken.filter(column=name)["unit"].count():
                continue
            here = (pl.col("column") == name) & (pl.col("unit").fill_null("") != "")
            known = {column.unit, *column.convert}
            other = taken.filter(here & ~pl.col("unit").is_in([*known]))
            if other.height:
                units = other["unit"].value_counts(sort=True).head(MOST_UNITS)
                told = ", ".join(f"{count:,} in {unit!r}" for unit, count in units.iter_rows())
                raise FileError(
                    f"{self.events.name}: {name} is in {column.unit!r}, but of its events {told}: "
                    f'say what they are, convert = {{"{units["unit"][0]}" = FACTOR}}'
                )
            unknown = taken.filter((pl.col("column") == name) & ~here & value.is_not_null()).height
            if unknown:
                told = f"{name}: {counted(unknown, 'event')} without a unit"
                self.notes.append(f"{told}: taken to be in {column.unit}")
            for unit, given in column.convert.items():
                factor, offset = given if isinstance(given, tuple) else (given, 0.0)
                value = (
                    pl.when(here & (pl.col("unit") == unit)).then(value * factor + offset)
                    .otherwise(value)
                )  # fmt: skip
        return taken.with_columns(value.alias("value"))

    def _with_units_of_codes(
        self, taken: pl.DataFrame, stated: Mapping[str, Taken]
    ) -> pl.DataFrame:
        """Where no column has units, codes may end with them: LAB//50931//mg/dL. They are read as
        such of columns one of whose codes ends with a unit that the configuration names."""
        import polars as pl

        said = pl.col("code").str.split("//").list.last()
        read = [
            name for name, one in stated.items()
            if taken.filter(said.is_in([one.unit, *one.convert]), column=name).height
        ]  # fmt: skip
        if left := [
            name for name, one in stated.items()
            if name not in read and getattr(one, "take", "") != "years"
        ]:  # fmt: skip
            why = "the events have no column 'unit', nor do codes end with it"
            self.notes.append(f"units of {', '.join(left)} were not checked: {why}")
        return taken.with_columns(pl.when(pl.col("column").is_in(read)).then(said).alias("unit"))

    def _plausible(self, taken: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        for name, column in self.config.columns.items():
            low, high = (getattr(column, side, None) for side in ("low", "high"))
            if low is None and high is None:
                continue
            value = pl.col("value")
            outside = pl.lit(False)
            outside = outside | (value < low) if low is not None else outside
            outside = outside | (value > high) if high is not None else outside
            bad = (pl.col("column") == name) & outside.fill_null(False)
            if many := taken.filter(bad).height:
                told = f"{name}: {counted(many, 'value')} outside of its range: left out"
                self.notes.append(told)
                taken = taken.filter(~bad)
        return taken

    def _with_feature(
        self, frame: pl.DataFrame, name: str, feature: Feature, taken: pl.DataFrame,
        stays: pl.DataFrame,
    ) -> pl.DataFrame:  # fmt: skip
        """What was known of it when each step began."""
        import polars as pl

        rows = taken.filter(column=name)
        fixed = name in self.config.fixed
        value = pl.col("value")
        if feature.take == "years":
            years = (
                stays.select("episode_id", "start")
                .join(rows, on="episode_id")
                .group_by("episode_id")
                .agg(((pl.col("start") - pl.col("time")).dt.total_microseconds() / YEAR).min())
            )
            before = pl.col("start") >= 0.0
            if many := years.filter(~before).height:
                told = f"{name}: {counted(many, 'episode')} that began before it: left unknown"
                self.notes.append(told)
            years = years.filter(before)
            return frame.join(years.rename({"start": name}), on="episode_id", how="left")
        if rows["value"].null_count() == rows.height:  # what the codes themselves say
            prefixes = "|".join(re.escape(one.removesuffix("*")) for one in feature.codes)
            value = pl.col("code").str.replace(f"^(?:{prefixes})", "").alias("value")
            rows = rows.with_columns(value)
        if fixed:
            return frame.join(self._fixed(rows, name), on="episode_id", how="left")
        # In (b_{t-1}, b_t]; everything of the window before the start counts for the first step.
        step = ((pl.col("offset") + self.window - 1) // self.window).alias("t")
        rows = rows.filter(pl.col("offset") > -self.window).with_columns(step)
        kept = rows.drop_nulls("value") if feature.take != "count" else rows
        taken_of = getattr(pl.col("value"), "len" if feature.take == "count" else feature.take)
        aggregated = (
            kept.sort("offset", maintain_order=True)
            .group_by("episode_id", "t")
            .agg(taken_of().alias(name), pl.col("offset").last().alias("(at)"))
        )
        frame = frame.join(aggregated, on=["episode_id", "t"], how="left")
        if feature.take in ("sum", "count"):  # of a window: where there was nothing it is 0
            return frame.with_columns(pl.col(name).fill_null(0)).drop("(at)")
        frame = frame.with_columns(
            pl.col(name, "(at)").forward_fill().over("episode_id", order_by="t")
        )
        old = pl.col("t") * self.window - pl.col("(at)")
        if feature.carry is not None:
            frame = frame.with_columns(pl.when(old <= feature.carry).then(pl.col(name)).alias(name))
        if feature.age:
            known = pl.when(pl.col(name).is_not_null()).then(old / MICROSECONDS["h"])
            frame = frame.with_columns(known.alias(f"{name}_age"))
        return frame.drop("(at)")

    def _fixed(self, rows: pl.DataFrame, name: str) -> pl.DataFrame:
        """The last that was known at the start; where nothing was, the first of the stay."""
        import polars as pl

        rows = rows.drop_nulls("value").sort("offset", nulls_last=False, maintain_order=True)
        known = pl.col("offset").fill_null(0) <= 0
        before = pl.col("value").filter(known).last()
        found = rows.group_by("episode_id").agg(
            pl.coalesce(before, pl.col("value").first()).alias(name), known.any().alias("(known)")
        )
        if many := found.filter(~pl.col("(known)")).height:
            told = f"{name}: {counted(many, 'episode')} in which it was known only after the start"
            self.notes.append(f"{told}: its first value is taken for the whole of it")
        return found.drop("(known)")

    def _with_amount(self, frame: pl.DataFrame, name: str, taken: pl.DataFrame) -> pl.DataFrame:
        """What was given in [b_t, b_{t+1}); what has an end is spread evenly until then."""
        import polars as pl

        rows = taken.filter(column=name).drop_nulls(["value", "offset"])
        lasts = (pl.col("until") - pl.col("time")).dt.total_microseconds().fill_null(0).clip(0)
        rows = rows.with_columns(lasts.alias("(lasts)"))
        long = rows.filter(pl.col("(lasts)") > LONG)
        if long.height:
            told = f"{name}: {counted(long.height, 'amount')} given over more than 30 days"
            until = long.select(pl.col("until").max().dt.to_string("%Y-%m-%d")).item()
            some = f"such as until {until}: spread evenly over that time"
            self.notes.append(f"{told}, {some}; leave an end empty that is not known")
        rows = rows.join(frame.group_by("episode_id").agg(last=pl.col("t").max()), on="episode_id")
        begins = pl.col("offset").floordiv(self.window)
        ends = (pl.col("offset") + pl.col("(lasts)") - 1).floordiv(self.window)
        first = begins.clip(0)
        final = pl.min_horizontal(pl.max_horizontal(begins, ends), "last")
        steps = pl.int_ranges(first, final + 1).alias("t")
        spread = rows.filter(first <= final).with_columns(steps).explode("t")
        begin = pl.max_horizontal("offset", pl.col("t") * self.window)
        over = pl.min_horizontal(
            pl.col("offset") + pl.col("(lasts)"), (pl.col("t") + 1) * self.window
        )
        share = pl.when(pl.col("(lasts)") > 0).then((over - begin) / pl.col("(lasts)")).otherwise(1)
        summed = spread.group_by("episode_id", "t").agg((pl.col("value") * share).sum().alias(name))
        found = frame.join(summed, on=["episode_id", "t"], how="left")
        return found.with_columns(pl.col(name).fill_null(0.0))

    def _complete(self, frame: pl.DataFrame) -> pl.DataFrame:
        """From the first step on at which everything is known; the rest is told of."""
        import polars as pl

        needed = [
            name for name, one in {**self.config.fixed, **self.config.features}.items()
            if one.missing == "refuse"
        ]  # fmt: skip
        if not needed:
            return frame
        lacks = frame.group_by("episode_id").agg(pl.col(needed).is_null().all())
        never = {name: int(lacks[name].sum()) for name in needed}
        whole = pl.all_horizontal(pl.col(needed).is_not_null())
        # A later gap, of a value that is too old, ends an episode: nothing can be said beyond it.
        began = whole.cum_sum().over("episode_id") > 0
        kept = frame.filter(began)
        broken = (~whole).cum_sum().over("episode_id") == 0
        kept = kept.filter(broken)
        least = self.config.episodes.min_steps
        kept = kept.filter(pl.len().over("episode_id") >= least)
        lost = frame["episode_id"].n_unique() - kept["episode_id"].n_unique()
        if lost:
            worst = sorted(never, key=lambda one: -never[one])[:MOST_UNITS]
            told = ", ".join(f"{name} never known in {never[name]:,}" for name in worst)
            self.notes.append(
                f"{counted(lost, 'episode')} left out, without {counted(least, 'step')} with "
                f'everything known ({told}): say missing = "median", or leave a feature out'
            )
        if kept.is_empty():
            raise FileError(f"{self.events.name}: no episode is left: {self.notes[-1]}")
        if less := frame.height - kept.height:
            self.notes.append(f"{counted(less, 'step')} left out at which not everything was known")
        step = pl.col("t") - pl.col("t").min().over("episode_id")
        return kept.with_columns(step)

    def _with_outcome(
        self, frame: pl.DataFrame, name: str, outcome: Outcome, taken: pl.DataFrame,
        stays: pl.DataFrame,
    ) -> pl.DataFrame:  # fmt: skip
        import polars as pl

        length = (pl.col("end") - pl.col("start")).dt.total_microseconds()
        # A date without a time is the start of its day.
        begins = (pl.col("start").dt.truncate("1d") - pl.col("start")).dt.total_microseconds()
        near = pl.col("offset").is_between(begins, length + outcome.within)
        rows = taken.filter(column=name).join(stays, on="episode_id").filter(near)
        happened = pl.col("episode_id").is_in(rows["episode_id"].unique().to_list())
        return frame.with_columns(happened.cast(pl.Int8).alias(name))

    def _in_levels(
        self, frame: pl.DataFrame, name: str, amount: Amount
    ) -> tuple[pl.DataFrame, list[float]]:
        """Amounts as the nearest of few levels: those given, or none and medians of bins."""
        import polars as pl

        amounts = frame[name].to_numpy()
        levels = np.unique(amount.levels)
        edges = (levels[1:] + levels[:-1]) / 2
        if amount.bins is not None:
            given = amounts[amounts > 0.0]
            inner = np.arange(1, amount.bins) / amount.bins
            cuts = np.unique(np.quantile(given, inner)) if given.size else np.zeros(0)
            bins = np.searchsorted(cuts, given, side="left")
            middles = [float(f"{np.median(given[bins == i]):.6g}") for i in np.unique(bins)]
            # Bins that hold nothing, between equal amounts, have no level.
            levels = np.array([0.0, *middles])
            edges = np.array([0.0, *cuts[np.unique(bins)[:-1]]])[: len(middles)]
        if len(levels) < 2:
            told = f"{name} has no amount above 0, so nothing was decided; see its codes"
            raise FileError(f"{self.events.name}: {told}")
        if levels[0] > 0.0 and (many := int((amounts == 0.0).sum())):
            verb = "counts" if many == 1 else "count"
            told = f"{name}: {counted(many, 'step')} without any {verb} as {levels[0]:g}"
            self.notes.append(f"{told}: list 0 among the levels, if that is not meant")
        beyond = amounts > levels[-1] + (levels[-1] - levels[-2]) / 2
        if amount.bins is None and (many := int(beyond.sum())):
            verb = "counts" if many == 1 else "count"
            told = f"{name}: {counted(many, 'step')} with up to {amounts.max():.6g} {verb} as the"
            self.notes.append(f"{told} highest level, {levels[-1]:g}")
        chosen = levels[np.searchsorted(edges, amounts, side="left")]
        return frame.with_columns(pl.Series(name, chosen)), levels.tolist()

    def _schema(self, frame: pl.DataFrame, levels: Mapping[str, list[float]]) -> Schema:
        hours = self.window / MICROSECONDS["h"]
        columns: dict[str, Any] = {}
        for name, one in {**self.config.fixed, **self.config.features}.items():
            # An age at the start is the same all along.
            role = "fixed" if name in self.config.fixed or one.take == "years" else "state"
            columns[name] = {"role": role, "unit": one.unit, "missing": one.missing}
            if frame[name].dtype == frame["episode_id"].dtype:  # words
                words = sorted(frame[name].drop_nulls().unique().to_list())
                columns[name]["labels"] = words
                if len(words) < 2:
                    columns[name] = {"role": "ignore"}
                    self.notes.append(f"{name}: is {words} everywhere, so no model is told of it")
                    continue
            else:
                ends = {"low": one.low, "high": one.high}
                columns[name] |= {key: value for key, value in ends.items() if value is not None}
            if one.better is not None:
                columns[name] |= {"better": one.better, "weight": one.weight}
            if one.age and f"{name}_age" in frame.columns:
                columns[f"{name}_age"] = {"role": "contextual", "unit": "h", "missing": "mean"}
        for name, action in self.config.actions.items():
            columns[name] = {"role": "action", "unit": action.unit, "levels": levels[name]}
        columns |= {name: {"role": "outcome"} for name in self.config.outcomes}
        table = {"episode": "episode_id", "time": "t", "step": hours, "unit": "h"}
        return schema_from_dict({"table": table, "columns": columns})
