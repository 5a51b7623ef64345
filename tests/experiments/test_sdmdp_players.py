"""Players around others see and do what they should."""

from __future__ import annotations

import numpy as np

from counterplan.core.validation import Seed
from counterplan.domains.options import AmericanOption
from counterplan.planning import policies
from counterplan.planning.evaluate import evaluate
from counterplan.planning.model import ExogenousModel, State
from counterplan.planning.search.planners import Clip, Decide, HasAction
from experiments.sdmdp_players import Only, Recording, Unforced


def test_a_planner_is_asked_only_where_there_is_a_choice() -> None:
    asked: list[State] = []

    class Exercising:
        name = "exercising"

        def begin(self, problem: ExogenousModel, clip: Clip = None, seed: Seed = 0) -> Decide:
            def decide(state: State) -> HasAction:
                asked.append(state)
                return Only(np.array([1.0 if state.t == 2 else 0.0]))

            return decide

    problem = AmericanOption("C")
    found = evaluate(problem, Unforced(Exercising()), 4, seed=0)
    assert {state.t for state in asked} == {0, 1, 2}
    assert found.actions[:, 2].min() == 1.0
    assert found.actions.sum() == 4.0


def test_a_recording_holds_the_futures_that_were_played() -> None:
    problem = AmericanOption("C")
    recording = Recording(policies.Optimal())
    found = evaluate(problem, recording, 20, seed=3)
    plain = evaluate(problem, policies.Optimal(), 20, seed=3)
    np.testing.assert_array_equal(found.outcomes, plain.outcomes)
    replayed = problem.allocate(recording.paths).values
    assert (replayed >= found.outcomes - 1e-12).all()
    assert recording.paths.shape == (20, problem.horizon, 1)
