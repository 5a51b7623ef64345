"""What is kept: the last few, or as many as there is room for."""

from __future__ import annotations

import numpy as np

from counterplan.explorer.items import Memo, Recent


def test_the_last_few_are_kept() -> None:
    kept: Recent[int] = Recent(2)
    made = []

    def make(number: int) -> int:
        return kept.get(number, lambda: made.append(number) or number)

    for number in (1, 2, 1, 3, 1, 2):
        assert make(number) == number
    assert made == [1, 2, 3, 2]
    assert kept.find(3) is None


def test_places_go_as_a_whole_when_there_is_no_room() -> None:
    memo = Memo(room=100)
    memo.keep("a", np.zeros(4))
    memo.keep("a", np.ones(4))
    memo.keep("b", np.zeros(4))
    assert (memo.used, len(memo.find("a")), len(memo.find("b"))) == (96, 2, 1)
    memo.keep("c", np.zeros(4))
    assert (memo.used, len(memo.find("a")), len(memo.find("b"))) == (64, 0, 1)
    memo.keep("large", np.zeros(13))
    assert (memo.used, memo.find("large")) == (64, [])
