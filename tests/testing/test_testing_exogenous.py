"""`check_model` accepts right models and finds what is wrong with broken ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from counterplan.planning.model import Allocation, State
from counterplan.testing import check_model

UP, DOWN = 1.5, 0.5


@dataclass(frozen=True)
class Sale:
    """Some units to sell within three days, at a price that rises or falls; plain NumPy."""

    sense: str = "max"
    horizon: int = 3

    @property
    def start(self) -> State:
        return State(0, np.array([10.0]), np.array([2.0]))

    def draw(self, t: int, exogenous: Any, generator: np.random.Generator) -> Any:
        return exogenous * np.where(generator.random(exogenous.shape) < 0.5, UP, DOWN)

    def actions(self, state: State) -> Any:
        return np.array([[0.0], [state.resource[0]]])

    def step(self, t: int, exogenous: Any, resource: Any, actions: Any) -> Any:
        return (exogenous * actions)[:, 0], resource - actions

    def successors(self, t: int, exogenous: Any) -> Any:
        return exogenous * np.array([[UP], [DOWN]]), np.array([0.5, 0.5])

    def mean_path(self, state: State | None = None) -> Any:
        now = state or self.start
        return np.repeat(now.exogenous[None], self.horizon - now.t, axis=0)

    def sample_paths(self, n: int, seed: Any, state: State | None = None) -> Any:
        now, rng = state or self.start, np.random.default_rng(seed)
        paths = np.repeat(now.exogenous[None, None], n, axis=0)
        for t in range(now.t, self.horizon - 1):
            following = self.draw(t, paths[:, -1], rng)[:, None]
            paths = np.concatenate([paths, following], axis=1)
        return paths

    def allocate(self, paths: Any, state: State | None = None) -> Allocation:
        left = (state or self.start).resource[0]
        best = paths[:, :, 0].argmax(axis=1)
        actions = np.zeros(paths.shape)
        actions[np.arange(len(paths)), best, 0] = left
        return Allocation(paths[:, :, 0].max(axis=1) * left, actions, "sell at the highest price")


def test_a_right_model_is_accepted() -> None:
    check_model(Sale())  # type: ignore[arg-type]


def broken(**methods: Callable[..., Any]) -> Any:
    """A sale with some methods replaced."""
    return type("Broken", (Sale,), methods)()


def quadratic(self: Any, t: int, x: Any, d: Any, a: Any) -> Any:
    return (x * a**2)[:, 0], d - a


def random_step(self: Any, t: int, x: Any, d: Any, a: Any) -> Any:
    return (x * a)[:, 0] + np.random.default_rng().random(len(x)), d - a


def mixing_step(self: Any, t: int, x: Any, d: Any, a: Any) -> Any:
    return (x * a)[:, 0], np.maximum(d.min() - a, 0.0) + 0.1 * len(x)


def flat_step(self: Any, t: int, x: Any, d: Any, a: Any) -> Any:
    return x * a, d - a


def moving_step(self: Any, t: int, x: Any, d: Any, a: Any) -> Any:
    self.sold = float(a[-1, 0])
    return (x * a)[:, 0], d - a


def moved_draw(self: Any, t: int, x: Any, g: Any) -> Any:
    return Sale.draw(self, t, x, g) * (1.0 - 0.1 * getattr(self, "sold", 0.0))


def greedy_allocation(self: Any, paths: Any, state: State | None = None) -> Allocation:
    left = (state or self.start).resource[0]
    actions = np.zeros(paths.shape)
    actions[:, 0] = left
    return Allocation(paths[:, 0, 0] * left, actions, "sell at once")


def boasting(self: Any, paths: Any, state: State | None = None) -> Allocation:
    found = Sale.allocate(self, paths, state)
    return Allocation(found.values + 1.0, found.actions, found.method)


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        ({"step": quadratic}, "twice as much must earn twice as much"),
        ({"step": moving_step, "draw": moved_draw}, "prices do not react to what is bought"),
        ({"step": random_step}, "other rewards the second time"),
        ({"step": mixing_step}, "among others but to .* alone"),
        ({"step": flat_step}, r"gives rewards \(1, 1\), expected \(1,\)"),
        ({"actions": lambda self, state: np.empty((0, 1))}, "there is no action at t=0"),
        ({"actions": lambda self, state: np.zeros(2)}, r"actions at t=0 must be \(m, A\)"),
        ({"actions": lambda self, state: np.array([[np.nan]])}, "are not finite"),
        ({"draw": lambda self, t, x, g: x[:, 0]}, r"draw at t=0 gives \(1,\), expected \(1, 1\)"),
        (
            {"draw": lambda self, t, x, g: x * np.where(g.random(x.shape) < 0.6, UP, DOWN)},
            "has probability 0.5000, but 0.* of 4000 draws gave it",
        ),
        (
            {"draw": lambda self, t, x, g: x * np.where(g.random(x.shape) < 0.5, UP, 0.6)},
            "which is no successor",
        ),
        (
            {"successors": lambda self, t, x: (x * np.array([[UP], [DOWN]]), np.array([0.5, 0.4]))},
            "sum to 0.9",
        ),
        (
            {"mean_path": lambda self, state=None: 1.1 * Sale.mean_path(self, state)},
            "does not begin with the state's x_t",
        ),
        (
            {
                "mean_path": lambda self, state=None: (
                    Sale.mean_path(self, state) + np.arange(3 - (state or self.start).t)[:, None]
                )
            },
            "mean_path and draw disagree",
        ),
        (
            {"sample_paths": lambda self, n, seed, state=None: Sale.sample_paths(self, n, seed)},
            r"sample_paths from t=|does not begin",
        ),
        ({"allocate": greedy_allocation}, "but actions that the model offers are worth"),
        ({"allocate": boasting}, "but replayed its actions are worth"),
    ],
)
def test_broken_models_are_refused(methods: dict[str, Any], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_model(broken(**methods))


def mixed_rows(self: Any, t: int, x: Any, generator: np.random.Generator) -> Any:
    return Sale.draw(self, t, np.full_like(x, x.mean()), generator)


def test_rows_of_other_states_must_not_matter() -> None:
    others = ("successors", "mean_path", "sample_paths", "allocate")
    model = type("Mixed", (Sale,), {"draw": mixed_rows, **dict.fromkeys(others)})()
    with pytest.raises(AssertionError, match="mixes up the rows of different states"):
        check_model(model)


def test_what_is_no_model() -> None:
    with pytest.raises(AssertionError, match="object needs horizon, sense, start, draw"):
        check_model(object())  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="sense is 'most'"):
        check_model(Sale(sense="most"))  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="horizon is 0"):
        check_model(Sale(horizon=0))  # type: ignore[arg-type]


# --- A kernel that does something else ---------------------------------------------------------


def selling(rate: float = 0.0, most: float = 2.0, sense: Any = "max") -> Any:
    from counterplan.domains.exogenous_mdp import ExogenousMDP
    from counterplan.planning.processes import BinomialLattice
    from counterplan.planning.resource import Resource

    lattice = BinomialLattice(10.0, rate, 0.4, 1.0)
    return ExogenousMDP(lattice, [[1.0]], Resource(2), [(0, most)] * 3, sense=sense)


def twisted(**changes: Any) -> Any:
    """The same problem with another kernel."""
    problem = selling()
    other = replace(problem.compiled(), **changes)
    object.__setattr__(problem, "compiled", lambda quantiles=0: other)
    return problem


def test_kernels_are_compared() -> None:
    from counterplan.planning.search.kernel import no_successors

    check_model(twisted())
    others = selling(sense="min"), selling(most=1.0), selling(rate=0.3)
    negated, narrower, likelier = (one.compiled().parameters for one in others)
    for changes, words in (
        ({"parameters": negated}, "the kernel's reward of"),
        ({"parameters": narrower}, "the kernel offers"),
        ({"parameters": likelier}, "the kernel draws x|the kernel's successors"),
        ({"horizon": 2}, "the kernel's horizon is 2"),
        ({"resource": np.array([3.0])}, "the kernel starts with resource"),
        ({"successors": no_successors}, "the kernel has 0 successors"),
    ):
        with pytest.raises(AssertionError, match=words):
            check_model(twisted(**changes))


def test_a_step_that_changes_what_it_is_given_is_told() -> None:
    class InPlace(Sale):
        def step(self, t: int, exogenous: Any, resource: Any, actions: Any) -> Any:
            rewards = (exogenous * actions)[:, 0]
            exogenous *= 0.0
            return rewards, resource - actions

    with pytest.raises(AssertionError, match="changes the array x that it is given"):
        check_model(InPlace())


def test_rewards_that_are_no_numbers_are_told() -> None:
    """Nan was told to be chance: it is not equal to itself."""

    class Lost(Sale):
        def step(self, t: int, exogenous: Any, resource: Any, actions: Any) -> Any:
            rewards, after = super().step(t, exogenous, resource, actions)
            return np.where(exogenous[:, 0] > 12.0, np.nan, rewards), after

    with pytest.raises(AssertionError, match=r"gives reward nan .*: give finite numbers"):
        check_model(Lost())


def test_a_horizon_must_be_whole() -> None:
    with pytest.raises(AssertionError, match=r"horizon is 3\.0: it must be a whole number"):
        check_model(Sale(horizon=3.0))  # type: ignore[arg-type]
