"""Lists: put in order once, for all pages and clients, and anew when the run goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counterplan.explorer import lists
from counterplan.explorer.cases import Cases
from counterplan.explorer.lists import RANK_BYTES, RANKED_BYTES
from counterplan.explorer.models import CaseQuery
from counterplan.runs.question import Question
from counterplan.runs.run import Run, open_run
from counterplan.runs.store import Manifest, Store, open_store, task_record
from counterplan.runs.task import open_task

from ..runs.models import discrete_episodes, part_of, small_mdp, spec_of
from .serving import serving

PARTS = 4


@pytest.fixture(autouse=True)
def is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept in memory, as of runs with many rows."""
    monkeypatch.setattr(lists, "KEPT_ROWS", 0)


@contextmanager
def under_way(folder: Path) -> Iterator[tuple[Store, list[int]]]:
    """A run none of whose parts is done; appending to the list does them."""
    mdp = small_mdp()
    spec = spec_of(folder, mdp, Question((2,)))
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
        explorer.service.items.warm()
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


class Counted(Run):
    """A run that counts how often all results were asked for."""

    def __init__(self, out: Path) -> None:
        found = open_run(out)
        super().__init__(found.folder, found.manifest)
        self.asked = 0
        self._counting = threading.Lock()

    def results(self, k: int | None = None, *, parts: bool = False) -> pl.LazyFrame:
        with self._counting:
            self.asked += 1
        return super().results(k, parts=parts)


def names(cases: Cases, **wanted: Any) -> list[str]:
    return [line["id"] for line in cases.page(CaseQuery(**{"limit": 200, **wanted}))["lines"]]


def test_all_pages_come_from_one_order(discrete_out: Path) -> None:
    run = Counted(discrete_out)
    cases = Cases(run)
    whole = names(cases)
    for start in range(0, 35, 7):
        page = cases.page(CaseQuery(offset=start, limit=7))
        assert [line["id"] for line in page["lines"]] == whole[start : start + 7]
        assert (page["total"], page["k"]) == (31, 2)
    assert run.asked == 1


def test_what_is_small_is_read_once(discrete_out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scanned = Cases(open_run(discrete_out))
    monkeypatch.setattr(lists, "KEPT_ROWS", 200)
    run = Counted(discrete_out)
    kept = Cases(run)
    asked = {}, {"sort": "id", "offset": 3}, {"status": ["failed"]}, {"k": 1, "search": "2"}
    for query in (CaseQuery(**wanted) for wanted in asked):
        assert kept.page(query) == scanned.page(query)
    assert kept.overview(2) == scanned.overview(2)
    assert run.asked == 0


def test_every_filter_and_order_has_its_own(discrete_out: Path) -> None:
    run = Counted(discrete_out)
    cases = Cases(run)
    orders = [{"sort": "id", "descending": False}, {}, {"sort": "id"}]
    asked = [{"k": k, **order} for k in (1, 2) for order in orders]
    first = [names(cases, **wanted) for wanted in asked]
    assert [names(cases, **wanted) for wanted in asked] == first
    assert run.asked == len(asked)
    assert first[0] == sorted(first[0]) == first[2][::-1]
    assert first[1] != first[0]
    assert names(cases, status=["failed"]) == ["lost-one"]
    assert names(cases, status=["failed"], offset=1) == []


def test_who_asks_at_once_waits_for_one(discrete_out: Path) -> None:
    run = Counted(discrete_out)
    cases = Cases(run)
    with ThreadPoolExecutor(8) as pool:
        found = [*pool.map(lambda _: names(cases), range(8))]
    assert found == [found[0]] * 8
    assert run.asked == 1


def test_a_run_that_goes_on_is_put_in_order_again(tmp_path: Path) -> None:
    with under_way(tmp_path) as (_, done):
        run = Counted(tmp_path / "out")
        cases = Cases(run)
        for count, part in enumerate((2, 0, 3), start=1):
            done.append(part)
            found = [names(cases, sort="id") for _ in range(2)]
            assert found == [found[0]] * 2
            assert len(found[0]) == 5 * count
            assert f"e{5 * part}" in found[0]
            assert run.asked == count


def test_what_there_is_no_room_for_is_made_again(
    discrete_out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Counted(discrete_out)
    ranked = Cases(run)._rank(2, CaseQuery())
    assert ranked.estimated_size() <= RANK_BYTES * len(ranked)
    # A million items have room.
    assert 1_000_000 * RANK_BYTES < RANKED_BYTES
    monkeypatch.setattr(lists, "RANKED_BYTES", RANK_BYTES)
    few, run.asked = Cases(run), 0
    assert names(few) == names(few)
    assert run.asked == 2
