"""The wheel: built, installed into an empty environment without a network, and used there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from venv import EnvBuilder

import httpx
import pytest

import counterplan

pytestmark = pytest.mark.slow  # builds the package and installs it elsewhere

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "counterplan"
WARD = """episode_id,t,state,action,reward
ann,0,0,0,0
ann,1,0,0,0
ann,2,0,0,0
bob,0,0,1,0
bob,1,1,1,1
bob,2,1,0,1
eve,0,0,0,0
eve,1,0,1,0
eve,2,1,1,1
"""


def elsewhere() -> dict[str, str]:
    """Variables with which nothing of this checkout can be imported, nor compiled: a new place has
    no compiled code yet, and making it takes longer than all the rest."""
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "NUMBA_DISABLE_JIT": "1"}


def run(*command: str | Path, cwd: Path) -> str:
    """What a command prints."""
    finished = subprocess.run(
        command, cwd=cwd, env=elsewhere(), capture_output=True, text=True, timeout=120, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel; its dependencies are borrowed from here, but
    not the packages that are installed as links, such as this one."""
    folder = tmp_path_factory.mktemp("environment")
    EnvBuilder(with_pip=False).create(folder)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    pip = (sys.executable, "-m", "pip", "--python", programs / "python", "--quiet")
    run(*pip, "install", "--no-index", "--no-deps", "--no-compile", wheel, cwd=folder)
    where = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    packages = Path(run(programs / "python", "-c", where, cwd=folder).strip())
    borrowed = sorted({sysconfig.get_paths()[kind] for kind in ("purelib", "platlib")})
    (packages / "borrowed.pth").write_text("\n".join(borrowed), encoding="utf-8")
    return programs


@contextmanager
def served(program: Path, folder: Path) -> Iterator[str]:
    """The address of an explorer of the run `out`, ended at the end."""
    command = [program, "serve", "out", "--port", "0", "--workers", "1", "--json"]
    server = subprocess.Popen(
        command, cwd=folder, env=elsewhere(), stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        said = ""
        while not said.endswith("}\n"):
            line = server.stdout.readline()
            assert line, said
            said += line
        yield json.loads(said)["url"].rstrip("/")
    finally:
        server.terminate()
        server.communicate(timeout=60)


def test_it_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = {
        path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == {path.relative_to(SOURCE.parent).as_posix() for path in files}
    endings = {Path(name).suffix for name in names}
    assert {".py", ".pyi", ".npz", ".html", ".js", ".css", ".svg"} <= endings


def test_the_source_archive_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    build = (sys.executable, "-m", "hatchling", "build")
    run(*build, "-t", "sdist", "-d", tmp_path, cwd=ROOT)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    (unpacked,) = (one for one in tmp_path.iterdir() if one.is_dir())
    run(*build, "-t", "wheel", "-d", tmp_path, cwd=unpacked)
    (again,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
        assert sorted(first.namelist()) == sorted(second.namelist())


def test_versions_are_one(wheel: Path) -> None:
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {counterplan.__version__}\n" in cited
    assert f"-{counterplan.__version__}-" in wheel.name


def test_it_is_what_runs(installed: Path, tmp_path: Path) -> None:
    code = "import counterplan as cp; print(cp.__version__, cp.__file__)"
    version, path = run(installed / "python", "-c", code, cwd=tmp_path).split()
    assert version == counterplan.__version__
    assert Path(path).is_relative_to(installed.parent)
    assert run(installed / "counterplan", "--version", cwd=tmp_path).split()[-1] == version
    assert "explain" in run(installed / "counterplan", "--help", cwd=tmp_path)


def test_its_data_is_read(installed: Path, tmp_path: Path) -> None:
    code = "import counterplan as cp; print(cp.domains.icu_sepsis.load().mdp.n_states)"
    assert run(installed / "python", "-c", code, cwd=tmp_path).strip() == "716"


def test_from_a_table_to_a_report_and_the_explorer(installed: Path, tmp_path: Path) -> None:
    program = installed / "counterplan"
    (tmp_path / "ward.csv").write_text(WARD, encoding="utf-8")
    run(program, "fit", "ward.csv", "-o", "model.safetensors", cwd=tmp_path)
    asked = ("explain", "ward.csv", "--model", "model.safetensors", "--k", "1", "--unsupported")
    run(program, *asked, "--workers", "1", "-o", "out", cwd=tmp_path)
    (case, *_) = json.loads(run(program, "cases", "out", "--json", cwd=tmp_path))["cases"]
    assert (case["episode_id"], case["status"]) == ("ann", "optimal")
    assert case["improvement"] > 0.0
    run(program, "report", "out", "--cases", "0", cwd=tmp_path)
    assert "</html>" in (tmp_path / "report.html").read_text(encoding="utf-8")
    with served(program, tmp_path) as url:
        for place in ("", "page/main.js", "page/style.css", "page/icon.svg"):
            assert httpx.get(f"{url}/{place}", trust_env=False).status_code == 200
