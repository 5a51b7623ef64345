"""Runs that are under way, and what is read of a run for a page of its list."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from counterplan.explorer.items import AbsentError, Folder
from counterplan.runs.explain import explain_spec
from counterplan.runs.manifest import Manifest, task_record
from counterplan.runs.question import Question
from counterplan.runs.store import Store, open_store
from counterplan.runs.task import open_task
from counterplan.tables.models import save_model

from ..runs.subjects import DISCRETE, discrete_episodes, part_of, small_mdp
from .serving import serving

PARTS = 4


@contextmanager
def under_way(folder: Path) -> Iterator[tuple[Store, list[int]]]:
    """A run none of whose parts is done; appending to the list does them."""
    mdp = small_mdp()
    save_model(mdp, folder / "model.safetensors")
    content = (folder / "model.safetensors").read_bytes()
    spec = explain_spec(content, ".safetensors", DISCRETE, Question((2,)), ["cured"])
    episodes = discrete_episodes(mdp, 5 * PARTS)
    parts = [part_of(episodes[start : start + 5]) for start in range(0, 5 * PARTS, 5)]
    asked = Manifest(task_record(spec), {}, {}, 0, 5, True)
    task = open_task(spec)

    class Doing(list[int]):
        def append(self, index: int) -> None:
            store.write_part(index, task.solve(store.read_part(index)))
            super().append(index)

    with open_store(folder / "out", asked, spec.files) as store:
        store.begin(iter(parts))
        yield store, Doing()


def test_a_run_that_goes_on(tmp_path: Path) -> None:
    with under_way(tmp_path) as (_, done), serving(tmp_path / "out") as explorer:
        explorer.service.warm()
        found = explorer.client.get("/api/cases")
        assert (found.status_code, set(found.json())) == (400, {"error"})
        assert "no part of this run is done yet" in found.json()["error"]
        about = explorer.get("run")
        assert (about["complete"], about["parts"], about["done"]) == (False, PARTS, 0)
        for count, part in enumerate((2, 0, 3), start=1):
            done.append(part)
            assert explorer.get("cases")["total"] == 5 * count
            assert explorer.get("overview")["total"] == 5 * count
            assert explorer.get("case", id=f"e{5 * part}")["id"] == f"e{5 * part}"
        assert explorer.client.get("/api/case", params={"id": "e5"}).status_code == 404
        assert explorer.get("run")["complete"] is False
        done.append(1)
        assert explorer.get("case", id="e5")["id"] == "e5"
        assert explorer.get("run")["complete"] is True


def test_items_are_found_where_they_are(discrete_out: Path) -> None:
    folder = Folder(discrete_out, "episode_id")
    assert [folder.part_of(f"e{n}") for n in (7, 19, 20, 29)] == [0, 0, 1, 1]
    with pytest.raises(AbsentError, match="the run has no episode 'nobody'"):
        folder.part_of("nobody")
    rows = folder.rows("trajectories", "e29").collect()
    assert set(rows["episode_id"]) == {"e29"}
