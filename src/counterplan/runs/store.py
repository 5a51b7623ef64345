"""The folder of a run, as the run itself writes it.

Everything is written whole or not at all, and in this order: the input, the manifest, the files of
the task, then for each part its tables and last the receipt that makes it count. So whatever moment
a run is killed at, the next one finds either a thing or its absence, never half of it.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from counterplan.core.files import atomic_file
from counterplan.errors import FileError, InputError
from counterplan.runs.manifest import (
    DONE,
    FILES,
    INPUTS,
    MOST_PARTS,
    SUMS,
    TABLE_NAME,
    Manifest,
    Receipt,
    RunLayout,
    part_name,
    read_manifest,
    read_receipt,
    receipt_bytes,
    refuse_links,
    refuse_other_question,
    sha256,
)
from counterplan.runs.task import PartResult

# ----------------------------------------------------------------------------------------------
# One run at a time in a folder.


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock that a file stands for; it ends with the process, however that ends."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    try:
        handle = os.open(path, flags, 0o644)
    except OSError as problem:
        raise FileError(f"{path}: cannot be opened: {problem.strerror}; check the folder") from None
    try:
        _take(handle, path)
        yield
    finally:
        os.close(handle)


def _take(handle: int, path: Path) -> None:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it may have removed the file between our opening and locking it.
            is_there = path.exists() and os.path.samestat(os.fstat(handle), path.stat())
            if not is_there:
                raise BlockingIOError
    except (BlockingIOError, PermissionError):
        raise FileError(
            f"{path.parent}: another run is at work there; wait for it or choose another folder"
        ) from None
    except OSError as problem:
        raise FileError(f"{path}: cannot be locked: {problem.strerror}; use a local disk") from None


# ----------------------------------------------------------------------------------------------
# Whether the files of a run are what they were when they were written.

# Damaged files that are named; more are only counted.
SHOWN = 3


@dataclass(frozen=True)
class Survey:
    """What a run has and what it lacks.

    pending  parts that are still to be done
    totals   the summaries of the others, added up
    gone     files that were there once
    """

    pending: tuple[int, ...]
    totals: Mapping[str, float]
    gone: tuple[Path, ...]


def survey(layout: RunLayout, manifest: Manifest) -> Survey:
    """Look at every file of a run; raise if one is damaged."""
    damaged: list[Path] = []
    gone: list[Path] = []
    pending: list[int] = []
    totals: dict[str, float] = {}
    sums = _input_sums(layout, manifest, damaged, gone)
    if sums:
        _check_count(layout, manifest, sums)
    for index, checksum in enumerate(sums):
        _check(layout.table(INPUTS, index), checksum, damaged, gone)
    for name, checksum in manifest.task["files"].items():
        _check(layout.file(name), checksum, damaged, gone)
    for index in range(manifest.parts):
        missing = len(gone)
        receipt = _receipt(layout, index, damaged)
        for name, checksum in receipt.tables.items() if receipt is not None else ():
            _check(layout.table(name, index), checksum, damaged, gone)
        if receipt is None or len(gone) > missing:
            pending.append(index)
        else:
            add(totals, receipt.summary)
    if damaged:
        raise FileError(damage_line(damaged))
    return Survey(tuple(pending), totals, tuple(gone))


def totals_of(layout: RunLayout, parts: int) -> dict[str, float]:
    """The summaries of parts that are all done, added up in their order."""
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


def damage_line(damaged: list[Path]) -> str:
    """What to tell about files that are not what they were."""
    first, others = damaged[0], damaged[1:]
    named = ", ".join(str(path) for path in others[:SHOWN])
    more = f" and {len(others) - SHOWN} others" if len(others) > SHOWN else ""
    also = f" (likewise {named}{more})" if others else ""
    return (
        f"{first}: is damaged: its checksum is not the one noted when it was written; delete this "
        f"file and run the same command again to make it anew{also}"
    )


def read_input(layout: RunLayout, index: int, checksum: str) -> bytes:
    """A part of the input, or an error if it is damaged."""
    return read_checked(layout.table(INPUTS, index), checksum)


def read_checked(path: Path, checksum: str) -> bytes:
    """A file, or an error if it is damaged or missing."""
    content = _content(path)
    if content is None:
        raise FileError(missing_line(path))
    if sha256(content) != checksum:
        raise FileError(damage_line([path]))
    return content


def missing_line(path: Path) -> str:
    """What to tell about a file that should be there."""
    return f"{path}: is missing; run the same command again to make it anew"


def input_sums(layout: RunLayout, manifest: Manifest) -> list[str]:
    """The checksum of every part of the input."""
    damaged: list[Path] = []
    found = _input_sums(layout, manifest, damaged, damaged)
    if damaged:
        raise FileError(damage_line(damaged))
    _check_count(layout, manifest, found)
    return found


def _check_count(layout: RunLayout, manifest: Manifest, sums: list[str]) -> None:
    if len(sums) != manifest.parts:
        raise FileError(
            f"{layout.manifest}: is damaged: it tells of {manifest.parts:,} parts, but there are "
            f"{len(sums):,}; choose another folder for a new run"
        )


def _input_sums(
    layout: RunLayout, manifest: Manifest, damaged: list[Path], gone: list[Path]
) -> list[str]:
    path = layout.inputs / SUMS
    content = _content(path)
    if content is None:
        gone.append(path)
    elif sha256(content) != manifest.inputs_sha256:
        damaged.append(path)
    else:
        return [line[:64] for line in content.decode().splitlines()]
    return []


def _receipt(layout: RunLayout, index: int, damaged: list[Path]) -> Receipt | None:
    path = layout.receipt(index)
    if not path.exists():
        return None
    receipt = read_receipt(path)
    if receipt is None:
        damaged.append(path)
    return receipt


def _check(path: Path, checksum: str, damaged: list[Path], gone: list[Path]) -> None:
    content = _content(path)
    if content is None:
        gone.append(path)
    elif sha256(content) != checksum:
        damaged.append(path)


def _content(path: Path) -> bytes | None:
    """None where there is no such file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise FileError(f"{path}: cannot be read: {problem.strerror}; check the folder") from None


# ----------------------------------------------------------------------------------------------

# How files are called while they are written.
TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.part")
AGAIN = "run the same command again to continue"


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
        receipt = Receipt(checksums, result.summary)
        self._write(self.layout.receipt(index), receipt_bytes(receipt))

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
    is_new = _make(out)
    try:
        with _locked(RunLayout(out), asked):
            yield Store(RunLayout(out), asked, files)
    finally:
        if is_new:
            with suppress(OSError):  # not empty: there is something to continue
                out.rmdir()


@contextmanager
def _locked(layout: RunLayout, asked: Manifest) -> Iterator[None]:
    _refuse_others(layout)
    refuse_links(layout.out)
    with exclusive(layout.lock):
        if layout.manifest.exists():
            refuse_other_question(layout.out, read_manifest(layout.manifest), asked)
        _sweep(layout.out)
        try:
            yield
        finally:
            if not layout.manifest.exists():
                _remove(layout.incoming)
                layout.lock.unlink(missing_ok=True)


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


def _refuse_others(layout: RunLayout) -> None:
    """Raise if the folder is in use for something else."""
    if layout.manifest.exists():
        return
    own = {layout.lock.name, layout.incoming.name}
    others = [path for path in layout.out.iterdir() if path.name not in own and not _is_left(path)]
    if others:
        raise FileError(
            f"{layout.out}: exists and is no run of counterplan: it holds {others[0].name!r} but "
            "no manifest.json; choose another folder"
        )


def _is_left(path: Path) -> bool:
    """Whether a file was being written when its writer was killed."""
    return TEMPORARY.fullmatch(path.name) is not None


def _sweep(out: Path) -> None:
    for place in (out, *(path for path in out.iterdir() if path.is_dir())):
        for path in place.iterdir():
            if _is_left(path):
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
