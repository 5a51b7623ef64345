"""A worker process: opens a task once and solves the parts that come in, until its parent is gone.

python -m counterplan.cohort.worker    reads messages on stdin, answers on stdout
"""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import sys
import threading
import traceback
from typing import BinaryIO

from counterplan.cohort.task import Task, open_task
from counterplan.cohort.wire import Message, receive, result_message, send, spec_of
from counterplan.errors import CounterplanError

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
