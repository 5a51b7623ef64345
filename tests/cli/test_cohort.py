"""`fit` and `explain` on a sepsis cohort table, from end to end."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import counterplan as cp
from counterplan.cli import app
from counterplan.domains import sepsis
from counterplan.tables.fit import poor_fit

from .conftest import Run

PATIENTS, EXPLAINED = 60, 5


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """cohort.csv, five other stays in new.csv, and model.safetensors learned from the cohort."""
    folder = tmp_path_factory.mktemp("cohort")
    sepsis.write_cohort(folder / "cohort.csv", PATIENTS, seed=1)
    table = sepsis.simulate_cohort(20, seed=2)
    long = table.group_by("icustayid", maintain_order=True).len().filter(pl.col("len") >= 10)
    chosen = long["icustayid"].head(EXPLAINED).to_list()
    # A dose table of its own: the levels must still be those of the training cohort.
    new = table.filter(pl.col("icustayid").is_in(chosen), pl.col("bloc") <= 12)
    new = new.with_columns(pl.col("input_4hourly") * 3.0)
    new.write_csv(folder / "new.csv")
    arguments = ["fit", str(folder / "cohort.csv"), "-o", str(folder / "model.safetensors")]
    small = ["--hidden", "16", "--epochs", "5", "--json"]
    result = CliRunner().invoke(app, [*arguments, *small], prog_name="counterplan")
    assert result.exit_code == 0, result.output
    (folder / "fit.json").write_text(result.stdout)
    return folder


@pytest.fixture
def ward(ward: Path, trained: Path) -> Path:
    """The current folder with the discrete ward's files and the cohort's."""
    for path in trained.iterdir():
        shutil.copy(path, ward)
    return ward


def explained(model: Any, episode: cp.Episode, k: int, **options: Any) -> Any:
    actions, reward = sepsis.action_set(episode), sepsis.reward()
    return cp.explain(model, episode, k, actions=actions, reward=reward, **options)


def refusal(run: Run, *arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")


def test_fit_says_what_it_learned(ward: Path) -> None:
    summary = json.loads((ward / "fit.json").read_text())
    cohort = sepsis.read_cohort(ward / "cohort.csv")
    assert summary["episodes"] == len(cohort.episodes)
    assert summary["episodes"] + summary["dropped"] == PATIENTS
    assert summary["transitions"] == sum(len(episode) - 1 for episode in cohort.episodes)
    assert summary["features"] == 12
    assert summary["epochs"] == 5
    assert summary["lipschitz"]["location"] <= 1.0
    assert summary["lipschitz"]["scale"] <= 0.1
    assert summary["dose_edges"]["fluids"] == list(cohort.edges.fluids)
    model = cp.load_model(ward / "model.safetensors")
    assert isinstance(model, cp.NeuralSCM)
    assert isinstance(cp.load_model(ward / "model.json"), cp.TabularMDP)
    assert model.about["dose_edges"] == summary["dose_edges"]


def test_explain_agrees_with_the_library(ward: Path, run: Run) -> None:
    result = run("explain", "new.csv", "--model", "model.safetensors", "--k", "1", "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["k"] == 1
    assert document["method"] == "no bound: every sequence is tried"
    model = cp.load_model("model.safetensors")
    edges = sepsis.read_cohort("cohort.csv").edges
    assert edges != sepsis.read_cohort("new.csv").edges
    episodes = {episode.id: episode for episode in sepsis.read_cohort("new.csv", edges).episodes}
    records = document["explanations"]
    assert {record["episode_id"] for record in records} == set(episodes)
    assert len(records) == EXPLAINED
    improvements = [record["improvement"] for record in records]
    assert improvements == sorted(improvements, reverse=True)
    assert improvements[0] > 0
    for record in records:
        episode = episodes[record["episode_id"]]
        found = explained(model, episode, 1)
        assert record["value"] == pytest.approx(found.value, abs=1e-9)
        assert record["factual"] == pytest.approx(-episode.states[:, -1].sum())
        assert record["status"] == "optimal"
        assert record["gap"] == 0.0
        assert [change["t"] for change in record["changes"]] == [t for t, _, _ in found.changes]
        for change, (t, observed, alternative) in zip(
            record["changes"], found.changes, strict=True
        ):
            levels = {"vasopressor": (observed // 5, alternative // 5)}
            levels["fluids"] = (observed % 5, alternative % 5)
            moved = {drug: pair for drug, pair in levels.items() if pair[0] != pair[1]}
            words = ", ".join(f"{drug} {old} -> {new}" for drug, (old, new) in moved.items())
            assert change["text"] == f"at {4 * t} h: {words}"
            assert change["observed"] == {drug: old for drug, (old, _) in moved.items()}
            assert change["alternative"] == {drug: new for drug, (_, new) in moved.items()}


def test_seconds_stop_with_a_bound(ward: Path, run: Run) -> None:
    arguments = ("explain", "new.csv", "--model", "model.safetensors", "--k", "4", "--json")
    first = sepsis.read_cohort("new.csv").episodes[0].id
    result = run(*arguments, "--seconds", "0.01", "--episode", str(first))
    (record,) = json.loads(result.stdout)["explanations"]
    assert record["status"] == "limit"
    assert record["gap"] == pytest.approx(record["bound"] - record["value"])
    assert record["gap"] > 0


def test_baselines_have_no_proof(ward: Path, run: Run) -> None:
    arguments = ("explain", "new.csv", "--model", "model.safetensors", "--k", "2")
    result = run(*arguments, "--solver", "greedy", "--json")
    for record in json.loads(result.stdout)["explanations"]:
        assert record["status"] == "heuristic"
        assert record["bound"] == "inf"
    assert "greedy (no bound)" in run(*arguments, "--solver", "greedy").stdout
    searched = run(*arguments, "--solver", "random", "--json", "--seed", "1").stdout
    assert searched == run(*arguments, "--solver", "random", "--json", "--seed", "1").stdout
    assert {one["status"] for one in json.loads(searched)["explanations"]} == {"heuristic"}


def test_other_baselines_and_limits(ward: Path, run: Run) -> None:
    def records(*more: str) -> list[dict[str, Any]]:
        arguments = ("explain", "new.csv", "--model", "model.safetensors", "--k", "2", "--json")
        result = run(*arguments, *more)
        assert result.exit_code == 0, result.stderr
        found = json.loads(result.stdout)["explanations"]
        return sorted(found, key=lambda record: str(record["episode_id"]))

    exact = records()
    model, edges = cp.load_model("model.safetensors"), sepsis.read_cohort("cohort.csv").edges
    episodes = {episode.id: episode for episode in sepsis.read_cohort("new.csv", edges).episodes}
    for record, best in zip(records("--solver", "top-k"), exact, strict=True):
        episode = episodes[record["episode_id"]]
        found = explained(model, episode, 2, solver=cp.baselines.TopK())
        assert record["value"] == pytest.approx(found.value)
        assert record["value"] <= best["value"] + 1e-9
    moves = [
        abs(change["alternative"][drug] - change["observed"][drug])
        for record in records("--max-move", "1")
        for change in record["changes"]
        for drug in change["observed"]
    ]
    assert set(moves) == {1}
    assert any(record["status"] == "limit" for record in records("--nodes", "1"))
    loose = records("--gap", "100", "--unsupported")
    assert all(0.0 <= record["gap"] <= 100.0 for record in loose)
    assert any(record["gap"] > 0.0 for record in loose)


@pytest.mark.parametrize(("given", "seconds"), [((), 60.0), (("--seconds", "7"), 7.0)])
def test_no_search_goes_on_for_ever(
    ward: Path, run: Run, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], seconds: float
) -> None:
    limits: list[float] = []
    explain = cp.explain

    def spy(*arguments: Any, **options: Any) -> Any:
        limits.append(options["limits"].seconds)
        return explain(*arguments, **options)

    monkeypatch.setattr("counterplan.counterfactual.explain.explain", spy)
    run("explain", "new.csv", "--model", "model.safetensors", "--k", "1", *given)
    assert limits == [seconds] * EXPLAINED
    assert "60 if not given" in " ".join(run("explain", "--help").stdout.split())


def test_a_stay_that_is_too_short_is_named(ward: Path, run: Run) -> None:
    table = pl.read_csv("new.csv")
    short = table["icustayid"][0]
    table.filter((pl.col("icustayid") != short) | (pl.col("bloc") < 4)).write_csv("cut.csv")
    arguments = ("explain", "cut.csv", "--model", "model.safetensors", "--k", "1")
    line = refusal(run, *arguments, "--episode", str(short))
    assert line == f"cut.csv: stay '{short}' is left out: fewer than 10 steps"
    assert "4 stays kept, 1 dropped" in run(*arguments).stderr


def test_hours_are_those_of_the_rows(ward: Path, run: Run) -> None:
    """Without blocs 2 to 4 the second row begins at 16 h."""
    table = pl.read_csv("new.csv").with_columns(
        bloc=pl.when(pl.col("bloc") > 1).then(pl.col("bloc") + 3).otherwise(1)
    )
    table.write_csv("gaps.csv")
    arguments = ("explain", "--model", "model.safetensors", "--k", "3", "--solver", "greedy")
    whole, late = (
        json.loads(run(*arguments, name, "--json").stdout)["explanations"]
        for name in ("new.csv", "gaps.csv")
    )
    for one, other in zip(whole, late, strict=True):
        assert one["value"] == other["value"]
        for before, after in zip(one["changes"], other["changes"], strict=True):
            hours = 4 * before["t"] + (12 if before["t"] else 0)
            assert (before["hours"], after["hours"]) == (4 * before["t"], hours)
            assert after["text"] == before["text"].replace(f"{before['hours']} h", f"{hours} h")
    assert any(change["t"] for record in late for change in record["changes"])
    words = f"{EXPLAINED} steps are longer than 4 hours, since blocs are missing"
    assert words in run(*arguments, "gaps.csv").stderr
    assert "longer than" not in run(*arguments, "new.csv").stderr


def write_strange() -> int:
    """The new stays, the last one with an impossible entry; its id."""
    table = pl.read_csv("new.csv")
    stay = int(table["icustayid"][-1])
    strange = pl.when((pl.col("icustayid") == stay) & (pl.col("bloc") == 3)).then(1e12)
    table.with_columns(paO2=strange.otherwise("paO2")).write_csv("strange.csv")
    return stay


def test_states_far_from_what_was_learned_are_named(ward: Path, run: Run) -> None:
    stay = write_strange()
    arguments = ("explain", "--model", "model.safetensors", "--k", "1", "--json")
    result = run(*arguments, "strange.csv")
    first, *more = result.stderr.splitlines()
    assert first.startswith(
        f"warning: no answer about stay '{stay}', column 'paO2': 1e+12 is far outside what the"
    )
    assert more == []
    *others, last = json.loads(result.stdout)["explanations"]
    assert all(one["status"] != "failed" for one in others)
    told = [last.get(name) for name in ("episode_id", "status", "improvement", "changes")]
    assert told == [f"{stay}", "failed", None, []]
    assert last["far_outside_training"] == "paO2"
    assert run(*arguments, "new.csv").stderr == ""


def test_into_a_folder(ward: Path, run: Run) -> None:
    """The same stays, one of them strange, as the library explains them."""
    write_strange()
    asked = ("explain", "strange.csv", "--model", "model.safetensors", "--k", "1")
    result = run(*asked, "-o", "out", "--workers", "1")
    assert result.exit_code == 0, result.stderr
    assert f"The most improvable of {EXPLAINED} stays, k = 1, exact" in result.stdout
    assert "warning: 1 stay far outside what the model has learned from" in result.stderr
    assert "--status failed; where the cause is gone, --retry-failed does it" in result.stderr
    rows = pl.read_parquet("out/results/*.parquet")
    assert rows["far_outside_training"].to_list() == [""] * (EXPLAINED - 1) + ["paO2"]
    model, edges = cp.load_model("model.safetensors"), sepsis.read_cohort("cohort.csv").edges
    cohort = sepsis.read_cohort("strange.csv", edges)
    assert rows["outcome:died"].to_list() == [str(int(one)) for one in cohort.died]
    *known, strange = zip(rows.iter_rows(named=True), cohort.episodes, strict=True)
    assert strange[0]["status"] == "failed"
    for row, episode in known:
        found = explained(model, episode, 1, limits=cp.Limits(nodes=20_000))
        assert row["episode_id"] == episode.id
        assert (row["value"], row["factual"]) == (found.value, found.factual_value)
        assert row["supported"] is not None
    *printed, strange = json.loads(run(*asked, "--json").stdout)["explanations"]
    assert all(one.pop("reason") is None for one in printed)
    assert strange["reason"]
    stored = json.loads(run("cases", "out", "--json").stdout)["cases"]
    assert stored == printed
    chosen = json.loads(run("cases", "out", "--changed-action", "fluids", "--json").stdout)
    assert [case["episode_id"] for case in chosen["cases"]] == [
        case["episode_id"]
        for case in printed
        if any("fluids" in change["observed"] for change in case["changes"])
    ]


def test_parquet_serves_as_well(ward: Path, run: Run) -> None:
    for name in ("cohort", "new"):
        pl.read_csv(f"{name}.csv").write_parquet(f"{name}.parquet")
    arguments = ("-o", "again.safetensors", "--hidden", "16", "--epochs", "5", "--json")
    summary = json.loads(run("fit", "cohort.parquet", *arguments).stdout)
    expected = json.loads((ward / "fit.json").read_text())
    assert summary == expected | {"model": "again.safetensors"}
    asked = ("--model", "again.safetensors", "--k", "1", "--json")
    assert run("explain", "new.parquet", *asked).stdout == run("explain", "new.csv", *asked).stdout


def test_a_poor_model_says_so_wherever_it_is_asked(ward: Path, run: Run) -> None:
    """The table is known without a schema; what is doubtful about it counts all the same."""
    small = ("--lipschitz", "1e-9,1e-9", "--hidden", "8", "--epochs", "2")
    run("fit", "cohort.csv", "-o", "tight.safetensors", *small)
    asked = run("explain", "new.csv", "--model", "tight.safetensors", "--k", "1")
    assert "do not trust explanations by this model" in asked.stderr


def test_models_of_known_tables_keep_to_their_ranges(ward: Path, run: Run) -> None:
    model = cp.load_model("model.safetensors")
    assert isinstance(model, cp.NeuralSCM)
    assert model.limits is not None
    assert model.limits[-1].tolist() == [0.0, 24.0]  # SOFA
    assert (model.limits[:, 0] == 0.0).all()  # of what was never negative


def test_fits_that_are_worse_than_simple_models_are_told(ward: Path, run: Run) -> None:
    small = ("--hidden", "8", "--epochs", "2")
    tight = run("fit", "cohort.csv", "-o", "tight.safetensors", "--lipschitz", "1e-9,1e-9", *small)
    assert tight.exit_code == 0
    size, line, claims = tight.stderr.splitlines()
    assert size.startswith("note: 732 transitions are few for 15 inputs")
    assert claims.startswith("warning: claims of networks are not calibrated")
    assert line.startswith("warning: a constant, which looks at neither states nor actions, fits")
    assert "--epochs" in line
    assert "--lipschitz" in line
    assert "stay" not in line
    told = re.search(r"log-likelihood (\S+) \(linear regression: (\S+)\) nats", tight.stdout)
    assert told is not None
    assert float(told[1]) < float(told[2])
    summary = json.loads((ward / "fit.json").read_text())
    assert summary["linear_log_likelihood"] > summary["constant_log_likelihood"]
    model = cp.load_model("model.safetensors")
    assert isinstance(model, cp.NeuralSCM)

    def judged(loss: float) -> str | None:
        record = model.about["training"] | {"validation_nll": [loss], "best_epoch": 1}
        record["reference_nll"] = {"linear": -10.0, "constant": -5.0}
        return poor_fit(replace(model, about={**model.about, "training": record}))

    assert judged(-10.5) is None
    assert judged(-9.5) is None
    assert str(judged(-8.0)).startswith(
        "linear regression fits the held-out episodes better (10.000"
    )
    assert str(judged(-1.0)).startswith("a constant")


def test_divergence_names_options_that_exist(
    ward: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterplan.scm.neural_training.evaluate", lambda *_: float("nan"))
    line = refusal(run, "fit", "cohort.csv", "-o", "new.safetensors", "--unconstrained")
    assert line.startswith("cohort.csv: training diverged: the validation loss is nan in epoch 1; ")
    assert line.endswith("(options --lipschitz and --epochs)")
    assert "earning" not in line
    assert not (ward / "new.safetensors").exists()


def test_unconstrained_models_explain_too(ward: Path, run: Run) -> None:
    small = ("--hidden", "8", "--epochs", "2", "--unconstrained")
    result = run("fit", "cohort.csv", "-o", "free.safetensors", *small)
    assert result.exit_code == 0
    assert "Lipschitz constants" in result.stdout
    result = run("explain", "new.csv", "--model", "free.safetensors", "--k", "1", "--json")
    assert {one["status"] for one in json.loads(result.stdout)["explanations"]} == {"optimal"}


def test_a_smooth_model_is_learned_and_explains(ward: Path, run: Run) -> None:
    fit = ("fit", "cohort.csv", "-o", "smooth.safetensors", "--learner", "smooth")
    result = run(*fit, "--members", "2", "--json")
    summary = json.loads(result.stdout)
    assert (summary["learner"], summary["members"]) == ("smooth", 2)
    assert "epochs" not in summary
    assert "networks" not in result.stderr
    asked = ("explain", "new.csv", "--model", "smooth.safetensors", "--k", "1", "--json")
    found = json.loads(run(*asked, "--nodes", "50").stdout)
    assert len(found["explanations"]) == EXPLAINED
    assert "--hidden is for networks, but --learner is smooth" in run(*fit, "--hidden", "4").stderr
    assert "continuous states have one counterfactual" in refusal(run, *asked, "--robust")


def test_the_better_of_both_learners_is_kept(ward: Path, run: Run) -> None:
    small = ("--learner", "auto", "--members", "0", "--hidden", "4", "--epochs", "1", "--json")
    summary = json.loads(run("fit", "cohort.csv", "-o", "best.safetensors", *small).stdout)
    assert set(summary["tried"]) == {"smooth", "neural"}
    assert summary["learner"] == max(summary["tried"], key=lambda kind: summary["tried"][kind])
    assert summary["validation_log_likelihood"] == max(summary["tried"].values())
