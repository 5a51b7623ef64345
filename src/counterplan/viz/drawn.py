"""How a figure function is put together: what to show, made from results, and how it is drawn."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Data = TypeVar("Data")
Drawing = TypeVar("Drawing")


def figure_function(
    build: Callable[Arguments, Data], draw: Callable[[Data], Drawing], name: str
) -> Callable[Arguments, Drawing]:
    """A function of this name that takes the arguments of `build` and draws what it makes of them:
    the same arguments, and so the same content, for every renderer."""

    @wraps(build)
    def figure(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Drawing:
        return draw(build(*args, **kwargs))

    figure.__name__ = figure.__qualname__ = name
    figure.__module__ = draw.__module__
    drawing = inspect.signature(draw).return_annotation
    signature = inspect.signature(build).replace(return_annotation=drawing)
    figure.__signature__ = signature  # type: ignore[attr-defined]
    return figure
