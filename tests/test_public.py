"""The public surface: a call with a wrong keyword argument is answered with the right ones."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pkgutil
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.core.shown import Shown
from counterplan.planning import State

PACKAGES = ("", ".scm", ".tables", ".domains", ".counterfactual", ".planning", ".processes", ".viz",
            ".policies", ".testing")  # fmt: skip
UNKNOWN = re.compile(r"[\w.]+: unknown argument 'nonsense': there are (.+)")


def _public() -> Iterator[tuple[str, Any]]:
    """Public functions and classes; the functions and classes of public modules; and results and
    models that are never imported by name."""
    for package in PACKAGES:
        inner = cp.processes if package == ".processes" else None
        module = inner or importlib.import_module(f"counterplan{package}")
        for name in module.__all__:
            found = getattr(module, name)
            if not isinstance(found, ModuleType):
                yield f"cp{package}.{name}", found
            elif not hasattr(found, "__path__") and name != "errors":
                for own, one in inspect.getmembers(found):
                    is_own = own[0] != "_" and getattr(one, "__module__", "") == found.__name__
                    if own in getattr(found, "__all__", [own] if is_own else []):
                        yield f"cp{package}.{name}.{own}", one
    kinds: list[type] = [Shown]
    for kind in kinds:
        kinds += kind.__subclasses__()
        if kind.__module__.startswith("counterplan."):
            yield f"{kind.__module__}.{kind.__name__}", kind


def _calls() -> dict[Any, str]:
    """The functions, constructors and methods of these, each once."""
    for one in pkgutil.walk_packages(cp.__path__, "counterplan."):
        if not one.name.endswith("__main__"):
            importlib.import_module(one.name)
    found: dict[Any, str] = {}
    for name, one in _public():
        if isinstance(one, FunctionType):
            found.setdefault(one, name)
        if not isinstance(one, type) or issubclass(one, BaseException):
            continue
        is_made = name.startswith("cp") and not issubclass(one, Enum)
        is_made = is_made and not getattr(one, "_is_protocol", False)
        if is_made and not inspect.isabstract(one) and (one.__init__, one.__new__) != (
            object.__init__, object.__new__
        ):  # fmt: skip
            found.setdefault(one, name)
        for key in dir(one):
            method = inspect.getattr_static(one, key)
            method = getattr(method, "__func__", method)
            ours = isinstance(method, FunctionType) and key[0] != "_"
            if ours and inspect.unwrap(method).__module__.startswith("counterplan"):
                found.setdefault(method, f"{name}.{key}")
    return found


def _answer(call: Any) -> str:
    """What it says, given all it needs, all of it None, and a keyword that is not there."""
    needed = [
        one.name
        for one in inspect.signature(call).parameters.values()
        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    ]
    try:
        call(*[None for _ in needed], nonsense=1)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "taken"


# They take any number of names.
OF_NAMES = {"Schema.of", "icu_episodes.drug_levels"}
# In docstrings: "name      what it is", of one argument or several.
TOLD = re.compile(r"^([a-z_]+(?:, [a-z_]+)*) {2,}\S", re.MULTILINE)


def test_every_wrong_keyword_is_answered_with_the_right_ones() -> None:
    calls = _calls()
    assert len(calls) > 500
    wrong = []
    for call, name in calls.items():
        told = UNKNOWN.fullmatch(_answer(call).removeprefix("TypeError: "))
        if told is None:
            wrong.append(f"{name}: {_answer(call)}")
            continue
        known = inspect.signature(call).parameters.values()
        there = [one.name for one in known if one.kind is not one.VAR_POSITIONAL]
        there = [one for one in there if one not in ("self", "cls")]
        if told[1].split(", ") != (there or ["none"]):
            wrong.append(f"{name}: says {told[1]}, and has {there}")
    assert not wrong, "\n".join(wrong)


def test_signatures_and_help_name_the_options_and_no_others() -> None:
    wrong = []
    for call, name in _calls().items():
        known = inspect.signature(call).parameters
        if not name.endswith(tuple(OF_NAMES)):
            wrong += [f"{name}: {one}" for one in known.values() if one.kind in (
                one.VAR_POSITIONAL, one.VAR_KEYWORD
            )]  # fmt: skip
        told = [] if isinstance(call, type) else TOLD.findall(inspect.getdoc(call) or "")
        names = {one for each in told for one in each.split(", ")}
        wrong += [f"{name}: tells of {one}" for one in names.difference(known)]
    assert not wrong, "\n".join(wrong)
    assert "budgets" not in (cp.explain_table.__doc__ or "")


def test_what_is_handed_out_is_pickled_by_its_name() -> None:
    for one in (
        cp.explain,
        cp.open_run,
        cp.draft_schema,
        cp.UCT,
        cp.processes.fit,
        cp.baselines.TopK,
    ):
        assert pickle.loads(pickle.dumps(one)) is one
    assert pickle.loads(pickle.dumps(State(1, np.zeros(1), np.ones(1)))).t == 1
    with pytest.raises(TypeError, match="there are path, sep, decimal, encoding, query"):
        cp.tables.TablePath(Path("a.csv"), seperator=";")  # type: ignore[call-arg]
