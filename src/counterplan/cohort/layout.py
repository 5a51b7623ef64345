"""Where everything of a run lies.

    manifest.json                  what the run is about
    files/model.safetensors        what the task needs besides; the manifest has its checksum
    episodes/part-00000.parquet    the input, part by part, and SHA256SUMS over these files
    results/part-00000.parquet     what came out, likewise for every table of the task
    done/00000.json                checksums of a part's tables: it counts only if they agree
    lock                           held while a run is under way

Until all input has been read it lies in a hidden folder. Links are refused: nothing is read from or
written to places outside the folder.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from counterplan.errors import FileError
from counterplan.files.contents import read_json

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
class Layout:
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
