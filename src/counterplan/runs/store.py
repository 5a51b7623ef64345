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
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

import counterplan
from counterplan.core.files import atomic_file, parse_json, read_json
from counterplan.errors import FileError, InputError, counted
from counterplan.runs.task import EXPLAIN, REGRET, PartResult, TaskSpec

INPUTS, DONE, FILES = "episodes", "done", "files"
SUMS = "SHA256SUMS"
TABLE_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
# With the ending that the file has elsewhere, so that other programs know what it holds.
FILE_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}(\.[a-z0-9]{1,16})?")
# How files are called while they are written.
TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.part")
FORMAT, VERSION = "counterplan run", 3
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
# Behind the name of a file where its checksum is told.
CHECKSUM = " with checksum"

Count = Annotated[int, Field(ge=1, le=MOST_PARTS)]
Checksum = Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]
TableName = Annotated[str, Field(pattern=rf"\A{TABLE_NAME.pattern}\z")]
FileName = Annotated[str, Field(pattern=rf"\A{FILE_NAME.pattern}\z")]


def sha256(content: bytes) -> str:
    """A checksum, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def package_versions() -> dict[str, str]:
    """Of this program and of what its results depend on."""
    found = {"counterplan": counterplan.__version__, "python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class TaskRecord:
    """A task in the manifest: files by their checksums."""

    kind: str
    description: dict[str, Any]
    files: dict[FileName, str]


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class Manifest:
    """The question of a run and how far it has come.

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

    task: TaskRecord
    arguments: dict[str, Any]
    hashes: dict[str, str]
    seed: int
    part_size: Count
    repeatable: bool
    versions: dict[str, str] = field(default_factory=package_versions)
    parts: Count = 0
    inputs_sha256: str = ""
    complete: bool = False
    notes: Annotated[tuple[str, ...], Field(strict=False)] = ()

    def to_bytes(self) -> bytes:
        document = {"format": FORMAT, "version": VERSION, **asdict(self)}
        # Only these are sorted: a schema's columns are in the order of the model's features.
        ordered = dict(sorted(document.items()))
        text = json.dumps(ordered, indent=1, allow_nan=False, ensure_ascii=False)
        return f"{text}\n".encode()


def task_record(spec: TaskSpec) -> TaskRecord:
    """A task as the manifest has it."""
    for name in spec.files:
        if not FILE_NAME.fullmatch(name):
            raise InputError(f"a task cannot have a file called {name!r}; name it otherwise")
    description = json_value(dict(spec.description), "the description of the task")
    files = {name: sha256(content) for name, content in spec.files.items()}
    return TaskRecord(spec.kind, description, files)


def json_value(value: Any, what: str) -> Any:
    """The same in JSON's own types, as it will be when read back."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as problem:
        raise InputError(f"{what} cannot be stored as JSON: {problem}") from None


def read_manifest(path: Path) -> Manifest:
    """The manifest in a file, or an error that says why it is none."""
    document = read_json(path, f"the manifest of a {FORMAT}", LARGEST)
    if not isinstance(document, dict) or document.pop("format", None) != FORMAT:
        raise FileError(f"{path}: is no manifest of a {FORMAT}; choose another folder")
    found, wrong = document.pop("version", None), "version"
    if type(found) is int and found > 0 and found != VERSION:
        written, advice = "a newer", "update counterplan or choose another folder"
        if found < VERSION:
            written, advice = "an older", "choose another folder for a new run"
        raise FileError(
            f"{path}: was written by {written} counterplan (version {found} of the format, this "
            f"program knows {VERSION}); {advice}"
        )
    # All of them are written, those with a default too.
    absent = sorted(Manifest.__dataclass_fields__.keys() - document.keys())
    if type(found) is int and found == VERSION:
        try:
            if not absent:
                return Manifest(**document)
            wrong = absent[0]
        except ValidationError as problem:
            wrong = str(problem.errors()[0]["loc"][0])
    raise FileError(f"{path}: is damaged at {wrong!r}; choose another folder for a new run")


def refuse_other_question(out: Path, there: Manifest, now: Manifest) -> None:
    """Raise unless a folder's run is about what is asked now, saying what differs."""
    by, wanted = (COMMANDS.get(one.task.kind) for one in (there, now))
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


def _asked(manifest: Manifest) -> dict[str, Any]:
    """What decides the results, by what it is called."""
    options = {**manifest.arguments, "seed": manifest.seed}
    return {
        **{
            f"--{name.replace('_', '-')}": value
            for name, value in options.items()
            if value is not None and value is not False
        },
        **_sums(manifest.hashes),
        "part size": manifest.part_size,
        **manifest.versions,
        "task": manifest.task.kind,
    }


def _task(manifest: Manifest) -> dict[str, Any]:
    """What is made of it."""
    about = manifest.task.description
    question = about.get("question")
    asked = question if isinstance(question, dict) else {}
    return {**about, "question": None, **asked, **_sums(manifest.task.files)}


def _sums(sums: Mapping[str, str]) -> dict[str, str]:
    return {f"{name}{CHECKSUM}": text for name, text in sums.items()}


def _differences(there: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    def said(given: Mapping[str, Any], name: str) -> str:
        if name not in given:
            return f"no {name.removesuffix(CHECKSUM)}"
        value = given[name]
        text = value if isinstance(value, str) else json.dumps(value)
        if name.endswith(CHECKSUM):
            text = text[:12]
        short = text if len(text) <= 40 else f"{text[:37]}..."
        return name if value is True and name.startswith("--") else f"{name} {short}"

    # 1 and true are equal in Python, but not to the user.
    return [
        f"{said(there, name)} there, {said(now, name)} now"
        for name in sorted({*there, *now})
        if json.dumps(there.get(name)) != json.dumps(now.get(name))
    ]


@dataclass(frozen=True)
class Receipt:
    """What is noted of a part that is done: the checksum of its file in every table, and the
    numbers of PartResult.summary."""

    sha256: Annotated[dict[TableName, Checksum], Field(min_length=1)]
    summary: dict[str, int | float]

    def to_bytes(self) -> bytes:
        return f"{json.dumps(asdict(self), indent=1, sort_keys=True, allow_nan=False)}\n".encode()


def read_receipt(path: Path) -> Receipt | None:
    """The receipt in a file, None if that is none."""
    try:
        return Receipt(**parse_json(path, read_plain(path), "the checksums of a part"))
    except (FileError, OSError, TypeError, ValidationError):
        return None


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
        try:
            content = read_plain(path)
        except FileNotFoundError:
            self.gone.append(path)
            return None
        except OSError as problem:
            reason = problem.strerror
            raise FileError(f"{path}: cannot be read: {reason}; check the folder") from None
        if sha256(content) == checksum:
            return content
        self.damaged.append(path)
        return None

    def refuse_damage(self) -> None:
        """Raise if a file is not what it was."""
        if not self.damaged:
            return
        first, *others = self.damaged
        named = ", ".join(str(path) for path in others[:SHOWN_DAMAGE])
        more = f" and {len(others) - SHOWN_DAMAGE} others" if len(others) > SHOWN_DAMAGE else ""
        raise FileError(
            f"{first}: is damaged: its checksum is not the one noted when it was written; delete "
            "this file and run the same command again to make it anew"
            + (f" (likewise {named}{more})" if others else "")
        )

    def refuse(self) -> None:
        """Raise if a file is not what it was, or not there."""
        self.refuse_damage()
        if self.gone:
            raise FileError(missing_line(self.gone[0]))


def missing_line(path: Path) -> str:
    """What to tell about a file that should be there."""
    return f"{path}: is missing; run the same command again to make it anew"


def read_plain(path: Path) -> bytes:
    """A file of a run, which is no link and lies in a folder that is none, and no pipe."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    refuse_link(path.parent, os.lstat(path.parent))
    refuse_link(path, os.lstat(path))
    with open(os.open(path, flags | getattr(os, "O_BINARY", 0)), "rb") as file:
        refuse_link(path, os.fstat(file.fileno()))
        return file.read()


def refuse_link(path: Path, about: os.stat_result) -> None:
    """Raise if something within a run lies elsewhere, or is no file that can be read."""
    if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
        raise FileError(
            f"{path}: is a {'link' if stat.S_ISLNK(about.st_mode) else 'pipe or a device'}, "
            "but a run holds plain files only; put the file itself there"
        )


def add(totals: dict[str, float], summary: Mapping[str, float]) -> None:
    """Add the numbers of a part to those of others."""
    for name, value in summary.items():
        totals[name] = totals.get(name, 0.0) + value


def part_name(index: int) -> str:
    """How the file of a part is called, in every folder."""
    return f"part-{index:05d}.parquet"


class RunFolder:
    """The folder of a run: the places within it, and whether its files are what they were."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self.manifest_path, self.inputs = folder / "manifest.json", folder / INPUTS

    def table(self, name: str, index: int) -> Path:
        """A part of a table, the input being one too."""
        return self.folder / name / part_name(index)

    def file_path(self, name: str) -> Path:
        return self.folder / FILES / name

    def receipt(self, index: int) -> Path:
        return self.folder / DONE / f"{index:05d}.json"

    def survey(self) -> Survey:
        """Look at every file; raise if one is damaged."""
        found = Survey()
        for index, checksum in enumerate(self._input_sums(found)):
            found.check(self.table(INPUTS, index), checksum)
        for name, checksum in self.manifest.task.files.items():
            found.check(self.file_path(name), checksum)
        for index in range(self.manifest.parts):
            path, missing = self.receipt(index), len(found.gone)
            if (receipt := read_receipt(path)) is None:
                found.pending.append(index)
                found.damaged += [path] if path.exists() else []
                continue
            for name, checksum in receipt.sha256.items():
                found.check(self.table(name, index), checksum)
            if len(found.gone) > missing:
                found.pending.append(index)
            else:
                add(found.totals, receipt.summary)
        found.refuse_damage()
        return found

    def totals(self) -> dict[str, float]:
        """The summaries of the parts that are done, added up in their order."""
        totals: dict[str, float] = {}
        for index in range(self.manifest.parts):
            if (receipt := read_receipt(self.receipt(index))) is not None:
                add(totals, receipt.summary)
        return totals

    def input_sums(self) -> list[str]:
        """The checksum of every part of the input."""
        found = Survey()
        sums = self._input_sums(found)
        # Without the list nothing tells whether the input is what it was.
        found.damaged += found.gone
        found.refuse_damage()
        return sums

    def read_input(self, index: int, checksum: str) -> bytes:
        """A part of the input, or an error if it is damaged."""
        return self.read_checked(self.table(INPUTS, index), checksum)

    def read_checked(self, path: Path, checksum: str) -> bytes:
        """A file, or an error if it is damaged or missing."""
        found = Survey()
        content = found.check(path, checksum)
        found.refuse()
        assert content is not None
        return content

    def _input_sums(self, found: Survey) -> list[str]:
        listing = found.check(self.inputs / SUMS, self.manifest.inputs_sha256)
        if listing is None:
            return []
        sums = [line[:64] for line in listing.decode().splitlines()]
        if len(sums) != self.manifest.parts:
            raise FileError(
                f"{self.manifest_path}: is damaged: it tells of {self.manifest.parts:,} parts, but "
                f"there are {len(sums):,}; choose another folder for a new run"
            )
        return sums


def refuse_links(out: Path) -> None:
    """Raise if something within a run's folder lies elsewhere, or is no file that can be read."""
    for place in (out, *(entry for entry in out.iterdir() if entry.is_dir())):
        with os.scandir(place) as entries:
            for entry in entries:
                # What is gone may have been there for a moment only, while it was written.
                with suppress(FileNotFoundError):
                    refuse_link(place / entry.name, os.lstat(entry.path))


class Store(RunFolder):
    """A run's folder while the run is under way; `open_store` makes one. Its manifest is what is
    asked for, until `begin` has looked at what is there.

    incoming, outgoing  input that is not all there yet, and input whose place is being taken
    """

    def __init__(self, folder: Path, asked: Manifest, files: Mapping[str, bytes]) -> None:
        super().__init__(folder, asked)
        self.incoming, self.outgoing = folder / f".{INPUTS}", folder / f".{INPUTS}-old"
        self._files, self._sums = files, list[str]()

    def begin(
        self, parts: Iterable[bytes], notes: Sequence[str] = (), again: bool = False
    ) -> Survey:
        """Make the folder ready for the question: `parts` is read if the input is not there yet,
        which may add to `notes`; `again`: parts in which something failed are to be done anew."""
        if self.manifest_path.exists():
            self.manifest = read_manifest(self.manifest_path)
        else:
            count, checksum = self._ingest(parts)
            self._note(parts=count, inputs_sha256=checksum, notes=tuple(notes))
        self._take_incoming()
        for path in map(self.receipt, range(self.manifest.parts) if again else ()):
            done = read_receipt(path)
            if done is not None and done.summary.get("failed"):
                path.unlink()
        found = self.survey()
        if any(path.parent == self.inputs for path in found.gone):
            self._ingest_again(parts)
        for name, content in self._files.items():
            if self.file_path(name) in found.gone:
                self._write(self.file_path(name), content)
        self._sums = self.input_sums()
        if found.pending and self.manifest.complete:
            self._note(complete=False)
        return found

    def read_part(self, index: int) -> bytes:
        return self.read_input(index, self._sums[index])

    def write_part(self, index: int, result: PartResult) -> None:
        checksums = {}
        for name, content in result.tables.items():
            if not TABLE_NAME.fullmatch(name) or name in (INPUTS, DONE, FILES):
                raise InputError(f"a task cannot have a table called {name!r}; name it otherwise")
            self._write(self.table(name, index), content)
            checksums[name] = sha256(content)
        summary = dict(result.summary)
        if not all(map(math.isfinite, summary.values())):
            raise InputError(f"a task's summary holds {summary}; leave out what is nan")
        self._write(self.receipt(index), Receipt(checksums, summary).to_bytes())

    def complete(self) -> None:
        if not self.manifest.complete:
            self._note(complete=True)

    def _note(self, **changes: Any) -> None:
        """Write the manifest with other entries."""
        self.manifest = replace(self.manifest, **changes)
        self._write(self.manifest_path, self.manifest.to_bytes())

    def _ingest(self, parts: Iterable[bytes]) -> tuple[int, str]:
        """Read all input into the hidden folder; how many parts, and the checksum of their list."""
        _remove(self.incoming)
        lines = []
        try:
            for index, content in enumerate(parts):
                if index == MOST_PARTS:
                    raise InputError(f"the input has more than {MOST_PARTS:,} parts; split it up")
                self._write(self.incoming / part_name(index), content)
                lines.append(f"{sha256(content)}  {part_name(index)}\n")
            if not lines:
                raise InputError(f"{self.folder}: there is nothing to do: the input is empty")
            listing = "".join(lines).encode()
            self._write(self.incoming / SUMS, listing)
        except BaseException:
            _remove(self.incoming)
            raise
        return len(lines), sha256(listing)

    def _take_incoming(self) -> None:
        """Let the input take its name, if all of it is there; what is left of others is removed."""
        listing, wanted = self.incoming / SUMS, self.manifest.inputs_sha256
        is_whole = listing.exists() and sha256(listing.read_bytes()) == wanted
        if is_whole and not self.inputs.exists():
            self.incoming.rename(self.inputs)
            _sync_folder(self.folder)
        _remove(self.incoming)
        _remove(self.outgoing)

    def _ingest_again(self, parts: Iterable[bytes]) -> None:
        """Replace input of which files are gone."""
        if self._ingest(parts) != (self.manifest.parts, self.manifest.inputs_sha256):
            _remove(self.incoming)
            raise FileError(
                f"{self.inputs}: files are gone and the input does not give the same ones again; "
                "choose another folder for a new run"
            )
        if self.inputs.exists():
            self.inputs.rename(self.outgoing)
        self._take_incoming()

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
    is_new, store, lock = _make(out), Store(out, asked, files), out / "lock"
    try:
        _refuse_others(store, lock)
        refuse_links(out)
        with _locked(lock):
            if store.manifest_path.exists():
                refuse_other_question(out, read_manifest(store.manifest_path), asked)
            _remove_temporary(out)
            try:
                yield store
            finally:
                if not store.manifest_path.exists():
                    _remove(store.incoming)
                    lock.unlink(missing_ok=True)
    finally:
        if is_new:
            with suppress(OSError):  # not empty: there is something to continue
                out.rmdir()


def _make(out: Path) -> bool:
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


def _refuse_others(store: Store, lock: Path) -> None:
    """Raise if the folder is in use for something else."""
    if store.manifest_path.exists():
        return
    for path in store.folder.iterdir():
        if path not in (lock, store.incoming) and not TEMPORARY.fullmatch(path.name):
            raise FileError(
                f"{store.folder}: exists and is no run of counterplan: it holds {path.name!r} but "
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
