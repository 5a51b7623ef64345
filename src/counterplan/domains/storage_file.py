"""A problem stated in a TOML file: data, never code.

    title = "A battery on the day-ahead market"
    horizon = 24
    sense = "max"                   # what is earned; "min": what is paid
    step = "hour"
    unit = "EUR"                    # of what is earned; or as in "price (EUR/MWh)"

    [process]                       # what no action touches; or --prices TABLE
    kind = "gbm"                    # initial, drift, volatility, dt, independent
    initial = 45.0                  # "lattice": initial, rate, volatility, dt
    volatility = 0.8                # "mean-reversion": initial, mean, keep, deviation, logs
    dt = 0.0417                     # "markov": matrix, initial, values = {price = [20, 45, 90]}
    names = ["price (EUR/MWh)"]     # "fitted": columns of the table that --prices names

    [storages.battery]              # as `Store`: capacity, start, keep, inflow, least, end_least,
    capacity = 10                   # end_value, spill, unit
    start = 5

    [flows.charge]                  # as `Flow`: out_of, into, most, least, efficiency, pays, earns,
    into = "battery"                # segments, ramp, before, unit
    most = 2.5
    pays = "price"

    [demands.town]                  # as `Demand`: amount, lost_at, unit
    amount = [1, 2, 1]

    [limits.inverter]               # as `Limit`: most, and flows, a list or {NAME = WEIGHT}
    flows = ["charge", "discharge"]
    most = 3

With `domain = "bunkering"` (or another shipped problem) the file's other entries are its options.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeAlias

from counterplan.core.files import read_toml
from counterplan.domains.storage import PARTS, Demand, Limit, Storage, Store, closest
from counterplan.errors import CounterplanError, FileError, InputError
from counterplan.planning.processes.base import Process, number

WHAT = "a problem of storages (TOML)"
LARGEST = 10_000_000
TOP = ("domain", "title", "horizon", "sense", "step", "unit", "process", *PARTS)
# Texts, numbers, and lists of them: what an entry may be, by its name.
TEXTS = ("out_of", "into", "unit")
NEEDED = {Store: ("capacity",), Demand: ("amount",), Limit: ("flows", "most")}
BY_STEP = ("least", "efficiency")
NUMBERS = ("capacity", "start", "keep", "least", "end_least", "end_value", "efficiency", "before")


class StatedStorage(Storage):
    """Storages as a file states them, for the command line and runs."""

    @classmethod
    def configured(
        cls,
        file: Path | None = None,
        prices: Path | None = None,
        horizon: int | None = None,
        change: str | None = None,
    ) -> Storage:
        """The problem that a file states.

        file     a .toml that states storages, flows and demands
        prices   a table of series (.csv, .parquet), or a fitted process (.safetensors), that x
                 follows instead of the file's own process
        horizon  how many steps instead of the file's
        change   entries that replace the file's: battery.capacity=12, charge.most=3
        """
        if file is None:
            raise InputError(
                "storage needs a file that states the problem: counterplan plan X.toml"
            )
        return read_storage(file, prices, horizon, change)


def read_storage(
    path: Path,
    prices: Path | None = None,
    horizon: int | None = None,
    change: str | None = None,
) -> Storage:
    """The problem that a file states, with what is said beside it."""
    document = read_toml(path, WHAT, LARGEST)
    if change is not None:
        _replace(document, change)
    try:
        return _stated(document, prices, horizon)
    except FileError:
        raise
    except CounterplanError as problem:
        raise type(problem)(f"{path}: {problem}") from None


def _stated(document: dict[str, Any], prices: Path | None, horizon: int | None) -> Storage:
    _check_keys(document, TOP, "the file")
    for name in ("storages", "flows"):
        if not document.get(name):
            one = name.removesuffix("s")
            raise InputError(f"there is no {one}: state one as [{name}.NAME]")
    parts: dict[str, Any] = {}
    for name, kind in PARTS.items():
        parts[name] = [
            _part(kind, f"{name}.{one}", one, entries)
            for one, entries in _table(document.get(name, {}), name).items()
        ]
    given = document.get("horizon") if horizon is None else horizon
    if given is None:
        raise InputError("say how many steps there are: horizon = 24")
    texts = {"title": "title", "sense": "sense", "step": "step_name", "unit": "unit"}
    for name in texts:
        if name in document:
            parts[texts[name]] = _text(document[name], name)
    process, about = _process(document, prices, given)
    return Storage(process, given, **parts, **about)


def _table(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        header = f"{name}.NAME" if name in PARTS else name
        said = "a list" if isinstance(value, list) else repr(value)
        raise InputError(f"{name} is {said}: write a table in single brackets, [{header}]")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name} is {value!r}: give a text in quotes")
    return value


def _check_keys(entries: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for one in entries:
        if one not in known:
            raise InputError(f"{where} has an unknown entry {one!r}: {closest(one, known)}")


def _part(kind: type, where: str, name: str, entries: Any) -> Any:
    """A storage, flow or demand from the entries of its table."""
    known = tuple(one.name for one in fields(kind) if one.name != "name")
    _check_keys(_table(entries, where), known, f"[{where}]")
    for key, value in entries.items():
        if key in TEXTS:
            _text(value, f"[{where}] {key}")
        elif key == "spill" and not isinstance(value, bool):
            raise InputError(f"[{where}] spill is {value!r}: give true or false")
        elif key in NUMBERS and not (key in BY_STEP and isinstance(value, list)):
            _number(value, f"[{where}] {key}")
        elif isinstance(value, bool | dict) and key not in ("spill", "flows"):
            raise InputError(f"[{where}] {key} is {value!r}: give a number, a list or a text")
    for needed in NEEDED.get(kind, ()):
        if needed not in entries:
            raise InputError(f"[{where}] has no {needed}: it needs one")
    return kind(name, **entries)


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool | str):
        raise InputError(f"{name} is {value!r}: give a number")
    return number(value, name)


def _replace(document: dict[str, Any], change: str) -> None:
    """Put entries such as battery.capacity=12 in the place of the file's."""
    for one in filter(None, (part.strip() for part in change.split(","))):
        place, _, text = one.partition("=")
        name, _, key = place.strip().rpartition(".")
        homes = [
            entries[name]
            for entries in (document.get(kind) for kind in PARTS)
            if isinstance(entries, dict) and isinstance(entries.get(name), dict)
        ]
        if name == "process":
            homes = [document.setdefault("process", {})]
        if not homes or not text.strip():
            known = [n for kind in PARTS for n in _table(document.get(kind, {}), kind)]
            raise InputError(
                f"--change {one!r}: write NAME.ENTRY=VALUE with a name of the file; "
                f"{closest(name, known)}"
            )
        try:
            value: Any = float(text)
        except ValueError:
            value = {"true": True, "false": False}.get(text.strip(), text.strip())
        for home in homes:
            home[key] = value


# --- What no action touches -----------------------------------------------------------------------


def _process(
    document: dict[str, Any], prices: Path | None, horizon: int
) -> tuple[Process, dict[str, Any]]:
    """The process, and the names of x."""
    entries = dict(_table(document.get("process", {}), "process"))
    if not entries and prices is None:
        raise InputError("there is no [process] that says what x does: state one, or give --prices")
    names = entries.pop("names", None)
    if names is not None and not isinstance(names, list):
        raise InputError(f"[process] names is {names!r}: give a list of texts")
    if prices is not None:
        columns = entries.get("columns") if entries.get("kind") == "fitted" else None
        return _fitted(prices, columns, horizon), {"names": names or ()}
    kind = _text(entries.pop("kind", ""), "[process] kind")
    if kind not in KINDS:
        raise InputError(f"[process] kind {kind!r} is unknown: {closest(kind, KINDS)}")
    maker, needed, optional = KINDS[kind]
    _check_keys(entries, (*needed, *optional), "[process]")
    for name in needed:
        if name not in entries:
            raise InputError(f"[process] has no {name}: kind {kind!r} needs {', '.join(needed)}")
    if maker is None:
        raise InputError("[process] kind 'fitted' needs the table that it is fitted to: --prices")
    about = {"values": entries["values"]} if "values" in entries else {"names": names or ()}
    return maker(entries), about


def _fitted(path: Path, columns: Any, horizon: int) -> Process:
    from counterplan.planning.processes.fit import fit, load

    if path.suffix.lower() == ".safetensors":
        return load(path)
    source: Any = path
    if path.suffix == "":  # as a run keeps it
        import polars as pl

        source = pl.read_csv(path, try_parse_dates=True)
    return fit(source, columns=columns, horizon=horizon)


def _gbm(entries: dict[str, Any]) -> Process:
    from counterplan.planning.processes.prices import GBM

    several = any(isinstance(one, list) for one in entries.values())
    independent = bool(entries.pop("independent", False))
    kind = "correlated" if several else "independent" if independent else "global"
    return GBM(kind=kind, **{"drift": 0.0, **entries})  # type: ignore[arg-type]


def _lattice(entries: dict[str, Any]) -> Process:
    from counterplan.planning.processes.prices import BinomialLattice

    return BinomialLattice(**{"rate": 0.0, **entries})


def _markov(entries: dict[str, Any]) -> Process:
    from counterplan.planning.processes.modes import MarkovModes

    if not isinstance(entries["values"], dict):
        raise InputError("[process] values: say what each mode means: values = {price = [20, 90]}")
    return MarkovModes(entries["matrix"], entries.get("initial", 0), indicators=True)


def _mean_reversion(entries: dict[str, Any]) -> Process:
    from counterplan.planning.processes.autoregression import Autoregression

    initial, mean, keep, deviation = (
        _number(entries[name], f"[process] {name}")
        for name in ("initial", "mean", "keep", "deviation")
    )
    logs = bool(entries.get("logs", False))
    if logs and mean <= 0.0:
        raise InputError(f"[process] mean is {mean:g}: with logs it must be above 0")
    centre = math.log(mean) if logs else mean
    spread = [[deviation**2]]
    return Autoregression([initial], [keep], [[centre]], spread, logs)


# By kind: how it is made, what it needs, what it may have.
Maker: TypeAlias = Callable[[dict[str, Any]], Process]
KINDS: dict[str, tuple[Maker | None, tuple[str, ...], tuple[str, ...]]] = {
    "gbm": (_gbm, ("initial", "volatility", "dt"), ("drift", "correlation", "independent")),
    "lattice": (_lattice, ("initial", "volatility", "dt"), ("rate", "dividend")),
    "mean-reversion": (_mean_reversion, ("initial", "mean", "keep", "deviation"), ("logs",)),
    "markov": (_markov, ("matrix", "values"), ("initial",)),
    "fitted": (None, (), ("columns",)),
}
