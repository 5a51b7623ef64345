"""What single entries of a table may be, and the numbers they stand for."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

WHOLE = re.compile(r"-?[0-9]+(\.0*)?")
# Models index states and actions with 32 bits.
LARGEST = 2**31 - 1


class EntryError(ValueError):
    """Why an entry is refused and what to do; its reader adds where it stands."""


def read_index(text: str) -> int:
    """A whole number from 0 up; 3.0 counts, as spreadsheets write it where a column has gaps."""
    if text == "":
        raise EntryError("is empty; fill it in")
    if not WHOLE.fullmatch(text):
        raise EntryError("is not a whole number; number from 0 up")
    digits = text.partition(".")[0]
    if digits.lstrip("-0") and digits.startswith("-"):
        raise EntryError("is negative; number from 0 up")
    if len(digits.lstrip("0")) > len(str(LARGEST)) or int(digits) > LARGEST:
        raise EntryError(f"is too large (over {LARGEST}); number from 0 up without gaps")
    return abs(int(digits))


def read_number(text: str) -> float:
    """A finite number."""
    if text == "":
        raise EntryError("is empty; fill it in")
    try:
        value = math.nan if "_" in text else float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise EntryError("is not a finite number; correct it")
    return value


class Vocabulary:
    """Reads states or actions: by their labels where there are any, and by their numbers.

    Where a label is itself a number, only labels are accepted: 1 could otherwise mean either.
    """

    def __init__(self, what: str, labels: Sequence[str] | None) -> None:
        self._what = what
        self._labels = [label.strip() for label in labels or ()]
        self._codes = {label: code for code, label in enumerate(self._labels)}
        self._numbers = not any(WHOLE.fullmatch(label) for label in self._labels)

    def read(self, text: str) -> int:
        """The number that `text` stands for."""
        if not self._labels:
            if text and not WHOLE.fullmatch(text):
                many = f"{self._what}s"
                raise EntryError(
                    f"is not a whole number; number the {many} from 0 up or give their labels"
                )
            return read_index(text)
        if text in self._codes:
            if self._labels.count(text) > 1:
                raise EntryError(f"is the label of more than one {self._what}; give its number")
            return self._codes[text]
        if self._numbers and WHOLE.fullmatch(text):
            code = read_index(text)
            if code < len(self._labels):
                return code
        raise EntryError(self._expected(text))

    def _expected(self, text: str) -> str:
        if text == "":
            return "is empty; fill it in"
        shown = [repr(label) for label in self._labels[:6]]
        more = ["..."] if len(self._labels) > len(shown) else []
        numbers = f", or a number 0..{len(self._labels) - 1}" if self._numbers else ""
        return f"is no {self._what} of the model; use one of {', '.join(shown + more)}{numbers}"
