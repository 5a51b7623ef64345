"""Problems to work on: what they are, their data or simulator, and how to sample them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counterplan.domains import icu_episodes as icu_episodes
    from counterplan.domains import icu_sepsis as icu_sepsis
    from counterplan.domains import infection as infection
    from counterplan.domains import interacting as interacting
    from counterplan.domains import sepsis as sepsis
    from counterplan.domains import synthetic as synthetic
    from counterplan.domains import therapy as therapy
    from counterplan.domains.basket import OptionBasket as OptionBasket
    from counterplan.domains.bunkering import Bunkering as Bunkering
    from counterplan.domains.hybrid import HybridVehicle as HybridVehicle
    from counterplan.domains.options import AmericanOption as AmericanOption

_MODULES = [
    "icu_episodes",
    "icu_sepsis",
    "infection",
    "interacting",
    "sepsis",
    "synthetic",
    "therapy",
]
# Where each problem lives.
_HOME = {
    "AmericanOption": "options",
    "Bunkering": "bunkering",
    "HybridVehicle": "hybrid",
    "OptionBasket": "basket",
}

__all__ = sorted([*_HOME, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
