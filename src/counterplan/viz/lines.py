"""Long names on several lines: whatever a table calls its columns, they fit beside an axis."""

from __future__ import annotations

import textwrap

# More would be a paragraph; the rest of it is left out.
MOST_LINES = 3


def in_lines(text: str, letters: int) -> list[str]:
    """A text in lines of at most so many letters; at least one line."""
    found = textwrap.wrap(text, max(letters, 4), max_lines=MOST_LINES, placeholder=" …")
    return found or [text]
