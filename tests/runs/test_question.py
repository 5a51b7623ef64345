"""Rules by name: what they stand for, what is said about slips, and that answers obey them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counterplan as cp
from counterplan.core.constraints import Constraints
from counterplan.counterfactual.oracle import brute_force
from counterplan.errors import InputError
from counterplan.runs.answer import open_explainer
from counterplan.runs.explainer import named_grid
from counterplan.runs.question import Question, Rule, read_rules
from counterplan.scm.gumbel import GumbelMaxSCM
from counterplan.tables.schema import Column, Grid

GRID = Grid(
    (
        Column("drug", "action", labels=("none", "A&B", "cedin", "x=1|2")),
        Column("dose mg", "action", levels=(0.0, 200.0), unit="mg"),
        Column("bath", "action", labels=("no", "yes")),
    )
)
WORKSHOP = named_grid("action", ["wait", "repair", "replace: all"])
STATES = named_grid("state", ["good", "worn", "broken"])


def allowed(*rules: Rule) -> list[int]:
    found = read_rules(GRID, None, allow=rules).allowed
    return np.flatnonzero(np.asarray(found)).tolist()


@pytest.mark.parametrize(
    ("rule", "cells"),
    [
        ("drug=none", [0, 1, 2, 3]),
        ("none", [0, 1, 2, 3]),
        ("drug = none|cedin & bath=yes", [1, 3, 9, 11]),
        ("drug=A&B & dose mg=200", [6, 7]),
        ("drug=A&B & dose mg=200 mg & bath=no|yes", [6, 7]),
        ("drug=x=1|2 & bath=no", [12, 14]),
        ("200.0", [2, 3, 6, 7, 10, 11, 14, 15]),
        ("drug cedin, dose mg 200 mg, bath yes", [11]),
        (5, [5]),
    ],
)
def test_actions_are_named_as_a_whole_or_by_their_columns(rule: Rule, cells: list[int]) -> None:
    assert allowed(rule) == cells
    forbidden = np.asarray(read_rules(GRID, None, forbid=[rule]).allowed)
    assert np.flatnonzero(~forbidden).tolist() == cells


def test_rules_add_up() -> None:
    assert allowed("drug=none & bath=no", "drug=cedin & bath=yes") == [0, 2, 9, 11]
    found = read_rules(GRID, None, ["drug=none"], ["bath=yes", 2], ["none=2", "dose mg=200=3"])
    assert np.flatnonzero(np.asarray(found.allowed)).tolist() == [0]
    assert found.change_costs == {0: 2, 1: 2, **dict.fromkeys([2, 3, 6, 7, 10, 11, 14, 15], 3)}
    pairs = read_rules(WORKSHOP, STATES, forbid=["worn|good:wait", "broken:replace: all"])
    assert pairs.forbidden == ((0, 0), (1, 0), (2, 2))
    assert np.asarray(pairs.allowed).all()


@pytest.mark.parametrize(
    ("kind", "rule", "line"),
    [
        (
            "allow",
            "drg=none",
            r"^allow 'drg=none': 'drg=none' is no action; there are drug=none",
        ),
        ("forbid", "drug=nne", r"'nne' is no action; there are none, A&B, cedin, x=1\|2$"),
        ("forbid", "drug=none|nne", r"'none\|nne' is no action; there are none"),
        ("forbid", "dose mg=100", "'100' is no action; there are 0, 200$"),
        ("forbid", "good:none", "'good:none' is no action; there are drug="),
        ("forbid", 16, "'16' is no action"),
        ("cost", "none", "write an action and a whole number, such as NAME=2"),
        ("cost", "none=0", "write an action and a whole number"),
        ("cost", "none=1.5", "write an action and a whole number"),
        ("cost", "drug=2", "cost 'drug': 'drug' is no action; there are drug="),
    ],
)
def test_slips_are_told_with_what_there_is(kind: str, rule: Rule, line: str) -> None:
    rules: Any = {kind: [rule]}
    with pytest.raises(InputError, match=line):
        read_rules(GRID, None, **rules)


def test_slips_in_pairs_and_in_what_two_columns_hold() -> None:
    with pytest.raises(InputError, match="'wrn' is no state; there are good, worn, broken"):
        read_rules(WORKSHOP, STATES, forbid=["wrn:wait"])
    with pytest.raises(InputError, match="'weit' is no action; there are wait, repair"):
        read_rules(WORKSHOP, STATES, forbid=["worn:weit"])
    twice = Grid(tuple(Column(name, "action", levels=(0.0, 1.0)) for name in ("iv", "oral")))
    with pytest.raises(InputError, match="allow '1': could be iv=1 or oral=1; say which"):
        read_rules(twice, None, allow=["1"])


def test_questions_keep_rules_as_plain_values() -> None:
    question = Question(allow="wait", forbid=[("worn", "wait"), 2], keep=3, cost={"repair": 2})  # type: ignore[arg-type]
    assert (question.allow, question.forbid) == (("wait",), ("worn:wait", 2))
    assert (question.keep, question.cost) == ((3,), ("repair=2",))
    asked = question.arguments()
    assert asked["forbid"] == ["worn:wait", 2]
    assert "allow" not in Question().arguments()
    for wrong in ({"keep": ["first"]}, {"forbid": [1.5]}, {"allow": [True]}):
        with pytest.raises(InputError, match=f"^{next(iter(wrong))} "):
            Question(**wrong)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def workshop() -> cp.TabularMDP:
    rng = np.random.default_rng(3)
    transitions = rng.dirichlet(np.ones(3), size=(3, 3))
    rewards = rng.normal(size=(3, 3)).round(2)
    names = {
        "state_labels": ["good", "worn", "broken"],
        "action_labels": ["wait", "repair", "swap"],
    }
    return cp.TabularMDP(transitions, rewards, **names)


EPISODE = cp.Episode([0, 1, 1, 2], [0, 0, 2, 1], id="a")
RULES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"allow": "repair"}, {"allowed": [False, True, False]}),
    ({"forbid": ["swap"]}, {"allowed": [True, True, False]}),
    ({"forbid": ["worn:swap"]}, {"forbidden": [(1, 2)]}),
    ({"keep": [1, -1, 9]}, {"fixed_steps": [1, 3]}),
    ({"cost": {"swap": 2}}, {"change_costs": {2: 2}}),
]


@pytest.mark.parametrize(("rules", "same"), RULES)
def test_answers_obey_them_and_are_the_best_that_do(
    workshop: cp.TabularMDP, tmp_path: Path, rules: dict[str, Any], same: dict[str, Any]
) -> None:
    table = pl.DataFrame(
        {"episode_id": "a", "t": range(4), "state": EPISODE.states, "action": EPISODE.actions}
    )
    (answer,) = cp.explain_table(table, workshop, k=2, doubt=0.0, **rules)
    best = brute_force(GumbelMaxSCM(workshop), EPISODE, 2, Constraints(**same))
    assert answer.value == pytest.approx(best, rel=1e-12)
    free = brute_force(GumbelMaxSCM(workshop), EPISODE, 2)
    assert best < free - 1e-9, "a rule that does nothing shows nothing"
    asked: dict[str, Any] = {"k": 2, "doubt": 0.0, "folder": tmp_path / "run", "workers": 1}
    run = cp.explain_table(table, workshop, **asked, **rules)
    assert run.results().collect()["value"].to_list() == [answer.value]
    assert run.question == Question(budgets=(2,), doubt=0.0, **rules)
    _, note, *_ = run.explainer.notes(run.question)
    assert str(next(iter(run.question.arguments()[name] for name in rules))[0]) in note
    with pytest.raises(InputError, match="holds a run of another question: "):
        cp.explain_table(table, workshop, **asked)


def test_steps_beyond_an_episode_are_no_mistake_and_the_last_is_the_last_decision(
    workshop: cp.TabularMDP,
) -> None:
    explainer = open_explainer(workshop, {"kind": "discrete"})
    rules = explainer.constraints(EPISODE, Question(keep=(0, -1, 7, -9)))
    assert sorted(rules.fixed_steps) == [0, 3]
    assert explainer.decisions(EPISODE) == 4
