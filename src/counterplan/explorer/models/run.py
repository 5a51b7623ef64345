"""What a run is about, and all of its items together."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from counterplan.explorer.plain import Number


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
