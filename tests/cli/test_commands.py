"""What the commands print and write when all is well."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

import counterplan as cp
from counterplan.cli import COMMANDS, support
from counterplan.cli import fit as cli_fit
from counterplan.cli import plan as cli_plan
from counterplan.domains import icu_sepsis
from counterplan.explorer.cases import Cases
from counterplan.runs.run import open_run
from counterplan.scm import count_transitions, estimate_mdp, neighbour_prior
from counterplan.tables import read_episodes, save_model

from .conftest import EPISODES, Run


def test_help_without_arguments(run: Run) -> None:
    result = run()
    assert result.exit_code == 0
    assert result.stdout == run("--help").stdout
    for command in COMMANDS:
        assert f"\n  {command} " in result.stdout


def test_list_of_commands_is_not_cut_off(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = run().stdout.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert len(listed) == len(COMMANDS)
    assert all(line.endswith(".") and not line.endswith("..") for line in listed)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command(run: Run, command: str) -> None:
    """Arguments are called EPISODES, not {EPISODES} or EPISODES <path>."""
    result = run(command, "--help")
    assert result.exit_code == 0
    assert not re.search(r"\{[A-Z]+\}|<(path|str|list\S*)>", result.stdout)
    for option in ("--help", "--json", "--seed"):
        assert option in result.stdout


def test_version(run: Run) -> None:
    assert run("--version").stdout == f"counterplan {cp.__version__}\n"


def test_explain_agrees_with_the_library(ward: Path, run: Run) -> None:
    result = run("explain", "ward.csv", "--model", "model.json", "--k", "2", "--robust", "--json")
    assert result.exit_code == 0
    assert result.stderr == ""
    document = json.loads(result.stdout)
    assert document["k"] == 2
    assert document["solver"] == "exact"
    mdp = cp.load_model("model.json")
    episodes = {episode.id: episode for episode in read_episodes("ward.csv")}
    records = document["explanations"]
    assert {record["episode_id"] for record in records} == set(episodes)
    improvements = [record["improvement"] for record in records]
    assert improvements == sorted(improvements, reverse=True)
    assert improvements[0] > 0
    for record in records:
        episode = episodes[record["episode_id"]]
        explanation = cp.explain(mdp, episode, k=2, doubt=0.2)
        low, high = cp.value_interval(mdp, episode, explanation)
        assert record["value"] == explanation.value
        assert record["factual"] == explanation.factual_value
        assert record["bound"] == explanation.bound
        assert record["status"] == "optimal"
        assert (record["interval_low"], record["interval_high"]) == (low, high)
        found = [
            (change["t"], change["observed"], change["alternative"]) for change in record["changes"]
        ]
        assert found == list(explanation.changes)
        for change in record["changes"]:
            probability = explanation.change_probabilities()[change["t"], change["alternative"]]
            assert change["probability"] == probability
            assert change["alternative_label"] == ("rest", "walk")[change["alternative"]]


def names_in(path: str) -> set[str]:
    with Path(path).open() as file:
        return {row["episode_id"] for row in csv.DictReader(file)}


def test_names_that_others_made_do_nothing(ward: Path, run: Run) -> None:
    """Neither in a spreadsheet nor in a terminal."""
    steers = "\x1b[31m"
    rows = ["episode_id,t,state,action"]
    rows += [f"{name},{t},{t},0" for name in ("=1+2", "-3", f"a{steers}b") for t in (0, 1)]
    Path("odd.csv").write_text("\n".join(rows) + "\n")
    asked = ("explain", "odd.csv", "-m", "model.json", "--k", "1")
    shown = run(*asked, "-o", "odd-out.csv")
    assert steers not in shown.output
    assert r"a\x1b[31mb" in shown.stdout
    told = names_in("odd-out.csv")
    assert told == {"'=1+2", "-3", f"a{steers}b"}
    run(*asked, "-o", "odd")
    run("cases", "odd", "-o", "cases.csv")
    assert names_in("cases.csv") == told


def test_explain_reads_labels_of_the_model(ward: Path, run: Run) -> None:
    numbers = run("explain", "ward.csv", "-m", "model.json", "--json").stdout
    Path("words.csv").write_text(
        "episode_id,t,state,action\n"
        + "".join(
            f"{name},{t},{('ill', 'well')[int(state)]},{('rest', 'walk')[int(action)]}\n"
            for name, t, state, action, _ in list(csv.reader(EPISODES.splitlines()))[1:]
        )
    )
    assert run("explain", "words.csv", "-m", "model.json", "--json").stdout == numbers


def test_explain_writes_what_it_prints(ward: Path, run: Run) -> None:
    command = ("explain", "ward.csv", "-m", "model.json", "--robust")
    printed = run(*command, "--json", "-o", "out.json")
    assert json.loads(Path("out.json").read_text()) == json.loads(printed.stdout)
    shown = run(*command, "-o", "out.csv")
    wrote, said, _ = shown.stderr.splitlines()
    assert said.startswith("The model has kept none of its data")
    assert wrote == "Wrote out.csv."
    rows = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    for row, record in zip(rows, json.loads(printed.stdout)["explanations"], strict=True):
        assert row["episode_id"] == record["episode_id"]
        for name in ("value", "improvement", "interval_low", "interval_high"):
            assert float(row[name]) == record[name]
    assert rows[0]["changes"].startswith("step 1: rest -> walk (100%)")
    assert sorted(path.name for path in ward.iterdir()) == [
        "model.json",
        "out.csv",
        "out.json",
        "ward.csv",
    ]


def test_fit_then_explain(ward: Path, run: Run) -> None:
    result = run("fit", "ward.csv", "-o", "fitted.safetensors", "--prior", "0.5", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "model": "fitted.safetensors",
        "episodes": 3,
        "steps": 8,
        "states": 2,
        "actions": 2,
        "pairs": 4,
        "observed_pairs": 2,
        "findings": [],
    }
    mdp = cp.load_model("fitted.safetensors")
    # Three of the five (0, 0) steps stayed, one led to 1, one was the last.
    np.testing.assert_allclose(mdp.row(0, 0), [3.5 / 5, 1.5 / 5])
    assert mdp.rewards.tolist() == [[0.0, -np.inf], [-np.inf, 1.0]]
    assert run("explain", "ward.csv", "-m", "fitted.safetensors").exit_code == 0


def test_fit_options(ward: Path, run: Run) -> None:
    names = ("--state-labels", 'ill,"well, almost"', "--action-labels", "rest, walk")
    result = run("fit", "ward.csv", "-o", "m.safetensors", "--value-unobserved", *names)
    assert result.stdout.startswith("m.safetensors: 2 states and 2 actions from 8 steps of 3 epis")
    assert "2 of 4 pairs of state and action were seen" in result.stdout
    mdp = cp.load_model("m.safetensors")
    assert mdp.state_labels == ("ill", "well, almost")
    assert mdp.action_labels == ("rest", "walk")
    assert mdp.rewards.tolist() == [[0.0, 0.0], [1.0, 1.0]]
    assert run("fit", "ward.csv", "-o", "n.safetensors", "--neighbour-prior").exit_code == 0
    counts = count_transitions(read_episodes("ward.csv"), 2, 2)
    by_hand = estimate_mdp(counts, mdp.rewards, prior=neighbour_prior(2))
    assert cp.load_model("n.safetensors").row(0, 0).tolist() == by_hand.row(0, 0).tolist()


def test_fit_counts_every_transition_once_more(ward: Path, run: Run) -> None:
    """The prior is 1 unless another is given."""
    rows = []
    for given in ((), ("--prior", "1"), ("--prior", "2")):
        assert run("fit", "ward.csv", "-o", "m.safetensors", *given).exit_code == 0
        rows.append(cp.load_model("m.safetensors").row(0, 0).tolist())
    assert rows[0] == rows[1] == [4 / 6, 2 / 6]
    assert rows[2] == [5 / 8, 3 / 8]


def test_one_of_each_is_told_as_one(ward: Path, run: Run) -> None:
    Path("one.csv").write_text("episode_id,t,state,action,reward\nann,0,0,0,1\n")
    result = run("fit", "one.csv", "-o", "m.safetensors")
    assert result.stdout.startswith(
        "m.safetensors: 1 state and 1 action from 1 step of 1 episode; 1 of 1 pair of state and"
    )


def test_options_know_the_limits_of_the_library() -> None:
    """They are written down twice, as loading the library takes longer than parsing."""
    from counterplan.cli import explain as cli_explain
    from counterplan.planning.search import planners
    from counterplan.runs import cohort as cohort_run
    from counterplan.runs import explain as explain_run
    from counterplan.scm import training

    assert cli_fit.MOST_UNITS == training.MOST_UNITS
    assert support.MOST_WORKERS == cohort_run.MOST_WORKERS
    assert cli_explain.COHORT_SECONDS == explain_run.COHORT_SECONDS
    assert cli_explain.COHORT_NODES == explain_run.COHORT_NODES
    assert cli_plan.MOST_SIMULATIONS == planners.MOST_SIMULATIONS


@pytest.mark.parametrize("width", [80, 120, 300])
def test_a_case_of_a_list_takes_three_lines(
    ward: Path, run: Run, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """One in the table, and what finds no room there in two below it; nothing is wider."""
    rows = [f"{name},{t},0,0,0" for name in ("a-rather-long-name", "bo") for t in range(9)]
    (ward / "long.csv").write_text("\n".join(["episode_id,t,state,action,reward", *rows]))
    monkeypatch.setenv("COLUMNS", str(width))
    shown = run("explain", "long.csv", "-m", "model.json", "--k", "9", "--robust").stdout
    lines = shown.rstrip().splitlines()
    assert max(map(len, lines)) <= width
    first = next(i for i, line in enumerate(lines) if line.lstrip().startswith(("a-rather", "bo ")))
    assert len([line for line in lines[first:] if line.strip()]) <= 2 * 3
    assert "walk" in shown
    one = run("explain", "long.csv", "-m", "model.json", "--k", "9", "--episode", "bo").stdout
    assert one.count("rest -> walk") > 3  # of a single case all is told


def test_whatever_is_said_of_icu_sepsis_names_the_outcome(run: Run, tmp_path: Path) -> None:
    """A terminal's titles, before and after, and the explorer's page, of a model that was saved."""
    icu = icu_sepsis.load()
    model, table, out = (tmp_path / name for name in ("icu.safetensors", "deaths.csv", "out"))
    save_model(icu.mdp, model)
    dead = next(one for one in icu.sample_episodes(40, seed=0) if icu.died(one))
    steps = zip(dead.states, dead.actions, strict=True)
    rows = [f"{dead.id},{t},{s},{a}" for t, (s, a) in enumerate(steps)]
    table.write_text("\n".join(["episode_id,t,state,action", *rows]), encoding="utf-8")
    ask = ["explain", str(table), "--model", str(model), "--k", "1", "-o", str(out)]
    for command in (ask, ["cases", str(out)]):
        assert "outcome: survival probability" in " ".join(run(*command).stdout.split())
    assert Cases(open_run(out)).about()["quantity"] == "survival probability"
