"""Plans made by hand: followed through the model exactly as solvers follow theirs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.counterfactual.continuous.setting import prepare_sequence
from counterplan.counterfactual.discrete.budget_dp import prepare
from counterplan.counterfactual.discrete.dynamic_program import evaluate, keep_observed

from .serving import Explorer


def ask(explorer: Explorer, name: str, edits: dict[int, int]) -> Any:
    question = {"id": name, "edits": [{"t": t, "action": a} for t, a in edits.items()]}
    return explorer.post("what-if", question)


def test_a_sequence_is_replayed(continuous: Explorer) -> None:
    rng, cases = np.random.default_rng(0), continuous.service.cases
    for name in continuous.long_ids():
        episode = cases.recorded(name).episode
        problem = cases.run.explainer.problem(episode)
        setting = prepare_sequence(Problem(episode=episode, k=len(episode), **problem))
        for _ in range(3):
            actions = setting.observed.copy()
            steps = rng.integers(0, len(actions), 2)
            actions[steps] = rng.integers(0, 3, 2)
            found = ask(continuous, name, {int(t): int(actions[t]) for t in steps})["answer"]
            assert found["value"] == float(setting.outcomes(actions[None])[0])
            assert found["factual"] == float(setting.outcomes(setting.observed[None])[0])
            states = setting.in_episode_units(setting.trajectories(actions[None])[0])
            assert np.array_equal(found["course"]["states"], states)
            assert found["course"]["actions"] == [*actions.tolist(), None]
            changed = np.flatnonzero(actions != setting.observed).tolist()
            assert [change["t"] for change in found["changes"]] == changed


def test_the_noise_is_that_of_the_episode(continuous: Explorer) -> None:
    """Step by step by the model's own public methods."""
    cases, name = continuous.service.cases, continuous.long_ids()[0]
    episode = cases.recorded(name).episode
    problem = cases.run.explainer.problem(episode)
    scm, vectors = problem["scm"], problem["actions"]
    found = ask(continuous, name, {1: 2})["answer"]
    noise = scm.infer(episode.states[:-1], episode.actions[: len(episode) - 1], episode.states[1:])
    states = [episode.states[0]]
    for t, action in enumerate(found["course"]["actions"][:-1]):
        states.append(scm.step(states[-1][None], vectors[t, action][None], noise[t : t + 1])[0])
    assert np.allclose(found["course"]["states"], states, rtol=1e-10, atol=1e-10)
    assert np.isclose(found["value"], problem["reward"](np.array(states)).sum(), rtol=1e-10)


def test_the_best_plan_made_by_hand_is_as_good(continuous: Explorer) -> None:
    for name in continuous.long_ids():
        best = continuous.get("case", id=name)["answer"]
        edits = {change["t"]: change["alternative"] for change in best["changes"]}
        found = ask(continuous, name, edits)["answer"]
        assert found["value"] == best["value"]
        assert found["course"] == best["course"]
        assert found["support"] == best["support"]
        texts = [change["text"] for change in best["changes"]]
        assert [change["text"] for change in found["changes"]] == texts


def test_a_plan_in_a_discrete_model(discrete: Explorer) -> None:
    rng, cases = np.random.default_rng(0), discrete.service.cases
    for name in discrete.long_ids():
        episode = cases.recorded(name).episode
        setting, law = prepare(
            Problem(episode=episode, k=0, **cases.run.explainer.problem(episode))
        )
        free = replace(setting.constraints, costs=np.zeros_like(setting.constraints.costs))
        setting = replace(setting, constraints=free)
        for size in (0, 1, 2, 3):
            edits = {int(rng.integers(len(episode))): int(rng.integers(3)) for _ in range(size)}
            table = keep_observed(setting)
            for t, action in edits.items():
                table.actions[t] = action
            found = ask(discrete, name, edits)["answer"]
            assert found["value"] == evaluate(setting, law, table)[0]
            assert found["factual"] == cases.run.explainer.mdp.outcome(episode)


def test_a_discrete_plan_is_an_expectation(discrete: Explorer) -> None:
    """Against the causal model's rows, multiplied out by hand."""
    cases, name = discrete.service.cases, discrete.long_ids()[0]
    episode, mdp = cases.recorded(name).episode, cases.run.explainer.mdp
    scm = cp.GumbelMaxSCM(mdp)
    edits = {1: (int(episode.actions[1]) + 1) % 3, 2: (int(episode.actions[2]) + 2) % 3}
    actions = [edits.get(t, int(a)) for t, a in enumerate(episode.actions)]
    mass, total = np.eye(4)[episode.states[0]], 0.0
    for t, action in enumerate(actions):
        total += float(mass @ mdp.rewards_at(t, len(episode))[:, action])
        if t + 1 < len(episode):
            seen = (int(episode.states[t]), int(episode.actions[t]), int(episode.states[t + 1]))
            mass = sum(mass[s] * scm.counterfactual_row(*seen, s, action) for s in range(4))
    assert np.isclose(ask(discrete, name, edits)["answer"]["value"], total, rtol=1e-12)


def test_nothing_edited_is_what_happened(continuous: Explorer, discrete: Explorer) -> None:
    for explorer in (continuous, discrete):
        for name in explorer.long_ids():
            case = explorer.get("case", id=name, k=0)
            found = ask(explorer, name, {})["answer"]
            assert found["value"] == case["answer"]["factual"]
            assert found["changes"] == []
    assert ask(discrete, discrete.long_ids()[0], {})["milliseconds"] > 0


@pytest.mark.parametrize(
    ("edits", "says"),
    [
        ({99: 0}, "step 99 has no decision to edit"),
        ({0: 3}, "action 3 is unknown; there are 0..2"),
    ],
)
def test_edits_of_nothing(continuous: Explorer, edits: dict[int, int], says: str) -> None:
    question = {"id": "s7", "edits": [{"t": t, "action": a} for t, a in edits.items()]}
    found = continuous.client.post("/api/what-if", json=question)
    assert found.status_code == 400
    assert says in found.json()["error"]


def test_the_last_state_has_no_decision(continuous: Explorer) -> None:
    name = continuous.long_ids()[0]
    steps = continuous.get("case", id=name)["steps"]
    question = {"id": name, "edits": [{"t": steps - 1, "action": 0}]}
    assert continuous.client.post("/api/what-if", json=question).status_code == 400
