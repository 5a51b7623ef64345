"""Explaining a part: the same numbers as the library one by one, whatever else is in the part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counterplan as cp
from counterplan.counterfactual import Explanation
from counterplan.runs.question import DiscreteExplainer, Question
from counterplan.tables.layout import SchemaLayout
from counterplan.tables.parts import Recorded
from counterplan.tables.schema import schema_from_dict

from .models import (
    ACTIONS,
    FEATURES,
    LAYOUT,
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


def test_discrete_results_are_those_of_the_library(tmp_path: Path) -> None:
    mdp = small_mdp()
    episodes = discrete_episodes(mdp, 12)
    result = task_of(tmp_path, mdp, Question((2,), robust=True)).solve(part_of(episodes))
    for row, recorded in zip(table(result).iter_rows(named=True), episodes, strict=True):
        found = cp.explain(mdp, recorded.episode, 2)
        assert_row(row, found, recorded)
        interval = cp.value_interval(mdp, recorded.episode, found)
        assert (row["interval_low"], row["interval_high"]) == interval
        assert row["outcome:cured"] == dict(recorded.outcomes)["cured"]
        for change in row["changes"]:
            likely = found.change_probabilities()[change["t"], change["alternative"]]
            assert change["probability"] == likely
            labels = [mdp.action_name(change[side]) for side in ("observed", "alternative")]
            text = f"step {change['t']}: {labels[0]} -> {labels[1]} ({likely:.0%})"
            assert change["text"] == text
            assert [change["observed_label"], change["alternative_label"]] == labels
    assert table(result)["n_changes"].sum() > 5


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


def test_limits_hold_for_every_episode(tmp_path: Path) -> None:
    scm = small_scm()
    episodes = continuous_episodes(scm, 12)
    result = task_of(tmp_path, scm, Question((3,), nodes=1)).solve(part_of(episodes))
    for row, recorded in zip(table(result).iter_rows(named=True), episodes, strict=True):
        found = explained(scm, recorded.episode, 3, nodes=1)
        assert_row(row, found, recorded)
        assert row["nodes"] <= 1
    assert "limit" in table(result)["status"].to_list()
    loose = task_of(tmp_path, scm, Question((3,), gap=1000.0)).solve(part_of(episodes))
    assert table(loose)["gap"].max() > 0.0


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_several_budgets_are_a_frontier(tmp_path: Path, kind: str) -> None:
    is_discrete = kind == "discrete"
    model: Any = small_mdp() if is_discrete else small_scm()
    episodes = (discrete_episodes if is_discrete else continuous_episodes)(model, 5)
    result = task_of(tmp_path, model, Question((0, 1, 3, 9))).solve(part_of(episodes))
    rows = list(table(result).iter_rows(named=True))
    assert [row["k"] for row in rows] == [0, 1, 3, 9] * 5
    for number, recorded in enumerate(episodes):
        options: dict[str, Any] = {}
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


def test_paths_of_trajectories_are_the_likeliest(tmp_path: Path) -> None:
    mdp = small_mdp()
    episodes = discrete_episodes(mdp, 8)
    steps = table(task_of(tmp_path, mdp, Question((2,))).solve(part_of(episodes)), "trajectories")
    for recorded in episodes:
        found = cp.explain(mdp, recorded.episode, 2)
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


def test_draws_depend_on_the_seed_and_the_name_only(tmp_path: Path) -> None:
    scm = small_scm()
    long = [one for one in continuous_episodes(scm, 30) if len(one.episode) > 4]
    asked = {seed: Question((2,), solver="random", seed=seed).solver_for("s1") for seed in (0, 1)}
    assert asked[0] == Question((1, 2), solver="random", nodes=4).solver_for("s1")
    assert asked[0] != asked[1]
    assert asked[0] != Question((2,), solver="random").solver_for("s2")
    values = [
        table(
            task_of(tmp_path, scm, Question((2,), solver="random", seed=seed)).solve(part_of(long))
        )["value"].to_list()
        for seed in (0, 1)
    ]
    assert values[0] != values[1]


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
            raise MemoryError("2 TB")
        return explain(self, episode, question)

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
    assert reasons[4] == "not enough memory: 2 TB"
    assert failed["value"].null_count() == 6
    assert failed["outcome:cured"].to_list() == ["1", "1", "1", "1", "0", "0"]
    good = rows.filter(pl.col("status") != "failed")
    assert good.equals(whole.filter(pl.col("episode_id").is_in(good["episode_id"].to_list())))
    steps = table(result, "trajectories")
    assert set(steps["episode_id"]) == {"e0", "e1", "e2"}
    assert (result.summary["episodes"], result.summary["failed"]) == (6, 3)


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
    cp.save_model(mdp, path)
    result = task_of(tmp_path, mdp, Question((1,))).solve(part_of([recorded]))
    (row,) = table(result).iter_rows(named=True)
    assert (row["factual"], row["improvement"]) == (-np.inf, np.inf)
    assert np.isfinite(row["value"])
    # Sums over parts are stored as JSON, which has no infinities.
    assert result.summary["improvement"] == 0.0
    result = task_of(tmp_path, mdp, Question((1,), solver="greedy")).solve(part_of([recorded]))
    assert table(result)["bound"].item() == np.inf


def test_summary_counts_the_largest_budget(tmp_path: Path) -> None:
    mdp = small_mdp()
    task = task_of(tmp_path, mdp, Question((0, 2)))
    result = task.solve(part_of(discrete_episodes(mdp, 6)))
    gains = table(result).filter(pl.col("k") == 2)["improvement"]
    assert result.summary["episodes"] == result.summary["optimal"] == 6
    assert result.summary["improvement"] == pytest.approx(gains.sum())


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


def test_max_move_holds(tmp_path: Path) -> None:
    scm = small_scm()
    episodes = continuous_episodes(scm, 10)
    result = task_of(tmp_path, scm, Question((3,), max_move=1.0)).solve(part_of(episodes))
    changes = [change for row in table(result)["changes"] for change in row]
    assert {abs(one["alternative"] - one["observed"]) for one in changes} == {1}
