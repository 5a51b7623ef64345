"""Lists that are put in order once: for all pages and clients, and anew when the run goes on."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl

from counterplan.explorer.items import ROOM, Folder, Order, Rankings, Window, page_of

from .test_folder import under_way

ID = "episode_id"
BY_ID, BY_GAIN = Order(ID, False), Order("improvement", True)


class Counted(Folder):
    """A folder that counts how often all results were asked for."""

    def __init__(self, out: Path) -> None:
        super().__init__(out, ID)
        self.asked = 0
        self._counting = threading.Lock()

    def results(self) -> pl.LazyFrame:
        with self._counting:
            self.asked += 1
        return super().results()


def names(rankings: Rankings, k: int, order: Order = BY_GAIN) -> list[str]:
    return rankings.get(k, [pl.col("k") == k], order).items[ID].to_list()


def test_all_pages_come_from_one_order(discrete_out: Path) -> None:
    folder = Counted(discrete_out)
    rankings, conditions = Rankings(folder), [pl.col("k") == 2]
    whole = names(rankings, 2)
    for start in range(0, 35, 7):
        found = page_of(rankings, 2, conditions, Window("improvement", True, start, 7))
        assert [row[ID] for row in found.rows] == whole[start : start + 7]
        assert (found.total, {row["k"] for row in found.rows} - {2}) == (31, set())
    assert folder.asked == 1


def test_every_filter_and_order_has_its_own(discrete_out: Path) -> None:
    folder = Counted(discrete_out)
    rankings = Rankings(folder)
    asked = [(k, order) for k in (1, 2) for order in (BY_ID, BY_GAIN, Order(ID, True))]
    first = [names(rankings, k, order) for k, order in asked]
    assert [names(rankings, k, order) for k, order in asked] == first
    assert folder.asked == len(asked)
    assert first[0] == sorted(first[0]) == first[2][::-1]
    assert first[1] != first[0]
    few = rankings.get("few", [pl.col("k") == 2, pl.col("status") == "failed"], BY_ID)
    assert few.places(0, 5) == {"lost-one": folder.part_of("lost-one")}
    assert few.places(1, 5) == {}


def test_who_asks_at_once_waits_for_one(discrete_out: Path) -> None:
    folder = Counted(discrete_out)
    rankings = Rankings(folder)
    with ThreadPoolExecutor(8) as pool:
        found = [*pool.map(lambda _: names(rankings, 2), range(8))]
    assert found == [found[0]] * 8
    assert folder.asked == 1


def test_a_run_that_goes_on_is_put_in_order_again(tmp_path: Path) -> None:
    with under_way(tmp_path) as (_, done):
        folder = Counted(tmp_path / "out")
        rankings = Rankings(folder)
        for count, part in enumerate((2, 0, 3), start=1):
            done.append(part)
            found = [names(rankings, 2, BY_ID) for _ in range(2)]
            assert found == [found[0]] * 2
            assert len(found[0]) == 5 * count
            assert f"e{5 * part}" in found[0]
            assert folder.asked == count


def test_what_there_is_no_room_for_is_made_again(discrete_out: Path) -> None:
    folder = Counted(discrete_out)
    rankings = Rankings(folder, room=10)
    assert names(rankings, 2) == names(rankings, 2)
    assert folder.asked == 2
    # A million items have room.
    assert 1_000_000 * rankings.get(2, [pl.col("k") == 2], BY_GAIN).nbytes / 31 < ROOM
