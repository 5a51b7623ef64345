"""Players around others see and do what they should; bounds prepared once change no decision."""

from __future__ import annotations

import numpy as np

from counterplan.core.validation import Seed, generator
from counterplan.domains.options import AmericanOption
from counterplan.planning import policies
from counterplan.planning.evaluate import evaluate
from counterplan.planning.model import ExogenousModel, State
from counterplan.planning.search.planners import BOUND_SAMPLES, UCT, Clip, Decide, HasAction
from experiments.sdmdp_players import Only, Recording, Unforced
from experiments.sdmdp_prepared import Prepared


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


def test_prepared_bounds_lead_to_the_same_decisions() -> None:
    problem = AmericanOption("C")
    _, own = generator(5).spawn(2)  # nature's chance and the planner's own
    prepared = Prepared.prepare(problem, BOUND_SAMPLES, own.spawn(2)[0])
    search = UCT(simulations=50)
    first = evaluate(problem, search, 10, clip=True, seed=5)
    second = evaluate(prepared, search, 10, clip=True, seed=5)
    assert second.futures == first.futures
    np.testing.assert_array_equal(second.actions, first.actions)
    assert evaluate(problem, search, 10, clip=False, seed=5).outcomes.sum() != first.outcomes.sum()
