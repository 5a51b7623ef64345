"""The continuous figures, quick: files, ranges of the numbers, and going on after a stop."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import polars as pl
import pytest

from counterplan.counterfactual import Status
from counterplan.scm.learned import NeuralSCM
from experiments import continuous_fit, continuous_patients, continuous_study, registry
from experiments.continuous_study import OURS, PAPERS, Cell, Study
from experiments.expected import broken
from experiments.parts import Parts, finish

pytestmark = pytest.mark.slow  # four figures, whose models are learned

Item = TypeVar("Item")
EBF = "effective_branching_factor"


def quiet(items: Iterable[Item], total: int, what: str) -> Iterable[Item]:
    return items


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All four figures; training is done once for each model."""
    fitted: dict[str, NeuralSCM] = {}
    fit = Study._fitted

    def once(study: Study, location: float) -> NeuralSCM:
        key = json.dumps([study.settings(), location])
        if key not in fitted:
            fitted[key] = fit(study, location)
        return fitted[key]

    out = tmp_path_factory.mktemp("figures")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Study, "_fitted", once)
        names = [f"continuous-fig{number}" for number in (2, 3, 5, 6)]
        written = registry.reproduce(names, out, registry.Options(quick=True))
    # Nothing but pictures and tables is left.
    assert sorted(written) == sorted(out.iterdir())
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in out.glob("*.png"))
    return out


def table(folder: Path, number: int) -> pl.DataFrame:
    return pl.read_csv(folder / f"continuous-fig{number}.csv", infer_schema_length=None)


@pytest.mark.parametrize("number", [2, 3, 5, 6])
def test_numbers_are_in_their_expected_ranges(folder: Path, number: int) -> None:
    assert broken(f"continuous-fig{number}", table(folder, number)) == []


@pytest.mark.parametrize(("number", "extra"), [(2, ["M"]), (5, ["bound", "anchors"])])
def test_both_bounds_agree_and_ours_looks_less_far(
    folder: Path, number: int, extra: list[str]
) -> None:
    numbers = table(folder, number)
    assert set(numbers["status"]) == {"optimal"}
    ours = numbers.filter(bound=OURS)
    papers = numbers.filter(pl.col("bound") != OURS)
    pairs = papers.join(ours, on=["L_h", "k", "episode_id"], suffix="_ours")
    assert len(pairs) == len(papers) > len(ours)
    assert pairs.select(extra).unique().height > 1
    assert ((pairs["value"] - pairs["value_ours"]).abs() < 1e-6).all()
    assert (pairs["value"] >= pairs["factual"] - 1e-9).all()
    assert (pairs[f"{EBF}_ours"] <= pairs[EBF]).all()
    assert (pairs["nodes_expanded"] <= pairs["nodes_added"]).all()
    assert numbers[EBF].is_between(0.0, 3.0).all()
    assert (numbers["cpu_seconds"] > 0).all()


def test_seconds_are_those_of_one_search_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the process takes for it, while no other thread searches or trains."""
    clock, running = [0.0], threading.Lock()

    def busy(*_: Any) -> Any:
        assert running.acquire(blocking=False)
        time.sleep(0.01)
        clock[0] += 0.25
        running.release()
        stats = dict.fromkeys((EBF, "nodes_expanded", "nodes_added"), 1)
        return SimpleNamespace(
            factual_value=0.0, value=0.0, status=Status.OPTIMAL, stats=stats, method=""
        )

    monkeypatch.setattr(continuous_study, "explain_patient", busy)
    monkeypatch.setattr(continuous_study.time, "process_time", lambda: clock[0])
    monkeypatch.setattr(Study, "_fitted", busy)
    monkeypatch.setattr(Study, "patients", [SimpleNamespace(id=f"{i}") for i in range(4)])
    study = Study(registry.Options(quick=True))
    cells = [Cell(OURS, 0, 1.0 + 0.1 * patient, 1, patient) for patient in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = [(row["episode_id"], row["cpu_seconds"]) for row in pool.map(study.search, cells)]
    assert found == [(name, 0.25) for name in "0123"]


def test_search_grows_with_k(folder: Path) -> None:
    numbers = table(folder, 2).filter(pl.col("L_h") == 1.0)
    for bound in (OURS, PAPERS):
        means = numbers.filter(bound=bound).group_by("k").agg(pl.col(EBF).mean()).sort("k")
        assert means[EBF].is_sorted()
        assert means[EBF].n_unique() > 1


def test_facility_location_is_the_worst_strategy(folder: Path) -> None:
    means = table(folder, 5).group_by("bound").agg(pl.col(EBF).mean())
    assert means.sort(EBF)["bound"][0] == OURS
    assert means.sort(EBF)["bound"][-1] == "facility-location"


def test_improvement_never_falls_with_k(folder: Path) -> None:
    numbers = table(folder, 3)
    ours = numbers.filter(bound=OURS).sort("episode_id", "k")
    for (_,), patient in ours.group_by("episode_id"):
        gains = patient.sort("k")["improvement_percent"]
        assert gains[0] == 0.0
        assert (gains.diff().drop_nulls() >= -1e-9).all()
    assert ours["improvement_percent"].max() > 1.0
    papers = numbers.filter(bound=PAPERS).join(ours, on=["episode_id", "k"], suffix="_ours")
    assert len(papers) > 0
    difference = papers["counterfactual_sofa"] - papers["counterfactual_sofa_ours"]
    assert (difference.abs() < 1e-6).all()


def test_gains_are_said_to_be_the_models() -> None:
    plan = continuous_patients.Plan(patients=1, largest=1, shown=1, papers_budgets=(1,))
    one = {"episode_id": "7", "factual": -9.0, "values": [-9.0, -8.0], "status": ["optimal"] * 2}
    one |= {"sofa": [5.0, 4.0], "counterfactual_sofa": [5.0, 3.0], "moves": [[0, "V", 1, 2]]}
    papers = {Cell(PAPERS, 100, 1.0, 1, 0): {"episode_id": "7", "factual": -9.0, "value": -8.0}}
    study = Study(registry.Options(quick=True))
    drawing = continuous_patients._draw({0: one}, papers, study, plan)
    assert "would have brought according to the model learned from" in drawing.get_suptitle()


def test_tight_constraints_cost_likelihood(folder: Path) -> None:
    numbers = table(folder, 6)
    assert numbers.filter(pl.col("L_h").is_null())["decrease_percent"].to_list() == [0.0]
    grid = numbers.drop_nulls("L_h")
    assert grid.height == len(continuous_fit.QUICK.pairs) - 1
    for (_,), row in grid.group_by("L_phi"):
        assert row.sort("L_h")["decrease_percent"].is_sorted(descending=True)
    assert (numbers["validation_log_likelihood"] <= numbers["train_log_likelihood"] + 1.0).all()


def test_a_stopped_figure_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[Any] = []

    def validated(study: Study, pair: Any, plan: continuous_fit.Plan) -> dict[str, Any]:
        if len(computed) == 3:
            raise KeyboardInterrupt
        computed.append(pair)
        return {"train": [-2.0, -2.5], "validation": [-1.5, -1.0 - 0.1 * len(computed)]}

    monkeypatch.setattr(continuous_fit, "_validated", validated)
    name, parts = ["continuous-fig6"], tmp_path / "continuous-fig6.parts.jsonl"
    with pytest.raises(KeyboardInterrupt):
        registry.reproduce(name, tmp_path, registry.Options(quick=True))
    first = list(computed)
    assert len(parts.read_text().splitlines()) == 4
    with parts.open("a") as file:
        file.write('["cut o')  # what a killed process leaves
    computed[:] = []
    with pytest.raises(KeyboardInterrupt):  # other options begin anew
        registry.reproduce(name, tmp_path, registry.Options(quick=True, seed=1))
    assert computed == first
    computed[:] = []
    registry.reproduce(name, tmp_path, registry.Options(quick=True, seed=1))
    assert set(computed) & set(first) == set()
    assert len(computed) == len(continuous_fit.QUICK.pairs) - 3
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".csv", ".png"]


def test_parts_are_reused_only_with_the_same_settings(tmp_path: Path) -> None:
    path = tmp_path / "parts.jsonl"
    work: list[int] = []

    def square(number: int) -> dict[str, Any]:
        work.append(number)
        return {"square": number * number}

    def run(settings: dict[str, Any]) -> dict[int, dict[str, Any]]:
        parts = Parts(path, settings)
        return finish(square, [3, 1, 3], parts, lambda number: [number], (quiet, "squares"))

    assert run({"seed": 0}) == {3: {"square": 9}, 1: {"square": 1}}
    assert sorted(work) == [1, 3]
    path.write_text(path.read_text() + '["[5]", {"squa')
    assert run({"seed": 0}) == {3: {"square": 9}, 1: {"square": 1}}
    assert sorted(work) == [1, 3]
    run({"seed": 1})
    assert sorted(work) == [1, 1, 3, 3]
