"""Numbers as `plan` prints them."""

from __future__ import annotations


def number(value: float | None) -> str:
    """Six significant digits, no exponents for sizes that people read."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:,.6g}"


def error(value: float | None) -> str:
    """Three significant digits; rounding errors are no errors."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1e3 else f"{value if value > 1e-9 else 0:.3g}"
