"""Texts, places and mistakes, as all requests and answers have them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from counterplan.io.schema_entries import LONGEST_ID

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
