"""What can be asked of a report, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass, field

from counterplan.viz.page import Panel
from counterplan.viz.report.names import Names

# Cases in the table of a report; `counterplan cases` lists all of any run.
MOST_ROWS = 20_000
CASES = 10


@dataclass(frozen=True)
class ReportOptions:
    """What to report.

    k       the budget; None for the largest of the run
    cases   how many cases are looked at closely
    case    one case alone, by its id
    names   how cases are called
    """

    k: int | None = None
    cases: int = CASES
    case: str | None = None
    names: Names = field(default_factory=Names)


@dataclass(frozen=True, eq=False)
class Report:
    """The page as text, and its figures."""

    html: str
    panels: tuple[Panel, ...]
