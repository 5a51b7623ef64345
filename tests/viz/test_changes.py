"""A strip shows how often steps are changed, above the states of the episodes."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from counterplan.viz import change_strip_figure, style
from counterplan.viz.changes import StateBand, draw_change_strip

from .results import (
    FIGURES,
    drugs,
    layout,
    mortal,
    policy,
    policy_rows,
    problem,
    sequence,
    sequence_rows,
    texts,
)

LEVELS = np.array([0.0, 1.0, 2.0, 4.0])


def changed(figure: Figure) -> list[float]:
    """The heights of the bars."""
    return [bar.get_height() for bar in figure.axes[0].containers[0]]


def bands(figure: Figure) -> dict[str, list[str]]:
    """The texts in the cells of each band."""
    lower = figure.axes[1]
    found: dict[str, list[str]] = {label.get_text(): [] for label in lower.get_yticklabels()}
    for text in lower.texts:
        found[list(found)[int(text.get_position()[1])]].append(text.get_text())
    return found


def ticks(figure: Figure) -> list[str]:
    return [label.get_text() for label in figure.axes[1].get_xticklabels()]


def numbers(levels: np.ndarray) -> list[str]:
    return [f"{level:.3g}" for level in levels]


def test_a_policy_with_the_names_of_its_schema() -> None:
    figure = FIGURES["change strip"]()
    np.testing.assert_allclose(changed(figure), policy().change_probabilities().sum(axis=1))
    sampled = LEVELS[policy().sample(1_000, seed=0).states]
    assert bands(figure) == {
        "observed": numbers(LEVELS[policy().episode.states]),
        "likeliest": numbers(LEVELS[policy().most_likely.states]),
        "average": numbers(sampled.mean(axis=0)),
    }
    lower = figure.axes[1]
    assert lower.get_title() == "ill (points): darker is worse"
    assert ticks(figure) == ["0", "4", "8", "12", "16"]
    assert lower.get_xlabel() == "time (h)"
    shades = [sum(to_rgb(cell.get_facecolor())) for cell in lower.patches[:5]]
    order = np.argsort(LEVELS[policy().episode.states], kind="stable")
    assert np.all(np.diff(np.array(shades)[order]) <= 0), "more severe is darker"
    rows = change_strip_figure(policy_rows(), layout())
    assert (changed(rows), ticks(rows)) == (changed(figure), ticks(figure))
    assert [*bands(rows).values()] == [*bands(figure).values()][:2]


def test_a_sequence_changes_for_sure() -> None:
    for found in (sequence(), sequence_rows()):
        figure = change_strip_figure(found, drugs(), feature="burden")
        assert set(np.flatnonzero(changed(figure))) == {change.t for change in sequence().changes}
        assert bands(figure) == {
            "observed": numbers(problem().episode.states[:, 0]),
            "counterfactual": numbers(sequence().states[:, 0]),
        }
        assert figure.axes[1].get_title() == "burden: darker is higher"


def test_shades_rise_with_levels() -> None:
    band = StateBand("x", np.array([0.0, 5.0, 10.0]), ["a", "b", "c"])
    figure = draw_change_strip(np.array([0.0, 0.5, 1.0]), [band], "x", range(3), "step")
    expected = [to_rgb(style.severity_colours()(shade)) for shade in (0.0, 0.5, 1.0)]
    assert [to_rgb(cell.get_facecolor()) for cell in figure.axes[1].patches] == expected


def test_an_episode_that_is_over_has_no_more_cells() -> None:
    found = bands(change_strip_figure(policy(), mortal()))
    for name, states in (
        ("observed", policy().episode.states),
        ("likeliest", policy().most_likely.states),
    ):
        if 3 in states:
            assert found[name].index("died") == len(found[name]) - 1 == np.argmax(states == 3)


def test_long_strips_stay_on_the_page() -> None:
    steps = 60
    band = StateBand("x", np.r_[np.arange(59.0), np.nan], [*["text"] * 59, "died"])
    figure = draw_change_strip(np.full(steps, 0.001), [band], "x", range(steps), "step")
    assert figure.get_figwidth() <= 11.0
    assert texts(figure) == ["died"], "what does not fit is left out, but for how it ends"
    assert len(figure.axes[1].get_xticks()) <= 24
