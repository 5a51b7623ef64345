"""How far counterfactuals leave the data: compared with looking at every row of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import counterplan as cp
from counterplan.counterfactual.support import NEIGHBOURS, Support
from counterplan.runs.explain import explain_spec, open_task
from counterplan.runs.question import Question
from counterplan.scm.support import Seen
from counterplan.tables.fit import FitSettings, fit_discrete
from counterplan.tables.models import save_model
from counterplan.tables.schema import schema_from_dict

from .models import (
    continuous_episodes,
    discrete_episodes,
    explained,
    part_of,
    small_mdp,
    small_scm,
    spec_of,
    table,
)


def test_sequences_against_every_row_of_the_data() -> None:
    scm = small_scm()
    assert scm.seen is not None
    assert scm.scaling is not None
    seen = scm.seen.states.astype(np.float64)
    for recorded, inside in product(continuous_episodes(scm, 12), (None, False)):
        found = explained(scm, recorded.episode, supported=inside)
        support = found.support
        assert found.support.taken == support.taken
        assert np.array_equal(found.support.distance, support.distance)
        states = scm.scaling.encode_states(found.states)
        apart = np.sqrt(((states[:, None] - seen[None]) ** 2).sum(axis=2))
        assert support.distance is not None
        np.testing.assert_allclose(
            support.distance, apart.min(axis=1) / scm.seen.typical, rtol=1e-9
        )
        first = min((change.t for change in found.changes), default=len(states))
        assert support.is_far == (apart.min(axis=1)[first:].max(initial=0.0) > scm.seen.far)
        for change, taken in zip(found.changes, support.taken, strict=True):
            nearest = np.argsort(apart[change.t])[:NEIGHBOURS]
            # The dose is the one that was chosen; the machine is replayed and does not matter.
            doses = np.rint(2.0 * scm.seen.actions[nearest, 0] + 1.0)
            assert taken == np.count_nonzero(doses == change.alternative)
        new = sum(taken < 3 for taken in support.taken)
        assert inside is False or not (new or support.is_far)
        assert support.new_actions == new
        assert support.supported == (not support.is_far and new == 0)


def test_policies_against_every_path() -> None:
    """All counterfactual episodes with their probabilities, one by one."""
    for seed in range(4):
        mdp = small_mdp(seed, S=3)
        assert mdp.visits is not None
        for recorded in discrete_episodes(mdp, 6, seed):
            episode = recorded.episode
            if len(episode) > 4:
                continue
            found = cp.explain(mdp, episode, 2)
            scm, unseen = cp.GumbelMaxSCM(mdp), 0.0
            for later in product(range(3), repeat=len(episode) - 1):
                states, probability, used, is_new = (episode.states[0], *later), 1.0, 0, False
                for t, state in enumerate(states):
                    action = found.policy(t, int(state), used)
                    is_new |= mdp.visits[state, action] == 0
                    used += action != episode.actions[t]
                    if t + 1 < len(states):
                        row = scm.counterfactual_row(
                            *(int(episode.states[t]), int(episode.actions[t])),
                            *(int(episode.states[t + 1]), int(state), action),
                        )
                        probability *= row[states[t + 1]]
                unseen += probability * is_new
            support = found.support
            assert found.support == support
            assert support.unseen == pytest.approx(unseen, abs=1e-12)
            path = found.most_likely
            taken = [int(mdp.visits[path.states[c.t], c.alternative]) for c in found.changes]
            assert list(support.taken) == taken


def test_ending_without_an_action_is_no_new_action(tmp_path: Path) -> None:
    """No episode ends in state 1, but every action was taken in every state."""
    rows = ["a,0,0,0,1", "a,1,1,0,2", "a,2,1,1,2", "a,3,0,1,1", "a,4,0,,", "b,0,0,1,1", "b,1,0,,"]
    rows += [f"{n}{row}" for n in "cd" for row in rows]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["episode_id,t,state,action,reward", *rows]) + "\n")
    columns = {"state": [0, 1], "action": [0, 1]}
    schema = schema_from_dict(
        {
            "columns": {
                **{name: {"role": name, "levels": levels} for name, levels in columns.items()},
                "reward": {"role": "reward"},
            }
        }
    )
    model = fit_discrete(path, schema, FitSettings()).model
    assert model.visits is not None
    assert model.visits[1, 2] == 0
    about = {"kind": "schema", "schema": schema.as_dict()}
    save_model(model, tmp_path / "m.safetensors")
    content = (tmp_path / "m.safetensors").read_bytes()
    spec = explain_spec(content, ".safetensors", about, Question((2,)), [])
    found = table(open_task(spec).solve(part_of(cp.tables.read_table(path, schema))))
    assert found["n_changes"].sum() > 0
    assert found["unseen_probability"].to_list() == [0.0] * 6
    assert found["supported"].all()


def test_runs_keep_to_what_was_asked(tmp_path: Path) -> None:
    """Anywhere or inside the data, as the description says."""
    scm, narrower = small_scm(), 0
    assert scm.seen is not None
    scm = replace(scm, seen=replace(scm.seen, far=1.5 * scm.seen.typical))
    episodes = continuous_episodes(scm, 12, seed=5)
    for supported in (None, True, False):
        spec = spec_of(tmp_path, scm, Question((2,), supported=supported))
        rows = table(open_task(spec).solve(part_of(episodes)))
        for value, recorded in zip(rows["value"], episodes, strict=True):
            assert value == explained(scm, recorded.episode, supported=supported).value
            free = explained(scm, recorded.episode, supported=False).value
            assert value <= free + 1e-9
            narrower += value < free - 1e-9
    assert narrower > 0


def test_what_counts_as_supported() -> None:
    near = np.array([0.5, 1.0])
    assert Support((3, 4), near, is_far=False).supported is True
    assert Support((3, 2), near, is_far=False).supported is False
    assert Support((3, 2), near, is_far=False, least=2).supported is True
    assert Support((3, 3), near, is_far=True).supported is False
    assert Support((), unseen=0.05).supported is True
    assert Support((5,), unseen=0.06).supported is False
    assert Support((None,)).supported is None
    assert Support((None,)).new_actions is None
    assert Support((0, 0, 4), unseen=1.0).new_actions == 2


def test_data_whose_states_are_all_the_same() -> None:
    scm = small_scm()
    assert scm.seen is not None
    same = Seen(scm.seen.states[:1].repeat(5, 0), scm.seen.actions[:5], 0.0, 0.0)
    (recorded, *_) = continuous_episodes(scm, 1)
    assert explained(replace(scm, seen=same), recorded.episode).changes == ()
    support = explained(replace(scm, seen=same), recorded.episode, supported=False).support
    assert support.distance is not None
    assert np.isinf(support.distance).all()
    assert support.is_far
