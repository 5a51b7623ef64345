"""Functions that take results and return plotly figures, for screens.

They have the names, the arguments and the content of those in `figures`. `figure_html` makes a
piece of a page of one, `figures_script` the one script that such a page needs, and `figures_page` a
whole page.
"""

from counterplan.viz.changes import StateBand as StateBand
from counterplan.viz.interactive.changes import change_strip_figure as change_strip_figure
from counterplan.viz.interactive.cohort import cohort_figure as cohort_figure
from counterplan.viz.interactive.convergence import convergence_figure as convergence_figure
from counterplan.viz.interactive.explanations import explanations_figure as explanations_figure
from counterplan.viz.interactive.frontier import frontier_figure as frontier_figure
from counterplan.viz.interactive.intervals import interval_figure as interval_figure
from counterplan.viz.interactive.outcomes import outcome_figure as outcome_figure
from counterplan.viz.interactive.page import figure_html as figure_html
from counterplan.viz.interactive.page import figures_page as figures_page
from counterplan.viz.interactive.page import figures_script as figures_script
from counterplan.viz.interactive.path import path_figure as path_figure
from counterplan.viz.interactive.progress import progress_figure as progress_figure
from counterplan.viz.interactive.trajectory import trajectory_figure as trajectory_figure
from counterplan.viz.intervals import IntervalRow as IntervalRow
from counterplan.viz.labels import Move as Move
