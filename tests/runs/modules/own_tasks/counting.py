"""A task on episodes: counts their steps."""

from __future__ import annotations

import io

from counterplan.runs.task import PartResult, TaskSpec


class Counting:
    """Knows nothing but the part."""

    def solve(self, part: bytes) -> PartResult:
        """A row for each episode."""
        import polars as pl

        from counterplan.tables.parts import episodes_from_bytes

        episodes = [one.episode for one in episodes_from_bytes(part)]
        table = pl.DataFrame(
            {"episode_id": [one.id for one in episodes], "steps": [len(one) for one in episodes]}
        )
        buffer = io.BytesIO()
        table.write_parquet(buffer)
        return PartResult({"results": buffer.getvalue()}, {"episodes": float(len(episodes))})


def open_task(spec: TaskSpec) -> Counting:
    """The task."""
    return Counting()
