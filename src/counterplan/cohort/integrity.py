"""Whether the files of a run are what they were when they were written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from counterplan.cohort.layout import INPUTS, SUMS, Layout, Receipt, read_receipt
from counterplan.cohort.manifest import Manifest, sha256
from counterplan.errors import FileError

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


def survey(layout: Layout, manifest: Manifest) -> Survey:
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


def totals_of(layout: Layout, parts: int) -> dict[str, float]:
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


def read_input(layout: Layout, index: int, checksum: str) -> bytes:
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


def input_sums(layout: Layout, manifest: Manifest) -> list[str]:
    """The checksum of every part of the input."""
    damaged: list[Path] = []
    found = _input_sums(layout, manifest, damaged, damaged)
    if damaged:
        raise FileError(damage_line(damaged))
    _check_count(layout, manifest, found)
    return found


def _check_count(layout: Layout, manifest: Manifest, sums: list[str]) -> None:
    if len(sums) != manifest.parts:
        raise FileError(
            f"{layout.manifest}: is damaged: it tells of {manifest.parts:,} parts, but there are "
            f"{len(sums):,}; choose another folder for a new run"
        )


def _input_sums(
    layout: Layout, manifest: Manifest, damaged: list[Path], gone: list[Path]
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


def _receipt(layout: Layout, index: int, damaged: list[Path]) -> Receipt | None:
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
