"""A worker process: opens a task once and solves the parts that come in, until its parent is gone.

python -m counterplan.runs.worker    reads messages on stdin, answers on stdout
"""

from __future__ import annotations

import ctypes
import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any, BinaryIO

from counterplan.errors import CounterplanError
from counterplan.runs.task import PartResult, Task, TaskSpec, open_task

# ----------------------------------------------------------------------------------------------
# Messages between a run and its worker processes: a JSON header and named bytes, never pickles.
#
# A message is the length of its header in eight bytes, the header, and then the contents one after
# another; the header says their names and lengths.

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


# ----------------------------------------------------------------------------------------------

# The exit code of a worker that could not get the memory it needs.
OUT_OF_MEMORY = 77
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve until stdin ends."""
    # Whoever starts a worker ends it too: Ctrl-C in a terminal is not for it to answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()
    # What a library prints must not get between the messages.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        _serve(_requests(), answers)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except BrokenPipeError:
        os._exit(0)


def _requests() -> queue.SimpleQueue[Message]:
    """Messages as they come. The process ends when there can be no more, whatever it is doing."""
    found: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def read() -> None:
        while (message := receive(sys.stdin.buffer)) is not None:
            found.put(message)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return found


def _serve(requests: queue.SimpleQueue[Message], answers: BinaryIO) -> None:
    task: Task | None = None
    while True:
        request = requests.get()
        try:
            if task is None:
                task = open_task(spec_of(request))
                answer = Message({"ready": True})
            else:
                answer = _answer(task, request)
        except MemoryError:
            raise
        except CounterplanError as problem:
            answer = Message({"error": type(problem).__name__, "text": str(problem)})
        except Exception:
            answer = Message({"error": "", "text": traceback.format_exc()})
        send(answers, answer)


def _answer(task: Task, request: Message) -> Message:
    part = request.contents["part"]
    reason = request.about.get("give up")
    if reason is None:
        return result_message(task.solve(part))
    record = getattr(task, "failed", None)
    return Message({"none": True}) if record is None else result_message(record(part, reason))


def _end_with_parent() -> None:
    """Ask the system to end this process with its parent, even in the middle of compiled code."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
