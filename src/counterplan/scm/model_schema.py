"""Which columns a model was made for, and whether given data has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from counterplan.errors import InputError


def check_about(about: Mapping[str, Any], n_features: int, n_components: int) -> None:
    """Raise unless the names of features and actions, where given, fit the model's sizes."""
    for key, count in (("features", n_features), ("actions", n_components)):
        given = about.get(key)
        if given is None:
            continue
        if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
            raise InputError(f"about: {key} must be a list of names")
        if len(given) != count or len(set(given)) != count:
            raise InputError(f"about: {len(set(given))} names of {key}, but the model has {count}")


def check_columns(
    expected: Sequence[str] | None, count: int, given: Sequence[str], what: str
) -> None:
    """Raise unless the columns are the model's, in its order; only their number is compared if
    the model does not know their names (expected None)."""
    if expected is None:
        if len(given) != count:
            raise InputError(
                f"the model has {count} {what}, but the data has {len(given)}: "
                f"{', '.join(given)}; choose the columns the model was made for"
            )
        return
    missing = [name for name in expected if name not in given]
    unknown = [name for name in given if name not in expected]
    if missing or unknown:
        parts = [f"lacks {', '.join(missing)}"] if missing else []
        parts += [f"has {', '.join(unknown)}, which the model does not know"] if unknown else []
        raise InputError(
            f"the data's {what} are not the model's: it {' and '.join(parts)}; "
            f"the model was made for {', '.join(expected)}"
        )
    if list(given) != list(expected):
        raise InputError(
            f"the data's {what} are in another order than the model's: reorder the columns to "
            f"{', '.join(expected)}"
        )
