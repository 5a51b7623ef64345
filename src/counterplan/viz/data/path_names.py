"""What the numbers of a planning problem are called: what is seen, done and held at a step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.domains.basket import OptionBasket
from counterplan.domains.bunkering import Bunkering
from counterplan.domains.hybrid import HybridVehicle
from counterplan.domains.options import AmericanOption
from counterplan.exogenous.model import ExogenousModel
from counterplan.io.plan_question import mode_names


@dataclass(frozen=True)
class PathNames:
    """Titles for the numbers of a path.

    seen     of each number that is revealed
    actions  of each number of an action
    levels   of each resource
    modes    names of 0, 1, ..., where what is seen is one of several modes
    step     what a step is
    """

    seen: tuple[str, ...]
    actions: tuple[str, ...]
    levels: tuple[str, ...]
    modes: tuple[str, ...] = ()
    step: str = "step t"


def path_names(problem: ExogenousModel) -> PathNames:
    """The titles of a shipped problem; numbers for any other."""
    if isinstance(problem, Bunkering):
        return PathNames(("price",), ("units bought",), ("units in the tank",), step="port t")
    if isinstance(problem, HybridVehicle):
        modes = tuple(mode_names(problem.numbers.modes))
        used, left = ("gas used", "electricity used"), ("gas left", "electricity left")
        return PathNames(("mode",), used, left, modes)
    if isinstance(problem, AmericanOption):
        return PathNames(("price",), ("exercise",), ("held",), step="date t")
    start = problem.start
    if isinstance(problem, OptionBasket):
        options = [f"option {b + 1}" for b in range(len(problem.options))]
        prices = tuple(f"price {b + 1}" for b in range(len(options)))
        held = tuple(f"{name} held" for name in options)
        return PathNames(prices, tuple(options), held, step="date t")
    return PathNames(
        _numbered("x", len(start.exogenous)),
        _numbered("action", problem.actions(start).shape[1]),
        _numbered("resource", len(start.resource)),
    )


def seen_numbers(problem: ExogenousModel, path: FloatArray) -> FloatArray:
    """(T, n) what is drawn of a path (T, X): modes as numbers, everything else as it is."""
    if isinstance(problem, HybridVehicle):
        likeliest = np.argmax(problem.beliefs(path), axis=1)
        return np.asarray(likeliest[:, np.newaxis], dtype=np.float64)
    return path


def _numbered(name: str, count: int) -> tuple[str, ...]:
    return (name,) if count == 1 else tuple(f"{name} {place + 1}" for place in range(count))
