"""The folder of a run: where everything lies, what the run is about, and how it is written.

    manifest.json                  what the run is about: all that decides its bytes
    files/model.safetensors        what the task needs besides; the manifest has its checksum
    episodes/part-00000.parquet    the input, part by part, and SHA256SUMS over these files
    results/part-00000.parquet     what came out, likewise for every table of the task
    done/00000.json                checksums of a part's tables: it counts only if they agree
    lock                           held while a run is under way

Everything is written whole or not at all, and in this order: the input (in a hidden folder until
all of it has been read), the manifest, the files of the task, then for each part its tables and
last the receipt that makes it count. So whatever moment a run is killed at, the next one finds
either a thing or its absence, never half of it. There are no times, hosts or numbers of workers in
the manifest: a run that was stopped and resumed, or spread over a cluster, has the same one as a
run that was not. Links are refused: nothing is read from or written to places outside the folder.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import counterplan
from counterplan.core.files import atomic_file, read_json
from counterplan.core.validation import counted
from counterplan.errors import FileError, InputError
from counterplan.runs.task import EXPLAIN, REGRET, PartResult, TaskSpec

INPUTS, DONE, FILES = "episodes", "done", "files"
SUMS = "SHA256SUMS"
TABLE_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
# With the ending that the file has elsewhere, so that other programs know what it holds.
FILE_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}(\.[a-z0-9]{1,16})?")
_CHECKSUM = re.compile(r"[0-9a-f]{64}")
# How files are called while they are written.
TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.part")
FORMAT, VERSION = "counterplan run", 2
# Other versions of these may give other digits or lay out files otherwise.
PACKAGES = ("jax", "llvmlite", "numba", "numpy", "polars", "scipy")
# A manifest holds a schema at most, which is not larger either.
LARGEST = 20_000_000
# More parts than any table of episodes has.
MOST_PARTS = 10**6
# Damaged files that are named, and differences between questions; more are only counted.
SHOWN_DAMAGE, SHOWN_DIFFERENCES = 3, 5
# Which command a task is done by.
COMMANDS = {EXPLAIN: "`counterplan explain`", REGRET: "`counterplan plan`"}
AGAIN = "run the same command again to continue"


class RunLayout:
    """The places within a run's folder.

    incoming, outgoing  input that is not all there yet, and input whose place is being taken
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.manifest, self.lock, self.inputs = out / "manifest.json", out / "lock", out / INPUTS
        self.incoming, self.outgoing = out / f".{INPUTS}", out / f".{INPUTS}-old"

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


def sha256(content: bytes) -> str:
    """A checksum, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


# --- What a run is about --------------------------------------------------------------------------


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


def package_versions() -> dict[str, str]:
    """Of this program and of what its results depend on."""
    found = {"counterplan": counterplan.__version__, "python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def task_record(spec: TaskSpec) -> dict[str, Any]:
    """A task in the manifest."""
    for name in spec.files:
        if not FILE_NAME.fullmatch(name):
            raise InputError(f"a task cannot have a file called {name!r}; name it otherwise")
    return {
        "kind": spec.kind,
        "description": json_value(spec.description, "the description of the task"),
        "files": {name: sha256(content) for name, content in spec.files.items()},
    }


def json_value(value: Any, what: str) -> Any:
    """The same in JSON's own types, as it will be when read back."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as problem:
        raise InputError(f"{what} cannot be stored as JSON: {problem}") from None


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


# Whether what a file has in an entry can be right: its type, or a function.
_CHECKS: dict[str, type | Callable[[Any], bool]] = {
    "task": _is_task,
    "arguments": dict,
    "hashes": _is_texts,
    "seed": int,
    "part_size": _is_count,
    "repeatable": bool,
    "versions": _is_texts,
    "parts": _is_count,
    "inputs_sha256": str,
    "complete": bool,
    "notes": lambda value: type(value) is list and all(type(text) is str for text in value),
}


def read_manifest(path: Path) -> Manifest:
    """The manifest in a file, or an error that says why it is none."""
    document = read_json(path, f"the manifest of a {FORMAT}", LARGEST)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FileError(f"{path}: is no manifest of a {FORMAT}; choose another folder")
    entries = {name: document[name] for name in document.keys() - {"format", "version"}}
    found = document.get("version")
    if type(found) is int and found > 0 and found != VERSION:
        written, advice = ("a newer", "update counterplan or choose another folder")
        if found < VERSION:
            written, advice = ("an older", "choose another folder for a new run")
        raise FileError(
            f"{path}: was written by {written} counterplan (version {found} of the format, this "
            f"program knows {VERSION}); {advice}"
        )
    wrong = [] if type(found) is int and found == VERSION else ["version"]
    wrong += sorted(entries.keys() ^ _CHECKS.keys())
    for name, check in _CHECKS.items():
        value = entries.get(name)
        if not (type(value) is check if isinstance(check, type) else check(value)):
            wrong.append(name)
    if wrong:
        raise FileError(f"{path}: is damaged at {wrong[0]!r}; choose another folder for a new run")
    return Manifest(**{**entries, "notes": tuple(entries["notes"])})


def refuse_other_question(out: Path, there: Manifest, now: Manifest) -> None:
    """Raise unless a folder's run is about what is asked now, saying what differs."""
    by, wanted = (COMMANDS.get(one.task["kind"]) for one in (there, now))
    if by != wanted and by and wanted:
        raise InputError(f"{out}: holds a run of {by}, not of {wanted}; choose another folder")
    # What arguments and files lead to is worth a line only where these do not explain it.
    found = _differences(_asked(there), _asked(now)) or _differences(_task(there), _task(now))
    if not found:
        return
    rest = len(found) - SHOWN_DIFFERENCES
    more = f" and {counted(rest, 'more difference')}" if rest > 0 else ""
    raise InputError(
        f"{out}: holds a run of another question: {'; '.join(found[:SHOWN_DIFFERENCES])}{more}; "
        "ask as before to continue it, or choose another folder"
    )


# Entries of a manifest by (rank, name): the value, and what it is called.
Entries = Mapping[tuple[int, str], tuple[Any, str]]


def _asked(manifest: Manifest) -> Entries:
    found: dict[tuple[int, str], tuple[Any, str]] = {}
    for rank, options in enumerate((manifest.arguments, {"seed": manifest.seed})):
        for name, value in options.items():
            flag = f"--{name.replace('_', '-')}"
            if value is not None and value is not False:
                found[rank, flag] = value, flag if value is True else f"{flag} {_short(value)}"
    found |= _sums(2, manifest.hashes)
    found[3, "part size"] = manifest.part_size, f"part size {manifest.part_size}"
    found |= {(4, name): (text, f"{name} {text}") for name, text in manifest.versions.items()}
    kind = manifest.task["kind"]
    return found | {(5, "task"): (kind, f"task {kind}")}


def _task(manifest: Manifest) -> Entries:
    described = manifest.task["description"].items()
    found = {(0, name): (value, f"{name} {_short(value)}") for name, value in described}
    return {**found, **_sums(1, manifest.task["files"])}


def _sums(rank: int, sums: Mapping[str, str]) -> Entries:
    return {
        (rank, name): (sum_, f"{name} with checksum {sum_[:12]}") for name, sum_ in sums.items()
    }


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _differences(there: Entries, now: Entries) -> list[str]:
    found = []
    for rank, name in sorted({*there, *now}):
        absent = (None, f"no {name}")
        (old, old_text), (new, new_text) = (one.get((rank, name), absent) for one in (there, now))
        # 1 and true are equal in Python, but not to the user.
        if old != new or type(old) is not type(new):
            found.append(f"{old_text} there, {new_text} now")
    return found


# --- Whether its files are what they were ---------------------------------------------------------


@dataclass(frozen=True)
class Receipt:
    """What is noted of a part that is done.

    tables   the checksum of the part's file in every table
    summary  the numbers of PartResult.summary
    """

    tables: Mapping[str, str]
    summary: Mapping[str, float]

    def to_bytes(self) -> bytes:
        """As a JSON file."""
        document = {"sha256": dict(self.tables), "summary": dict(self.summary)}
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


@dataclass
class Survey:
    """What a run has and what it lacks.

    pending  parts that are still to be done
    totals   the summaries of the others, added up
    gone     files that were there once
    damaged  files that are not what they were
    """

    pending: list[int] = field(default_factory=list)
    totals: dict[str, float] = field(default_factory=dict)
    gone: list[Path] = field(default_factory=list)
    damaged: list[Path] = field(default_factory=list)

    def check(self, path: Path, checksum: str) -> bytes | None:
        """The contents of a file, None and noted if it is gone or damaged."""
        content = _content(path)
        if content is None:
            self.gone.append(path)
        elif sha256(content) != checksum:
            self.damaged.append(path)
        else:
            return content
        return None

    def check_part(self, layout: RunLayout, index: int) -> None:
        """Note whether a part is done."""
        path, missing = layout.receipt(index), len(self.gone)
        receipt = read_receipt(path) if path.exists() else None
        if receipt is None:
            self.pending.append(index)
            self.damaged += [path] if path.exists() else []
            return
        for name, checksum in receipt.tables.items():
            self.check(layout.table(name, index), checksum)
        if len(self.gone) > missing:
            self.pending.append(index)
        else:
            add(self.totals, receipt.summary)


def survey(layout: RunLayout, manifest: Manifest) -> Survey:
    """Look at every file of a run; raise if one is damaged."""
    found = Survey()
    listing = found.check(layout.inputs / SUMS, manifest.inputs_sha256)
    if listing is not None:
        for index, checksum in enumerate(_listed(layout, manifest, listing)):
            found.check(layout.table(INPUTS, index), checksum)
    for name, checksum in manifest.task["files"].items():
        found.check(layout.file(name), checksum)
    for index in range(manifest.parts):
        found.check_part(layout, index)
    if found.damaged:
        raise FileError(_damage_line(found.damaged))
    return found


def totals_of(layout: RunLayout, parts: int) -> dict[str, float]:
    """The summaries of the parts that are done, added up in their order."""
    totals: dict[str, float] = {}
    for index in range(parts):
        receipt = read_receipt(layout.receipt(index))
        if receipt is not None:
            add(totals, receipt.summary)
    return totals


def add(totals: dict[str, float], summary: Mapping[str, float]) -> None:
    """Add the numbers of a part to those of others."""
    for name, value in summary.items():
        totals[name] = totals.get(name, 0.0) + value


def input_sums(layout: RunLayout, manifest: Manifest) -> list[str]:
    """The checksum of every part of the input."""
    path = layout.inputs / SUMS
    content = _content(path)
    if content is None or sha256(content) != manifest.inputs_sha256:
        raise FileError(_damage_line([path]))
    return _listed(layout, manifest, content)


def read_input(layout: RunLayout, index: int, checksum: str) -> bytes:
    """A part of the input, or an error if it is damaged."""
    return read_checked(layout.table(INPUTS, index), checksum)


def read_checked(path: Path, checksum: str) -> bytes:
    """A file, or an error if it is damaged or missing."""
    found = Survey()
    content = found.check(path, checksum)
    if content is None:
        raise FileError(missing_line(path) if found.gone else _damage_line([path]))
    return content


def missing_line(path: Path) -> str:
    """What to tell about a file that should be there."""
    return f"{path}: is missing; run the same command again to make it anew"


def _damage_line(damaged: list[Path]) -> str:
    first, others = damaged[0], damaged[1:]
    named = ", ".join(str(path) for path in others[:SHOWN_DAMAGE])
    more = f" and {len(others) - SHOWN_DAMAGE} others" if len(others) > SHOWN_DAMAGE else ""
    also = f" (likewise {named}{more})" if others else ""
    return (
        f"{first}: is damaged: its checksum is not the one noted when it was written; delete this "
        f"file and run the same command again to make it anew{also}"
    )


def _listed(layout: RunLayout, manifest: Manifest, listing: bytes) -> list[str]:
    sums = [line[:64] for line in listing.decode().splitlines()]
    if len(sums) != manifest.parts:
        raise FileError(
            f"{layout.manifest}: is damaged: it tells of {manifest.parts:,} parts, but there are "
            f"{len(sums):,}; choose another folder for a new run"
        )
    return sums


def _content(path: Path) -> bytes | None:
    """None where there is no such file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise FileError(f"{path}: cannot be read: {problem.strerror}; check the folder") from None


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


# --- Writing --------------------------------------------------------------------------------------


class Store:
    """A run's folder while the run is under way; `open_store` makes one."""

    def __init__(self, layout: RunLayout, asked: Manifest, files: Mapping[str, bytes]) -> None:
        self.layout = layout
        self._asked, self._files = asked, files
        self._sums: list[str] = []

    def begin(self, parts: Iterable[bytes]) -> tuple[Manifest, Survey]:
        """Make the folder ready for the question: `parts` is read if the input is not there yet."""
        if self.layout.manifest.exists():
            manifest = read_manifest(self.layout.manifest)
        else:
            count, checksum = self._ingest(parts)
            # Notes on the input are there only now that it has been read.
            notes = tuple(self._asked.notes)
            manifest = replace(self._asked, parts=count, inputs_sha256=checksum, notes=notes)
            self._write(self.layout.manifest, manifest.to_bytes())
        self._take_incoming(manifest)
        found = survey(self.layout, manifest)
        if any(path.parent == self.layout.inputs for path in found.gone):
            self._ingest_again(manifest, parts)
        for name, content in self._files.items():
            if self.layout.file(name) in found.gone:
                self._write(self.layout.file(name), content)
        self._sums = input_sums(self.layout, manifest)
        if found.pending and manifest.complete:
            manifest = replace(manifest, complete=False)
            self._write(self.layout.manifest, manifest.to_bytes())
        return manifest, found

    def read_part(self, index: int) -> bytes:
        """A part of the input."""
        return read_input(self.layout, index, self._sums[index])

    def write_part(self, index: int, result: PartResult) -> None:
        """Keep what came out of a part."""
        checksums = {}
        for name, content in result.tables.items():
            if not TABLE_NAME.fullmatch(name) or name in (INPUTS, DONE, FILES):
                raise InputError(f"a task cannot have a table called {name!r}; name it otherwise")
            self._write(self.layout.table(name, index), content)
            checksums[name] = sha256(content)
        if not all(map(math.isfinite, result.summary.values())):
            raise InputError(
                f"a task's summary holds {dict(result.summary)}; leave out what is nan"
            )
        self._write(self.layout.receipt(index), Receipt(checksums, result.summary).to_bytes())

    def complete(self, manifest: Manifest) -> None:
        """Note that every part is done."""
        self._write(self.layout.manifest, replace(manifest, complete=True).to_bytes())

    def _ingest(self, parts: Iterable[bytes]) -> tuple[int, str]:
        """Read all input into the hidden folder; how many parts, and the checksum of their list."""
        incoming = self.layout.incoming
        _remove(incoming)
        lines = []
        try:
            for index, content in enumerate(parts):
                if index == MOST_PARTS:
                    raise InputError(f"the input has more than {MOST_PARTS:,} parts; split it up")
                self._write(incoming / part_name(index), content)
                lines.append(f"{sha256(content)}  {part_name(index)}\n")
            if not lines:
                raise InputError(f"{self.layout.out}: there is nothing to do: the input is empty")
            listing = "".join(lines).encode()
            self._write(incoming / SUMS, listing)
        except BaseException:
            _remove(incoming)
            raise
        return len(lines), sha256(listing)

    def _take_incoming(self, manifest: Manifest) -> None:
        """Let the input take its name, if all of it is there; what is left of others is removed."""
        listing = self.layout.incoming / SUMS
        is_whole = listing.exists() and sha256(listing.read_bytes()) == manifest.inputs_sha256
        if is_whole and not self.layout.inputs.exists():
            self.layout.incoming.rename(self.layout.inputs)
            _sync_folder(self.layout.out)
        _remove(self.layout.incoming)
        _remove(self.layout.outgoing)

    def _ingest_again(self, manifest: Manifest, parts: Iterable[bytes]) -> None:
        """Replace input of which files are gone."""
        count, checksum = self._ingest(parts)
        if (count, checksum) != (manifest.parts, manifest.inputs_sha256):
            _remove(self.layout.incoming)
            raise FileError(
                f"{self.layout.inputs}: files are gone and the input does not give the same ones "
                "again; choose another folder for a new run"
            )
        if self.layout.inputs.exists():
            self.layout.inputs.rename(self.layout.outgoing)
        self._take_incoming(manifest)

    def _write(self, path: Path, content: bytes) -> None:
        try:
            if not path.parent.exists():
                path.parent.mkdir()
                _sync_folder(path.parent.parent)
            with atomic_file(path) as file:
                file.write(content)
            _sync_folder(path.parent)
        except (FileError, OSError) as problem:
            reason = getattr(problem, "strerror", None) or problem
            place = "" if isinstance(problem, FileError) else f"{path}: cannot be written: "
            raise FileError(f"{place}{reason}; {AGAIN}") from None


@contextmanager
def open_store(out: Path, asked: Manifest, files: Mapping[str, bytes]) -> Iterator[Store]:
    """A run's folder, made if it is not there, for this process alone; `files` are the task's own.

    A folder that holds anything but a run of this question is refused. If nothing could be begun in
    a new one, it is gone again afterwards.
    """
    is_new, layout = _make(out), RunLayout(out)
    try:
        _refuse_others(layout)
        refuse_links(out)
        with _locked(layout.lock):
            if layout.manifest.exists():
                refuse_other_question(out, read_manifest(layout.manifest), asked)
            _remove_temporary(out)
            try:
                yield Store(layout, asked, files)
            finally:
                if not layout.manifest.exists():
                    _remove(layout.incoming)
                    layout.lock.unlink(missing_ok=True)
    finally:
        if is_new:
            with suppress(OSError):  # not empty: there is something to continue
                out.rmdir()


def _make(out: Path) -> bool:
    """Whether the folder is new."""
    try:
        out.mkdir()
        _sync_folder(out.parent)
    except FileExistsError:
        if not out.is_dir():
            raise FileError(f"{out}: is a file; give the name of a folder for the run") from None
        return False
    except FileNotFoundError:
        raise FileError(f"{out}: cannot be made: its folder does not exist; create it") from None
    except OSError as problem:
        raise FileError(f"{out}: cannot be made: {problem.strerror}; choose another") from None
    return True


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock that a file stands for; it ends with the process, however that ends."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    try:
        handle = os.open(path, flags, 0o644)
    except OSError as problem:
        raise FileError(f"{path}: cannot be opened: {problem.strerror}; check the folder") from None
    try:
        _lock(handle, path)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, path: Path) -> None:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it may have removed the file between our opening and locking it.
            if not (path.exists() and os.path.samestat(os.fstat(handle), path.stat())):
                raise BlockingIOError
    except (BlockingIOError, PermissionError):
        raise FileError(
            f"{path.parent}: another run is at work there; wait for it or choose another folder"
        ) from None
    except OSError as problem:
        raise FileError(f"{path}: cannot be locked: {problem.strerror}; use a local disk") from None


def _refuse_others(layout: RunLayout) -> None:
    """Raise if the folder is in use for something else."""
    if layout.manifest.exists():
        return
    own = {layout.lock.name, layout.incoming.name}
    for path in layout.out.iterdir():
        if path.name not in own and not TEMPORARY.fullmatch(path.name):
            raise FileError(
                f"{layout.out}: exists and is no run of counterplan: it holds {path.name!r} but "
                "no manifest.json; choose another folder"
            )


def _remove_temporary(out: Path) -> None:
    """Remove files that were being written when their writer was killed."""
    for place in (out, *(path for path in out.iterdir() if path.is_dir())):
        for path in place.iterdir():
            if TEMPORARY.fullmatch(path.name):
                path.unlink()


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _sync_folder(folder: Path) -> None:
    """Make new names in a folder outlast a power cut, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
