"""The explorer on loopback: `python -m benchmarks.explorer` in the repository's root.

For a run of 16,000 stays of the sepsis model and one of 16,000 patients of ICU-Sepsis, served by
`counterplan serve` in a process of its own:

    start      until it answers, and its memory then and at the end
    list       a page of 25, by the largest improvement
    what-if    one edited action: milliseconds on the server, asked by one client; the first
               question about an episode and later ones
    processor  what such a question takes of a core
    load       fifty clients at once (`explorer_load`), for a bounded time: who ask once in a second
               on average, and who ask again as soon as they have an answer

On two cores the clients take a good part of what there is.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.discrete import ONE_THREAD

RESULTS = Path(__file__).parent / "results"
EPISODES, PARTS = 50, 320
QUESTIONS = 200
LOAD_SECONDS = 15.0
# Seconds that a client waits before each request, on average.
PAUSES = {"once a second": 1.0, "without a pause": 0.0}


def main() -> int:
    """Measure, print and write everything."""
    os.environ.update(ONE_THREAD)
    from benchmarks.cohort_problems import icu_cohort, sepsis_cohort
    from benchmarks.measure import machine

    load, found = [os.getloadavg()[0]], []
    for cohort in (sepsis_cohort(EPISODES), icu_cohort(EPISODES)):
        found.append(_measure(cohort))
        load.append(os.getloadavg()[0])
    document = {"machine": machine(), "load": load, "found": found}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "explorer.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    text = _markdown(document)
    (RESULTS / "explorer.md").write_text(text, encoding="utf-8")
    print(text)
    return 0 if not any(one["errors"] for row in found for one in row["load"].values()) else 1


def _measure(cohort: Any) -> dict[str, Any]:
    from benchmarks.explorer_runs import write_run

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        episodes = write_run(cohort, out, PARTS)
        started = time.perf_counter()
        server, url = _serve(out)
        try:
            row = {"run": cohort.name, "episodes": episodes}
            row |= {"start s": time.perf_counter() - started, "start MB": _memory(server)}
            row |= _alone(url)
            row |= {"what-if processor ms": _processor(url, server)}
            row["load"] = {name: _together(url, pause) for name, pause in PAUSES.items()}
            return {**row, "end MB": _memory(server)}
        finally:
            server.terminate()
            server.communicate()


def _serve(out: Path) -> tuple[subprocess.Popen[str], str]:
    """A server in a process of its own, ready."""
    program = "from counterplan.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", str(out), "--port", "0", "--json"]
    server = subprocess.Popen([*command, "--workers", "1"], text=True, stdout=subprocess.PIPE)
    assert server.stdout is not None
    said = ""
    while not said.endswith("}\n"):
        said += server.stdout.readline()
    return server, str(json.loads(said)["url"])


def _memory(server: subprocess.Popen[str]) -> float:
    """What a process holds, in MB."""
    lines = Path(f"/proc/{server.pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def _alone(url: str) -> dict[str, Any]:
    """One client: a page of the list, and plans made by hand."""
    import httpx

    rng, first, later, lists = random.Random(0), [], [], []
    with httpx.Client(base_url=url, timeout=60.0, trust_env=False) as client:
        for offset in range(0, 1_000, 50):
            started = time.perf_counter()
            page = client.get("/api/cases", params={"offset": offset, "limit": 25}).json()
            lists.append(1000.0 * (time.perf_counter() - started))
        names = [line["id"] for line in page["lines"]]
        for number in range(QUESTIONS):
            name = names[number // 10 % len(names)]
            case = client.get("/api/case", params={"id": name}).json()
            free = [t for t in range(case["steps"]) if t not in case["fixed"]]
            edit = {"t": rng.choice(free), "action": rng.randrange(25)}
            found = client.post("/api/what-if", json={"id": name, "edits": [edit]}).json()
            (first if number % 10 == 0 else later).append(found["milliseconds"])
    return {"list ms": _spread(lists), "first ms": _spread(first), "what-if ms": _spread(later)}


def _processor(url: str, server: subprocess.Popen[str]) -> float:
    """What a plan made by hand takes of one core, request and all, whatever else goes on."""
    import httpx

    rng = random.Random(1)
    with httpx.Client(base_url=url, timeout=60.0, trust_env=False) as client:
        names = [line["id"] for line in client.get("/api/cases").json()["lines"]]
        cases = [client.get("/api/case", params={"id": name}).json() for name in names]
        started = _used(server)
        for number in range(QUESTIONS):
            case = cases[number % len(cases)]
            free = [t for t in range(case["steps"]) if t not in case["fixed"]]
            edit = {"t": rng.choice(free), "action": rng.randrange(25)}
            client.post("/api/what-if", json={"id": case["id"], "edits": [edit]})
        return 1000.0 * (_used(server) - started) / QUESTIONS


def _used(server: subprocess.Popen[str]) -> float:
    """Seconds of a processor that a process has used."""
    fields = Path(f"/proc/{server.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _together(url: str, pause: float) -> dict[str, Any]:
    """Fifty clients, as a program of their own."""
    program = [sys.executable, "-m", "benchmarks.explorer_load"]
    finished = subprocess.run(
        [*program, url, str(LOAD_SECONDS), str(pause)],
        capture_output=True,
        text=True,
        check=True,
        timeout=20 * LOAD_SECONDS,
    )
    found = json.loads(finished.stdout)
    answers = sum(found["statuses"].values())
    wrong = answers - found["statuses"].get("200", 0)
    return {
        "clients": found["clients"],
        "answers": answers,
        "per second": answers / found["seconds"],
        "errors": [*found["errors"], *(["status"] * wrong)],
        "load ms": {kind: _spread(taken) for kind, taken in found["milliseconds"].items()},
    }


def _spread(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "median": statistics.median(ordered),
        "95 %": ordered[int(0.95 * (len(ordered) - 1))],
        "largest": ordered[-1],
    }


def _markdown(document: dict[str, Any]) -> str:
    from benchmarks.measure import conditions

    lines = [
        "# The explorer",
        "",
        "Written by `python -m benchmarks.explorer`.",
        "",
        f"{conditions(document)}: above the number of cores, times include waiting for others.",
        "",
        "Milliseconds are median / 95 % / largest. What-if is what the server took for one edited "
        "action, asked by one client; *first* is the first question about an episode. *Processor* "
        "is what one takes of a core, request and all, whatever else goes on.",
        "",
        "| run | episodes | ready after s | MB, MB after load | list ms | what-if, first ms | "
        "what-if ms | processor ms |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in document["found"]:
        times = (_said(row[name]) for name in ("list ms", "first ms", "what-if ms"))
        memory = f"{row['start MB']:.0f}, {row['end MB']:.0f}"
        start = f"{row['start s']:.1f}"
        processor = f"{row['what-if processor ms']:.0f}"
        cells = (row["run"], f"{row['episodes']:,}", start, memory, *times, processor)
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        f"Fifty clients at once for {LOAD_SECONDS:.0f} s, each a page of the list, a case and five "
        "plans made by hand in turn:",
        "",
        "| run | each asks | answers | per second | errors | list ms | case ms | what-if ms |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in document["found"]:
        for name, load in row["load"].items():
            times = (_said(load["load ms"][kind]) for kind in ("list", "case", "what-if"))
            cells = (row["run"], name, f"{load['answers']:,}", f"{load['per second']:.0f}")
            lines.append(f"| {' | '.join((*cells, str(len(load['errors'])), *times))} |")
    return "\n".join([*lines, ""])


def _said(spread: dict[str, float]) -> str:
    return " / ".join(f"{value:.0f}" for value in spread.values())


if __name__ == "__main__":
    sys.exit(main())
