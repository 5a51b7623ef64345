"""Fifty clients at once, a program: `python -m benchmarks.explorer_load URL SECONDS PAUSE`.

Every client does what people do: looks at a page of the list, opens a case, and edits five actions
of it one after the other, with a pause of so many seconds on average before each. Prints what came
back as JSON: answers by status, and milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from typing import Any

import httpx

CLIENTS = 50
PAGE = 25


async def main(url: str, seconds: float, pause: float) -> None:
    """Ask until the time is up."""
    taken: dict[str, list[float]] = {"list": [], "case": [], "what-if": []}
    statuses: dict[str, int] = {}
    errors: list[str] = []
    options: dict[str, Any] = {"base_url": url, "timeout": 60.0, "trust_env": False}
    options["limits"] = httpx.Limits(max_connections=1)
    # Made before anyone asks, or those who ask would wait for those who are made.
    clients = [httpx.AsyncClient(**options, verify=False) for _ in range(CLIENTS)]
    end = time.perf_counter() + seconds

    async def client(number: int) -> None:
        rng = random.Random(number)
        async with clients[number] as asking:

            async def ask(kind: str, method: str, path: str, **more: Any) -> Any:
                await asyncio.sleep(2.0 * pause * rng.random())
                started = time.perf_counter()
                try:
                    found = await asking.request(method, path, **more)
                except httpx.HTTPError as problem:
                    errors.append(repr(problem))
                    raise
                taken[kind].append(1000.0 * (time.perf_counter() - started))
                statuses[str(found.status_code)] = statuses.get(str(found.status_code), 0) + 1
                return found.json()

            while time.perf_counter() < end:
                offset = PAGE * rng.randrange(40)
                page = await ask("list", "GET", "/api/cases", params={"offset": offset})
                name = rng.choice(page["lines"])["id"]
                case = await ask("case", "GET", "/api/case", params={"id": name})
                free = [t for t in range(case["steps"]) if t not in case["fixed"]]
                for _ in range(5):
                    edit = {"t": rng.choice(free), "action": rng.randrange(25)}
                    question = {"id": name, "edits": [edit]}
                    await ask("what-if", "POST", "/api/what-if", json=question)

    started = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(CLIENTS)))
    print(
        json.dumps(
            {
                "clients": CLIENTS,
                "seconds": time.perf_counter() - started,
                "statuses": statuses,
                "errors": errors,
                "milliseconds": taken,
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(float, sys.argv[2:4])))
