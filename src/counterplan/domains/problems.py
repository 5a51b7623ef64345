"""Planning problems by name: those that are shipped, those of installed packages, a file's own.

A problem is chosen by

    a name           shipped ones, and those that installed packages declare as entry points of the
                     group "counterplan.problems", such as  reservoir = "my_package:Reservoir"
    module:Class     any class that can be imported
    path/to/file.py  the one class of that file that is a planning problem; file.py:Class of several
    problem.toml     a statement: storages (`storage_file`), or options of another shipped problem

and made with options of the command line, which are the parameters of its class method `configured`
or else of the class itself. A run remembers the choice as texts and numbers. What a run names is
code of somebody's choosing unless it is a registered name, so anything else is opened only where a
user has named it, in this process or in the one that started it (`load_problem`).
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from counterplan.errors import FileError, InputError

if TYPE_CHECKING:
    from counterplan.planning.model import ExogenousModel

GROUP = "counterplan.problems"
SHIPPED = {
    "bunkering": "counterplan.domains.bunkering:Bunkering",
    "hybrid": "counterplan.domains.hybrid:HybridVehicle",
    "options": "counterplan.domains.options:AmericanOption",
    "basket": "counterplan.domains.basket:OptionBasket",
    "storage": "counterplan.domains.storage_file:StatedStorage",
}
STORAGE, STATEMENT = "storage", ".toml"
# Names of code that a user trusts, one in a line; processes started from this one inherit it.
TRUSTED = "COUNTERPLAN_PROBLEMS"
_loaded: dict[str, type] = {}


@dataclass(frozen=True)
class ProblemChoice:
    """A problem as a run remembers it.

    domain   its name
    options  what was said of it, by parameter; paths where files are read
    """

    domain: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def make(self) -> ExogenousModel:
        """The problem, made once."""
        if "made" not in self.__dict__:
            self.__dict__["made"] = maker_of(problem_class(self.domain))(**self.options)
        return self.__dict__["made"]  # type: ignore[no-any-return]


def stated(name: str) -> ProblemChoice:
    """What a name or a .toml file says by itself; a file is data: it names shipped problems."""
    if not name.endswith(STATEMENT):
        return ProblemChoice(name)
    from counterplan.core.files import read_toml
    from counterplan.domains.storage_file import LARGEST, WHAT

    entries = read_toml(Path(name), WHAT, LARGEST)
    domain = entries.pop("domain", STORAGE)
    if domain == STORAGE:
        return ProblemChoice(STORAGE, {"file": Path(name)})
    if domain not in SHIPPED:
        raise FileError(f"{name}: domain {domain!r} is not one of {', '.join(SHIPPED)}")
    known, found = options_of(problem_class(domain)), dict[str, Any]()
    for key, value in entries.items():
        if key not in known:
            near = get_close_matches(key, known, 1) or list(known)
            raise FileError(f"{name}: {domain} has no entry {key!r}; it has {', '.join(near)}")
        several = [value] if not isinstance(value, list) else value
        text = ",".join("/".join(map(str, one)) if isinstance(one, list) else str(one)
                        for one in several)  # fmt: skip
        kind = known[key].kind
        is_right = isinstance(value, bool) if kind is bool else not isinstance(value, bool | dict)
        try:
            found[key] = value if kind is bool else kind(text)
        except (TypeError, ValueError):
            is_right = False
        if not is_right or kind is Path:
            raise FileError(f"{name}: {key} is {value!r}, which does not fit; {known[key].help}")
    return ProblemChoice(domain, found)


def problem_names() -> dict[str, str]:
    """Where the problems with a name live, as module:Class."""
    return {**{one.name: one.value for one in entry_points(group=GROUP)}, **SHIPPED}


def is_problem(name: str) -> bool:
    """Whether a text may name a problem."""
    return name in problem_names() or ":" in name or name.endswith((".py", STATEMENT))


def load_problem(name: str) -> type:
    """The class that a user names, registered or not; runs of it can be opened from now on."""
    if name.endswith(STATEMENT):
        return problem_class(stated(name).domain)
    trusted = os.environ.get(TRUSTED, "").splitlines()
    if name not in problem_names() and is_problem(name) and name not in trusted:
        os.environ[TRUSTED] = "\n".join([*trusted, name])
    return problem_class(name)


def problem_class(name: str) -> type:
    """The class of a problem that is registered or trusted."""
    known = problem_names()
    if name in known:
        return _imported(known[name])
    if not is_problem(name):
        raise InputError(f"unknown domain {name!r}: choose from {', '.join(SHIPPED)}")
    if name not in os.environ.get(TRUSTED, "").splitlines():
        raise InputError(
            f"{name!r} is code that this run names, not a registered problem: if you trust it, "
            f"say so with --problem {name}"
        )
    if name not in _loaded:
        path, _, wanted = name.rpartition(".py")
        is_file = name.endswith(".py") or wanted.startswith(":")
        file = Path(f"{path}.py")
        _loaded[name] = _from_file(file, wanted.removeprefix(":")) if is_file else _imported(name)
    return _loaded[name]


def _imported(home: str) -> type:
    module, _, name = home.partition(":")
    try:
        found: type = getattr(importlib.import_module(module), name)
    except (ImportError, ValueError) as problem:
        raise InputError(f"{home}: cannot be imported: {problem}; give module:Class") from None
    except AttributeError:
        why = f"the module {module} has no {name!r}"
        raise InputError(f"{home}: {why}; give module:Class") from None
    if not _is_problem_class(found):
        raise InputError(f"{home}: is not a planning problem: it needs {', '.join(NEEDED)}")
    return found


def _from_file(path: Path, wanted: str) -> type:
    spec = importlib.util.spec_from_file_location(f"counterplan_problem_{path.stem}", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise FileError(f"{path}: no such file; check the path")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as problem:
        raise FileError(f"{path}: cannot be run: {type(problem).__name__}: {problem}") from None
    classes = {name: found for name, found in vars(module).items() if _is_problem_class(found)}
    own = {name: found for name, found in classes.items() if found.__module__ == spec.name}
    if wanted not in own and (wanted or len(own) != 1):
        there = f"has {', '.join(own)}" if own else f"has none with {', '.join(NEEDED)}"
        raise FileError(f"{path}: which class is the problem? It {there}; name it as {path}:Class")
    return own[wanted or next(iter(own))]  # type: ignore[no-any-return]


NEEDED = ("horizon", "sense", "start", "draw", "actions", "step")


def _is_problem_class(found: object) -> bool:
    if not isinstance(found, type):
        return False
    declared = (name for base in found.__mro__ for name in vars(base).get("__annotations__", {}))
    return {*dir(found), *declared}.issuperset(NEEDED)


@dataclass(frozen=True)
class ProblemOption:
    """A parameter that can be given on the command line.

    kind     str, int, float, bool or Path
    default  None where there is none, too
    """

    name: str
    kind: type
    help: str
    default: Any = None

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def metavar(self) -> str:
        """What stands for its value in the help."""
        return {str: "TEXT", int: "N", float: "NUMBER", bool: "", Path: "PATH"}[self.kind]


def maker_of(problem: type) -> Callable[..., Any]:
    """What makes a problem from options."""
    return getattr(problem, "configured", problem)


def options_of(problem: type) -> dict[str, ProblemOption]:
    """The parameters that a text can stand for, by name."""
    maker = maker_of(problem)
    described = maker if maker is not problem else problem.__init__  # type: ignore[misc]
    hints = get_type_hints(described)
    helps = described_parameters(inspect.getdoc(maker) or "")
    found = {}
    for name, parameter in inspect.signature(maker).parameters.items():
        kind = _kind(hints.get(name, str))
        if kind is not None:
            default = None if parameter.default is parameter.empty else parameter.default
            found[name] = ProblemOption(name, kind, helps.get(name, ""), default)
    return found


def described_parameters(text: str) -> dict[str, str]:
    """What a docstring says of each parameter: `name  meaning`, going on in deeper lines."""
    found: dict[str, str] = {}
    name = None
    for line in text.splitlines():
        if match := re.match(r"(\w+)(?:, \w+)*  +(\S.*)", line):
            name = match[1]
            found[name] = match[2]
        elif name and line.startswith("   "):
            found[name] += " " + line.strip()
        else:
            name = None
    return found


def _kind(hint: Any) -> type | None:
    """The simple type that values of a parameter may have, None if there is none."""
    if hint in (str, int, float, bool, Path):
        return hint  # type: ignore[no-any-return]
    if get_origin(hint) is Literal:
        return type(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return next((kind for one in get_args(hint) if (kind := _kind(one))), None)
    return None
