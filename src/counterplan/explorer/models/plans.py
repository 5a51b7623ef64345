"""Scenarios: lines of the list, and what everyone did along a path."""

from __future__ import annotations

from pydantic import BaseModel

from counterplan.explorer.plain import Number


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
    tanks: list[str]
    parts: list[str]
    tracks: list[Track]
    states: list[str]
    advised: list[str] | None
    expected_losses: list[Number] | None
