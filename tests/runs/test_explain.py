"""Explaining the episodes of a table: what is read, what is answered, at once or as a run."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numba.core.errors import NumbaError

import counterplan as cp
from counterplan.cli import main
from counterplan.core.limits import Progress
from counterplan.counterfactual import Explanation
from counterplan.errors import FileError, InputError, MistakesError
from counterplan.runs.answer import open_explainer
from counterplan.runs.explain import open_cohort
from counterplan.runs.explainer import INTERVALS, TIPPING_DRAWS, DiscreteExplainer
from counterplan.runs.question import Question
from counterplan.runs.run import Run, claim_ends
from counterplan.scm.estimate import count_transitions, estimate_mdp
from counterplan.tables import write_episodes
from counterplan.tables.layout import SchemaLayout
from counterplan.tables.models import save_model
from counterplan.tables.parts import Recorded, episodes_from_bytes
from counterplan.tables.schema import schema_from_dict
from counterplan.viz.quantity import claim_of

from .conftest import contents
from .models import (
    ACTIONS,
    CONTINUOUS,
    FEATURES,
    LAYOUT,
    SCHEMA,
    continuous_episodes,
    discrete_episodes,
    explained,
    part_of,
    small_mdp,
    small_scm,
    table,
    task_of,
)

NUMBERS = ("value", "factual", "improvement", "relative_improvement", "bound", "gap")


def assert_row(row: dict[str, Any], found: Explanation, recorded: Recorded) -> None:
    """Everything that the explanation says, with no difference at all."""
    expected = {
        "value": found.value,
        "factual": found.factual_value,
        "improvement": found.improvement,
        "relative_improvement": found.relative_improvement,
        "bound": found.bound,
        "gap": found.gap,
    }
    assert {name: row[name] for name in NUMBERS} == expected
    assert (row["episode_id"], row["k"]) == (recorded.episode.id, found.k)
    assert (row["status"], row["method"]) == (found.status.value, found.method)
    assert (row["steps"], row["filled"]) == (len(recorded.episode), recorded.filled)
    assert row["reason"] is None
    changes = [(one["t"], one["observed"], one["alternative"]) for one in row["changes"]]
    assert changes == list(found.changes)
    assert row["n_changes"] == len(changes)
    assert [one["time"] for one in row["changes"]] == [recorded.times[c.t] for c in found.changes]


@pytest.mark.compiles
def test_discrete_results_are_those_of_the_library(tmp_path: Path) -> None:
    mdp = small_mdp()
    episodes = discrete_episodes(mdp, 12)
    result = task_of(tmp_path, mdp, Question((2,), robust=True)).solve(part_of(episodes))
    for row, recorded in zip(table(result).iter_rows(named=True), episodes, strict=True):
        found = cp.explain(mdp, recorded.episode, 2, doubt=0.2)
        assert_row(row, found, recorded)
        for name, assume in INTERVALS.items():
            interval = cp.value_interval(mdp, recorded.episode, found, assume=assume)
            assert (row[f"{name}_low"], row[f"{name}_high"]) == interval
        # The model knows no counts: what is guaranteed is the lower end.
        assert (row["doubt"], row["guaranteed"]) == (0.2, row["interval_low"])
        assert row["established"] == (row["guaranteed"] > row["factual"] + 1e-9)
        assert row["outcome:cured"] == dict(recorded.outcomes)["cured"]
        for change in row["changes"]:
            likely = found.change_probabilities()[change["t"], change["alternative"]]
            assert change["probability"] == likely
            labels = [mdp.action_name(change[side]) for side in ("observed", "alternative")]
            text = f"step {change['t']}: {labels[0]} -> {labels[1]} ({likely:.0%})"
            assert change["text"] == text
            assert [change["observed_label"], change["alternative_label"]] == labels
    assert table(result)["n_changes"].sum() > 5


@pytest.mark.compiles
def test_tables_that_know_their_counts_are_asked_over_draws_of_them(tmp_path: Path) -> None:
    plain = small_mdp()
    episodes = discrete_episodes(plain, 12)
    sizes = plain.n_states, plain.n_actions
    counts = count_transitions([one.episode for one in discrete_episodes(plain, 60)], *sizes)
    mdp = estimate_mdp(counts, plain.rewards, prior=1.0, admissible=plain.admissible)
    result = task_of(tmp_path, mdp, Question((2,), risk=0.5)).solve(part_of(episodes))
    rows = table(result)
    for row, recorded in zip(rows.iter_rows(named=True), episodes, strict=True):
        found: Any = cp.explain(mdp, recorded.episode, 2, risk=0.5)
        assert_row(row, found, recorded)
        assert (row["improvement_low"], row["improvement_high"]) == found.interval
        assert (row["risk"], row["doubt"], row["harm"]) == (0.5, None, found.harm)
        # Ranked and told by what holds in every causal model, as without risk.
        assert row["established"] == (row["guaranteed"] > row["factual"] + 1e-9)
        assert claim_of(row).is_causal
    low = rows.lazy().select(claim_ends()[0]).collect().to_series()
    assert low.to_list() == (rows["guaranteed"] - rows["factual"]).to_list()
    with pytest.raises(cp.errors.InputError, match="risk and doubt are two ways to be careful"):
        DiscreteExplainer(mdp).completed(Question((2,), risk=0.5, doubt=0.2))
    with pytest.raises(cp.errors.InputError, match="this one has no counts"):
        DiscreteExplainer(plain).completed(Question((2,), risk=0.5))


@pytest.mark.compiles
def test_continuous_results_are_those_of_the_library(tmp_path: Path) -> None:
    scm = small_scm()
    episodes = continuous_episodes(scm, 12)
    result = task_of(tmp_path, scm, Question((2,), nodes=500)).solve(part_of(episodes))
    for row, recorded in zip(table(result).iter_rows(named=True), episodes, strict=True):
        found = explained(scm, recorded.episode, 2, nodes=500)
        assert_row(row, found, recorded)
        assert row["nodes"] == found.stats["nodes_expanded"]
        assert row["interval_low"] is None
        for change in row["changes"]:
            old, new = (f"{change[side]}" for side in ("observed", "alternative"))
            assert change["text"] == f"at {6 * change['t']} h: dose {old} -> {new} mg"
            part = {"name": "dose", "observed": float(old), "alternative": float(new)}
            assert change["parts"] == [part]
            assert change["probability"] is None
    assert table(result)["n_changes"].sum() > 5


@pytest.fixture(scope="module")
def with_members() -> tuple[cp.SmoothSCM, list[Recorded]]:
    """A model that knows how sure it is, and episodes of the process that it was learned from."""
    episodes = continuous_episodes(small_scm(), 60)
    learned = cp.SmoothSCM.fit([one.episode for one in episodes], members=6, fixed=1, seed=0)
    return replace(learned, about=small_scm().about), episodes[:10]


def test_claims_of_a_model_with_members(
    tmp_path: Path, with_members: tuple[cp.SmoothSCM, list[Recorded]]
) -> None:
    learned, episodes = with_members
    for risk in (None, 1.0):
        task = task_of(tmp_path, learned, Question((1,), nodes=200, risk=risk))
        model: Any = cp.load_model(tmp_path / "model.safetensors")
        rows = table(task.solve(part_of(episodes))).to_dicts()
        for row, recorded in zip(rows, episodes, strict=True):
            share = 0.25 if risk is None else risk
            found = explained(model, recorded.episode, 1, nodes=200, risk=share)
            assert_row(row, found, recorded)
            assert (row["improvement_low"], row["improvement_high"]) == found.interval
            assert (row["harm"], row["risk"]) == (found.harm, share)
            assert row["established"] == (found.interval.low > 0.0)
            assert row["doubt"] is row["guaranteed"] is None
            if row["established"] and row["changes"]:
                undone = cp.sensitivity(model, recorded.episode, found, TIPPING_DRAWS)
                assert row["tipping_rho"] == undone.tipping_rho
                assert row["tipping_gamma"] == undone.tipping_gamma
            else:
                assert row["tipping_rho"] is row["tipping_gamma"] is None
        assert any(row["established"] for row in rows)


@pytest.mark.parametrize(
    ("has_members", "asked", "says"),
    [
        (True, {}, "means over 6 models that the data admits.*worst 25%"),
        (False, {}, "Claims carry no interval: the model is one network"),
        (True, {"doubt": 0.1}, "doubt is for discrete models"),
        (False, {"risk": 0.5}, "risk is for models with members"),
        (True, {"risk": 0.0}, "risk 0.0: is a share of members above 0"),
        (True, {"doubt": 1.5}, "doubt 1.5: is a weight from 0 to 1"),
    ],
)
def test_what_claims_are_made_of(
    with_members: tuple[cp.SmoothSCM, list[Recorded]],
    has_members: bool,
    asked: dict[str, float],
    says: str,
) -> None:
    model: Any = with_members[0] if has_members else small_scm()
    explainer = open_explainer(model, CONTINUOUS)
    if not asked:
        assert re.search(says, " ".join(explainer.notes(Question())))
        return
    with pytest.raises(InputError, match=says):
        explainer.completed(Question(**asked))


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_several_budgets_are_a_frontier(tmp_path: Path, kind: str) -> None:
    is_discrete = kind == "discrete"
    model: Any = small_mdp() if is_discrete else small_scm()
    episodes = (discrete_episodes if is_discrete else continuous_episodes)(model, 5)
    result = task_of(tmp_path, model, Question((0, 1, 3, 9))).solve(part_of(episodes))
    rows = list(table(result).iter_rows(named=True))
    assert [row["k"] for row in rows] == [0, 1, 3, 9] * 5
    for number, recorded in enumerate(episodes):
        options: dict[str, Any] = {"doubt": 0.2}
        if not is_discrete:
            options = {"actions": LAYOUT.action_set(recorded.episode), "reward": LAYOUT.reward()}
        front = cp.frontier(model, recorded.episode, 9, **options)
        for row in rows[4 * number : 4 * number + 4]:
            assert_row(row, front[row["k"]], recorded)
        nothing = rows[4 * number]
        assert nothing["value"] == nothing["factual"]
        assert nothing["changes"] == []


def test_sequences_of_trajectories_earn_the_value(tmp_path: Path) -> None:
    scm = small_scm()
    episodes = continuous_episodes(scm, 8)
    result = task_of(tmp_path, scm, Question((0, 2))).solve(part_of(episodes))
    steps, results = table(result, "trajectories"), table(result)
    assert steps.height == 2 * sum(len(one.episode) for one in episodes)
    for recorded in episodes:
        episode, T = recorded.episode, len(recorded.episode)
        noise = scm.abduct(episode, LAYOUT.action_set(episode))
        for k in (0, 2):
            mine = steps.filter(pl.col("episode_id") == episode.id, pl.col("k") == k)
            assert mine["time"].to_list() == recorded.times.tolist()
            given = mine.select([f"state:{name}" for name in FEATURES]).to_numpy()
            assert (given == episode.states).all()
            assert (
                mine.select([f"action:{name}" for name in ACTIONS])[: T - 1].to_numpy()
                == episode.actions
            ).all()
            states = mine.select([f"counterfactual_state:{name}" for name in FEATURES]).to_numpy()
            actions = mine.select([f"counterfactual_action:{name}" for name in ACTIONS])
            assert actions[-1].row(0) == (None, None)
            vectors = actions[: T - 1].to_numpy().astype(np.float64)
            # Replayed step by step, the alternative actions lead to the states that are stored.
            for t in range(T - 1):
                after = scm.step(states[t : t + 1], vectors[t : t + 1], noise[t : t + 1])
                np.testing.assert_allclose(states[t + 1], after[0], atol=1e-9)
            value = results.filter(pl.col("episode_id") == episode.id, pl.col("k") == k)["value"]
            assert mine["counterfactual_reward"].sum() == pytest.approx(value.item(), abs=1e-9)
            changed = mine["changed"].to_list()
            moved = [*(vectors[:, 0] != episode.actions[:, 0]), False]
            assert changed == moved
            assert mine["change_probability"].to_list() == [float(one) for one in changed]


def test_trajectories_have_the_names_beside_the_numbers(tmp_path: Path) -> None:
    mdp = small_mdp()
    states = [f"s{number}" for number in range(mdp.n_states)]
    actions = [f"a{number}" for number in range(mdp.n_actions)]
    named = cp.TabularMDP(
        (mdp.rows, mdp.row_of), mdp.rewards, state_labels=states, action_labels=actions
    )
    part = part_of(discrete_episodes(mdp, 8))
    steps = table(task_of(tmp_path, named, Question((2,))).solve(part), "trajectories")
    assert steps["changed"].any()
    for side in ("", "counterfactual_"):
        for kind, names in (("state", states), ("action", actions)):
            labels = steps[f"{side}{kind}_label"].to_list()
            assert labels == [names[number] for number in steps[side + kind]]


def test_paths_of_trajectories_are_the_likeliest(tmp_path: Path) -> None:
    mdp = small_mdp()
    episodes = discrete_episodes(mdp, 8)
    steps = table(task_of(tmp_path, mdp, Question((2,))).solve(part_of(episodes)), "trajectories")
    for recorded in episodes:
        found = cp.explain(mdp, recorded.episode, 2, doubt=0.2)
        mine = steps.filter(pl.col("episode_id") == recorded.episode.id)
        assert mine["state"].to_list() == recorded.episode.states.tolist()
        assert mine["counterfactual_state"].to_list() == found.most_likely.states.tolist()
        assert mine["counterfactual_action"].to_list() == found.most_likely.actions.tolist()
        likely = found.change_probabilities().sum(axis=1)
        assert mine["change_probability"].to_list() == likely.tolist()
        assert mine["reward"].sum() == pytest.approx(found.factual_value)
        path = zip(found.most_likely.states, found.most_likely.actions, strict=True)
        earned = [float(mdp.rewards[state, action]) for state, action in path]
        assert mine["counterfactual_reward"].to_list() == earned


@pytest.mark.parametrize("solver", ["exact", "greedy", "noisy-greedy", "top-k", "random"])
def test_rows_do_not_depend_on_parts(tmp_path: Path, solver: str) -> None:
    scm = small_scm()
    episodes = continuous_episodes(scm, 6)
    task = task_of(tmp_path, scm, Question((2,), solver=solver, seed=3))
    together = task.solve(part_of(episodes))
    assert task.solve(part_of(episodes)).tables == together.tables
    for name in ("results", "trajectories"):
        alone = [table(task.solve(part_of([one])), name) for one in reversed(episodes)]
        assert pl.concat(reversed(alone)).equals(table(together, name))


def test_an_episode_that_fails_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mdp = small_mdp()
    episodes = discrete_episodes(mdp, 5)
    unknown = cp.Episode([0, 9], [0, 0], id="lost")
    broken = [*episodes[:2], Recorded(unknown, np.arange(2.0), 1, (("cured", "1"),)), *episodes[2:]]
    task = task_of(tmp_path, mdp, Question((0, 1)))
    explain = DiscreteExplainer.explain

    def fail(self: DiscreteExplainer, episode: cp.Episode, question: Question) -> Any:
        if episode.id == "e3":
            raise ZeroDivisionError("a slip\nin two lines")
        if episode.id == "e4":
            raise fault
        return explain(self, episode, question)

    fault: Exception = ValueError("2 TB")
    whole = table(task.solve(part_of(episodes)))
    monkeypatch.setattr(DiscreteExplainer, "explain", fail)
    result = task.solve(part_of(broken))
    rows = table(result)
    assert rows.schema == whole.schema
    failed = rows.filter(pl.col("status") == "failed")
    assert failed["episode_id"].to_list() == ["lost", "lost", "e3", "e3", "e4", "e4"]
    assert failed["k"].to_list() == [0, 1] * 3
    reasons = failed["reason"].to_list()
    assert reasons[0].startswith("episode 'lost': unknown state 9 at t=1")
    assert reasons[2] == "ZeroDivisionError: a slip in two lines"
    assert reasons[4] == "ValueError: 2 TB"
    assert failed["value"].null_count() == 6
    assert failed["outcome:cured"].to_list() == ["1", "1", "1", "1", "0", "0"]
    good = rows.filter(pl.col("status") != "failed")
    assert good.equals(whole.filter(pl.col("episode_id").is_in(good["episode_id"].to_list())))
    steps = table(result, "trajectories")
    assert set(steps["episode_id"]) == {"e0", "e1", "e2"}
    assert (result.summary["episodes"], result.summary["failed"]) == (6, 3)
    # What is no fault of an episode is not put down to it.
    for fault in (MemoryError(), OSError(28, "full"), ImportError(), NumbaError("no compiler")):
        with pytest.raises(type(fault)):
            task.solve(part_of(broken))


def test_tables_have_the_same_columns_where_everything_failed(tmp_path: Path) -> None:
    for model, episodes in (
        (mdp := small_mdp(), discrete_episodes(mdp, 3)),
        (scm := small_scm(), continuous_episodes(scm, 3)),
    ):
        task = task_of(tmp_path, model, Question((1,)))
        good, lost = task.solve(part_of(episodes)), task.failed(part_of(episodes), "it was killed")
        for name in ("results", "trajectories"):
            assert table(good, name).schema == table(lost, name).schema
        assert table(lost)["reason"].to_list() == ["it was killed"] * 3
        assert table(lost, "trajectories").height == 0
        assert lost.summary == {
            "episodes": 3, "optimal": 0, "limit": 0, "heuristic": 0, "failed": 3, "improvement": 0,
        }  # fmt: skip


def test_infinities_are_stored_as_such(tmp_path: Path) -> None:
    rewards = np.array([[-np.inf, 0.0], [1.0, 1.0]])
    mdp = cp.TabularMDP(np.full((2, 2, 2), 0.5), rewards)
    recorded = Recorded(cp.Episode([0, 1], [0, 1], id="a"), np.arange(2.0))
    path = tmp_path / "model.safetensors"
    cp.tables.save_model(mdp, path)
    result = task_of(tmp_path, mdp, Question((1,))).solve(part_of([recorded]))
    (row,) = table(result).iter_rows(named=True)
    assert (row["factual"], row["improvement"]) == (-np.inf, np.inf)
    assert np.isfinite(row["value"])
    # Sums over parts are stored as JSON, which has no infinities.
    assert result.summary["improvement"] == 0.0
    result = task_of(tmp_path, mdp, Question((1,), solver="greedy")).solve(part_of([recorded]))
    assert table(result)["bound"].item() == np.inf


def test_a_last_row_without_an_action_stays_as_it_is() -> None:
    document = {
        "columns": {
            "mood": {"role": "state", "labels": ["low", "high"]},
            "help": {"role": "action", "labels": ["no", "yes"]},
        }
    }
    layout = SchemaLayout(schema_from_dict(document))
    rows = np.random.default_rng(0).dirichlet(np.ones(2), size=(2, 3))
    mdp = cp.TabularMDP(rows, [[0.0, 1.0, 0.0], [1.0, 2.0, 1.0]])
    episode = cp.Episode([0, 0, 1], [0, 0, 2], id="a")
    explainer = DiscreteExplainer(mdp, layout)
    (found,) = explainer.explain(episode, Question((3,)))
    assert {change.t for change in found.changes} <= {0, 1}
    kept = cp.explain(mdp, episode, 3, constraints=cp.Constraints(fixed_steps=[-1]))
    assert found.value == kept.value < cp.explain(mdp, episode, 3).value


@pytest.mark.parametrize(
    ("budgets", "words"),
    [((2, 1), "rising"), ((), "rising"), ((1, 1), "rising"), ((0, 5000), "at most 1000")],
)
def test_questions_that_make_no_sense(budgets: tuple[int, ...], words: str) -> None:
    with pytest.raises(cp.errors.InputError, match=words):
        Question(budgets)
    with pytest.raises(cp.errors.InputError, match="unknown solver 'best'"):
        Question((1,), solver="best")


def discrete_frame(mdp: cp.TabularMDP, count: int = 6) -> pl.DataFrame:
    rows = [
        {"episode_id": one.episode.id, "t": t, "state": int(s), "action": mdp.action_name(int(a))}
        for one in discrete_episodes(mdp, count)
        for t, (s, a) in enumerate(zip(one.episode.states, one.episode.actions, strict=True))
    ]
    return pl.DataFrame(rows)


def continuous_frame(episodes: list[Recorded]) -> pl.DataFrame:
    rows = []
    for one in episodes:
        actions = [*one.episode.actions.tolist(), [None] * len(ACTIONS)]
        for t, (state, action) in enumerate(zip(one.episode.states, actions, strict=True)):
            row = dict(zip(FEATURES, state.tolist(), strict=True))
            row |= dict(zip(ACTIONS, action, strict=True))
            rows.append({"episode_id": one.episode.id, "t": t, **row, "died": one.outcomes[0][1]})
    return pl.DataFrame(rows)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A discrete model with a table of its episodes."""
    folder = tmp_path_factory.mktemp("files")
    save_model(small_mdp(), folder / "model.safetensors")
    discrete_frame(small_mdp()).write_csv(folder / "table.csv")
    return folder


def test_answers_are_those_of_the_library(files: Path) -> None:
    mdp = small_mdp()
    frame = discrete_frame(mdp)
    sources: list[Any] = [frame, pd.DataFrame(frame.to_dict(as_series=False)), files / "table.csv"]
    for source in sources:
        for model in (mdp, files / "model.safetensors"):
            found = cp.explain_table(source, model, k=2)
            for answer, recorded in zip(found, discrete_episodes(mdp, 6), strict=True):
                alone = cp.explain(mdp, recorded.episode, 2, doubt=0.2)
                assert (answer.episode_id, answer.value) == (recorded.episode.id, alone.value)
                assert [(c.t, c.observed, c.alternative) for c in answer.changes] == list(
                    alone.changes
                )
                assert answer.explanation is not None


def test_a_run_holds_the_same_rows(files: Path, tmp_path: Path) -> None:
    arguments = (str(files / "table.csv"), str(files / "model.safetensors"), (0, 2))
    found = cp.explain_table(*arguments, robust=True)
    run = cp.explain_table(*arguments, folder=tmp_path / "out", robust=True, workers=1)
    assert isinstance(run, Run)
    assert run.manifest.complete
    assert run.results().collect().to_dicts() == [answer.row() for answer in found]


def test_the_command_line_continues_such_a_run(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the other way round: it is the same question."""
    table, model, out = files / "table.csv", files / "model.safetensors", tmp_path / "out"
    cp.explain_table(table, model, 1, out, gap=0.5, seed=3, episodes=["e1", "e2"], workers=1)
    before = contents(out)
    for part in (out / "done").iterdir():
        part.unlink()
    command = f"explain {table} -m {model} --k 1 -o {out} --gap 0.5 --seed 3 --workers 1"
    monkeypatch.setattr("sys.argv", ["counterplan", *command.split(), *["--episode", "e1"],
                                     *["--episode", "e2"]])  # fmt: skip
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    assert contents(out) == before
    with pytest.raises(InputError, match="--seed 3 there, --seed 0 now"):
        cp.explain_table(table, model, 1, out, gap=0.5, episodes=["e1", "e2"], workers=1)


def test_frames_of_vectors(tmp_path: Path) -> None:
    """By the model's own schema or one that is given; searches are limited in seconds, runs in
    nodes."""
    scm = small_scm()
    episodes = continuous_episodes(scm, 4)
    table = continuous_frame(episodes)
    for schema in (None, schema_from_dict(SCHEMA)):
        found = cp.explain_table(table, scm, schema=schema)
        for answer, recorded in zip(found, episodes, strict=True):
            expected = explained(scm, recorded.episode, 2)
            assert answer.value == pytest.approx(expected.value, abs=1e-9)
    run = cp.explain_table(table, scm, folder=tmp_path / "out", workers=1)
    assert (run.question.nodes, run.question.seconds) == (20_000, None)
    assert run.results().collect()["value"].to_list() == [answer.value for answer in found]
    assert run.outcomes == ["died"]


def test_progress_may_stop_it(files: Path) -> None:
    reached: list[Progress] = []

    def watch(progress: Progress) -> bool:
        reached.append(progress)
        return progress.done < 3

    found = cp.explain_table(files / "table.csv", files / "model.safetensors", progress=watch)
    assert [one.episode_id for one in found] == ["e0", "e1", "e2"]
    assert [(one.done, one.total) for one in reached] == [(1, 6), (2, 6), (3, 6)]


def test_what_does_not_fit(files: Path, tmp_path: Path) -> None:
    mdp = small_mdp()
    with pytest.raises(FileError, match=r"absent\.csv: no such file"):
        cp.explain_table(tmp_path / "absent.csv", mdp)
    bad = discrete_frame(mdp).with_columns(action=pl.lit("swim"))
    with pytest.raises(InputError, match=r"the table.*'swim'"):
        cp.explain_table(bad, mdp)
    with pytest.raises(InputError, match="the table: has no episode 'zoe'"):
        cp.explain_table(discrete_frame(mdp), mdp, episodes=["zoe"])
    bare = replace(small_scm(), about={})
    with pytest.raises(InputError, match="the model: remembers no schema: give one"):
        cp.explain_table(discrete_frame(mdp), bare)


def same(one: list[Recorded], two: list[Recorded]) -> bool:
    return len(one) == len(two) and all(
        a.episode == b.episode
        and (a.times == b.times).all()
        and (a.filled, a.outcomes) == (b.filled, b.outcomes)
        for a, b in zip(one, two, strict=True)
    )


def plain(recorded: list[Recorded]) -> list[Recorded]:
    return [one._replace(filled=0, outcomes=()) for one in recorded]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json"])
@pytest.mark.parametrize("labelled", [True, False])
def test_discrete_files(tmp_path: Path, suffix: str, labelled: bool) -> None:
    mdp = small_mdp()
    if not labelled:
        mdp = cp.TabularMDP((mdp.rows, mdp.row_of), mdp.rewards)
    recorded = plain(discrete_episodes(mdp, 9))
    path = tmp_path / f"episodes{suffix}"
    write_episodes(path, [one.episode for one in recorded])
    given = open_cohort(path, mdp)
    assert same(list(given.episodes()), recorded)
    parts = [episodes_from_bytes(part) for part in given.parts(4)]
    assert [len(part) for part in parts] == [4, 4, 1]
    assert same([one for part in parts for one in part], recorded)


def test_mistakes_in_a_large_table_do_not_speak_of_a_schema(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("episode_id,t,state,action\na,0,9,rest\na,1,,rest\nb,0,1,fly\n")
    mdp = small_mdp()
    with pytest.raises(MistakesError) as caught:
        list(open_cohort(path, mdp).episodes())
    lines = str(caught.value).splitlines()
    assert [re.sub(r":.*", "", line.removeprefix(f"{path}, ")) for line in lines[:3]] == [
        "row 2, column 'state'",
        "row 3, column 'state'",
        "row 4, column 'action'",
    ]
    assert "schema" not in str(caught.value)


def test_tables_of_a_schema(tmp_path: Path) -> None:
    scm = small_scm()
    recorded = [one._replace(filled=0) for one in continuous_episodes(scm, 7)]
    path = tmp_path / "table.csv"
    continuous_frame(recorded).write_csv(path)
    given = open_cohort(path, scm)
    assert given.outcomes == ("died",)
    found = list(given.episodes())
    assert same(found, recorded)
    assert given.notes == [f"7 episodes, {sum(len(one.episode) for one in recorded)} steps."]
    parts = [one for part in given.parts(3) for one in episodes_from_bytes(part)]
    assert same(parts, recorded)
    other = schema_from_dict({**SCHEMA, "table": {"unit": "d"}})
    assert [one.times.tolist() for one in open_cohort(path, scm, other).episodes()] == [
        (one.times / 6.0).tolist() for one in recorded
    ]


def changed(**columns: dict[str, Any] | None) -> Any:
    merged = {**SCHEMA["columns"], **columns}
    return schema_from_dict({"columns": {name: one for name, one in merged.items() if one}})


def test_schemas_that_do_not_fit_the_model(tmp_path: Path) -> None:
    scm, mdp, path = small_scm(), small_mdp(), tmp_path / "t.csv"
    with pytest.raises(FileError, match=r"the model: does not fit the schema: the .*features"):
        open_cohort(path, scm, changed(pressure=None))
    with pytest.raises(FileError, match="holds a model of discrete states, but those of the sche"):
        open_cohort(path, mdp, changed())
    words = {"role": "state", "labels": ["a", "b"]}
    discrete = {"s": words, "a": {"role": "action", "labels": ["x", "y"]}}
    with pytest.raises(FileError, match="holds a neural model, but the states of the schema are"):
        open_cohort(path, scm, schema_from_dict({"columns": discrete}))
    with pytest.raises(FileError, match="has 4 states and 3 actions, but those of the schema comb"):
        open_cohort(path, mdp, schema_from_dict({"columns": discrete}))


def test_models_and_tables_of_different_kinds(tmp_path: Path) -> None:
    (tmp_path / "stays.csv").write_text("icustayid,bloc\n1,1\n")
    (tmp_path / "plain.csv").write_text("episode_id,t,state,action\na,0,0,0\n")
    scm = replace(small_scm(), about={})
    with pytest.raises(FileError, match=r"holds a model of discrete states, but .* is a cohort"):
        open_cohort(tmp_path / "stays.csv", small_mdp())
    with pytest.raises(FileError, match=r"holds a neural model, but .* is no cohort table"):
        open_cohort(tmp_path / "plain.csv", scm)


def test_some_episodes_only(tmp_path: Path) -> None:
    mdp, path = small_mdp(), tmp_path / "e.csv"
    recorded = plain(discrete_episodes(mdp, 9))
    write_episodes(path, [one.episode for one in recorded])
    found = list(open_cohort(path, mdp, chosen=["e5", "e2", "e5"]).episodes())
    assert [one.episode.id for one in found] == ["e2", "e5"]
    with pytest.raises(FileError, match=r"has no episode 'x'; the first of its 9 are 'e0', 'e1'"):
        list(open_cohort(path, mdp, chosen=["e1", "x"]).episodes())


def test_a_drug_that_does_nothing_is_marked_where_it_is_changed_along_with_one_that_helps() -> None:
    """Iron does nothing for hemoglobin here; changing it with the drug that works costs nothing of
    the budget, so some tiny effect that was learned is enough to advise it."""
    rng, rows = np.random.default_rng(1), []
    for patient in range(80):
        level = rng.normal(9.0, 1.0)
        for month in range(6):
            epo, iron = float(rng.choice([0.0, 60.0])), float(rng.choice([0.0, 100.0]))
            rows.append((f"p{patient}", month, level, epo, iron))
            level += 0.1 * (9.0 - level) + 0.015 * epo + rng.normal(0.0, 0.3)
    names = ["patient", "month", "hemoglobin", "epo", "iron"]
    table = pl.DataFrame(rows, schema=names, orient="row")
    columns = {
        "hemoglobin": {"role": "state", "better": "higher"},
        "epo": {"role": "action", "levels": [0, 60]},
        "iron": {"role": "action", "levels": [0, 100]},
    }
    schema = {"table": {"episode": "patient", "time": "month"}, "columns": columns}
    model = cp.fit(table, schema, members=8)
    texts = [
        change.text for one in cp.explain_table(table, model, k=2) for change in one.changes
        if len(change.parts) == 2
    ]  # fmt: skip
    raised = [text for text in texts if "epo 0 -> 60" in text]
    assert len(raised) >= 20
    assert all(text.endswith(" (iron: not established)") for text in raised)
    assert all("iron: not established)" in text for text in texts)
