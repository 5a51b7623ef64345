"""What the addresses of lists take."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from counterplan.explorer.cases import CaseFilter
from counterplan.explorer.models.base import LARGEST, Text
from counterplan.explorer.paging import MOST_LINES, Window
from counterplan.explorer.plans import PlanFilter

Amount = Annotated[float, Field(allow_inf_nan=False)]
Place = Annotated[int, Field(ge=0, le=LARGEST)]
Status = Literal["optimal", "limit", "heuristic", "failed"]
CaseSort = Literal["improvement", "relative", "gap", "factual", "value", "changes", "steps", "id"]
PlanSort = Literal[
    "expected_regret", "executed", "regret_policy", "regret_hindsight", "hindsight", "id"
]


class ListQuery(BaseModel):
    """Which lines of a list."""

    model_config = ConfigDict(extra="forbid")

    descending: bool = True
    offset: Annotated[int, Field(ge=0, le=10**9)] = 0
    limit: Annotated[int, Field(ge=1, le=MOST_LINES)] = 25
    status: Annotated[list[Status], Field(max_length=10, default_factory=list)]
    search: Text = ""


class CaseQuery(ListQuery):
    """Which cases; see `cases.CaseFilter`."""

    sort: CaseSort = "improvement"
    k: Place | None = None
    min_improvement: Amount | None = None
    max_changes: Place | None = None
    support: Literal["yes", "no", ""] = ""
    outcome: Annotated[list[Text], Field(max_length=20, default_factory=list)]
    changed: Text = ""

    def wanted(self) -> CaseFilter:
        """The conditions."""
        return CaseFilter(
            self.k,
            tuple(self.status),
            self.min_improvement,
            self.max_changes,
            self.support,
            tuple(self.outcome),
            self.changed,
            self.search,
        )

    def window(self) -> Window:
        """Which lines, in which order."""
        return Window(self.sort, self.descending, self.offset, self.limit)


class PlanQuery(ListQuery):
    """Which scenarios; see `plans.PlanFilter`."""

    sort: PlanSort = "expected_regret"
    min_expected_regret: Amount | None = None

    def wanted(self) -> PlanFilter:
        """The conditions."""
        return PlanFilter(self.min_expected_regret, tuple(self.status), self.search)

    def window(self) -> Window:
        """Which lines, in which order."""
        return Window(self.sort, self.descending, self.offset, self.limit)
