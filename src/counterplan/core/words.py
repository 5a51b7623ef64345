"""Numbers of things in words."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Such as "1 change" and "1,200 changes"; `plural` where it is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
