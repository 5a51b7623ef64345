"""Asked again under rules: the same answer as the library's with the same constraints."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import counterplan as cp

from .serving import Explorer


def solve(**wish: Any) -> dict[str, Any]:
    return {"kind": "solve", **wish}


@pytest.mark.parametrize(
    ("k", "forbidden", "fixed"),
    [(2, [], []), (2, [2], []), (2, [], [0, 1]), (3, [0, 1], [1]), (1, [0, 1, 2], []), (0, [], [])],
)
def test_continuous(continuous: Explorer, k: int, forbidden: list[int], fixed: list[int]) -> None:
    cases = continuous.service.cases
    allowed = np.ones(3, dtype=np.bool_)
    allowed[forbidden] = False
    for name in continuous.long_ids(4)[:3]:
        episode = cases.recorded(name).episode
        found = cp.explain(
            **cases.run.explainer.problem(episode),
            episode=episode,
            k=k,
            constraints=cp.Constraints(allowed=allowed, fixed_steps=fixed),
        )
        job = continuous.finished(solve(id=name, k=k, forbidden=forbidden, fixed=fixed))
        answer = job["solved"]["answer"]
        assert (job["state"], answer["status"]) == ("done", "optimal")
        assert (answer["value"], answer["bound"]) == (found.value, found.bound)
        assert np.array_equal(answer["course"]["states"], found.states)
        changes = [(c["t"], c["observed"], c["alternative"]) for c in answer["changes"]]
        assert changes == [tuple(change) for change in found.changes]
        assert all(t not in fixed and new not in forbidden for t, _, new in changes)


@pytest.mark.parametrize(
    ("k", "forbidden", "fixed"), [(2, [], []), (3, [1], [0]), (6, [], [2]), (1, [0, 1, 2], [])]
)
def test_discrete(discrete: Explorer, k: int, forbidden: list[int], fixed: list[int]) -> None:
    cases = discrete.service.cases
    allowed = np.ones(3, dtype=np.bool_)
    allowed[forbidden] = False
    name = discrete.long_ids(6)[0]
    episode = cases.recorded(name).episode
    found = cp.explain(
        **cases.run.explainer.problem(episode),
        episode=episode,
        k=k,
        constraints=cp.Constraints(allowed=allowed, fixed_steps=fixed),
    )
    job = discrete.finished(solve(id=name, k=k, forbidden=forbidden, fixed=fixed))
    answer = job["solved"]["answer"]
    assert (answer["value"], answer["bound"]) == (found.value, found.bound)
    assert answer["course"]["actions"] == found.most_likely.actions.tolist()
    # The run asked for robust intervals, and so does this.
    assert (answer["low"], answer["high"]) == tuple(
        cp.value_interval(cases.run.explainer.mdp, episode, found)
    )


def test_a_proved_answer_is_known_the_next_time(continuous: Explorer) -> None:
    name = continuous.long_ids(4)[0]
    first = continuous.finished(solve(id=name, k=2, fixed=[1, 0]))
    again = continuous.post("jobs", solve(id=name, k=2, fixed=[0, 1, 1], seconds=3), 202)
    assert again["state"] == "done"
    assert again["solved"] == first["solved"]


def test_progress_limit_and_cancel(long: Explorer) -> None:
    question = solve(id="long 0", k=12)
    job = long.post("jobs", question, 202)
    assert job["state"] in ("queued", "running")
    seen: list[dict[str, Any]] = []
    end = time.monotonic() + 60.0
    while len(seen) < 3:
        assert time.monotonic() < end
        now = long.get(f"jobs/{job['job']}")
        assert now["state"] in ("queued", "running"), now
        if now["progress"] is not None and now["progress"] not in seen:
            seen.append(now["progress"])
        time.sleep(0.05)
    assert [one["nodes"] for one in seen] == sorted(one["nodes"] for one in seen)
    assert all(one["value"] <= one["bound"] for one in seen)
    assert long.client.delete(f"/api/jobs/{job['job']}").status_code == 200
    over = long.wait(job["job"])
    assert (over["state"], over["solved"], over["error"]) == ("cancelled", None, None)
    limited = long.finished(solve(id="long 0", k=12, seconds=0.5))
    answer = limited["solved"]["answer"]
    assert limited["limit"] == 0.5
    assert (answer["status"], answer["value"] < answer["bound"]) == ("limit", True)
    # What was stopped early is not kept.
    assert long.post("jobs", solve(id="long 0", k=12, seconds=0.5), 202)["state"] != "done"


def test_the_server_has_a_limit_of_its_own(long: Explorer) -> None:
    job = long.post("jobs", solve(id="long 0", k=12, seconds=86_400), 202)
    assert job["limit"] == 20.0
    long.client.delete(f"/api/jobs/{job['job']}")
    long.wait(job["job"])


def test_too_many_questions(long: Explorer) -> None:
    client = long.another()
    client.get("/api/run")  # the cookie that tells clients apart
    asked = [client.post("/api/jobs", json=solve(id="long 0", k=12, fixed=[t])) for t in range(6)]
    assert [one.status_code for one in asked] == [202] * 4 + [429] * 2
    assert asked[-1].json()["error"].startswith("you have 4 questions waiting or at work")
    # Others are not kept from asking.
    other = long.post("jobs", solve(id="long 1", k=12), 202)
    jobs = [one.json()["job"] for one in asked[:4]]
    for name in (*jobs, other["job"]):
        long.client.delete(f"/api/jobs/{name}")
    assert {long.wait(name)["state"] for name in (*jobs, other["job"])} == {"cancelled"}


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"k": 1, "forbidden": [3]}, "action 3 is unknown"),
        ({"k": 1, "fixed": [99]}, "step 99 has no decision"),
        ({"k": 99}, "k cannot be 99"),
    ],
)
def test_wishes_about_nothing(continuous: Explorer, wish: dict[str, Any], says: str) -> None:
    name = continuous.long_ids(4)[0]
    found = continuous.client.post("/api/jobs", json=solve(id=name, **wish))
    assert found.status_code == 400
    assert says in found.json()["error"]


def test_jobs_that_are_unknown(continuous: Explorer) -> None:
    for found in (continuous.client.get("/api/jobs/x"), continuous.client.delete("/api/jobs/x")):
        assert (found.status_code, found.json()) == (
            404,
            {"error": "there is no such job, or it was forgotten: ask again"},
        )
    wrong = continuous.client.post("/api/jobs", json=solve(id="nobody", k=1))
    assert wrong.status_code == 404
    wrong = continuous.client.post("/api/jobs", json={"kind": "advise", "id": "s7", "t": 0})
    assert wrong.status_code == 404


def test_an_episode_that_cannot_be_solved(discrete: Explorer) -> None:
    job = discrete.finished(solve(id="lost-one", k=1))
    assert job["state"] == "failed"
    assert "state 9" in job["error"]
