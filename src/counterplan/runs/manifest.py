"""What a run is about: all that decides its bytes, written down so that a resumed run is the same.

There are no times, hosts or numbers of workers in it: a run that was stopped and resumed, or spread
over a cluster, has the same manifest as one that was not.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import counterplan
from counterplan.core.files import read_json
from counterplan.core.validation import counted
from counterplan.errors import FileError, InputError
from counterplan.runs.task import EXPLAIN, REGRET, TaskSpec

# ----------------------------------------------------------------------------------------------
# Where everything of a run lies.
#
#     manifest.json                  what the run is about
#     files/model.safetensors        what the task needs besides; the manifest has its checksum
#     episodes/part-00000.parquet    the input, part by part, and SHA256SUMS over these files
#     results/part-00000.parquet     what came out, likewise for every table of the task
#     done/00000.json                checksums of a part's tables: it counts only if they agree
#     lock                           held while a run is under way
#
# Until all input has been read it lies in a hidden folder. Links are refused: nothing is read from
# or written to places outside the folder.

INPUTS = "episodes"
SUMS = "SHA256SUMS"
DONE = "done"
FILES = "files"
TABLE_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
# With the ending that the file has elsewhere, so that other programs know what it holds.
FILE_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}(\.[a-z0-9]{1,16})?")
_CHECKSUM = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Receipt:
    """What is noted of a part that is done.

    tables   the checksum of the part's file in every table
    summary  the numbers of PartResult.summary
    """

    tables: Mapping[str, str]
    summary: Mapping[str, float]


@dataclass(frozen=True)
class RunLayout:
    """The places within a run's folder."""

    out: Path

    @property
    def manifest(self) -> Path:
        """What the run is about."""
        return self.out / "manifest.json"

    @property
    def lock(self) -> Path:
        """Held while a run is under way."""
        return self.out / "lock"

    @property
    def inputs(self) -> Path:
        """The input."""
        return self.out / INPUTS

    @property
    def incoming(self) -> Path:
        """Input that is not all there yet."""
        return self.out / f".{INPUTS}"

    @property
    def outgoing(self) -> Path:
        """Input whose place is being taken."""
        return self.out / f".{INPUTS}-old"

    def table(self, name: str, index: int) -> Path:
        """A part of a table, the input being one too."""
        return self.out / name / part_name(index)

    def file(self, name: str) -> Path:
        """A file of the task."""
        return self.out / FILES / name

    def receipt(self, index: int) -> Path:
        """What says that a part is done."""
        return self.out / DONE / f"{index:05d}.json"


def part_name(index: int) -> str:
    """How the file of a part is called, in every folder."""
    return f"part-{index:05d}.parquet"


def refuse_links(out: Path) -> None:
    """Raise if something within a run's folder lies elsewhere, or is no file that can be read."""
    for place in (out, *(entry for entry in out.iterdir() if entry.is_dir())):
        with os.scandir(place) as entries:
            for entry in entries:
                is_link = entry.is_symlink()
                is_plain = entry.is_file() or entry.is_dir()
                # What is neither may have been there for a moment only, while it was written.
                if is_link or (not is_plain and os.path.lexists(entry.path)):
                    raise FileError(
                        f"{place / entry.name}: is a {'link' if is_link else 'pipe or a device'}, "
                        "but a run holds plain files only; put the file itself there"
                    )


def receipt_bytes(receipt: Receipt) -> bytes:
    """A receipt as a JSON file."""
    document = {"sha256": dict(receipt.tables), "summary": dict(receipt.summary)}
    return f"{json.dumps(document, indent=1, sort_keys=True, allow_nan=False)}\n".encode()


def read_receipt(path: Path) -> Receipt | None:
    """The receipt in a file, None if that is none."""
    try:
        document = read_json(path, "the checksums of a part")
        tables, summary = dict(document["sha256"]), dict(document["summary"])
        numbers = {name: float(value) for name, value in summary.items()}
        is_right = bool(tables) and all(
            TABLE_NAME.fullmatch(name) and _CHECKSUM.fullmatch(checksum)
            for name, checksum in tables.items()
        )
    except (FileError, KeyError, TypeError, ValueError):
        return None
    return Receipt(tables, numbers) if is_right else None


# ----------------------------------------------------------------------------------------------

FORMAT = "counterplan run"
VERSION = 2
# Other versions of these may give other digits or lay out files otherwise.
PACKAGES = ("jax", "llvmlite", "numba", "numpy", "polars", "scipy")
# A manifest holds a schema at most, which is not larger either.
LARGEST = 20_000_000
# More parts than any table of episodes has.
MOST_PARTS = 10**6
# Differences between two questions that are spelled out; more are only counted.
SHOWN = 5
# Which command a task is done by.
COMMANDS = {EXPLAIN: "`counterplan explain`", REGRET: "`counterplan plan`"}


@dataclass(frozen=True)
class Manifest:
    """The question of a run and how far it has come.

    task           kind, description and the checksums of the files of the task
    arguments      what the user asked, by option
    hashes         checksums of what was read: model, input, schema
    seed           of all that is random
    part_size      episodes per part; the last part may have fewer
    repeatable     whether the same question always has the same answer; false with limits in time
    versions       of the packages that the results depend on
    parts          how many there are
    inputs_sha256  checksum of the list of the parts' own checksums
    complete       whether every part is done
    notes          lines about the input, such as how many episodes are left out and why
    """

    task: Mapping[str, Any]
    arguments: Mapping[str, Any]
    hashes: Mapping[str, str]
    seed: int
    part_size: int
    repeatable: bool
    versions: Mapping[str, str] = field(default_factory=lambda: package_versions())
    parts: int = 0
    inputs_sha256: str = ""
    complete: bool = False
    notes: Sequence[str] = ()

    def to_bytes(self) -> bytes:
        """As a JSON file."""
        document = {"format": FORMAT, "version": VERSION, **asdict(self)}
        # Only these are sorted: a schema's columns are in the order of the model's features.
        ordered = dict(sorted(document.items()))
        text = json.dumps(ordered, indent=1, allow_nan=False, ensure_ascii=False)
        return f"{text}\n".encode()


def _is_texts(value: Any) -> bool:
    return type(value) is dict and all(type(text) is str for text in value.values())


def _is_count(value: Any) -> bool:
    return type(value) is int and 1 <= value <= MOST_PARTS


def _is_task(value: Any) -> bool:
    return (
        type(value) is dict
        and value.keys() == {"kind", "description", "files"}
        and type(value["kind"]) is str
        and type(value["description"]) is dict
        and _is_texts(value["files"])
        and all(FILE_NAME.fullmatch(name) for name in value["files"])
    )


# Whether what a file has in an entry can be right.
_CHECKS: dict[str, Callable[[Any], bool]] = {
    "task": _is_task,
    "arguments": lambda value: type(value) is dict,
    "hashes": _is_texts,
    "seed": lambda value: type(value) is int,
    "part_size": _is_count,
    "repeatable": lambda value: type(value) is bool,
    "versions": _is_texts,
    "parts": _is_count,
    "inputs_sha256": lambda value: type(value) is str,
    "complete": lambda value: type(value) is bool,
    "notes": lambda value: type(value) is list and all(type(text) is str for text in value),
}


def task_record(spec: TaskSpec) -> dict[str, Any]:
    """A task in the manifest."""
    for name in spec.files:
        if not FILE_NAME.fullmatch(name):
            raise InputError(f"a task cannot have a file called {name!r}; name it otherwise")
    return {
        "kind": spec.kind,
        "description": plain(spec.description, "the description of the task"),
        "files": {name: sha256(content) for name, content in spec.files.items()},
    }


def plain(value: Any, what: str) -> Any:
    """The same in JSON's own types, as it will be when read back."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as problem:
        raise InputError(f"{what} cannot be stored as JSON: {problem}") from None


def sha256(content: bytes) -> str:
    """A checksum, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def package_versions() -> dict[str, str]:
    """Of this program and of what its results depend on."""
    found = {"counterplan": counterplan.__version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def read_manifest(path: Path) -> Manifest:
    """The manifest in a file, or an error that says why it is none."""
    document = read_json(path, f"the manifest of a {FORMAT}", LARGEST)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FileError(f"{path}: is no manifest of a {FORMAT}; choose another folder")
    found = document.get("version")
    if type(found) is int and found > VERSION:
        raise FileError(
            f"{path}: was written by a newer counterplan (version {found} of the format, this "
            f"program knows {VERSION}); update counterplan or choose another folder"
        )
    if type(found) is int and 0 < found < VERSION:
        raise FileError(
            f"{path}: was written by an older counterplan (version {found} of the format, this "
            f"program knows {VERSION}); choose another folder for a new run"
        )
    entries = {name: document[name] for name in document.keys() - {"format", "version"}}
    wrong = sorted(entries.keys() ^ _CHECKS.keys())
    wrong += [
        name for name, check in _CHECKS.items() if name in entries and not check(entries[name])
    ]
    if type(found) is not int or found != VERSION:
        wrong.insert(0, "version")
    if wrong:
        raise FileError(f"{path}: is damaged at {wrong[0]!r}; choose another folder for a new run")
    return Manifest(**{**entries, "notes": tuple(entries["notes"])})


def refuse_other_question(out: Path, there: Manifest, now: Manifest) -> None:
    """Raise unless a folder's run is about what is asked now, saying what differs."""
    by, wanted = (COMMANDS.get(one.task["kind"]) for one in (there, now))
    if by != wanted and by and wanted:
        raise InputError(f"{out}: holds a run of {by}, not of {wanted}; choose another folder")
    found = list(_differences(there, now))
    if not found:
        return
    rest = len(found) - SHOWN
    more = f" and {counted(rest, 'more difference')}" if rest > 0 else ""
    raise InputError(
        f"{out}: holds a run of another question: {'; '.join(found[:SHOWN])}{more}; "
        "ask as before to continue it, or choose another folder"
    )


def _differences(there: Manifest, now: Manifest) -> Iterator[str]:
    yield from _changed(there.arguments, now.arguments, _option)
    yield from _changed({"seed": there.seed}, {"seed": now.seed}, _option)
    yield from _changed(there.hashes, now.hashes, _file)
    yield from _changed({"part size": there.part_size}, {"part size": now.part_size}, _plainly)
    yield from _changed(there.versions, now.versions, _plainly)
    kinds = [{"task": one.task["kind"]} for one in (there, now)]
    yield from _changed(kinds[0], kinds[1], _plainly)
    told = there.arguments != now.arguments or there.hashes != now.hashes or kinds[0] != kinds[1]
    # What the arguments and files lead to: worth a line only where these do not explain it.
    if not told and there.seed == now.seed:
        yield from _changed(there.task["description"], now.task["description"], _plainly)
        yield from _changed(there.task["files"], now.task["files"], _file)


def _changed(
    there: Mapping[str, Any], now: Mapping[str, Any], say: Callable[[str, Any], str]
) -> Iterator[str]:
    for name in sorted({*there, *now}):
        old, new = there.get(name), now.get(name)
        # 1 and true are equal in Python, but not to the user.
        if old != new or type(old) is not type(new):
            yield f"{say(name, old)} there, {say(name, new)} now"


def _option(name: str, value: Any) -> str:
    flag = f"--{name.replace('_', '-')}"
    if value is None or value is False:
        return f"no {flag}"
    return flag if value is True else f"{flag} {_short(value)}"


def _file(name: str, value: Any) -> str:
    return f"no {name}" if value is None else f"{name} with checksum {str(value)[:12]}"


def _plainly(name: str, value: Any) -> str:
    return f"no {name}" if value is None else f"{name} {_short(value)}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
