"""What the explorer's requests and answers look like; its page and its OpenAPI document follow.

Numbers may be infinite, as the texts "inf" and "-inf", or not known, as null.
"""

from __future__ import annotations

from counterplan.explorer.models.base import LARGEST as LARGEST
from counterplan.explorer.models.base import Asked as Asked
from counterplan.explorer.models.base import Error as Error
from counterplan.explorer.models.base import Name as Name
from counterplan.explorer.models.base import Text as Text
from counterplan.explorer.models.cases import Answer as Answer
from counterplan.explorer.models.cases import Budget as Budget
from counterplan.explorer.models.cases import Case as Case
from counterplan.explorer.models.cases import CaseLine as CaseLine
from counterplan.explorer.models.cases import CasePage as CasePage
from counterplan.explorer.models.cases import ChangeAbout as ChangeAbout
from counterplan.explorer.models.cases import Course as Course
from counterplan.explorer.models.cases import Edit as Edit
from counterplan.explorer.models.cases import Support as Support
from counterplan.explorer.models.cases import WhatIfAnswer as WhatIfAnswer
from counterplan.explorer.models.cases import WhatIfQuestion as WhatIfQuestion
from counterplan.explorer.models.jobs import Advice as Advice
from counterplan.explorer.models.jobs import AdviseQuestion as AdviseQuestion
from counterplan.explorer.models.jobs import Choice as Choice
from counterplan.explorer.models.jobs import JobAbout as JobAbout
from counterplan.explorer.models.jobs import Progress as Progress
from counterplan.explorer.models.jobs import Solved as Solved
from counterplan.explorer.models.jobs import SolveQuestion as SolveQuestion
from counterplan.explorer.models.plans import PlanLine as PlanLine
from counterplan.explorer.models.plans import PlanPage as PlanPage
from counterplan.explorer.models.plans import Scenario as Scenario
from counterplan.explorer.models.plans import Series as Series
from counterplan.explorer.models.plans import Track as Track
from counterplan.explorer.models.run import Bar as Bar
from counterplan.explorer.models.run import ColumnAbout as ColumnAbout
from counterplan.explorer.models.run import Limits as Limits
from counterplan.explorer.models.run import Overview as Overview
from counterplan.explorer.models.run import RunAbout as RunAbout
