"""Messages between a run and its workers."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from counterplan.runs.task import PartResult, TaskSpec
from counterplan.runs.worker import (
    Message,
    receive,
    result_message,
    result_of,
    send,
    spec_message,
    spec_of,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
MESSAGES = st.builds(
    Message, st.dictionaries(st.text(), JSON), st.dictionaries(st.text(), st.binary())
)


@given(st.lists(MESSAGES, max_size=3))
def test_messages_arrive_as_they_were(messages: list[Message]) -> None:
    stream = io.BytesIO()
    for message in messages:
        send(stream, message)
    stream.seek(0)
    assert [receive(stream) for _ in messages] == messages
    assert receive(stream) is None


@given(MESSAGES, st.data())
def test_half_a_message_is_none(message: Message, data: st.DataObject) -> None:
    stream = io.BytesIO()
    send(stream, message)
    whole = stream.getvalue()
    part = whole[: data.draw(st.integers(0, len(whole) - 1))]
    assert receive(io.BytesIO(part)) is None


def test_tasks_and_results() -> None:
    spec = TaskSpec("a.task", {"k": 3}, {"model": b"\0\xff"})
    assert spec_of(spec_message(spec)) == spec
    result = PartResult({"results": b"PAR1"}, {"episodes": 2.0})
    assert result_of(result_message(result)) == result
