"""Models fitted to tables: the numbers, the rewards, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import counterplan as cp
from counterplan.errors import FileError, InputError
from counterplan.scm.learned import FitSettings as NeuralSettings
from counterplan.tables.fit import FitSettings, fit_continuous, fit_discrete, fit_model
from counterplan.tables.layout import SchemaLayout, layout_of_model, means_of_model
from counterplan.tables.models import load_model, save_model
from counterplan.tables.schema import Column, Schema, schema_toml

from .schema_support import DISCRETE, measured, write

HEADER = "episode_id,t,state,action,reward\n"
# Two states, two actions; (1, 1) never occurs.
TABLE = HEADER + "a,0,0,0,1\na,1,1,0,5\na,2,0,1,2\nb,0,0,0,1\nb,1,0,1,2\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return path


def test_posterior_mean_by_hand(table: Path) -> None:
    fitted = fit_model(table, FitSettings(prior=0.5))
    mdp, counts = fitted.model, fitted.counts
    # (0, 0) was followed once by 1 and once by 0; (1, 0) once by 0; (0, 1) only ended episodes.
    np.testing.assert_allclose(mdp.row(0, 0), [1.5 / 3, 1.5 / 3])
    np.testing.assert_allclose(mdp.row(1, 0), [1.5 / 2, 0.5 / 2])
    np.testing.assert_allclose(mdp.row(0, 1), [0.5, 0.5])
    assert mdp.rewards.tolist() == [[1.0, 2.0], [5.0, -np.inf]]
    assert mdp.initial is not None
    assert mdp.initial.tolist() == [1.0, 0.0]
    assert counts.visits.tolist() == [[2, 2], [1, 0]]


def test_neighbour_prior(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(HEADER + "a,0,0,0,0\na,1,2,0,0\n")
    mdp = fit_model(path, FitSettings(prior=None)).model
    np.testing.assert_allclose(mdp.row(0, 0), np.array([1, 1, 1.01]) / 3.01)
    np.testing.assert_allclose(mdp.row(1, 0), [1 / 3, 1 / 3, 1 / 3])


def test_unobserved_pairs_may_earn_the_mean_of_their_state(table: Path) -> None:
    mdp = fit_model(table, FitSettings(bar_unobserved=False)).model
    assert mdp.rewards.tolist() == [[1.0, 2.0], [5.0, 5.0]]


def test_labels_set_the_size(table: Path) -> None:
    settings = FitSettings(state_labels=["ill", "well", "cured"], action_labels=["rest", "walk"])
    mdp = fit_model(table, settings).model
    assert mdp.rewards.shape == (3, 2)
    assert mdp.state_labels == ("ill", "well", "cured")
    assert (mdp.rewards[2] == -np.inf).all()


def test_different_rewards_of_a_pair_are_refused_or_averaged(table: Path) -> None:
    table.write_text(TABLE + "c,0,1,0,8\nc,1,1,0,5\n")
    with pytest.raises(FileError) as caught:
        fit_model(table, FitSettings())
    assert str(caught.value).startswith(
        f"{table}, row 7: state 1, action 0 earned 8, but 5 in row 3; a reward must"
    )
    mdp = fit_model(table, FitSettings(mean_rewards=True)).model
    assert mdp.rewards.tolist() == [[1.0, 2.0], [6.0, -np.inf]]


def test_different_rewards_in_json(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text(
        '[{"states": [0, 1], "actions": [0, 0], "rewards": [1, 2]},'
        ' {"states": [1, 0], "actions": [0, 0], "rewards": [2, 3]}]'
    )
    with pytest.raises(
        FileError, match=r"episodes\[1\], t=1: state 0, action 0 earned 3, but 1 in"
    ):
        fit_model(path, FitSettings())


PLAIN = """\
episode_id,t,state,action,reward
ann,0,ill,rest,0
ann,1,ill,rest,0
ann,2,well,walk,1
bob,0,well,walk,1
bob,1,ill,rest,0
"""
SMALL = NeuralSettings(hidden=8, epochs=2)


@pytest.mark.parametrize("bar_unobserved", [True, False])
def test_same_model_as_without_a_schema(tmp_path: Path, bar_unobserved: bool) -> None:
    path = write(tmp_path / "t.csv", PLAIN)
    settings = FitSettings(
        bar_unobserved=bar_unobserved, state_labels=["ill", "well"], action_labels=["rest", "walk"]
    )
    fitted = fit_model(path, settings)
    expected, counts = fitted.model, fitted.counts
    found = fit_discrete(path, DISCRETE, FitSettings(bar_unobserved=bar_unobserved))
    assert np.array_equal(found.counts.transitions, counts.transitions)
    assert np.array_equal(found.model.rewards, expected.rewards)
    for state in range(2):
        for action in range(2):
            assert np.array_equal(found.model.row(state, action), expected.row(state, action))
    assert found.model.state_labels == ("ill", "well")
    assert found.model.admissible is None
    assert found.summary == "2 episodes, 5 steps"


def test_file_remembers_schema(tmp_path: Path) -> None:
    found = fit_discrete(write(tmp_path / "t.csv", PLAIN), DISCRETE, FitSettings())
    save_model(found.model, tmp_path / "m.safetensors")
    loaded = load_model(tmp_path / "m.safetensors")
    layout = layout_of_model(loaded)
    assert layout is not None
    assert layout.schema == DISCRETE
    assert isinstance(loaded, cp.TabularMDP)
    assert np.array_equal(loaded.rewards, found.model.rewards)


def test_rows_without_action(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", PLAIN + "bob,2,well,,\n")
    model = fit_discrete(path, DISCRETE, FitSettings()).model
    assert model.action_labels == ("rest", "walk", "(no action)")
    # Ending costs nothing anywhere, and nobody can choose it.
    assert model.rewards[:, 2].tolist() == [0.0, 0.0]
    assert model.admissible is not None
    assert model.admissible[:, 2].tolist() == [False, False]
    (episode,) = [
        one.episode for one in cp.tables.read_table(path, DISCRETE) if one.episode.id == "bob"
    ]
    layout = SchemaLayout(DISCRETE)
    rules = layout.constraints(episode)
    ex = cp.explain(cp.GumbelMaxSCM(model), episode, k=2, constraints=rules)
    assert ex.value >= ex.factual_value
    assert all(change.t < 2 for change in ex.changes)
    valued = fit_discrete(path, DISCRETE, FitSettings(bar_unobserved=False)).model
    assert valued.rewards.tolist() == [[0.0, 0.0, 0.0], [1.0, 1.0, 0.0]]


def test_rewards_that_differ(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", PLAIN + "eve,0,well,walk,3\n")
    with pytest.raises(FileError) as caught:
        fit_discrete(path, DISCRETE, FitSettings())
    assert str(caught.value) == (
        f"{path}, row 7: state 'well', action 'walk' earned 3, but 1 in row 4; a "
        "reward must depend on state and action only, or be averaged (--mean-rewards)"
    )
    model = fit_discrete(path, DISCRETE, FitSettings(mean_rewards=True)).model
    assert model.rewards[1, 1] == pytest.approx(5 / 3)


GRID = Schema(
    (
        Column("sex", "fixed", labels=("F", "M")),
        Column("severity", "state", levels=(0.0, 1.0, 2.0), better="lower"),
        Column("drug", "action", levels=(0.0, 1.0), unit="mg"),
        Column("rest", "action", labels=("no", "yes")),
    )
)
GRID_ROWS = """\
episode_id,t,sex,severity,drug,rest
ann,0,F,2,0,no
ann,1,F,1,1,yes
ann,2,F,0,,
bob,0,M,1,0,no
bob,1,M,2,1,no
bob,2,M,2,,
"""


def test_grids(tmp_path: Path) -> None:
    model = fit_discrete(write(tmp_path / "t.csv", GRID_ROWS), GRID, FitSettings()).model
    assert (model.n_states, model.n_actions) == (6, 5)
    assert model.state_labels is not None
    assert model.state_labels[5] == "sex M, severity 2"
    assert model.action_labels is not None
    assert model.action_labels[3] == "drug 1 mg, rest yes"
    # What is fixed stays, even in what was never seen.
    assert model.row(0, 0)[3:].tolist() == [0.0, 0.0, 0.0]
    assert model.row(4, 2)[:3].tolist() == [0.0, 0.0, 0.0]
    # The worth of a state is that of its columns, what was never done is barred.
    assert model.rewards[2, 0] == -2.0
    assert model.rewards[2, 1] == -np.inf
    assert model.rewards[:, 4].tolist() == [0.0, -1.0, -2.0, 0.0, -1.0, -2.0]


def test_grids_are_explained(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", GRID_ROWS)
    model = fit_discrete(path, GRID, FitSettings(bar_unobserved=False)).model
    layout = SchemaLayout(GRID)
    for one in cp.tables.read_table(path, GRID):
        rules = layout.constraints(one.episode)
        ex = cp.explain(cp.GumbelMaxSCM(model), one.episode, k=1, constraints=rules)
        worth = -sum(severity for severity in [[2, 1, 0], [1, 2, 2]][one.episode.id == "bob"])
        assert ex.factual_value == worth
        assert ex.value >= ex.factual_value


def test_neighbour_prior_of_a_grid(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", GRID_ROWS)
    model = fit_discrete(path, GRID, FitSettings(prior=None)).model
    assert model.row(0, 3)[:3] == pytest.approx(np.array([1.0, 1.0, 0.01]) / 2.01)
    two = Schema((*GRID.columns, Column("x", "state", levels=(0.0, 1.0))))
    with_x = GRID_ROWS.replace("\n", ",0\n").replace("rest,0", "rest,x", 1)
    with pytest.raises(FileError, match="the neighbour prior is for one state column"):
        fit_discrete(write(tmp_path / "x.csv", with_x), two, FitSettings(prior=None))


def test_labels_that_never_occur(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", PLAIN.replace("well", "ill").replace("1\n", "0\n"))
    with pytest.raises(FileError, match="state 'well' never occurs, so nothing is known about its"):
        fit_discrete(path, DISCRETE, FitSettings(bar_unobserved=False))
    assert fit_discrete(path, DISCRETE, FitSettings()).model.rewards[1, 0] == -np.inf


def test_too_many_states(tmp_path: Path) -> None:
    levels = tuple(float(i) for i in range(200))
    columns = (
        *(Column(name, "state", levels=levels) for name in "pq"),
        Column("a", "action", levels=(0.0, 1.0)),
        Column("r", "reward"),
    )
    with pytest.raises(FileError, match="combine to 40,000 states and 2 actions, too many for mem"):
        fit_discrete(tmp_path / "t.csv", Schema(columns), FitSettings())


def linear_world(episodes: int, seed: int = 0) -> pl.DataFrame:
    """x falls by itself and rises with the action; r = 2 x - y + 1; age is fixed."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(episodes):
        x, y, age = rng.normal(size=3)
        for t in range(8):
            a, vent = int(rng.integers(0, 3)), int(rng.integers(0, 2))
            rows.append((f"e{number}", t, x, y, age, a, vent, 2 * x - y + 1))
            x = 0.8 * x + 0.3 * a - 0.1 * vent + 0.1 * rng.normal()
            y = 0.9 * y + 0.1 * age + 0.1 * rng.normal()
    names = ["episode_id", "t", "x", "y", "age", "a", "vent", "r"]
    return pl.DataFrame(rows, schema=names, orient="row")


CONTINUOUS = Schema(
    (
        Column("x", "state", missing="mean"),
        Column("y", "state"),
        Column("age", "fixed"),
        Column("a", "action", levels=(0.0, 1.0, 2.0)),
        Column("vent", "contextual"),
        Column("r", "reward"),
    )
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("world") / "world.csv"
    frame = linear_world(12)
    # A gap where the reward is not known either.
    gap = pl.when(pl.int_range(pl.len()) == 7).then(None)
    frame = frame.with_columns(x=gap.otherwise("x"), r=gap.otherwise("r"))
    frame.write_csv(path)
    return path


def test_neural_model_remembers_schema_means_and_reward(world: Path, tmp_path: Path) -> None:
    fitted = fit_continuous(world, CONTINUOUS, SMALL)
    model, summary = fitted.model, fitted.summary
    assert model.about["features"] == ["age", "x", "y"]
    assert model.about["actions"] == ["a", "vent"]
    assert model.fixed == 1
    model.save(tmp_path / "m.safetensors")
    loaded = cp.NeuralSCM.load(tmp_path / "m.safetensors")
    layout = layout_of_model(loaded)
    assert layout is not None
    assert layout.schema == CONTINUOUS
    assert layout.reward().weights == pytest.approx([0.0, 2.0, -1.0], abs=1e-9)
    assert layout.reward().constant == pytest.approx(1.0)
    known = pl.read_csv(world)["x"].drop_nulls().mean()
    assert means_of_model(loaded)["x"] == pytest.approx(known)
    assert summary == "12 episodes, 96 steps; gaps: 0 carried forward, 1 set to the mean"
    assert loaded.scaling is not None
    assert loaded.scaling.action_range.tolist() == [2.0, 1.0]


def test_neural_model_explains(world: Path) -> None:
    fitted = fit_continuous(world, CONTINUOUS, SMALL)
    model, episode = fitted.model, fitted.episodes[0]
    layout = layout_of_model(model)
    assert layout is not None
    ex = cp.explain(model, episode, k=1, actions=layout.action_set(episode), reward=layout.reward())
    assert ex.value >= ex.factual_value
    assert ex.factual_value == pytest.approx(layout.reward()(episode.states).sum())


def test_reward_that_is_not_linear(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    # In every row it would be a state of its own.
    ends = pl.col("t") == pl.col("t").max().over("episode_id")
    frame = linear_world(12).with_columns(r=pl.when(~ends).then(pl.col("x") ** 2))
    frame.write_csv(path)
    with pytest.raises(FileError, match=r"column 'r': is no linear function .* \(R² = 0\.\d+"):
        fit_continuous(path, CONTINUOUS, SMALL)
    frame.with_columns(r=pl.lit(3.0)).write_csv(path)
    with pytest.raises(FileError, match="column 'r': is 3 in every row, so nothing is better"):
        fit_continuous(path, CONTINUOUS, SMALL)


def test_reward_that_is_empty(tmp_path: Path) -> None:
    text = "episode_id,t,x,y,age,a,vent,r\ne,0,1,2,3,0,0,\nf,0,2,3,4,1,1,\n"
    with pytest.raises(FileError, match="column 'r': is empty, so nothing is known"):
        fit_continuous(write(tmp_path / "t.csv", text), CONTINUOUS, SMALL)


def test_what_is_better_and_a_reward_column_add_up(world: Path) -> None:
    columns = (Column("x", "state", missing="mean", better="lower"), *CONTINUOUS.columns[1:])
    plain, both = (
        layout_of_model(fit_continuous(world, schema, SMALL).model)
        for schema in (CONTINUOUS, Schema(columns))
    )
    assert plain is not None
    assert both is not None
    more = both.reward().weights - plain.reward().weights
    assert more == pytest.approx([0.0, -1.0, 0.0])


def test_nothing_is_read_where_nothing_is_good(tmp_path: Path) -> None:
    columns = [column for column in CONTINUOUS.columns if column.role != "reward"]
    with pytest.raises(InputError, match="does not say what is good"):
        fit_continuous(tmp_path / "absent.csv", Schema(tuple(columns)), SMALL)


def test_too_little_data(tmp_path: Path) -> None:
    text = "episode_id,t,x,a\n" + "".join(
        f"e{i},{t},{i + t},{i}\n" for i in range(2) for t in (0, 1)
    )
    with pytest.raises(FileError, match=r"t\.csv: 1 transitions to train on are too few"):
        fit_continuous(write(tmp_path / "t.csv", text), measured(), SMALL)


# --- cp.fit -------------------------------------------------------------------------------------


def test_fit_takes_files_and_frames_alike(world: Path) -> None:
    frame = pl.read_csv(world)
    models = [cp.fit(one, CONTINUOUS, members=2) for one in (world, frame, pd.read_csv(world))]
    for one in models:
        assert isinstance(one, cp.SmoothSCM)
        np.testing.assert_array_equal(one.draws, models[0].draws)
    chosen = models[0].about["training"]["chosen"]
    assert chosen.startswith("smooth: the default; networks were not tried")
    network = cp.fit(world, CONTINUOUS, learner="neural", hidden=2, epochs=1)
    assert isinstance(network, cp.NeuralSCM)
    with pytest.raises(TypeError, match="unknown argument 'member'"):
        cp.fit(world, CONTINUOUS, member=2)


def test_fit_of_discrete_states(tmp_path: Path) -> None:
    rows = "a,0,ill,rest,1\na,1,well,rest,5\na,2,ill,walk,2\n"
    table = write(tmp_path / "table.csv", HEADER + rows)
    schema = write(tmp_path / "schema.toml", schema_toml(DISCRETE))
    model = cp.fit(table, schema, prior=0.5)
    assert isinstance(model, cp.TabularMDP)
    np.testing.assert_allclose(model.row(0, 0), [0.25, 0.75])
