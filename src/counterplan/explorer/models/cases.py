"""Cases: lines of the list, courses, answers, and plans made by hand."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from counterplan.explorer.models.base import MOST_EDITS, Asked, Name, Place
from counterplan.explorer.plain import Number


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
