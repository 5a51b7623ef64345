"""Files of explanations as plain records: JSON, or CSV with one row for each of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from counterplan.files.atomic import atomic_file, check_target
from counterplan.files.contents import suffix_of

FORMATS = (".json", ".csv")


def check_explanations_target(path: str | Path) -> None:
    """Raise early if explanations could not be written there."""
    suffix_of(path, FORMATS, "files of explanations")
    check_target(path)


def write_explanations(path: str | Path, document: Mapping[str, Any]) -> None:
    """Write {"k": ..., "explanations": [records]} as JSON, or the records as CSV."""
    if suffix_of(path, FORMATS, "files of explanations") == ".json":
        content = json.dumps(document, indent=2, allow_nan=False).encode()
        with atomic_file(path) as file:
            file.write(content)
        return
    rows = [
        {**record, "changes": "; ".join(change["text"] for change in record["changes"])}
        for record in document["explanations"]
    ]
    _write_csv(path, rows)


def _write_csv(path: str | Path, rows: Sequence[Mapping[str, Any]]) -> None:
    import polars as pl

    texts = [{name: str(value) for name, value in row.items()} for row in rows]
    with atomic_file(path) as file:
        pl.DataFrame(texts).write_csv(file)
