"""Functions that take results and return matplotlib figures.

frontier_figure       value against the number of changes, with what no model and every model says
outcome_figure        distribution of the counterfactual outcome, the observed one marked
change_strip_figure   how often each step is changed, above bands of states (the paper's Fig. 4b)
explanations_figure   the distinct explanations with frequency and mean outcome (Fig. 4c)
interval_figure       cases with their range over all causal models
cohort_figure         how much a cohort of cases could have been improved
trajectory_figure     a feature as it was and would have been, with the changes of doses
"""

from counterplan.viz.figures.changes import StateBand as StateBand
from counterplan.viz.figures.changes import change_strip_figure as change_strip_figure
from counterplan.viz.figures.cohort import cohort_figure as cohort_figure
from counterplan.viz.figures.explanations import explanations_figure as explanations_figure
from counterplan.viz.figures.frontier import frontier_figure as frontier_figure
from counterplan.viz.figures.intervals import IntervalRow as IntervalRow
from counterplan.viz.figures.intervals import interval_figure as interval_figure
from counterplan.viz.figures.outcomes import outcome_figure as outcome_figure
from counterplan.viz.figures.trajectory import Move as Move
from counterplan.viz.figures.trajectory import trajectory_figure as trajectory_figure
