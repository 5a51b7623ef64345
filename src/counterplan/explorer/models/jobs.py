"""Questions that take longer, how far they are, and their answers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from counterplan.explorer.models.base import MOST_RULES, Asked, Name, Place
from counterplan.explorer.models.cases import Answer
from counterplan.explorer.plain import Number

SolveState = Literal["queued", "running", "done", "failed", "cancelled"]
PlannerName = Literal["uct", "ments", "bts", "dents"]
Player = Literal["executed", "policy", "open_loop", "planned", "hindsight"]


class SolveQuestion(Asked):
    """Find the best alternative with at most k changes, under rules.

    forbidden  actions that nothing may be changed to
    fixed      steps whose action stays as it was
    seconds    when to stop; the server's own limit holds as well
    """

    kind: Literal["solve"]
    id: Name
    k: Place
    forbidden: Annotated[list[Place], Field(max_length=MOST_RULES, default_factory=list)]
    fixed: Annotated[list[Place], Field(max_length=MOST_RULES, default_factory=list)]
    seconds: Annotated[float, Field(gt=0, le=86_400)] | None = None


class AdviseQuestion(Asked):
    """What would a planner do at step t of a scenario, where `player` has come to by then?"""

    kind: Literal["advise"]
    id: Name
    t: Place
    player: Player = "executed"
    planner: PlannerName = "uct"
    simulations: Annotated[int, Field(ge=1, le=20_000)] = 1_000


class Progress(BaseModel):
    """How far a search has come: its best value, and what nothing can exceed."""

    nodes: int
    value: Number
    bound: Number


class Choice(BaseModel):
    """An action that could be taken now."""

    words: str
    value: Number
    se: Number
    simulations: int


class Advice(BaseModel):
    """What a planner would do, what the optimum lies between, and the optimum where it is known."""

    t: int
    words: str
    state: str
    action: list[Number]
    value: Number
    se: Number
    lower: Number
    lower_se: Number
    upper: Number
    upper_se: Number
    exact: Number
    choices: list[Choice]
    planner: str
    simulations: int


class Solved(BaseModel):
    """An answer with the names of what occurs in it."""

    answer: Answer
    names: list[dict[str, str]]
    order: list[list[float]]


class JobAbout(BaseModel):
    """A job and how far it is.

    ahead    how many are served before it
    seconds  how long it has been at work
    limit    how long it may be
    """

    job: str
    state: SolveState
    ahead: int
    seconds: float
    limit: float
    progress: Progress | None
    error: str | None
    solved: Solved | None
    advice: Advice | None
