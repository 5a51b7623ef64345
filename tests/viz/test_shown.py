"""Results and models where they are looked at: lines, summaries, frames, figures and pages."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counterplan as cp

LONGEST_LINE = 200
SCHEMA = {
    "table": {"episode": "patient", "time": "visit"},
    "columns": {
        "pressure": {"role": "state", "better": "lower", "unit": "mmHg"},
        "dose": {"role": "action", "levels": [0, 5, 10], "unit": "mg"},
    },
}


@pytest.fixture(scope="module")
def visits() -> pl.DataFrame:
    """Pressures that a dose lowers by 0.8 for each mg."""
    rng, rows = np.random.default_rng(0), []
    for patient in range(40):
        pressure = rng.normal(140.0, 10.0)
        for visit in range(6):
            dose = float(rng.choice([0.0, 5.0, 10.0]))
            rows.append((f"p{patient}", visit, pressure, dose))
            pressure += 0.1 * (140.0 - pressure) - 0.8 * dose + rng.normal(0.0, 3.0)
    return pl.DataFrame(rows, schema=["patient", "visit", "pressure", "dose"], orient="row")


@pytest.fixture(scope="module")
def shown(visits: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One of every kind that can be looked at."""
    rng = np.random.default_rng(0)
    mdp = cp.TabularMDP(rng.dirichlet(np.ones(5), (5, 3)), rng.random((5, 3)))
    seen = cp.Episode(states=[0, 1, 2, 3, 1], actions=[0, 1, 2, 0, 1])
    model = cp.fit(visits, SCHEMA, members=4)
    answers = cp.explain_table(visits.head(24), model, k=1)
    folder = tmp_path_factory.mktemp("shown") / "out"
    problem = cp.domains.Bunkering()
    played = cp.evaluate(problem, cp.policies.Greedy(), episodes=5)
    bought = cp.Episode(states=problem.sample_path(seed=0), actions=played.actions[0])
    return {
        "mdp": mdp,
        "scm": cp.GumbelMaxSCM(mdp),
        "policy": cp.explain(mdp, seen, k=2),
        "frontier": cp.frontier(mdp, seen, k_max=2),
        "model": model,
        "answers": answers,
        "sequence": answers[0].explanation,
        "run": cp.explain_table(visits.head(24), model, k=1, folder=folder, workers=1),
        "schema": cp.draft_schema(visits),
        "allocation": cp.explain(problem, bought, k=1),
        "evaluation": played,
        "plan": cp.plan(problem, cp.UCT(50)),
    }


KINDS = (
    *("mdp", "scm", "policy", "frontier", "model", "answers", "sequence", "run", "schema"),
    *("allocation", "evaluation", "plan"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_looked_at(shown: dict[str, Any], kind: str) -> None:
    thing = shown[kind]
    line = repr(thing)
    assert len(line) <= LONGEST_LINE
    assert " at 0x" not in line
    summary = str(thing.summary())
    assert all(len(one) <= 80 for one in summary.splitlines())
    page = thing._repr_html_()
    assert not re.search(r"(src|href)=.https?:|<script", page)  # nothing from a network
    frame = thing.to_frame()
    assert frame.height
    assert thing.to_pandas().shape == frame.shape
    if kind != "schema":
        assert thing.plot().axes
        assert "<img" in page


def test_a_summary_says_what_to_do_how_sure_it_is_and_what_it_rests_on(
    shown: dict[str, Any],
) -> None:
    found = shown["sequence"]
    text = " ".join(str(found.summary()).split())
    (change,) = found.changes
    amounts = [0, 5, 10]
    was, instead = amounts[change.observed], amounts[change.alternative]
    assert f"{change.t} dose (mg): {was} → {instead}" in text
    assert "established" in text.lower()
    assert "(90 %)" in text
    assert "SmoothSCM with 4 members" in text
    assert "mmHg" in text
    low, high = found.interval
    assert f"{low:+.4g} to {high:+.4g}" in text


def test_frames_hold_the_numbers_of_results(shown: dict[str, Any]) -> None:
    mdp, policy, frontier = shown["mdp"], shown["policy"], shown["frontier"]
    rows = mdp.to_frame()
    sums = rows.group_by("state", "action").agg(pl.col("probability").sum())
    np.testing.assert_allclose(sums["probability"], 1.0, atol=1e-12)
    one = rows.filter((pl.col("state") == "3") & (pl.col("action") == "2"))
    np.testing.assert_array_equal(one["probability"], mdp.row(3, 2)[mdp.row(3, 2) > 0])
    steps = policy.to_frame()
    assert steps["counterfactual_action"].to_list() == policy.actions.tolist()
    assert steps.filter("changed")["t"].to_list() == [one.t for one in policy.changes]
    assert frontier.to_frame()["value"].to_list() == list(frontier.values)
    best = shown["sequence"]
    given = best.to_frame()
    (rows,) = shown["run"].rows_of("trajectories", [best.episode.id], 1).values()
    for name in given.columns:
        assert given[name].to_list() == [row[name] for row in rows]
    then = given.filter("changed")["counterfactual_action:dose"].to_list()
    assert then == [[0.0, 5.0, 10.0][one.alternative] for one in best.changes]
    plan = shown["plan"]
    chosen = plan.to_frame().filter("chosen")
    assert chosen["units bought"].to_list() == plan.action.tolist()
    assert shown["answers"].to_frame().equals(shown["run"].to_frame())


def test_a_model_of_ones_own_has_a_line_and_no_table() -> None:
    own = cp.AdditiveNoiseSCM(lambda s, a: s + a, lipschitz=1.0)
    assert repr(own) == "AdditiveNoiseSCM()"
    assert "s' = location(s, a) + u" in str(own.summary())
    with pytest.raises(cp.errors.InputError, match="made of functions"):
        own.to_frame()


@pytest.mark.parametrize(
    "call",
    [
        lambda shown: cp.explain(shown["mdp"], None, 2, riks=1),
        lambda shown: cp.frontier(shown["mdp"], None, 2, riks=1),
        lambda shown: cp.fit(None, SCHEMA, riks=1),
        lambda shown: cp.explain_table(None, shown["model"], riks=1),
        lambda shown: shown["run"].cases(riks=1),
        lambda shown: shown["run"].report("page.html", riks=1),
    ],
)
def test_a_wrong_keyword_is_answered_with_the_right_ones(
    shown: dict[str, Any], call: Callable[[Any], Any]
) -> None:
    with pytest.raises(TypeError, match=r"unknown argument 'riks': there are \w+, ") as caught:
        call(shown)
    assert "self" not in str(caught.value)


@pytest.mark.parametrize("function", [cp.explain, cp.frontier, cp.fit, cp.explain_table])
def test_signatures_and_help_name_every_option(function: Any) -> None:
    known = inspect.signature(function).parameters
    assert not any(one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL) for one in known.values())
    told = inspect.getdoc(function) or ""
    options = [one.name for one in known.values() if one.kind is one.KEYWORD_ONLY]
    if function is not cp.fit:  # settings of networks are told by their class
        assert [name for name in options if not re.search(rf"\b{name}\b", told)] == []


def test_a_run_is_opened_asked_and_reported(shown: dict[str, Any], tmp_path: Path) -> None:
    run = cp.open_run(shown["run"].folder)
    assert run.cases(limit=2).height == 2
    assert run.results().collect().height == 4
    assert run.episode("p1").episode.id == "p1"
    page = run.report(tmp_path / "page.html", cases=1)
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_schema_is_plain_values_text_or_a_file(tmp_path: Path) -> None:
    text = (
        '[table]\nepisode = "patient"\ntime = "visit"\n[columns.pressure]\nrole = "state"\n'
        'better = "lower"\nunit = "mmHg"\n[columns.dose]\nrole = "action"\n'
        'levels = [0, 5, 10]\nunit = "mg"\n'
    )
    file = tmp_path / "schema.toml"
    file.write_text(text, encoding="utf-8")
    read = cp.tables.read_schema
    first = read(SCHEMA)
    assert read(text).as_dict() == read(file).as_dict() == first.as_dict()
    assert read(first) is first
    with pytest.raises(cp.errors.InputError, match=r"pressure.role: .stat. is none of state"):
        read({"columns": {"pressure": {"role": "stat"}, "dose": {"role": "action"}}})


def test_minus_infinity_names_the_pair_that_causes_it() -> None:
    rewards = np.array([[0.0, 1.0], [0.0, -np.inf], [1.0, 2.0]])
    names = {"state_labels": ("low", "mid", "high"), "action_labels": ("wait", "treat")}
    rows = np.full((3, 2, 3), 1 / 3)
    rows[0, 1] = 0.2, 0.6, 0.2
    mdp = cp.TabularMDP(rows, rewards, **names)  # type: ignore[arg-type]
    pair = "(state mid, action treat) at t=1 is of reward -inf"
    harmless, barred = (cp.Episode([0, 1, 2], [0, action, 0]) for action in (0, 1))
    edited = cp.replay(mdp, harmless, {1: 1})
    assert (edited.value, edited.barred) == (-np.inf, (f"with changes: {pair}",))
    # What is drawn anew may come to the pair, though the likeliest course does not.
    drawn = cp.replay(mdp, cp.Episode([0, 0, 2], [0, 1, 0]), {0: 1})
    assert drawn.barred == (f"with changes: {pair}",)
    better = cp.explain(mdp, barred, k=1)
    text = " ".join(str(better.summary()).split())
    assert f"-inf because what was done: {pair} how sure Established: not -inf" in text
    assert "nan" not in text
    same = cp.replay(mdp, barred, {0: 1})
    assert len(same.barred) == 2
    assert "Not established: by some causal models" in " ".join(str(same.summary()).split())
    assert cp.explain(mdp, harmless, k=1).barred == ()


def test_what_is_not_drawn_has_a_short_line_too(shown: dict[str, Any]) -> None:
    assert re.fullmatch(
        r"Answer\(episode_id='p0', k=1, improvement=[\d.]+, status='optimal'\)",
        repr(shown["answers"][0]),
    )
    problem = cp.domains.Bunkering()
    assert repr(cp.hindsight(problem, problem.sample_path(seed=0))).endswith(", steps=7)")
    assert len(repr(cp.domains.icu_sepsis.load())) < 100
    bought = cp.evaluate(problem, cp.policies.Greedy(), episodes=1, seed=0).actions[0]
    assert len(repr(cp.regret(problem, problem.sample_path(seed=0), bought))) < 100
    assert repr(cp.Advisor(problem)) == "Advisor(problem=Bunkering, planner='UCT', keep=True)"
    assert repr(cp.Episode([0, 1], [0, 0], id="a")) == "Episode(id='a', steps=2)"
    assert repr(cp.Episode(np.zeros((3, 2)), [0, 0])) == "Episode(steps=3, features=2)"


def test_plans_and_runs_say_what_is_done_in_words_and_values_with_their_unit(
    shown: dict[str, Any],
) -> None:
    plan, problem = shown["plan"], cp.domains.Bunkering()
    for one in (plan, cp.Advisor(problem, cp.UCT(50)).advise()):
        text = str(one.summary())
        assert re.search(r"do +buy \d+ units", text)
        assert re.search(r"value +[\d,]+ money units, standard error", text)
        assert one.to_frame().columns[0] == "units bought"
        assert one.plot().axes[0].get_ylabel() == "Cost (money units)"
    assert "money units, standard error" in str(shown["evaluation"].summary())
    assert "Cost (money units), lower is better" in str(shown["allocation"].summary())
    bought = np.array([[50.0], [12.0], [25.0], [30.0], [16.0], [0.0], [0.0]])
    better = cp.explain(problem, cp.Episode(problem.sample_path(seed=1), bought), k=2)
    assert "buy 16 units → buy 46 units" in str(better.summary())
    for one in ("run", "answers"):
        assert "summed −pressure" in str(shown[one].summary())
        assert "summed −pressure" in shown[one].plot().axes[0].get_xlabel()


def test_a_frontier_says_what_its_explanations_say(shown: dict[str, Any]) -> None:
    """Of members the worst are sought, and the mean is told, in both."""
    best = shown["sequence"]
    found = cp.frontier(best.problem.scm, best.episode, k_max=1, actions=best.problem.actions,
                        reward=best.problem.reward)  # fmt: skip
    (row,) = (row for row in found.summary().rows if row[0] == "1")
    assert row[1] == dict(found[1].summary().facts)["with changes"]
    assert found[1].value < found[1].factual_value + found[1].improvement


def test_the_summary_of_a_schema_lists_what_columns_hold() -> None:
    schema = cp.tables.read_schema({"columns": {
        "pressure": {"role": "state", "low": 40, "high": 300},
        "age": {"role": "fixed", "low": 0},
        "drug": {"role": "action", "labels": ["none", "half"]},
        "dose": {"role": "action", "levels": [0, 2.5, *range(5, 15)]},
    }})  # fmt: skip
    assert [row[-1] for row in schema.summary().rows] == [
        "from 40 to 300", "from 0", "none, half", "0, 2.5, 5, 6, 7, 8, ...",
    ]  # fmt: skip
    assert schema.to_frame()["values"].to_list()[3][:3] == ["0", "2.5", "5"]


def test_a_probability_is_written_as_one_in_every_view() -> None:
    icu = cp.domains.icu_sepsis.load()
    patient = next(one for one in icu.sample_episodes(40, seed=0) if icu.died(one))
    found = cp.frontier(icu.mdp, patient, k_max=1)
    assert "Survival probability, higher is better" in str(found.summary())
    assert found.plot().axes[0].get_ylabel() == "Survival probability"
    # One of 716 states earns anything: a figure of all is of one colour.
    axes = icu.mdp.plot().axes[0]
    assert [one.get_text() for one in axes.get_yticklabels()] == ["survival"]
    assert axes.get_ylabel() == "states that earn or cost, of 716"


def test_own_problems_have_their_names_in_frames_and_figures() -> None:
    """Two flows: neither is added to the other, and actions are words, not numbers of a list."""
    flows = [cp.domains.Flow("heat pump", into="tank", most=6, pays="spot", efficiency=0.9),
             cp.domains.Flow("district", out_of="tank", most=4, earns="spot")]  # fmt: skip
    problem = cp.domains.Storage(
        cp.processes.Autoregression(45.0, 0.9, 45.0, 4.0), 5,
        cp.domains.Store("tank", 40, start=5, unit="MWh"), flows, names=["spot"], unit="EUR",
    )  # fmt: skip
    assert (
        repr(problem)
        == "Storage(title='How to fill and empty storages', horizon=5, storages=1, flows=2)"
    )
    assert repr(problem.process) == "Autoregression(series=1, logs=False, regimes=1)"
    done = np.zeros((5, 2))
    done[:3, 0] = 6.0
    better = cp.explain(problem, cp.Episode(problem.sample_path(seed=1), done), k=2)
    panels = better.plot().axes
    titles = [one.get_ylabel().replace("\n", " ") for one in panels]
    assert titles == ["spot", "heat pump (MWh)", "district (MWh)", "tank (MWh)"]
    assert "values in EUR" in panels[-1].get_xlabel()
    frame = better.to_frame()
    assert frame["action:heat pump (MWh)"].to_list() == done[:, 0].tolist()
    assert frame["counterfactual_action:district (MWh)"].to_list() == better.actions[:, 1].tolist()
    assert {"state:spot", "counterfactual_state:tank (MWh)"} <= set(frame.columns)
    plan = cp.plan(problem, cp.UCT(100), seed=0)
    words = [one.get_text() for one in plan.plot().axes[0].get_yticklabels()]
    assert {"nothing flows", "heat pump 6 MWh"} <= set(words)
    assert "inf" not in str(plan.summary())
