"""Many clients at once: everyone gets the right answer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .serving import Explorer

CLIENTS = 8


def test_answers_are_not_mixed_up(continuous: Explorer, discrete: Explorer) -> None:
    for explorer in (continuous, discrete):
        lines = explorer.get("cases", limit=200)["lines"]
        names = [line["id"] for line in lines if line["steps"] > 2 and line["status"] != "failed"]
        questions = [
            {"id": name, "edits": [{"t": t, "action": action}]}
            for name in names[:3]
            for t in (0, 1)
            for action in (0, 2)
        ]
        alone = [_without_time(explorer.post("what-if", question)) for question in questions]

        def ask(
            number: int, explorer: Explorer = explorer, asked: list[Any] = questions
        ) -> list[Any]:
            client, found = explorer.another(), []
            for place in range(len(asked)):
                # Everyone begins elsewhere.
                question = asked[(place + 7 * number) % len(asked)]
                found.append(_without_time(client.post("/api/what-if", json=question).json()))
            shift = (7 * number) % len(asked)
            return found[-shift:] + found[:-shift] if shift else found

        with ThreadPoolExecutor(CLIENTS) as pool:
            for found in pool.map(ask, range(CLIENTS)):
                assert found == alone


def test_everyone_is_served(continuous: Explorer) -> None:
    """Each client solves something of its own, all at the same time."""
    lines = continuous.get("cases", limit=200)["lines"]
    name = next(line["id"] for line in lines if line["steps"] >= 5)
    clients = [continuous.another() for _ in range(6)]
    for client in clients:
        client.get("/api/run")

    def solve(number: int) -> Any:
        wish = {
            "kind": "solve",
            "id": name,
            "k": 2,
            "fixed": [number % 3],
            "forbidden": [number % 2],
        }
        return continuous.finished(wish, clients[number])

    with ThreadPoolExecutor(len(clients)) as pool:
        found = list(pool.map(solve, range(len(clients))))
    assert [job["state"] for job in found] == ["done"] * len(clients)
    for number, job in enumerate(found):
        changes = job["solved"]["answer"]["changes"]
        assert all(change["t"] != number % 3 for change in changes)
        assert all(change["alternative"] != number % 2 for change in changes)


def _without_time(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name != "milliseconds"}
