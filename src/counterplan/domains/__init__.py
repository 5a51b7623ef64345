"""Problems to work on: what they are, their data or simulator, and how to sample them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counterplan.domains import icu_episodes as icu_episodes
    from counterplan.domains import icu_sepsis as icu_sepsis
    from counterplan.domains import interacting as interacting
    from counterplan.domains import sepsis as sepsis
    from counterplan.domains import synthetic as synthetic
    from counterplan.domains import therapy as therapy

__all__ = ["icu_episodes", "icu_sepsis", "interacting", "sepsis", "synthetic", "therapy"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
