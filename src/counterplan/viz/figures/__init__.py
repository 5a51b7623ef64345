"""Functions that take results and return matplotlib figures, for print.

trajectory_figure     a feature as it was and would have been, with the changes of doses
frontier_figure       value against the number of changes, with the bound and what every model says
outcome_figure        distribution of the counterfactual outcome, the observed one marked
change_strip_figure   how often each step is changed, above bands of states (2021 paper's Fig. 4b)
explanations_figure   the distinct explanations with frequency and mean outcome (Fig. 4c)
interval_figure       cases with their range over all causal models
cohort_figure         how much a cohort of cases could have been improved, the tail highlighted
progress_figure       the best value known and the bound while a search expands nodes
path_figure           prices, resources and decisions along one path: executed, planned, hindsight
convergence_figure    a planner's value against simulations, between its bounds

`interactive` has the same functions for screens.
"""

from counterplan.viz.data.changes import StateBand as StateBand
from counterplan.viz.data.intervals import IntervalRow as IntervalRow
from counterplan.viz.data.moves import Move as Move
from counterplan.viz.figures.changes import change_strip_figure as change_strip_figure
from counterplan.viz.figures.cohort import cohort_figure as cohort_figure
from counterplan.viz.figures.convergence import convergence_figure as convergence_figure
from counterplan.viz.figures.explanations import explanations_figure as explanations_figure
from counterplan.viz.figures.frontier import frontier_figure as frontier_figure
from counterplan.viz.figures.intervals import interval_figure as interval_figure
from counterplan.viz.figures.outcomes import outcome_figure as outcome_figure
from counterplan.viz.figures.path import path_figure as path_figure
from counterplan.viz.figures.progress import progress_figure as progress_figure
from counterplan.viz.figures.trajectory import trajectory_figure as trajectory_figure
