"""Cases: what the run and the library say of them, plans made by hand, answers under rules."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import polars as pl
import pytest

import counterplan as cp
from counterplan.explorer.models import CaseQuery
from counterplan.runs.explain import explain_spec
from counterplan.runs.explainer import TIPPING_DRAWS
from counterplan.runs.question import Question
from counterplan.runs.run import open_run
from counterplan.tables.fit import FitSettings, fit_discrete
from counterplan.tables.models import save_model
from counterplan.tables.parts import episodes_to_bytes
from counterplan.tables.schema import schema_from_dict
from counterplan.viz.claims import ASSUMPTIONS, DOUBTS

from ..viz.report.runs import ODD, solved
from .serving import Explorer, serving


def results(explorer: Explorer) -> pl.DataFrame:
    return open_run(explorer.service.run.folder).scan("results").collect()


def as_number(value: Any) -> float:
    return math.nan if value is None else float(value)


def solve(**wish: Any) -> dict[str, Any]:
    return {"kind": "solve", **wish}


def is_sure(line: dict[str, Any]) -> bool:
    """Whether it is established, with data under it."""
    return line["claim"] == "established" and line["supported"] is not False


def test_all_lines_are_those_of_the_run(discrete: Explorer) -> None:
    found = discrete.get("cases", limit=200)
    rows = results(discrete).filter(pl.col("k") == 2).to_dicts()
    assert found["total"] == len(rows) == 31
    assert found["k"] == 2
    by_id = {row["episode_id"]: row for row in rows}
    for line in found["lines"]:
        row = by_id.pop(line["id"])
        assert line["status"] == row["status"]
        assert line["changes"] == [change["text"] for change in row["changes"]]
        for name, column in (("factual", "factual"), ("value", "value"), ("gap", "gap")):
            assert line[name] == row[column]
        assert (line["supported"], line["reason"]) == (row["supported"], row["reason"])
        assert line["guaranteed"] == row["guaranteed"]
        assert (line["claim"] == "established") == bool(row["established"])
        assert line["outcomes"] == {"cured": row["outcome:cured"]}
    assert not by_id
    sure = [(is_sure(line), bool(line["changes"]), line["low"]) for line in found["lines"][:-1]]
    assert sure == sorted(sure, reverse=True), "by what is vouched for, what is not changed last"
    assert found["lines"][-1]["status"] == "failed"


@pytest.mark.parametrize("sort", get_args(CaseQuery.model_fields["sort"].annotation))
@pytest.mark.parametrize("descending", ["true", "false"])
def test_pages_fit_together(discrete: Explorer, sort: str, descending: str) -> None:
    order = {"sort": sort, "descending": descending}
    whole = discrete.get("cases", limit=200, **order)["lines"]
    pages = [
        discrete.get("cases", limit=7, offset=start, **order)["lines"] for start in range(0, 35, 7)
    ]
    assert [line for page in pages for line in page] == whole
    column = {"id": "id", "steps": "steps", "changes": None}.get(sort, sort)
    if column is not None:
        is_default = sort == "low" and descending == "true"
        shown = [line for line in whole if is_sure(line)] if is_default else whole
        keys = [line[column] for line in shown if line[column] is not None]
        if column != "id":
            keys = [as_number(key) for key in keys]
        assert keys == sorted(keys, reverse=descending == "true")


def test_filters(discrete: Explorer) -> None:
    rows = results(discrete).filter(pl.col("k") == 2)

    def ids(**wanted: Any) -> set[str]:
        lines = discrete.get("cases", limit=200, **wanted)["lines"]
        return {line["id"] for line in lines}

    def those(condition: pl.Expr) -> set[str]:
        return set(rows.filter(condition)["episode_id"])

    assert ids(status="failed") == {"lost-one"}
    assert ids(status=["optimal", "failed"]) == those(pl.col("episode_id") != "")
    assert ids(support="yes") == those(pl.col("supported"))
    assert ids(support="no") == those(~pl.col("supported"))
    assert ids(max_changes=1) == those(pl.col("n_changes") <= 1)
    low = pl.col("guaranteed") - pl.col("factual")
    middle = rows.select(low).to_series().drop_nulls().median()
    assert ids(min_improvement=middle) == those(low >= middle)
    assert ids(established="yes") == those(pl.col("established"))
    assert ids(established="no") == those(~pl.col("established").fill_null(False))
    assert ids(outcome="cured=1") == those(pl.col("outcome:cured") == "1")
    assert ids(search="E1") == {f"e{n}" for n in (*range(10, 20), 1)} - {"e1"}
    changed = those(
        pl.col("changes")
        .list.eval(pl.element().struct.field("text").str.contains("-> run"))
        .list.any()
    )
    assert ids(changed="-> RUN") == changed
    assert ids(search="no such thing") == set()
    assert {line["k"] for line in [discrete.get("cases", k=1)]} == {1}


def test_texts_are_taken_as_they_are(discrete: Explorer) -> None:
    """No pattern, no query: ids with every special sign are found by themselves."""
    for name in ODD:
        lines = discrete.get("cases", search=name)["lines"]
        assert name in [line["id"] for line in lines]
        assert discrete.get("case", id=name)["id"] == name
    assert discrete.get("cases", search=".*")["total"] == 0


def test_overview(discrete: Explorer) -> None:
    rows = results(discrete).filter(pl.col("k") == 2)
    found = discrete.get("overview")
    assert found["total"] == rows.height
    assert found["statuses"] == {"optimal": 30, "failed": 1}
    assert found["supported"] == rows["supported"].sum()
    assert found["established"] == rows["established"].sum()
    assert found["median"] == rows.select(pl.col("guaranteed") - pl.col("factual")).median().item()
    assert sum(bar["count"] for bar in found["bars"]) == rows["improvement"].drop_nulls().len()
    assert found["outcomes"] == {"cured": ["0", "1"]}
    none = discrete.get("overview", k=0)
    assert none["largest"] == 0.0
    assert none["bars"] == [{"low": 0.0, "high": 0.0, "count": 30}]  # drawn as a sentence


@pytest.mark.parametrize("k", [0, 1, 2])
def test_a_continuous_case_is_what_explain_says(continuous: Explorer, k: int) -> None:
    cases = continuous.service.items
    for line in continuous.get("cases", limit=200)["lines"]:
        recorded = cases.recorded(line["id"])
        episode = recorded.episode
        case = continuous.get("case", id=line["id"], k=k)
        # One call for all budgets, as the run has asked: later ones start from earlier ones.
        found = cp.frontier(
            **cases.run.explainer.problem(episode), episode=episode, k_max=min(2, len(episode))
        )
        found = found[min(k, len(episode))]
        answer = case["answer"]
        assert answer["value"] == found.value
        assert answer["factual"] == found.factual_value
        assert answer["bound"] == found.bound
        assert np.array_equal(answer["course"]["states"], found.states)
        assert answer["course"]["actions"] == [*found.actions.tolist(), None]
        assert case["observed"]["actions"] == [*found.observed.tolist(), None]
        assert np.array_equal(case["observed"]["states"], episode.states)
        assert case["times"] == recorded.times.tolist()
        assert case["fixed"] == [len(episode) - 1]
        changes = [(c["t"], c["observed"], c["alternative"]) for c in answer["changes"]]
        assert changes == [tuple(change) for change in found.changes]


def test_a_discrete_case_is_what_explain_says(discrete: Explorer) -> None:
    cases = discrete.service.items
    episode = cases.recorded("e7").episode
    found = cp.explain(**cases.run.explainer.problem(episode), episode=episode, k=2, doubt=0.2)
    case = discrete.get("case", id="e7")
    answer = case["answer"]
    path = found.most_likely
    assert answer["value"] == found.value
    low, high = cp.value_interval(cases.run.explainer.mdp, episode, found)
    assert (answer["guaranteed"], answer["doubt"]) == (low, 0.2)
    assert (answer["low"], answer["high"]) == (
        low - found.factual_value,
        high - found.factual_value,
    )
    assert [state[0] for state in answer["course"]["states"]] == path.states.tolist()
    assert answer["course"]["actions"] == path.actions.tolist()
    assert answer["course"]["changed"] == found.change_probabilities().sum(axis=1).tolist()
    assert set(case["names"][0].values()) <= {"0", "1", "2", "3"}
    assert sorted(case["order"][0]) == sorted({*path.states.tolist(), *episode.states.tolist()})
    nothing = case["budgets"][0]
    assert (nothing["k"], nothing["value"], nothing["bound"]) == (0, *[found.factual_value] * 2)


def test_a_budget_that_was_not_asked_about_and_a_case_that_has_failed(discrete: Explorer) -> None:
    case = discrete.get("case", id="e7", k=3)
    assert case["answer"] is None
    assert [budget["k"] for budget in case["budgets"]] == [0, 1, 2]
    failed = discrete.get("case", id="lost-one")["answer"]
    assert (failed["status"], failed["course"]) == ("failed", None)
    assert "state" in failed["reason"]
    job = discrete.finished(solve(id="lost-one", k=1))
    assert job["state"] == "failed"
    assert "state 9" in job["error"]


@pytest.mark.parametrize(
    ("kind", "path", "asked", "status", "says"),
    [
        ("discrete", "case?id=nobody", None, 404, "the run has no episode 'nobody'"),
        ("discrete", "scenario?id=e7", None, 404, "it has cases, not scenarios"),
        ("discrete", "scenarios", None, 404, "it has cases, not scenarios"),
        ("discrete", "cases?k=7", None, 400, "the run has answers for k = 0, 1, 2, not for 7"),
        ("continuous", "cases?outcome=cured=1", None, 400, "names here: died"),
        ("continuous", "jobs", {"k": 1, "forbidden": [3]}, 400, "action 3 is unknown"),
        ("continuous", "jobs", {"k": 1, "fixed": [99]}, 400, "step 99 has no decision"),
        ("continuous", "jobs", {"k": 99}, 400, "k cannot be 99"),
        ("continuous", "jobs", {"id": "nobody", "k": 1}, 404, "no episode 'nobody'"),
        ("continuous", "jobs", {"kind": "advise", "t": 0}, 404, "it has cases, not scenarios"),
        ("continuous", "jobs/x", None, 404, "there is no such job, or it was forgotten: ask again"),
        ("continuous", "what-if", {99: 0}, 400, "step 99 has no decision to edit"),
        ("continuous", "what-if", {0: 3}, 400, "action 3 is unknown; there are 0..2"),
        ("discrete", "jobs", {"k": 1, "doubt": 1.5}, 422, "less than or equal to 1"),
        ("discrete", "jobs", {"k": 1, "risk": 0.0}, 422, "greater than 0"),
        ("discrete", "jobs", {"k": 1, "doubt": "nan"}, 422, ""),
        ("discrete", "jobs", {"k": 1, "risk": 0.5}, 400, "risk is for models that know their data"),
        # Where nothing was done nothing can change, and what stands for no action is none.
        ("explorer", "what-if", {4: 0}, 400, "step 4 has no decision to edit"),
        ("explorer", "what-if", {0: 4}, 400, "action 4 is unknown"),
    ],
)
def test_what_makes_no_sense(
    kind: str, path: str, asked: Any, status: int, says: str, request: pytest.FixtureRequest
) -> None:
    explorer: Explorer = request.getfixturevalue(kind)
    if asked is not None:
        name = explorer.long_ids(4)[0]
        asked = edited(name, asked) if path == "what-if" else solve(**({"id": name} | asked))
    found = explorer.refused(path, asked)
    assert found[0] == status
    assert says in found[1]
    if path == "jobs/x":
        assert explorer.client.delete("/api/jobs/x").status_code == 404


def test_about(continuous: Explorer, discrete: Explorer, voyages: Explorer) -> None:
    about = continuous.get("run")
    assert (about["kind"], about["discrete"], about["budgets"]) == ("explain", False, [0, 1, 2])
    assert [one["title"] for one in about["features"]] == ["age", "level", "pressure"]
    assert [one["fixed"] for one in about["features"]] == [True, False, False]
    assert [one["better"] for one in about["features"]] == [None, "lower", "higher"]
    assert about["doses"][0]["title"] == "dose (mg)"
    assert about["actions"] == [[0.0], [1.0], [2.0]]
    assert discrete.get("run")["names"][0] == "rest"
    assert (voyages.get("run")["kind"], voyages.get("run")["sense"]) == ("regret", "min")


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
@pytest.mark.parametrize(
    ("k", "forbidden", "fixed"),
    [(2, [], []), (2, [2], []), (3, [0, 1], [0, 1]), (1, [0, 1, 2], []), (0, [], [])],
)
def test_the_best_under_rules_is_what_explain_says(
    kind: str, k: int, forbidden: list[int], fixed: list[int], request: pytest.FixtureRequest
) -> None:
    explorer: Explorer = request.getfixturevalue(kind)
    cases, name = explorer.service.items, explorer.long_ids(4)[0]
    episode, allowed = cases.recorded(name).episode, np.ones(3, dtype=np.bool_)
    allowed[forbidden] = False
    dial: Any = {"doubt": 0.2} if kind == "discrete" else {}
    found = cp.explain(
        **cases.run.explainer.problem(episode),
        **dial,
        episode=episode,
        k=k,
        constraints=cp.Constraints(allowed=allowed, fixed_steps=fixed),
    )
    job = explorer.finished(solve(id=name, k=k, forbidden=forbidden, fixed=fixed))
    answer = job["solved"]["answer"]
    assert (job["state"], answer["status"]) == ("done", "optimal")
    assert (answer["value"], answer["bound"]) == (found.value, found.bound)
    changes = [(c["t"], c["observed"], c["alternative"]) for c in answer["changes"]]
    assert changes == [tuple(change) for change in found.changes]
    assert all(t not in fixed and new not in forbidden for t, _, new in changes)
    if kind == "continuous":
        assert np.array_equal(answer["course"]["states"], found.states)
        return
    # The run asked for robust intervals, and so does this.
    ends = cp.value_interval(cases.run.explainer.mdp, episode, found)
    assert (answer["low"], answer["high"]) == tuple(end - found.factual_value for end in ends)


def test_searched_outside_the_data(discrete: Explorer) -> None:
    """As the run was, inside the data; anywhere if that is asked for."""
    cases, freed = discrete.service.items, 0
    assert "same state" in discrete.get("run")["rule"]
    for name in discrete.long_ids(4):
        episode = cases.recorded(name).episode
        values = []
        for anywhere in (False, True):
            found = cp.explain(
                **cases.run.explainer.problem(episode),
                episode=episode,
                k=2,
                constraints=cp.Constraints(supported=not anywhere),
                doubt=0.2,
            )
            answer = discrete.finished(solve(id=name, k=2, anywhere=anywhere))["solved"]["answer"]
            assert answer["value"] == found.value
            values.append(found.value)
        freed += values[1] > values[0]
        if freed:  # one is enough
            break
    assert freed > 0


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
    assert all(one["value"] <= as_number(one["bound"]) for one in seen)
    assert long.client.delete(f"/api/jobs/{job['job']}").status_code == 200
    over = long.wait(job["job"])
    assert (over["state"], over["solved"], over["error"]) == ("cancelled", None, None)
    limited = long.finished(solve(id="long 0", k=12, seconds=0.5))
    answer = limited["solved"]["answer"]
    assert limited["limit"] == 0.5
    assert (answer["status"], answer["value"] < as_number(answer["bound"])) == ("limit", True)
    # One that is ended before its question is here never begins; once it is over it stays so.
    name = "0123456789abcdef01234567"
    assert long.client.delete(f"/api/jobs/{name}").json()["state"] == "cancelled"
    late = long.post("jobs", solve(id="long 0", k=12, job=name), 202)
    assert (late["job"], late["state"], late["solved"]) == (name, "cancelled", None)
    assert long.refused("jobs", solve(id="long 0", k=12, job="x"))[0] == 422
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


def edited(name: str, edits: dict[int, int]) -> dict[str, Any]:
    return {"id": name, "edits": [{"t": t, "action": a} for t, a in edits.items()]}


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
def test_a_plan_by_hand_is_what_replay_says(kind: str, request: pytest.FixtureRequest) -> None:
    """The best one that the run knows, none at all, and some at random."""
    explorer: Explorer = request.getfixturevalue(kind)
    rng, cases = np.random.default_rng(0), explorer.service.items
    for name in explorer.long_ids():
        episode, best = cases.recorded(name).episode, explorer.get("case", id=name)["answer"]
        known = {change["t"]: change["alternative"] for change in best["changes"]}
        drawn = {int(rng.integers(len(episode) - 1)): int(rng.integers(3)) for _ in range(3)}
        for edits in ({}, known, drawn):
            answered = explorer.post("what-if", edited(name, edits))
            found, problem = answered["answer"], cases.run.explainer.problem(episode)
            plan = cp.replay(**problem, episode=episode, changes=edits)
            assert answered["milliseconds"] > 0
            assert (found["value"], found["factual"]) == (plan.value, plan.factual_value)
            changes = [(one["t"], one["observed"], one["alternative"]) for one in found["changes"]]
            assert changes == [tuple(change) for change in plan.changes]
            course, last = found["course"], [None] if kind == "continuous" else []
            assert course["actions"] == [*plan.actions.tolist(), *last]
            assert np.array_equal(np.squeeze(course["states"]), np.squeeze(plan.states))
            if edits == known and kind == "continuous":
                assert (found["value"], course, found["support"]) == (
                    best["value"], best["course"], best["support"],
                )  # fmt: skip
                texts = [change["text"] for change in best["changes"]]
                assert [change["text"] for change in found["changes"]] == texts


# The columns are in no order of the alphabet: their own is that of the model.
SCHEMA = {
    "table": {"unit": "d"},
    "columns": {
        "pain": {"role": "state", "levels": [0, 1, 2], "better": "lower", "unit": "points"},
        "bed": {"role": "state", "labels": ["home", "ward"]},
        "dose": {"role": "action", "levels": [0, 5], "unit": "mg"},
        "bath": {"role": "action", "labels": ["no", "yes"]},
    },
}
STEPS = 5


@pytest.fixture(scope="module")
def explorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explorer]:
    yield from _served(tmp_path_factory.mktemp("schema"), Question((1, 2)))


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explorer]:
    """A table in which nobody has the higher dose with a bath, and a run with rules."""
    question = Question((1, 2), forbid=("dose=0 & bath=yes",), keep=(0,))
    yield from _served(tmp_path_factory.mktemp("ruled"), question, together=False)


def _served(folder: Path, question: Question, together: bool = True) -> Iterator[Explorer]:
    rng, lines = np.random.default_rng(1), ["episode_id,t,pain,bed,dose,bath"]
    for number in range(60):
        pain = int(rng.integers(3))
        for t in range(STEPS):
            dose, walk = int(rng.choice([0, 5])), str(rng.choice(["no", "yes"]))
            walk = walk if together or dose == 0 else "no"
            place = str(rng.choice(["home", "ward"]))
            is_last = t == STEPS - 1
            lines.append(f"n{number},{t},{pain},{place}," + ("," if is_last else f"{dose},{walk}"))
            step = -int(rng.random() < (0.3 + 0.1 * dose)) + int(rng.random() < 0.4)
            pain = int(np.clip(pain + step, 0, 2))
    table = folder / "table.csv"
    table.write_text("\n".join(lines) + "\n")
    schema = schema_from_dict(SCHEMA)
    model = fit_discrete(table, schema, FitSettings(bar_unobserved=False)).model
    save_model(model, folder / "model.safetensors")
    about = {"kind": "schema", "schema": schema.as_dict()}
    content = (folder / "model.safetensors").read_bytes()
    spec = explain_spec(content, ".safetensors", about, question, [])
    recorded = list(cp.tables.read_table(table, schema))[:20]
    solved(spec, [episodes_to_bytes(recorded)], folder / "out")
    with serving(folder / "out") as explorer:
        yield explorer


def test_columns_have_names_and_units(explorer: Explorer) -> None:
    about = explorer.get("run")
    assert [one["title"] for one in about["features"]] == ["pain (points)", "bed"]
    assert about["features"][1]["labels"] == ["home", "ward"]
    assert [one["title"] for one in about["doses"]] == ["dose (mg)", "bath"]
    assert about["actions"] == [[0.0, 0.0], [0.0, 1.0], [5.0, 0.0], [5.0, 1.0]]
    assert about["names"][3] == "dose 5 mg, bath yes"
    assert (about["noun"], about["unit"], about["discrete"]) == ("episode", "d", True)


def test_the_rules_of_the_run_and_what_hardly_occurs_hold_here_too(ruled: Explorer) -> None:
    about = ruled.get("run")
    assert about["barred"] == [1, 3]
    assert about["notes"][1:-2] == [
        "Advises only the 3 of 4 combinations of dose and bath that occur at least 5 times.",
        "Forbidden: dose=0 & bath=yes.",
        "Steps that stay as they were: 0.",
    ]
    case, run = ruled.get("case", id="n3"), ruled.service.items.run
    assert case["fixed"] == [STEPS - 1], "what the run keeps may be edited by hand"
    asked = {"kind": "solve", "id": "n3", "k": 3, "forbidden": [2], "fixed": [2]}
    episode = ruled.service.items.recorded("n3").episode
    allowed = np.array([True, False, False, False, False])
    found = cp.explain(
        **run.explainer.problem(episode),
        episode=episode,
        k=3,
        constraints=cp.Constraints(allowed=allowed, fixed_steps=[0, 2, -1]),
    )
    answer = ruled.finished(asked)["solved"]["answer"]
    assert answer["value"] == found.value
    for action, words in ((3, ["hardly anybody in the data had this"]), (1, [])):
        if episode.actions[1] != action:
            notes = ruled.post("what-if", edited("n3", {1: action}))["answer"]["notes"]
            assert [note.split(": ")[-1].split(";")[0] for note in notes] == words


def test_states_are_told_column_by_column(explorer: Explorer) -> None:
    case = explorer.get("case", id="n3")
    episode = explorer.service.items.recorded("n3").episode
    grid = explorer.service.items.run.explainer.layout.states.vectors
    assert case["observed"]["states"] == grid[episode.states].tolist()
    assert case["observed"]["actions"][-1] is None
    assert case["answer"]["course"]["actions"][-1] is None
    assert case["fixed"] == [STEPS - 1]
    assert case["names"][1].items() <= {("0", "home"), ("1", "ward")}
    assert case["order"] == [[], []]


def test_a_plan_by_many_models_has_an_interval_bands_and_a_dial(members: Explorer) -> None:
    about = members.get("run")
    assert (about["dial"], about["usual"]) == ("risk", 0.25)
    line = next(one for one in members.get("cases")["lines"] if one["changes"])
    case, cases = members.get("case", id=line["id"]), members.service.items
    episode, stored = cases.recorded(line["id"]).episode, case["answer"]
    edits = {change["t"]: change["alternative"] for change in stored["changes"]}
    problem = cases.run.explainer.problem(episode)
    found: Any = cp.replay(**problem, episode=episode, changes=edits)
    asked = edited(line["id"], edits)
    by_hand = members.post("what-if", asked)["answer"]
    ends = np.quantile(found.member_states, [0.05, 0.95], axis=0, method="nearest")
    for answer in (stored, by_hand):
        assert answer["improvement"] == pytest.approx(found.improvement, rel=1e-9)
        assert (answer["low"], answer["high"]) == pytest.approx(found.interval, rel=1e-9)
        assert answer["harm"] == found.harm
        assert answer["holds"].lower().startswith(answer["claim"])
        np.testing.assert_allclose(answer["course"]["band"], ends, rtol=1e-9)
    rests = members.finished({"kind": "rests", "k": 1, **asked})["rests"]
    curves = cp.sensitivity(problem["scm"], episode, found, TIPPING_DRAWS)
    np.testing.assert_allclose(rests["rho"]["mean"], curves.at_rho.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(rests["gamma"]["mean"], curves.at_gamma.mean(axis=0), rtol=1e-9)
    assert rests["gamma"]["tipping"] == pytest.approx(curves.tipping_gamma)
    careful, mean = (
        members.finished({"kind": "solve", "id": line["id"], "k": 1, "risk": risk})["solved"]
        for risk in (0.2, 1.0)
    )
    assert (careful["answer"]["risk"], mean["answer"]["risk"]) == (0.2, 1.0)
    assert careful["answer"]["value"] <= mean["answer"]["value"] + 1e-9


def test_the_dial_of_a_discrete_model_is_doubt(discrete: Explorer) -> None:
    about = discrete.get("run")
    assert (about["dial"], about["usual"]) == ("doubt", 0.2)
    cases, name = discrete.service.items, discrete.long_ids()[0]
    episode, question = cases.recorded(name).episode, cases.run.question
    rests = discrete.finished({"kind": "rests", "id": name, "k": 2, "doubt": 0.5})["rests"]
    assert [row[0] for row in rests["by_doubt"]] == [*DOUBTS]
    for doubt, value, sure in rests["by_doubt"]:
        wanted = replace(question, budgets=(2,), doubt=doubt)
        (found,) = cases.run.explainer.explain(episode, wanted)
        assert (value, sure) == pytest.approx((found.value, found.guaranteed), rel=1e-9)
        solve = {"kind": "solve", "id": name, "k": 2, "doubt": doubt}
        if doubt in (0.0, 0.5):
            answer = discrete.finished(solve)["solved"]["answer"]
            assert (answer["doubt"], answer["value"]) == (doubt, value)
        if doubt == 0.5:
            ranges = [found.interval_in(cases.run.explainer.mdp, one) for one in ASSUMPTIONS]
            np.testing.assert_allclose(rests["ranges"], ranges)
