"""Texts, places and mistakes, as all requests and answers have them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from counterplan.errors import InputError
from counterplan.explorer.security import Access
from counterplan.tables.entries import LONGEST_ID

# No table has longer episodes, more actions or larger budgets than this.
LARGEST = 10**6
MOST_EDITS, MOST_RULES = 1_000, 10_000


def _encodable(text: str) -> str:
    text.encode()  # half a surrogate pair is no text: a UnicodeEncodeError is a ValueError
    return text


Text = Annotated[str, StringConstraints(max_length=LONGEST_ID), AfterValidator(_encodable)]
Name = Annotated[
    str, StringConstraints(min_length=1, max_length=LONGEST_ID), AfterValidator(_encodable)
]
Place = Annotated[int, Field(ge=0, le=LARGEST)]


class Asked(BaseModel):
    """Requests name what they know, and nothing else."""

    model_config = ConfigDict(extra="forbid")


class Error(BaseModel):
    """What went wrong, in one line."""

    error: str


# ----------------------------------------------------------------------------------------------
# Values as JSON has them: plain numbers, "inf" and "-inf" as texts, null for what is not known.

# As JSON has it: a number, an infinite one as a text, null if it is not known.
Number = float | Literal["inf", "-inf"] | None


def number(value: Any) -> Number:
    """A number, infinite or not."""
    if value is None:
        return None
    found = float(value)
    if math.isfinite(found):
        return found
    if math.isnan(found):
        return None
    return "inf" if found > 0 else "-inf"


def numbers(values: Iterable[Any]) -> list[Number]:
    """A list of them."""
    return [number(value) for value in values]


def table(rows: Iterable[Iterable[Any]]) -> list[list[Number]]:
    """A list of lists of them."""
    return [numbers(row) for row in rows]


def plain(value: Any) -> Any:
    """The same in types that JSON has, whatever it is made of."""
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(one) for one in value]
    if isinstance(value, float | np.floating):
        return number(value)
    if isinstance(value, np.generic):
        return value.item()
    return value


# ----------------------------------------------------------------------------------------------
# Cases: lines of the list, courses, answers, and plans made by hand.


class CaseLine(BaseModel):
    """A line of the list."""

    id: str
    steps: int
    factual: Number
    value: Number
    improvement: Number
    relative: Number
    gap: Number
    status: str
    reason: str | None
    changes: list[str]
    new_actions: int | None
    far: bool | None
    supported: bool | None
    outcomes: dict[str, str | None]


class CasePage(BaseModel):
    """Some lines of a list of `total`."""

    total: int
    offset: int
    k: int
    lines: list[CaseLine]


class Course(BaseModel):
    """States, actions and rewards, step by step.

    states   for each step the features
    actions  for each step the number of the action, null where nothing is decided
    changed  for each step how likely its action is changed
    """

    states: list[list[Number]]
    actions: list[int | None]
    rewards: list[Number]
    changed: list[Number]


class ChangeAbout(BaseModel):
    """A change with all that is known of it.

    taken  how often the new action was taken there in the data
    """

    t: int
    observed: int
    alternative: int
    text: str
    probability: Number
    taken: int | None


class Support(BaseModel):
    """How far the data carries."""

    supported: bool | None
    far: bool | None
    distance_max: Number
    distance_mean: Number
    unseen: Number
    new_actions: int | None


class Answer(BaseModel):
    """An explanation, or a plan made by hand, with the course it leads to."""

    k: int
    factual: Number
    value: Number
    improvement: Number
    relative: Number
    bound: Number
    gap: Number
    status: str
    reason: str | None
    advice: str
    method: str | None
    nodes: int | None
    low: Number
    high: Number
    changes: list[ChangeAbout]
    support: Support
    course: Course | None
    notes: list[str]


class Budget(BaseModel):
    """What the run has for one k."""

    k: int
    value: Number
    bound: Number
    status: str


class Case(BaseModel):
    """An episode with what the run has about it.

    fixed    steps at which nothing can change
    names    for each feature: names of the values that occur
    order    for each feature: values that occur, from bad to good, where numbers do not say so
    budgets  all k of the run
    answer   for the k asked about, null where the run has none
    """

    id: str
    steps: int
    times: list[Number]
    outcomes: dict[str, str | None]
    filled: int
    outside: str | None
    fixed: list[int]
    observed: Course
    budgets: list[Budget]
    answer: Answer | None
    names: list[dict[str, str]]
    order: list[list[float]]


class Edit(Asked):
    """Another action at a step."""

    t: Place
    action: Place


class WhatIfQuestion(Asked):
    """What if these actions had been taken?"""

    id: Name
    edits: Annotated[list[Edit], Field(max_length=MOST_EDITS)]


class WhatIfAnswer(BaseModel):
    """What a plan made by hand leads to.

    names, order  as in a case, for what occurs in this answer
    milliseconds  what it took on the server
    """

    answer: Answer
    names: list[dict[str, str]]
    order: list[list[float]]
    milliseconds: float


# ----------------------------------------------------------------------------------------------
# Questions that take longer, how far they are, and their answers.

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


# ----------------------------------------------------------------------------------------------
# Scenarios: lines of the list, and what everyone did along a path.


class PlanLine(BaseModel):
    """A line of the list of scenarios."""

    id: str
    executed: Number
    hindsight: Number
    without_foresight: Number
    planned: Number
    regret_hindsight: Number
    regret_policy: Number
    expected_regret: Number
    costliest: str | None
    status: str
    reason: str | None


class PlanPage(BaseModel):
    """Some lines of a list of `total`."""

    total: int
    offset: int
    lines: list[PlanLine]


class Track(BaseModel):
    """What one player did: actions, what each brought, and the resource before each and at the end.

    words  the actions in words
    """

    player: str
    title: str
    value: Number
    actions: list[list[Number]]
    words: list[str]
    rewards: list[Number]
    levels: list[list[Number]]


class Series(BaseModel):
    """What was revealed, step by step; `labels` where numbers stand for names."""

    name: str
    values: list[Number]
    labels: list[str] | None


class Scenario(BaseModel):
    """A realised path with what everyone did along it.

    step             what a step is called
    tanks, parts     what the numbers of the resource and of an action are called
    choices          what 0 and 1 of an action mean, where each is done or not
    states           where the executed decisions (or the policy's) were made, in words
    advised          what the policy would have done there
    expected_losses  what each executed decision lost in expectation
    """

    id: str
    sense: str
    horizon: int
    line: PlanLine
    policy: str | None
    planner: str | None
    seen: list[Series]
    step: str
    tanks: list[str]
    parts: list[str]
    choices: list[str]
    tracks: list[Track]
    states: list[str]
    advised: list[str] | None
    expected_losses: list[Number] | None


# ----------------------------------------------------------------------------------------------
# What a run is about, and all of its items together.


class ColumnAbout(BaseModel):
    """A feature of states, or a part of actions.

    title    the name with the unit
    ordered  whether more of it means anything
    better   "lower" or "higher" where the column says what is good
    values   the numbers it may hold, where they are few
    labels   their names
    """

    name: str
    title: str
    unit: str
    fixed: bool
    ordered: bool
    better: str | None
    values: list[float] | None
    labels: list[str] | None


class Bar(BaseModel):
    """How many items lie from `low` to `high`."""

    low: float
    high: float
    count: int


class Limits(BaseModel):
    """What the server allows."""

    seconds: float
    jobs: int


class RunAbout(BaseModel):
    """What a run is about.

    kind      "explain": episodes and what should have been done; "regret": plans and what they lost
    budgets   the k that were asked about
    features  what states are made of
    doses     the parts of actions
    actions   for each action its doses
    names     for each action its name
    """

    kind: Literal["explain", "regret"]
    title: str
    noun: str
    unit: str
    discrete: bool
    complete: bool
    parts: int
    done: int
    budgets: list[int]
    outcomes: list[str]
    quantity: str
    solver: str
    features: list[ColumnAbout]
    doses: list[ColumnAbout]
    actions: list[list[Number]]
    names: list[str]
    sense: str
    planner: str | None
    players: list[str]
    limits: Limits
    version: str


class Overview(BaseModel):
    """All items of a run together, for one k.

    bars  how the improvement, or the loss, is spread
    """

    k: int | None
    total: int
    statuses: dict[str, int]
    supported: int | None
    mean: Number
    median: Number
    largest: Number
    bars: list[Bar]
    outcomes: dict[str, list[str]]


# ----------------------------------------------------------------------------------------------
# How a server is set up.


@dataclass(frozen=True)
class Settings:
    """What the server allows.

    workers     processes that solve
    seconds     a search may take at most
    per_client  questions that one client may have waiting or at work
    """

    access: Access = field(default_factory=Access)
    workers: int = field(default_factory=lambda: max(1, min(4, os.cpu_count() or 1)))
    seconds: float = 60.0
    per_client: int = 4

    def __post_init__(self) -> None:
        if not 0.0 < self.seconds <= 86_400.0:
            raise InputError(f"seconds must be above 0 and at most 86,400, got {self.seconds}")
        if self.workers < 1 or self.per_client < 1:
            raise InputError("there must be at least one worker, and one question for each client")
