"""Pseudonyms: stable under a key, different under others, and nothing of an id left."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplan.errors import FileError
from counterplan.viz.report.source import Names, pseudonyms

KEY = b"sixteen bytes or more"


def test_ids_are_shown_as_they_are_unless_asked() -> None:
    assert Names().shown("bed <7>") == "bed <7>"
    assert Names().within("bed <7>: is wrong", "bed <7>") == "bed <7>: is wrong"
    assert not Names().hidden


def test_a_key_decides(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(KEY)
    first, again = pseudonyms(tmp_path / "key"), pseudonyms(tmp_path / "key")
    assert first.shown("ann") == again.shown("ann")
    assert first.shown("ann") != first.shown("bob")
    # Written down once: a later version must not call anyone otherwise.
    assert first.shown("ann") == "P-U47X-IVVU-QR2X"
    assert Names(b"another key, also long").shown("ann") != first.shown("ann")


def test_random_keys_differ() -> None:
    assert pseudonyms().shown("ann") != pseudonyms().shown("ann")


@pytest.mark.parametrize("content", [b"", b"too short"])
def test_keys_that_could_be_guessed(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(FileError, match="key"):
        pseudonyms(tmp_path / "key")


@given(st.text(min_size=4, max_size=12))
def test_nothing_of_a_long_id_is_left(name: str) -> None:
    names = Names(KEY)
    text = names.within(f"episode {name!r}: {name} has{name}state", name)
    assert name not in text.replace(names.shown(name), "")


def test_short_ids_do_not_spoil_other_words() -> None:
    names = Names(KEY)
    assert names.within("episode 'a': a state is bad", "a").endswith(" state is bad")
    assert names.within("row 12, state 1", "1") == f"row 12, state {names.shown('1')}"
