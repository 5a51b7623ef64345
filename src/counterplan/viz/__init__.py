"""Figures of all results, and reports of runs.

    figure = cp.viz.frontier_figure(cp.frontier(scm, episode, k_max=5))     # matplotlib
    cp.viz.save_figure(figure, "frontier.png")                              # or .svg

trajectory_figure     a feature as it was and would have been, with the changes of doses
frontier_figure       value against the number of changes, with the bound
outcome_figure        distribution of the outcome, the observed one marked
change_strip_figure   how often each step is changed, above bands of states
doubt_figure          what is expected against what is guaranteed, by how much is doubted
interval_figure       cases with their ranges over causal models, and what is guaranteed
cohort_figure         what is claimed of each case of a cohort, with its interval
sensitivity_figure    the improvement as luck is turned, or as a hidden cause grows
calibration_figure    whether a model's uncertainty is right on steps that were held out
progress_figure       the best value known and the bound while a search expands nodes
path_figure           prices, resources and decisions along a path: executed, planned, hindsight
convergence_figure    a planner's value against simulations, between its bounds
process_figure        how a fitted law of prices predicts what it was not shown

Each takes a result, or rows of a cohort run. `Labels`, `labels_of` and `Quantity` say what numbers
are called; `Trajectory`, `Claim`, `Move` and `PathNames` are for own results.
"""

from counterplan.core.shown import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
