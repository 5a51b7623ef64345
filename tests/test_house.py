"""House rules that are easy to break unseen: lazy imports, layers, sizes, no machine paths."""

from __future__ import annotations

import ast
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import counterplan

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "counterplan"
MODULES = sorted(SOURCE.rglob("*.py"))
HEAVY = {"numba", "scipy", "polars", "matplotlib", "jax", "optax", "dask", "distributed"}
# From the bottom up; what is not listed (the command line, `policies`) lies on top.
LAYERS = [
    "errors",
    "core",
    "scm",
    "planning",
    "counterfactual",
    "tables",
    "domains",
    "testing",
    "runs",
    "viz",
    "explorer",
]
MAX_PUBLIC_NAMES = 48
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 7


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# --- The same on every system -----------------------------------------------------------------


def says_no_encoding(call: ast.Call) -> bool:
    """Whether a call reads or writes text as the system of the day has it."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    given = [one.value for one in call.args if isinstance(one, ast.Constant)]
    if name == "open" and getattr(getattr(call.func, "value", None), "id", "") != "os":
        is_text = not any("b" in one for one in given if isinstance(one, str) and len(one) < 4)
        return is_text and not any(one.arg in ("encoding", "mode") for one in call.keywords)
    if name in ("read_text", "write_text"):
        return "utf-8" not in given and not any(one.arg == "encoding" for one in call.keywords)
    return False


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_text_has_an_encoding(path: Path) -> None:
    """Windows would take another one, and another end of lines where text is written."""
    calls = (node for node in ast.walk(ast.parse(path.read_text("utf-8"))))
    found = [one.lineno for one in calls if isinstance(one, ast.Call) and says_no_encoding(one)]
    assert found == []


@pytest.mark.parametrize(
    ("line", "is_missing"),
    [
        ("open(path)", True),
        ("path.open('w')", True),
        ("path.write_text(text)", True),
        ("path.open('rb')", False),
        ("os.open(path, flags)", False),
        ("open(path, encoding='utf-8')", False),
        ("path.read_text('utf-8')", False),
    ],
)
def test_what_says_no_encoding_is_found(line: str, is_missing: bool) -> None:
    (call,) = (node for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Call))
    assert says_no_encoding(call) == is_missing


# --- Lazy imports -----------------------------------------------------------------------------


def loaded_after(code: str) -> set[str]:
    """Top-level packages a fresh interpreter has loaded after running ``code``."""
    report = "import sys, json; print('\\n' + json.dumps([*sys.modules]))"
    finished = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return {name.partition(".")[0] for name in json.loads(finished.stdout.splitlines()[-1])}


def test_import_loads_nothing_heavy() -> None:
    assert loaded_after("import counterplan") & HEAVY == set()


def test_help_loads_nothing_heavy() -> None:
    code = """
import sys
from counterplan.cli import main
sys.argv = ["counterplan", "--help"]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
"""
    assert loaded_after(code) & HEAVY == set()


def test_lazy_check_can_fail() -> None:
    assert loaded_after("import scipy.sparse") & HEAVY == {"scipy"}


# --- Public names -----------------------------------------------------------------------------


def public_packages() -> dict[str, ModuleType]:
    """The package and its subpackages whose names are served lazily from a stub."""
    stubs = sorted(SOURCE.rglob("__init__.pyi"))
    return {name: import_module(name) for name in map(module_name, stubs)}


PUBLIC = [(name, one) for name, package in public_packages().items() for one in package.__all__]


@pytest.mark.parametrize(("package", "name"), PUBLIC)
def test_public_name_resolves(package: str, name: str) -> None:
    """What type checkers read in a stub is there when the program runs."""
    module = import_module(package)
    assert getattr(module, name) is not None
    assert name in dir(module)


def test_the_root_stays_small() -> None:
    assert len(counterplan.__all__) <= MAX_PUBLIC_NAMES


def test_reference_covers_every_public_name() -> None:
    """One entry each, or one for the package, which then says itself what is in it."""
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    entries = re.findall(r"^::: (counterplan\.[\w.]+)$", reference, flags=re.MULTILINE)
    assert len(entries) == len(set(entries))
    described = {id(pkgutil.resolve_name(entry)) for entry in entries}
    above = {entry.rpartition(".")[0] for entry in entries}
    missing = {
        f"{package}.{name}"
        for package, name in PUBLIC
        if id(getattr(import_module(package), name)) not in described
        and id(import_module(package)) not in described
        and f"{package}.{name}" not in above
    }
    assert missing == set()
    packages = {module_name(path) for path in SOURCE.glob("*/__init__.py")}
    assert set(entries) <= packages | {f"{package}.{name}" for package, name in PUBLIC}


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        counterplan.no_such_name  # noqa: B018


# --- Layers -----------------------------------------------------------------------------------


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def for_type_checkers_only(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def statements(body: list[ast.stmt], *, nested: bool) -> Iterator[ast.stmt]:
    """Statements that run: on import only, or with ``nested`` also inside functions."""
    for node in body:
        if for_type_checkers_only(node):
            continue
        yield node
        if nested or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for field in ("body", "orelse", "finalbody"):
                yield from statements(getattr(node, field, []), nested=nested)
            for handler in getattr(node, "handlers", []):
                yield from statements(handler.body, nested=nested)


def imported(nodes: Iterator[ast.stmt] | Iterator[ast.AST], path: Path) -> set[str]:
    """The modules of this package that import statements name, relative ones made absolute."""
    known = {module_name(module) for module in MODULES}
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            for alias in node.names:
                submodule = f"{base}.{alias.name}"
                found.add(submodule if submodule in known else base)
    return {name for name in found if name.partition(".")[0] == "counterplan"}


def assert_acyclic(graph: dict[str, set[str]]) -> None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("import cycle: " + " <- ".join(error.args[1]))


def test_no_module_imports_itself_in_a_circle() -> None:
    """Counting imports inside functions, too."""
    graph = {}
    for path in MODULES:
        name, runs = module_name(path), statements(tree_of(path).body, nested=True)
        graph[name] = imported(runs, path) - {name}
    assert_acyclic(graph)


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_layers_import_only_lower_ones(path: Path) -> None:
    """Counting imports inside functions too: putting one off does not undo a dependency."""

    def height(name: str) -> int:
        layer = [*name.split("."), ""][1]
        return LAYERS.index(layer) if layer in LAYERS else len(LAYERS)

    own = height(module_name(path))
    used = imported(statements(tree_of(path).body, nested=True), path) - {"counterplan"}
    assert {name for name in used if height(name) > own} == set()


@pytest.mark.parametrize("path", sorted((SOURCE / "core").glob("*.py")), ids=relative)
def test_core_imports_nothing_above_it(path: Path) -> None:
    allowed = re.compile(r"counterplan\.(core(\..+)?|errors)")
    names = imported(ast.walk(tree_of(path)), path)
    assert {name for name in names if not allowed.fullmatch(name)} == set()


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_the_package_stands_without_the_repository(path: Path) -> None:
    """Experiments, benchmarks and tests are not in the wheel."""
    nodes = [
        node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    named = {alias.name for node in nodes for alias in node.names}
    named |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    outside = {"experiments", "benchmarks", "tests", "tools"}
    assert {name.partition(".")[0] for name in named} & outside == set()


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_kernels_are_compiled_with_a_cache_that_knows_what_went_into_them(path: Path) -> None:
    """numba's own `njit` keeps code after a change in a file that was compiled into it."""
    if path == SOURCE / "core" / "compiled.py":
        return
    nodes = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.ImportFrom)]
    assert "njit" not in {a.name for node in nodes if node.module == "numba" for a in node.names}


def test_cycle_check_can_fail() -> None:
    with pytest.raises(pytest.fail.Exception, match="import cycle"):
        assert_acyclic({"a": {"b"}, "b": {"a"}})


# --- Sizes ------------------------------------------------------------------------------------


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    packed = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    names = [one.arg for one in [*named, *packed]]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_sizes(path: Path) -> None:
    for function in functions(path):
        where = f"{relative(path)}:{function.lineno} {function.name}"
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        assert length <= MAX_FUNCTION_LINES, f"{where}: {length} lines"
        assert len(parameters(function)) <= MAX_PARAMETERS, f"{where}: {parameters(function)}"


# --- Portable files ---------------------------------------------------------------------------

# Absolute directories of one machine and hosts of package indexes, spelled so as not to match here.
MACHINE = re.compile(
    rb"(?<![\w.:/~-])/(?:home|root|work|Users|tmp|opt|mnt)/"
    rb"|[A-Z]:\\Users|py[p]i\.org|pythonho[s]ted\.org"
)


def tracked_files() -> list[Path]:
    """Files that are or would be committed."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    finished = subprocess.run(listing, cwd=ROOT, capture_output=True, check=False)
    if finished.returncode != 0:
        pytest.skip("not a git checkout")
    names = finished.stdout.decode().rstrip("\0").split("\0")
    return [path for name in names if (path := ROOT / name).is_file()]


def test_no_machine_paths() -> None:
    found = []
    for path in tracked_files():
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            if match := MACHINE.search(line):
                found.append(f"{relative(path)}:{number}: {match.group().decode()}")
    assert found == []


@pytest.mark.parametrize(
    ("line", "machine"),
    [
        (b"open('/" + b"home/someone/data.csv')", True),
        (b"https://example.org/" + b"home/page", False),
        (b"https://py" + b"pi.org/project/x", True),
        (b"docs/" + b"work/notes.md", False),
    ],
)
def test_machine_path_pattern(line: bytes, machine: bool) -> None:
    assert bool(MACHINE.search(line)) is machine
