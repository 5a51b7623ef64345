"""The folder of a run, for those who read it: review lists, reports, explorers."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from counterplan.errors import FileError, InputError
from counterplan.runs.manifest import Manifest, RunLayout, read_manifest, refuse_links
from counterplan.runs.store import input_sums, missing_line, read_checked, read_input, survey
from counterplan.runs.task import TaskSpec

if TYPE_CHECKING:
    import polars as pl

    from counterplan.tables.parts import Recorded


@dataclass(frozen=True)
class Run:
    """A run that is complete or under way; only parts that are done are seen."""

    layout: RunLayout
    manifest: Manifest

    @property
    def done(self) -> tuple[int, ...]:
        """The parts that are done: all of them if the run is complete."""
        found = tuple(
            index for index in range(self.manifest.parts) if self.layout.receipt(index).exists()
        )
        if self.manifest.complete and len(found) < self.manifest.parts:
            absent = min(set(range(self.manifest.parts)).difference(found))
            raise FileError(missing_line(self.layout.receipt(absent)))
        return found

    def scan(self, table: str) -> pl.LazyFrame:
        """A table such as "results" or "trajectories", in the order of the episodes."""
        import polars as pl

        paths = [self.layout.table(table, index) for index in self.done]
        if not paths:
            raise FileError(
                f"{self.layout.out}: no part of this run is done yet; run the same command again"
            )
        for path in paths:
            if not path.exists():
                raise FileError(missing_line(path))
        # Brackets in the name of a folder are no pattern, and k=3 in it is no column.
        return pl.scan_parquet(paths, glob=False, hive_partitioning=False)

    def episode(self, name: str) -> Recorded:
        """An episode of the input by its id."""
        return self.episodes([name])[name]

    def episodes(self, names: Iterable[str]) -> dict[str, Recorded]:
        """Episodes of the input by their ids; one part of the input is in memory at a time."""
        import polars as pl

        from counterplan.tables.parts import ID, episodes_from_bytes

        wanted = set(names)
        found: dict[str, Recorded] = {}
        for index, checksum in enumerate(input_sums(self.layout, self.manifest)):
            if not wanted:
                break
            content = read_input(self.layout, index, checksum)
            if wanted.isdisjoint(pl.read_parquet(io.BytesIO(content), columns=[ID])[ID].unique()):
                continue
            here = {one.episode.id or "": one for one in episodes_from_bytes(content)}
            found |= {name: here[name] for name in wanted & here.keys()}
            wanted -= here.keys()
        if wanted:
            absent = min(wanted)
            raise InputError(f"{self.layout.out}: has no episode {absent!r}; check its name")
        return found

    def file(self, name: str) -> bytes:
        """A file of the task by its name, with its ending or without: "model"."""
        known = self.manifest.task["files"]
        found = name if name in known else next((one for one in known if _stem(one) == name), None)
        if found is None:
            raise FileError(f"{self.layout.out}: is a run without a file {name!r}")
        return read_checked(self.layout.file(found), known[found])

    def spec(self) -> TaskSpec:
        """The task that was done, with its files."""
        task = self.manifest.task
        files = {name: self.file(name) for name in task["files"]}
        return TaskSpec(task["kind"], task["description"], files)

    def verify(self) -> None:
        """Raise if a file is not what it was when it was written."""
        gone = survey(self.layout, self.manifest).gone
        if gone:
            raise FileError(missing_line(gone[0]))


def _stem(name: str) -> str:
    return name.partition(".")[0]


def open_run(out: str | Path) -> Run:
    """The run in a folder, or an error if there is none."""
    layout = RunLayout(Path(out))
    if not layout.out.is_dir():
        what = "is a file" if layout.out.exists() else "no such folder"
        raise FileError(f"{out}: {what}; give the folder of a run")
    if not layout.manifest.is_file():
        raise FileError(
            f"{out}: is no run of counterplan: it has no manifest.json; give the folder of a run"
        )
    refuse_links(layout.out)
    return Run(layout, read_manifest(layout.manifest))
