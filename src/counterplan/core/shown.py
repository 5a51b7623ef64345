"""What people touch: how results and models look, and what calls say of their arguments.

A call with a keyword argument that is not there is answered with those that are: `attach`, which
also loads names on first use, sees to it for public names, `module_tells` for public modules,
`Shown` for results that nobody imports by name, and `takes` for functions whose arguments are the
fields of classes.

What is drawn, and in which words, stands in `viz.shown`, which is found by its name when somebody
looks: results do not carry figures along, and nothing is loaded to compute them.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import lazy_loader

from counterplan.errors import NotApplicableError

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

Function = TypeVar("Function", bound=Callable[..., Any])


# --- Calls --------------------------------------------------------------------------------


class _NotGiven:
    def __repr__(self) -> str:
        return "<not given>"


# The default of an option that is absent unless it is given.
NOT_GIVEN = _NotGiven()


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], Any]:
    """`__getattr__`, `__dir__` and `__all__` of a package whose names stand in its stub."""
    load, listed, names = lazy_loader.attach_stub(package, file)

    def handed_out(name: str) -> Any:
        found, held = _handed_out(load(name), package), vars(sys.modules[package])
        if name in held:  # by a module of the same name, which it replaces
            held[name] = found
        return found

    return handed_out, listed, names


@functools.cache
def _handed_out(found: Any, package: str) -> Any:
    """It, telling its arguments. A function is pickled by its name in the package."""
    if isinstance(found, type):
        methods_tell(found)
    elif (made := telling(found)) is not found:
        found, made.__module__ = made, package
    return found


def module_tells(held: dict[str, Any]) -> None:
    """Calls of what a public module holds tell their arguments: its last line."""
    own = [name for name, one in held.items() if _place(one) == held["__name__"]]
    for name in held.get("__all__", own):
        if isinstance(held[name], type):
            methods_tell(held[name])
        elif not name.startswith("_"):
            held[name] = telling(held[name])


def methods_tell(owner: type) -> None:
    """Calls of a class and of its public methods tell their arguments; so do those it inherits."""
    for kind in owner.__mro__:
        if not _place(kind).startswith("counterplan."):
            continue
        for name, value in list(vars(kind).items()):
            if name.startswith("_") and name not in ("__init__", "__new__", "__call__"):
                continue
            if isinstance(value, FunctionType):
                setattr(kind, name, telling(value))
            elif isinstance(value, classmethod | staticmethod):
                setattr(kind, name, type(value)(telling(value.__func__)))


def _place(one: Any) -> str:
    return getattr(one, "__module__", None) or ""


def telling(function: Any, more: Sequence[str] = (), title: str = "") -> Any:
    """A function that answers an unknown keyword argument with all there are, which are its own and
    `more`; one with a title is a method to whoever reads this. What takes any argument is left
    alone: it hands them on to what tells."""
    inner = inspect.unwrap(function)
    if hasattr(function, "tells") or not isinstance(function, FunctionType):
        return function
    code = inner.__code__
    own = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
    if code.co_flags & inspect.CO_VARKEYWORDS and not more:
        return function
    names = [*(name for name in own if name not in ("self", "cls", "_cls")), *more][bool(title) :]
    known = {*own, *more}

    @functools.wraps(function)
    def checked(*args: Any, **given: Any) -> Any:
        if given and not known.issuperset(given):
            unknown = next(name for name in given if name not in known)
            called = title or function.__qualname__.removesuffix(".__new__")
            if inner.__name__ == "__init__":  # perhaps inherited
                called = type(args[0]).__name__
            there = ", ".join(names) or "none"
            raise TypeError(f"{called}: unknown argument {unknown!r}: there are {there}")
        return function(*args, **given)

    checked.tells = True  # type: ignore[attr-defined]
    return checked


def takes(*options: Any, besides: tuple[str, ...] = ()) -> Callable[[Function], Function]:
    """A function whose keyword arguments are the fields of classes (TypedDicts or dataclasses, but
    for those `besides`): its signature and its help name them."""

    def wrap(function: Function) -> Function:
        own = inspect.signature(function)
        kept = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
        more = {
            name: inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=getattr(one, name, NOT_GIVEN),
                annotation=getattr(hint, "__forward_arg__", hint),
            )
            for one in options
            for name, hint in one.__annotations__.items()
            if name not in besides
        }  # fmt: skip
        told = [inspect.cleandoc(one.__doc__ or "").partition("\n\n")[2] for one in options]
        for name in besides:
            told = [re.sub(rf"(?m)^{name} .*\n(?: .*\n)*", "", text) for text in told]
        texts = [inspect.cleandoc(function.__doc__ or ""), *filter(None, told)]
        named = telling(function, [*more])
        named.__signature__ = own.replace(parameters=[*kept, *more.values()])
        named.__doc__ = "\n\n".join(texts)
        return named  # type: ignore[no-any-return]

    return wrap


# --- Looks ---------------------------------------------------------------------------------------

# Texts of single facts in a line are cut here.
LONGEST = 60

Pairs: TypeAlias = Sequence[tuple[str, str]]
# Columns of a terminal.
WIDTH = 78
# Rows of a table in a summary; the rest is in `to_frame`.
MOST_ROWS = 12


@dataclass(frozen=True)
class Summary:
    """A title, facts by name, and a table: printed as text, or shown by a notebook."""

    title: str
    facts: Pairs
    heads: tuple[str, ...] = ()
    rows: Sequence[Sequence[str]] = ()

    def __str__(self) -> str:
        rule, side = "=" * WIDTH, max((len(name) for name, _ in self.facts), default=0) + 2
        lines = [self.title, rule]
        for name, text in self.facts:
            wrapped = textwrap.wrap(text, WIDTH - side) or [""]
            lines += [f"{name:<{side}}{wrapped[0]}", *(" " * side + more for more in wrapped[1:])]
        if self.rows:
            every = [self.heads, *self._shown()]
            sizes = [max(map(len, column)) for column in zip(*every, strict=True)]
            lines.append("-" * WIDTH)
            for row in every:
                cells = zip(row, sizes, strict=True)
                lines.append("  ".join(f"{text:<{size}}" for text, size in cells).rstrip())
        return "\n".join([*lines, rule])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        facts = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th>"
            f"<td style='text-align:left'>{escape(text)}</td></tr>"
            for name, text in self.facts
        )
        found = f"<p><b>{escape(self.title)}</b></p><table>{facts}</table>"
        if self.rows:
            heads = "".join(f"<th>{escape(one)}</th>" for one in self.heads)
            body = "".join(
                f"<tr>{''.join(f'<td>{escape(one)}</td>' for one in row)}</tr>"
                for row in self._shown()
            )
            found += f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
        return f"<div>{found}</div>"

    def _shown(self) -> list[Sequence[str]]:
        rows = [*self.rows[:MOST_ROWS]]
        if left := len(self.rows) - len(rows):
            rows.append([f"... {left:,} more", *[""] * (len(self.heads) - 1)])
        return rows


class Shown:
    """A result or a model that can be looked at; `_facts` is what its line says."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Before a dataclass would write out every array."""
        super().__init_subclass__(**options)
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = Shown.__repr__  # type: ignore[method-assign]
        methods_tell(cls)

    def _facts(self) -> Mapping[str, object]:
        """What a line says: few numbers, no arrays."""
        raise NotImplementedError

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={_short(value)}" for name, value in self._facts().items())
        return f"{type(self).__name__}({facts})"

    def _repr_html_(self) -> str:
        """What notebooks show: the summary, with a figure where there is one."""
        return str(_looks().html(self))

    def summary(self) -> Summary:
        """What is to be said about it, in words: print it, or let a notebook show it."""
        return _looks().summary(self)  # type: ignore[no-any-return]

    def to_frame(self) -> pl.DataFrame:
        """As a table of polars."""
        return _looks().frame(self)  # type: ignore[no-any-return]

    def to_pandas(self) -> Any:
        """The same as a table of pandas."""
        frame = self.to_frame()
        try:
            return import_module("pandas").DataFrame(frame.to_dict(as_series=False))
        except ImportError:
            raise NotApplicableError(
                "to_pandas needs pandas, which is not installed: python -m pip install pandas"
            ) from None


class Drawn(Shown):
    """One with a figure that fits it."""

    def plot(self) -> Figure:
        """The figure that fits."""
        return self._drawn()

    def _drawn(self, **options: Any) -> Figure:
        return _looks().plot(self, **options)  # type: ignore[no-any-return]


def higher(name: str) -> Any:
    """A module of a higher floor, for what a user asks for and no algorithm needs."""
    return import_module(name)


def _looks() -> Any:
    return higher("counterplan.viz.shown")


def _short(value: object) -> str:
    if type(value).__module__ == "numpy" and not getattr(value, "ndim", 1):
        value = value.item()  # type: ignore[attr-defined]
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple) and all(isinstance(one, float | int) for one in value):
        return f"({', '.join(map(_short, value))})"
    text = str(value) if isinstance(value, int | type(None)) else repr(str(value))
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}...'"
