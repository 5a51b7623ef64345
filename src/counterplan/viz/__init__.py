"""Results made visible, on paper and on screens.

    figure = cp.viz.frontier_figure(cp.frontier(scm, episode, k_max=5))     # matplotlib
    cp.viz.save_figure(figure, "frontier.png")                              # or .svg

trajectory_figure     a feature as it was and would have been, with the changes of doses
frontier_figure       value against the number of changes, with the bound
outcome_figure        distribution of the outcome, the observed one marked
change_strip_figure   how often each step is changed, above bands of states
explanations_figure   the distinct explanations of a policy, with frequency and mean outcome
interval_figure       cases with their range over all causal models
cohort_figure         how much a cohort could have been improved, the tail highlighted
progress_figure       the best value known and the bound while a search expands nodes
path_figure           prices, resources and decisions along a path: executed, planned, hindsight
convergence_figure    a planner's value against simulations, between its bounds

Each takes a result, or rows of a cohort run. `Labels`, `labels_of` and `Quantity` say what numbers
are called; `Trajectory`, `StateBand`, `IntervalRow`, `Move` and `PathNames` are for own results.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counterplan.viz.changes import StateBand as StateBand
    from counterplan.viz.changes import change_strip_figure as change_strip_figure
    from counterplan.viz.cohort import cohort_figure as cohort_figure
    from counterplan.viz.convergence import convergence_figure as convergence_figure
    from counterplan.viz.explanations import explanations_figure as explanations_figure
    from counterplan.viz.frontier import frontier_figure as frontier_figure
    from counterplan.viz.intervals import IntervalRow as IntervalRow
    from counterplan.viz.intervals import interval_figure as interval_figure
    from counterplan.viz.labels import Labels as Labels
    from counterplan.viz.labels import Move as Move
    from counterplan.viz.labels import Quantity as Quantity
    from counterplan.viz.labels import labels_of as labels_of
    from counterplan.viz.outcomes import outcome_figure as outcome_figure
    from counterplan.viz.path import PathNames as PathNames
    from counterplan.viz.path import path_figure as path_figure
    from counterplan.viz.progress import progress_figure as progress_figure
    from counterplan.viz.style import save_figure as save_figure
    from counterplan.viz.trajectory import Trajectory as Trajectory
    from counterplan.viz.trajectory import trajectory_figure as trajectory_figure

# Where each public name lives; loaded on first use, since figures need most of the package.
_HOME = {
    "IntervalRow": "intervals",
    "Labels": "labels",
    "Move": "labels",
    "PathNames": "path",
    "Quantity": "labels",
    "StateBand": "changes",
    "Trajectory": "trajectory",
    "change_strip_figure": "changes",
    "cohort_figure": "cohort",
    "convergence_figure": "convergence",
    "explanations_figure": "explanations",
    "frontier_figure": "frontier",
    "interval_figure": "intervals",
    "labels_of": "labels",
    "outcome_figure": "outcomes",
    "path_figure": "path",
    "progress_figure": "progress",
    "save_figure": "style",
    "trajectory_figure": "trajectory",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
