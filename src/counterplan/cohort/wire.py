"""Messages between a run and its worker processes: a JSON header and named bytes, never pickles.

A message is the length of its header in eight bytes, the header, and then the contents one after
another; the header says their names and lengths.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from counterplan.cohort.task import PartResult, TaskSpec

_LENGTH = 8


@dataclass(frozen=True)
class Message:
    """What is said and what comes with it."""

    about: Mapping[str, Any]
    contents: Mapping[str, bytes] = field(default_factory=dict)


def send(stream: IO[bytes], message: Message) -> None:
    """Write a message."""
    sizes = [[name, len(content)] for name, content in message.contents.items()]
    header = json.dumps([message.about, sizes]).encode()
    stream.write(len(header).to_bytes(_LENGTH, "big") + header)
    for content in message.contents.values():
        stream.write(content)
    stream.flush()


def receive(stream: IO[bytes]) -> Message | None:
    """Wait for a message; None if the other side has gone."""
    start = stream.read(_LENGTH)
    if len(start) < _LENGTH:
        return None
    header = stream.read(int.from_bytes(start, "big"))
    if len(header) < int.from_bytes(start, "big"):
        return None
    about, sizes = json.loads(header)
    contents = {}
    for name, size in sizes:
        contents[name] = stream.read(size)
        if len(contents[name]) < size:
            return None
    return Message(about, contents)


def spec_message(spec: TaskSpec) -> Message:
    """A task to open."""
    return Message({"kind": spec.kind, "description": dict(spec.description)}, spec.files)


def spec_of(message: Message) -> TaskSpec:
    """The task of such a message."""
    return TaskSpec(message.about["kind"], message.about["description"], message.contents)


def result_message(result: PartResult) -> Message:
    """What came out of a part."""
    return Message({"summary": dict(result.summary)}, result.tables)


def result_of(message: Message) -> PartResult:
    """The result of such a message."""
    return PartResult(message.contents, message.about["summary"])
