"""Rewards and costs of a table: weighted, of actions, known at the end, and what follows."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

import counterplan as cp
from counterplan.core.reward import EpisodeReward
from counterplan.counterfactual import oracle
from counterplan.errors import FileError, InputError
from counterplan.runs.answer import answer_of, trajectory
from counterplan.runs.explain import open_cohort
from counterplan.runs.explainer import ContinuousExplainer, DiscreteExplainer
from counterplan.tables.fit import FitSettings, doubtful_costs, fit_discrete
from counterplan.tables.layout import SchemaLayout, layout_of_model
from counterplan.tables.parts import Recorded, Rows, episodes_from_bytes, episodes_to_bytes
from counterplan.tables.reader import open_table
from counterplan.tables.rewards import (
    Learned,
    coded,
    is_cost_name,
    is_curved,
    learn_rewards,
    regressed,
    values_ahead,
)
from counterplan.tables.schema import Column, Schema, schema_from_dict

from .schema_support import write

# --- A workshop: wear grows, maintenance and replacement cost ---

PRICES = {"none": 0.0, "maintain": 8.0, "replace": 40.0}
ACTIONS = Column("action", "action", labels=tuple(PRICES))
WORKSHOP = Schema((Column("wear", "state"), ACTIONS, Column("cost", "cost")))
# wear' = slope * wear + more
SLOPES, MORE = np.array([1.0, 0.5, 0.0]), np.array([1.0, 0.2, 0.3])


def worn(states: Any, actions: Any) -> Any:
    number = actions[:, 0].astype(int)
    return SLOPES[number, None] * states + MORE[number, None]


MACHINE = cp.LocationScaleSCM(worn, lambda states, actions: states**0, lipschitz=(1.0, 0.0))


def workshop(
    n: int, T: int, seed: int = 0, noise: float = 0.0, often: float = 0.4
) -> list[Recorded]:
    """Machines that are maintained often, each row with its cost: 5 + 2 wear + price + noise."""
    rng, every = np.random.default_rng(0), []
    for number in range(n):
        actions = rng.choice(3, size=T, p=[1 - often - 0.05, often, 0.05])
        wear = [rng.uniform(0, 8)]
        for t in range(T - 1):
            mean = SLOPES[actions[t]] * wear[-1] + MORE[actions[t]]
            wear.append(mean + rng.normal(0, 0.3))
        states = np.array(wear)[:, None]
        prices = np.array(list(PRICES.values()))[actions]
        cost = 5.0 + 2.0 * states[:, 0] + prices + noise * rng.normal(size=T)
        episode = cp.Episode(states, actions[:-1, None].astype(float), id=str(number))
        every.append(Recorded(episode, np.arange(T), rewards=-cost))
    return every


def learned(schema: Schema, every: list[Recorded]) -> tuple[SchemaLayout, list[str]]:
    exact, found, remarks = learn_rewards(schema, Rows(every))
    stored = Learned.from_dict(asdict(found))
    stored.check(schema)
    return SchemaLayout(schema, exact, stored), remarks


def test_what_actions_cost_is_learned_and_searched_exactly() -> None:
    every = workshop(30, 6)
    layout, remarks = learned(WORKSHOP, every)
    assert not remarks
    episode = every[0].episode
    reward = layout.reward(episode)
    assert isinstance(reward, EpisodeReward)
    earned = reward.of_actions(5, 3)
    assert earned[0] - earned[0, 0] == pytest.approx([0.0, -8.0, -40.0], abs=1e-9)
    assert reward.state(np.array([[0.0], [1.0]])) == pytest.approx([-5.0, -7.0], abs=1e-9)
    given = {"actions": layout.action_set(episode), "reward": reward}
    found = cp.explain(MACHINE, episode, 3, **given)
    best = oracle.best_sequence(MACHINE, episode, 3, **given)
    assert found.status == "optimal"
    assert found.value == pytest.approx(best.value, abs=1e-9)
    with pytest.raises(InputError, match="depends on the episode"):
        layout.reward()


def test_a_reward_that_is_nearly_linear_says_so_and_another_is_refused() -> None:
    _, (remark,) = learned(WORKSHOP, workshop(100, 10, noise=3.0))
    assert "column 'cost': taken as linear" in remark
    assert "(± 2.86 in a row is left)" in remark
    every = workshop(30, 6)
    rng = np.random.default_rng(1)
    odd = [one._replace(rewards=rng.normal(size=6)) for one in every]
    with pytest.raises(InputError, match=r"column 'cost': is no linear function .*R² = -?0\.0"):
        learned(WORKSHOP, odd)


def test_columns_are_weighted_and_added_up(tmp_path: Path) -> None:
    schema = Schema(
        (
            *(Column("x", "state"), Column("a", "action", levels=(0.0, 1.0))),
            Column("cost", "cost", weight=2.0),
            Column("gain", "reward"),
            Column("pain", "reward", better="lower"),
            Column("died", "cost", weight=10.0, when="last"),
        )
    )
    table = "episode_id,t,x,a,cost,gain,pain,died\ne,0,1,0,3,5,1,\ne,1,2,1,1,2,2,\ne,2,2,,,,,1\n"
    with open_table(write(tmp_path / "t.csv", table), schema) as opened:
        (one,) = list(opened)
        assert not doubtful_costs(opened)
    assert one.rewards is not None
    assert one.rewards[:2].tolist() == [-2.0 * 3 + 5 - 1, -2.0 + 2 - 2]
    assert np.isnan(one.rewards[2])
    assert one.outcomes == (("died", "1"),)
    layout = SchemaLayout(schema)
    assert layout.observed(one) == -2.0 - 2.0 - 10.0
    assert layout.schema.outcome_in_words == "−2 × cost + gain −pain −10 × died (at the end)"
    assert layout.observed(one._replace(outcomes=(("died", ""),))) is None
    going_on = SchemaLayout(replace(WORKSHOP, final="value"))
    assert going_on.schema.outcome_in_words == "−cost + what usually follows"
    (back,) = episodes_from_bytes(episodes_to_bytes([one], ["x"], ["a"]))
    assert np.array_equal(back.rewards, one.rewards, equal_nan=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["cost", "Total_Cost", "length_of_stay", "readmitted_30d", "los"])
def test_a_cost_that_is_maximised_is_doubted(name: str, tmp_path: Path) -> None:
    schema = Schema((*WORKSHOP.columns[:2], Column(name, "reward")))
    path = write(tmp_path / "t.csv", f"episode_id,t,wear,action,{name}\ne,0,1,none,3\n")
    with open_table(path, schema) as opened:
        (line,) = doubtful_costs(opened)
    assert 'write role = "cost" in the schema' in line
    meant = replace(schema, columns=(*schema.columns[:2], Column(name, "reward", better="higher")))
    with open_table(path, meant) as opened:
        assert not doubtful_costs(opened)


@pytest.mark.parametrize("name", ["cloth", "costume", "reward", "blossom", "feet", "gain"])
def test_other_names_are_no_costs(name: str) -> None:
    assert not is_cost_name(name)


# --- What is known at the end only ---

WARD = Schema(
    (
        *(Column("age", "fixed"), Column("ward", "fixed", labels=("A", "B", "C"))),
        *(Column("fluid", "state"), Column("dose", "action", levels=(0.0, 1.0, 2.0))),
        Column("readmitted", "cost", when="last"),
    )
)
PATIENT = cp.LocationScaleSCM(
    lambda s, a: 0.9 * s[:, 2:] + 0.4 - 0.5 * a,
    lambda s, a: s[:, 2:] ** 0,
    lipschitz=(0.9, 0.0),
    fixed=2,
)
TRUE = np.array([0.03, 0.8, -0.8, 0.9])  # age, wards B and C, fluid


def ward(n: int, seed: int = 0, is_share: bool = True) -> list[Recorded]:
    rng, every = np.random.default_rng(seed), []
    for number in range(n):
        age, place = float(rng.uniform(40, 90)), float(rng.integers(3))
        doses, fluid = rng.integers(3, size=4), [rng.normal(3, 1)]
        for dose in doses:
            fluid.append(0.9 * fluid[-1] + 0.4 - 0.5 * dose + rng.normal(0, 0.3))
        states = np.column_stack([np.full(5, age), np.full(5, place), fluid])
        odds = TRUE @ [age - 65, place == 1, place == 2, fluid[-1]] - 1.5
        end = rng.uniform() < 1 / (1 + np.exp(-odds)) if is_share else odds + rng.normal()
        episode = cp.Episode(states, doses[:, None].astype(float), id=str(number))
        outcomes = (("readmitted", repr(float(end)).removesuffix(".0")),)
        every.append(Recorded(episode, np.arange(5), outcomes=outcomes))
    return every


@pytest.mark.parametrize("is_share", [True, False])
def test_the_end_is_learned_with_its_uncertainty(is_share: bool) -> None:
    layout, (remark,) = learned(WARD, ward(600, is_share=is_share))
    assert "the last state predicts it" in remark
    (found,) = layout.learned.finals
    assert found.is_share is is_share
    spread = np.sqrt(np.diag(found.covariance))[1:]
    assert (np.abs(np.array(found.weights) - TRUE) < 4.0 * spread).all()
    assert (spread < 0.35).all()
    one, low, high = found.interval(np.array([65.0, 0.0, 0.0, 2.0]))
    truth = 1 / (1 + np.exp(-0.3)) if is_share else 0.3
    assert low < one < high
    assert low < truth < high


def test_the_best_end_is_found_exactly() -> None:
    every = ward(300)
    layout, _ = learned(WARD, every)
    (end,) = layout.learned.finals
    for one in every[:5]:
        episode = one.episode
        given = {"actions": layout.action_set(episode), "reward": layout.reward(episode)}
        found = cp.explain(PATIENT, episode, 2, **given)
        best = oracle.best_sequence(PATIENT, episode, 2, **given)
        assert found.status == "optimal"
        assert found.value == pytest.approx(best.value, abs=1e-9)
        # The value is minus the probability, which names of wards enter as such.
        age, place, fluid = found.states[-1]
        x = np.array([age, place == 1, place == 2, fluid])
        assert -found.value == pytest.approx(end.interval(x)[0], abs=1e-9)


def test_a_reward_that_bends_is_told_and_its_slope_is_unsure() -> None:
    """By a reward of -wear^2 / 2 a bit of wear costs as much as there is already."""
    straight = workshop(200, 8, noise=0.5)
    layout, remarks = learned(WORKSHOP, straight)
    assert not any("evenly" in one for one in remarks)
    _, known = np.sqrt(np.diag(layout.learned.step.covariance))[:2]  # type: ignore[union-attr]
    bent = [
        one._replace(rewards=-0.5 * one.episode.states[:, 0] ** 2 - np.arange(8) / 8)
        for one in straight
    ]
    levels = np.concatenate([one.episode.states[:-1, 0] for one in bent])
    layout, remarks = learned(WORKSHOP, bent)
    assert any("does not grow evenly with 'wear'" in one for one in remarks)
    _, unsure = np.sqrt(np.diag(layout.learned.step.covariance))[:2]  # type: ignore[union-attr]
    assert known < 0.05
    assert unsure == pytest.approx(levels.std(), rel=0.2)
    reward: Any = layout.reward(bent[0].episode)
    assert np.sqrt(reward.state.variance(np.ones((1, 1)), np.zeros((1, 1)))) == pytest.approx(
        unsure
    )


def test_a_reward_that_is_best_in_the_middle_is_a_state() -> None:
    """Unless it is about linear, missing in a row, or also tells what is done in its row."""
    every = workshop(100, 8)
    prices = np.array([*PRICES.values()])

    def turned(reward: Any) -> bool:
        return is_curved(
            WORKSHOP, Rows([one._replace(rewards=reward(one.episode)) for one in every])
        )

    assert turned(lambda episode: -((episode.states[:, 0] - 3.0) ** 2))
    assert not turned(lambda episode: -2.0 * episode.states[:, 0])
    assert not turned(lambda episode: -np.append(episode.states[1:, 0] ** 2, np.nan))
    found = WORKSHOP.with_reward_as_state
    assert found.columns[-1] == replace(WORKSHOP.columns[-1], role="state", better="lower")
    assert found.columns[:-1] == WORKSHOP.columns[:-1]

    def paid(episode: cp.Episode) -> Any:
        spent = np.append(prices[episode.actions[:, 0].astype(int)], 0.0)
        return -((episode.states[:, 0] - 3.0) ** 2) - spent

    assert not turned(paid)


def test_advice_towards_the_middle_is_right(tmp_path: Path) -> None:
    """A room that is best at 20 degrees: taken as linear, its reward would ask for ever more heat,
    or less. Here it is known what each change would have led to."""
    rng, rows, luck = np.random.default_rng(3), [], {}

    def warmed(degrees: Any, heat: Any, noise: Any) -> Any:
        return degrees + 0.3 * (14.0 - degrees) + 2.0 * heat + noise

    for number in range(120):
        degrees = rng.uniform(12.0, 26.0)
        for t in range(8):
            heat = int(rng.integers(3))
            rows.append((f"{number}", t, degrees, heat, 10.0 - (degrees - 20.0) ** 2))
            luck[number, t] = rng.normal(0.0, 0.4)
            degrees = warmed(degrees, heat, luck[number, t])
    names = ["episode_id", "t", "degrees", "heat", "comfort"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    columns = (
        Column("degrees", "state"),
        Column("heat", "action", levels=(0.0, 1.0, 2.0)),
        Column("comfort", "reward"),
    )
    model: Any = cp.fit(frame, Schema(columns), members=4)
    layout = layout_of_model(model)
    assert layout.schema.columns[-1].role == "state"
    assert any("curved function" in one for one in model.about["remarks"])
    # The schema that it was learned with is good for explaining, too.
    cohort = open_cohort(frame, model, Schema(columns))
    assert cohort.explainer.layout.schema == layout.schema
    gains = []
    for number in range(0, 120, 12):
        own = frame.filter(pl.col("episode_id") == f"{number}")
        states = own.select("degrees", "comfort").to_numpy()
        episode = cp.Episode(states, own["heat"].to_numpy()[:-1, None].astype(float))
        given = {"actions": layout.action_set(episode), "reward": layout.reward(episode)}
        best = cp.explain(model, episode, 1, **given)
        degrees, truly = states[0, 0], 0.0
        chosen = layout.action_set(episode)
        for t in range(7):
            heat = chosen[t][best.actions[t]][0] if chosen.ndim == 3 else chosen[best.actions[t]][0]
            degrees = warmed(degrees, heat, luck[number, t])
            truly += 10.0 - (degrees - 20.0) ** 2
        gains.append((best.improvement, truly - states[1:, 1].sum()))
    claimed, true = np.array(gains).T
    assert true.min() > -1.0
    assert true.mean() == pytest.approx(claimed.mean(), rel=0.25)


def test_an_end_that_was_decided_earlier_is_told_and_its_weights_are_unsure() -> None:
    rng, every = np.random.default_rng(1), ward(300, is_share=False)
    # Decided half way: the last state knows of it only what it remembers.
    earlier = [
        one._replace(
            outcomes=(("readmitted", f"{3.0 * one.episode.states[1, 2] + 0.3 * rng.normal():.9g}"),)
        )
        for one in every
    ]
    layout, remarks = learned(WARD, earlier)
    assert any("depends on more than the last state" in one for one in remarks)
    (found,) = layout.learned.finals
    assert np.sqrt(found.covariance[-1][-1]) > 0.3 * abs(found.weights[-1])


def test_what_was_not_learned_is_in_the_model() -> None:
    """A schema alone does not know what the end is worth, and says where that is known."""
    episode = ward(1)[0].episode
    for schema in (WARD, replace(WORKSHOP, final="value"), WORKSHOP):
        for given in ((), (episode,)):
            with pytest.raises(InputError, match=r"use cp\.tables\.layout_of_model\(model\)"):
                SchemaLayout(schema).reward(*given)
    rows = [
        (one.episode.id, t, state[0], "ABC"[int(state[1])], state[2], dose, one.outcomes[0][1])
        for one in ward(60)
        for t, (state, dose) in enumerate(
            zip(one.episode.states, [*one.episode.actions[:, 0], None], strict=True)
        )
    ]
    names = ["episode_id", "t", "age", "ward", "fluid", "dose", "readmitted"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    model: Any = cp.fit(frame, WARD, learner="smooth")
    layout = cp.tables.layout_of_model(model)
    assert layout is not None
    given = {"actions": layout.action_set(episode), "reward": layout.reward(episode)}
    found = cp.explain(model, episode, 1, **given)
    (end,) = layout.learned.finals
    before = end.interval(coded(WARD.features, episode.states[-1:])[0])[0]
    assert found.factual_value == pytest.approx(-before)


def test_an_end_that_nothing_predicts_is_refused() -> None:
    every, rng = ward(200), np.random.default_rng(3)
    by_chance = [one._replace(outcomes=(("readmitted", str(rng.integers(2))),)) for one in every]
    with pytest.raises(InputError, match=r"'readmitted': .* says nothing about it"):
        learned(WARD, by_chance)
    same = [one._replace(outcomes=(("readmitted", "0"),)) for one in every]
    with pytest.raises(InputError, match="is known for 200 episodes and is 0 in all of them"):
        learned(WARD, same)


def test_an_end_that_only_what_is_fixed_predicts_is_doubted() -> None:
    rng, every = np.random.default_rng(5), []
    for one in ward(300):
        old = str(int(rng.uniform() < (one.episode.states[0, 0] > 65) * 0.6 + 0.2))
        every.append(one._replace(outcomes=(("readmitted", old),)))
    _, (first, second) = learned(WARD, every)
    assert "the last state predicts it" in first
    assert second.startswith("warning: column 'readmitted': no column that moves is known")


def test_which_episodes_are_held_out_does_not_depend_on_their_order() -> None:
    every = ward(150)
    assert learned(WARD, every)[1] == learned(WARD, every[::-1])[1]


def test_regression_is_least_squares() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 3)) * [1, 10, 0.1] + 5, rng.normal(size=50)
    design = np.column_stack([np.ones(50), x])
    expected, left, *_ = np.linalg.lstsq(design, y, rcond=None)
    found = regressed(x, y)
    assert found.weights == pytest.approx(expected)
    assert found.left == pytest.approx(left[0])
    covariance = left[0] / 46 * np.linalg.inv(design.T @ design)
    assert found.covariance == pytest.approx(covariance)


# --- What follows the last step ---


USUAL = np.array([0.45, 0.5, 0.05])


def worth_of_wear(steps: int) -> float:
    """What one more of wear costs in so many further steps, where actions are chosen as usual."""
    left = float(USUAL @ SLOPES) ** np.arange(1, steps + 1)
    return 2.0 * float(left.sum())


def test_nothing_is_saved_at_the_end_that_costs_more_later() -> None:
    every, gains = workshop(300, 12, often=0.5), []
    for schema in (WORKSHOP, replace(WORKSHOP, final="value")):
        layout, _ = learned(schema, every)
        for one in every[:60]:
            episode = one.episode
            found = cp.explain(
                MACHINE,
                episode,
                2,
                actions=layout.action_set(episode),
                reward=layout.reward(episode),
                constraints=cp.Constraints(fixed_steps=range(9)),
            )
            paid = np.array(list(PRICES.values()))
            saved = (paid[found.observed] - paid[found.actions]).sum()
            better = 2.0 * (episode.states - found.states).sum()
            later = worth_of_wear(12) * float(episode.states[-1, 0] - found.states[-1, 0])
            gains.append(saved + better + later)
    without, credited = np.array(gains[:60]), np.array(gains[60:])
    assert (without < -1e-9).sum() >= 15
    assert (credited < -1e-9).sum() <= 2
    assert credited.min() > -1.0
    assert credited.sum() > without.sum() + 100.0


def test_what_follows_is_what_the_next_steps_earn() -> None:
    layout, _ = learned(WORKSHOP, workshop(2000, 8, often=0.5))
    following = layout.learned.following
    assert following is not None
    assert layout.learned.horizon == 4
    assert -following.weights[0] == pytest.approx(worth_of_wear(4), rel=0.1)


# --- Discrete states ---

ROOMS = {
    "columns": {
        "state": {"role": "state", "labels": ["good", "worn"]},
        "action": {"role": "action", "labels": ["run", "repair"]},
        "cost": {"role": "cost"},
        "failed": {"role": "cost", "when": "last", "weight": 50},
    }
}


def rooms(path: Path, n: int = 300, seed: int = 0) -> Path:
    rng, lines = np.random.default_rng(seed), ["episode_id,t,state,action,cost,failed"]
    for number in range(n):
        state = int(rng.integers(2))
        for t in range(6):
            action = int(rng.random() < 0.6)
            end = int(rng.random() < (0.5 if state else 0.1)) if t == 5 else ""
            cost = 3 * state + 4 * action
            row = (number, t, ["good", "worn"][state], ["run", "repair"][action], cost, end)
            lines.append(",".join(map(str, row)))
            state = int(rng.random() < (0.1 if action else 0.3 + 0.6 * state))
    return write(path, "\n".join(lines) + "\n")


def test_discrete_ends_are_counted(tmp_path: Path) -> None:
    schema = schema_from_dict(ROOMS)
    model = fit_discrete(rooms(tmp_path / "t.csv"), schema, FitSettings()).model
    assert model.rewards.tolist() == [[0.0, -4.0], [-3.0, -7.0]]
    (end,) = model.about["ends"]["columns"]
    wide = np.subtract(end["high"], end["low"])
    assert (np.abs(np.subtract(end["mean"], [0.1, 0.5])) < wide).all()
    assert (wide < 0.25).all()
    assert model.final_rewards == pytest.approx(-50.0 * np.array(end["mean"]))
    (remark,) = model.about["remarks"]
    assert "column 'failed': in episodes held out the last state hardly predicts it" in remark


def test_discrete_states_know_what_follows(tmp_path: Path) -> None:
    document = {"table": {"final": "value"}, **ROOMS}
    path, schema = rooms(tmp_path / "t.csv"), schema_from_dict(document)
    model = fit_discrete(path, schema, FitSettings()).model
    bare = fit_discrete(path, schema_from_dict(ROOMS), FitSettings()).model
    assert model.visits is not None
    values = values_ahead(bare, model.visits, 2, 3)
    # By hand: the usual policy, three steps of it.
    policy = model.visits / model.visits.sum(axis=1, keepdims=True)
    value = np.zeros(2)
    for _ in range(3):
        ahead = np.array([[bare.row(s, a) @ value for a in range(2)] for s in range(2)])
        value = (policy * (bare.rewards + ahead)).sum(axis=1)
    assert values[-1] == pytest.approx(value)
    after = np.array([[bare.row(s, a) @ value for a in range(2)] for s in range(2)])
    assert bare.final_rewards is not None
    assert model.final_rewards == pytest.approx(bare.final_rewards[:, None] + after)
    cp.tables.save_model(model, tmp_path / "m.safetensors")
    again = cp.load_model(tmp_path / "m.safetensors")
    assert np.array_equal(again.final_rewards, model.final_rewards)  # type: ignore[arg-type]
    # A repair in the last row costs now and pays later.
    with open_table(path, schema) as opened:
        recorded = list(opened)
    repaired = [one for one in recorded if one.episode.actions[-1] == 1]
    worn = [one for one in repaired if one.episode.states[-1] == 1][:10]
    stops = {bare: 0, model: 0}
    for one in worn:
        for mdp in stops:
            changes = cp.explain(mdp, one.episode, 1).changes
            stops[mdp] += any(change.t == 5 for change in changes)
    assert stops[bare] > stops[model] == 0
    zeros = write(tmp_path / "z.csv", path.read_text().replace(",1\n", ",0\n"))
    with pytest.raises(FileError, match="is known for 300 episodes and is 0 in all"):
        fit_discrete(zeros, schema, FitSettings())


# --- Answers ---


class TrueExplainer(ContinuousExplainer):
    """With the true process in place of a neural model."""

    def __init__(self, scm: cp.LocationScaleSCM, layout: SchemaLayout) -> None:
        super().__init__(scm, layout)  # type: ignore[arg-type]

    def outliers(self, episode: cp.Episode) -> tuple[Any, ...]:
        return ()


def asked(explainer: ContinuousExplainer, one: Recorded, k: int, fixed: int = 0) -> Any:
    rules = cp.Constraints(fixed_steps=range(fixed))
    return cp.explain(**explainer.problem(one.episode), episode=one.episode, k=k, constraints=rules)


def test_changes_that_pay_only_at_the_end_are_marked() -> None:
    every = workshop(300, 12, often=0.5)
    explainer = TrueExplainer(MACHINE, learned(WORKSHOP, every)[0])
    paid, truths = np.array(list(PRICES.values())), []
    for one in every[:60]:
        found = asked(explainer, one, 1, fixed=9)
        for mark in explainer.pays_at_end_only(found):
            states = one.episode.states - found.states
            saved = (paid[found.observed] - paid[found.actions]).sum() + 2.0 * states.sum()
            truths.append((mark, saved + worth_of_wear(6) * states[-1, 0]))
    marked, kept = ([truth for mark, truth in truths if mark is one] for one in (True, False))
    assert len(marked) >= 10
    assert len(kept) >= 10
    assert max(marked) < 1.0
    assert min(kept) > -1.0


def test_answers_start_from_what_the_table_says() -> None:
    """What rewards have of noise is kept by an alternative."""
    every = workshop(60, 8, noise=2.0)
    explainer = TrueExplainer(MACHINE, learned(WORKSHOP, every)[0])
    for one in every[:3]:
        answer = answer_of(explainer, one, asked(explainer, one, 2))
        assert one.rewards is not None
        assert answer.observed == pytest.approx(one.rewards.sum())
        assert answer.factual == pytest.approx(answer.observed)
        steps = trajectory(explainer, answer)
        assert steps["reward"] == pytest.approx(one.rewards)
        assert steps["counterfactual_reward"].sum() == pytest.approx(answer.value)
        assert answer.predicted is None


def test_answers_tell_what_is_predicted() -> None:
    every = ward(300)
    explainer = TrueExplainer(PATIENT, learned(WARD, every)[0])
    one = next(one for one in every if one.outcomes[0][1] == "1")
    answer = answer_of(explainer, one, asked(explainer, one, 2))
    assert answer.observed == -1.0
    assert answer.predicted is not None
    (end,) = answer.predicted
    assert (-end.factual, -end.value) == pytest.approx((answer.factual, answer.value))
    assert end.low < end.value < end.high
    assert end.text.startswith(f"readmitted {end.factual:.0%} -> {end.value:.0%} (")


def test_discrete_answers_tell_the_same(tmp_path: Path) -> None:
    schema, path = schema_from_dict(ROOMS), rooms(tmp_path / "t.csv")
    model = fit_discrete(path, schema, FitSettings()).model
    explainer = DiscreteExplainer(model, SchemaLayout(schema))
    with open_table(path, schema) as opened:
        recorded = list(opened)
    (mean,) = (np.array(end["mean"]) for end in model.about["ends"]["columns"])
    for one in recorded[:10]:
        found = cp.explain(model, one.episode, 2)
        answer = answer_of(explainer, one, found)
        assert answer.observed == sum(one.rewards) - 50.0 * float(one.outcomes[0][1])  # type: ignore[arg-type]
        (end,) = answer.predicted or ()
        assert end.factual == mean[one.episode.states[-1]]
        drawn = found.sample(4000, 0).states[:, -1]
        # Of 4,000 draws the mean of values between 0 and 1 is off by 0.04 in 1 of 10^6 at most.
        assert end.value == pytest.approx(float(mean[drawn].mean()), abs=0.04)
        assert end.low < end.value < end.high
        for change, text in zip(found.changes, answer.changes, strict=True):
            skips = change.t == 5 and found.most_likely.states[5] == 1 and change.alternative == 0
            assert ("pays only because nothing follows" in text.text) >= skips


@pytest.mark.parametrize(
    "damage",
    [
        {"step": None, "finals": [], "following": None},
        {"finals": ["x"]},
        {"following": {"name": "x", "constant": 0.0, "weights": [1.0], "covariance": [[1.0]]}},
        {"following": {"name": "x", "constant": "?", "weights": [1.0, 2.0], "covariance": []}},
        "nothing",
    ],
)
def test_damaged_rewards_are_one_line(damage: Any) -> None:
    class Model:
        about: ClassVar[dict[str, Any]] = {"schema": WORKSHOP.as_dict(), "learned": damage}

    with pytest.raises(InputError, match=r"the reward in the model is damaged: .*; fit it anew"):
        layout_of_model(Model())  # type: ignore[arg-type]
