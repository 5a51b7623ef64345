"""Ways to spoil a file: each gives a function that does it in the current folder."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
from safetensors.numpy import load_file, save_file

from counterplan.core.tensors import METADATA, digest
from counterplan.scm.learned import NEURAL
from counterplan.tables.models import TABULAR

Change: TypeAlias = Callable[[], object]
# What to replace in a file, and by what.
Swap: TypeAlias = tuple[str, str | bytes]


def changed(name: str, change: Change | Swap) -> Change:
    """A file with a piece replaced where it first occurs, or changed in another way."""
    return swap(name, *change) if isinstance(change, tuple) else change


def edit(name: str, other: Callable[[bytes], bytes]) -> Change:
    """A file with contents that are made of those it has."""
    return lambda: Path(name).write_bytes(other(Path(name).read_bytes()))


def put(name: str, content: bytes | str) -> Change:
    """A file with other contents."""
    other = content.encode() if isinstance(content, str) else content
    return lambda: Path(name).write_bytes(other)


def swap(name: str, old: str | bytes, new: str | bytes, count: int = 1) -> Change:
    """The same file but for a piece of it, in the first places where it occurs."""
    piece, other = (one.encode() if isinstance(one, str) else one for one in (old, new))

    def swapped(content: bytes) -> bytes:
        assert piece in content
        return content.replace(piece, other, count)

    return edit(name, swapped)


def lines(name: str, other: Callable[[list[str]], list[str]]) -> Change:
    """The same file with other lines."""
    return edit(name, lambda old: ("\n".join(other(old.decode().splitlines())) + "\n").encode())


def cut(name: str, keep: float) -> Change:
    """The file cut off: a share of it, or so many bytes, or all but so many."""
    return edit(
        name, lambda old: old[: int(keep * len(old)) if isinstance(keep, float) else int(keep)]
    )


def flip(*names: str, place: float = 0.5) -> Change:
    """One bit of each file turned, at a place between 0 and 1."""

    def turned(content: bytes) -> bytes:
        at = int(place * len(content))
        return content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]

    return lambda: [edit(name, turned)() for name in names]


def absurd(name: str, size: int) -> Change:
    """A file of any size, all of it a hole."""
    return lambda: (Path(name).write_bytes(b""), os.truncate(name, size))


def gone(*names: str) -> Change:
    """Files that are not there."""
    return lambda: [Path(name).unlink() for name in names]


def folder(name: str, *files: str) -> Change:
    """A folder, with some files in it, in the place of what was there."""

    def change() -> None:
        Path(name).unlink(missing_ok=True)
        Path(name).mkdir()
        for file in files:
            (Path(name) / file).write_text("mine\n")

    return change


def link(name: str, target: str) -> Change:
    """A link in the place of what was there."""

    def change() -> None:
        if Path(name).is_dir():
            shutil.rmtree(name)
        Path(name).unlink(missing_ok=True)
        Path(name).symlink_to(target)

    return change


def pipe(name: str) -> Change:
    """A pipe into which nobody writes."""

    def change() -> None:
        Path(name).unlink()
        os.mkfifo(name)

    return change


def renamed(name: str, new: str) -> Change:
    """A file under another name."""
    return lambda: os.replace(name, new)


def mode(name: str, bits: int) -> Change:
    """A file or folder with other permissions."""
    return lambda: Path(name).chmod(bits)


def document(name: str, *path: str | int, **changes: Any) -> Change:
    """A JSON file in which some keys, below `path`, have other values; None removes them."""

    def change() -> None:
        found = json.loads(Path(name).read_text())
        inner = found
        for key in path:
            inner = inner[key]
        inner.update(changes)
        for key in [key for key, value in changes.items() if value is None]:
            del inner[key]
        Path(name).write_text(json.dumps(found))

    return change


# --- Parquet ----------------------------------------------------------------------------------


def columns(name: str, **others: Any) -> Change:
    """A Parquet file in which some columns are others; None removes them."""

    def change() -> None:
        frame = pl.read_parquet(name).drop([key for key, value in others.items() if value is None])
        given = {key: pl.Series(key, value) for key, value in others.items() if value is not None}
        frame.with_columns(**given).write_parquet(name)

    return change


def forged_rows(name: str) -> Change:
    """A small Parquet file that says it has 134 million rows."""

    def change() -> None:
        rows = 2**21
        frame = pl.read_parquet(name).head(1)
        frame.select(pl.all().repeat_by(rows).explode()).write_parquet(name, row_group_size=rows)
        swap(name, _varint(2 * rows), _varint(2**28 - 2), -1)()

    return change


def _varint(number: int) -> bytes:
    """A number as Parquet's footer writes it."""
    digits = []
    while number:
        digits.append(number & 127 | (128 if number > 127 else 0))
        number >>= 7
    return bytes(digits)


def negative_page(name: str) -> Change:
    """A Parquet file with a bit turned in the head of every page of values, which then holds a
    negative number of them: that ends the process that decodes it."""

    def change() -> None:
        count = b",\x15" + _varint(2 * pl.read_parquet(name).height)
        swap(name, count, count[:2] + bytes([count[2] | 1]) + count[3:], -1)()

    return change


# --- Models -----------------------------------------------------------------------------------


def tensors(name: str, edit: Callable[[dict[str, Any], dict[str, Any]], object]) -> Change:
    """A model file with other arrays or metadata, and a checksum that agrees with them."""

    def change() -> None:
        content = Path(name).read_bytes()
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        about = json.loads(header["__metadata__"][METADATA])
        arrays = dict(load_file(name))
        edit(arrays, about)
        form = TABULAR if "indptr" in arrays else NEURAL
        about["sha256"] = digest(form, arrays, about)
        save_file(arrays, name, metadata={METADATA: json.dumps(about)})

    return change


def head(name: str, text: str, rest: bytes = b"", length: int | None = None) -> Change:
    """A safetensors file with any text for its header."""
    size = len(text.encode()) if length is None else length
    return put(name, size.to_bytes(8, "little") + text.encode() + rest)
