"""The explorer, served for a run of any kind, and what its tests do in its pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.counterfactual.continuous.setting import SequenceSetting, prepare_sequence
from counterplan.runs.explainer import DEFAULT_DOUBT, Explainer
from counterplan.runs.question import Question

from ..explorer.long_episodes import long_episodes
from ..explorer.serving import Explorer, serving
from ..runs.dose_tables import dose_run
from ..runs.models import small_scm
from ..viz.report.runs import (
    ODD,
    continuous_run,
    discrete_run,
    ensemble_run,
    explain_run,
    marked_battery,
    regret_run,
)
from .conftest import PATIENCE

# Milliseconds between two looks at a page.
PAUSE = 50
# Milliseconds in which a page that has come to rest says nothing new.
CALM = 400

Served = Callable[[str], Explorer]
MAKERS: dict[str, Callable[[Path], Path]] = {
    "continuous": lambda folder: continuous_run(folder, 30).folder,
    "discrete": lambda folder: discrete_run(folder, 70, robust=False).folder,
    "doses": dose_run,
    "members": lambda folder: ensemble_run(folder).folder,
    "voyages": lambda folder: regret_run(folder).folder,
    "drives": lambda folder: regret_run(folder, "hybrid", None).folder,
    "options": lambda folder: regret_run(folder, "options", None).folder,
    "battery": lambda folder: marked_battery(folder).folder,
    "long": lambda folder: _long(folder),
}


def _long(folder: Path) -> Path:
    scm = small_scm()
    return explain_run(folder, scm, long_episodes(scm), Question((1,), nodes=10)).folder


@contextmanager
def all_kinds(new_folder: Callable[[str], Path]) -> Iterator[Served]:
    """A server for a run of any kind, started when it is first needed."""
    opened: dict[str, Explorer] = {}
    with ExitStack() as stack:

        def serve(kind: str) -> Explorer:
            if kind not in opened:
                opened[kind] = stack.enter_context(serving(MAKERS[kind](new_folder(kind))))
            return opened[kind]

        yield serve


def open_list(page: Any, explorer: Explorer, view: str = "") -> None:
    page.goto(f"{explorer.url}/{view}")
    page.wait_for_selector("table.cases tbody tr")


def open_case(page: Any, explorer: Explorer, name: str, **settings: Any) -> None:
    page.goto("about:blank")
    page.goto(f"{explorer.url}/#/case?{urlencode({'id': name, **settings})}")
    page.wait_for_selector("h1")


def ids(page: Any) -> list[str]:
    found: list[str] = page.locator("table.cases tbody td.name").all_inner_texts()
    return found


def value(page: Any, what: str) -> float | None:
    text = page.locator(f"#value-{what}").get_attribute("data-value")
    return float(text) if text else None


def wait_for_value(page: Any, what: str, wanted: float) -> None:
    """Wait until a card shows a value, to the last bit."""
    page.wait_for_function(
        "([id, wanted]) => Number(document.getElementById(id)?.dataset.value || NaN) === wanted",
        arg=[f"value-{what}", wanted],
    )


def shown(page: Any) -> list[str]:
    """All that a case view says, but for times that it took, once it says no more."""
    parts = ("section.heading", "section.cards", "section.notices", "section.budget")
    parts += ("section.proof", "table.steps tbody")

    def read() -> list[str]:
        page.wait_for_function(
            "() => document.querySelector('section.searching')?.childElementCount === 0"
            " && document.querySelector('section.budget svg') !== null"
        )
        return [page.locator(part).inner_text() for part in parts]

    last: list[str] = []
    for _ in range(PATIENCE // CALM):
        found = read()
        if found == last:
            break
        last = found
        page.wait_for_timeout(CALM)
    return last


def improvable(explorer: Explorer, least: int = 5) -> str:
    lines = explorer.get("cases", limit=200)["lines"]
    return next(
        line["id"]
        for line in lines
        if line["steps"] >= least and len(line["changes"]) == 2 and line["id"] not in ODD
    )


def setting_of(explorer: Explorer, name: str) -> SequenceSetting:
    cases = explorer.service.items
    episode = cases.recorded(name).episode
    return prepare_sequence(
        Problem(episode=episode, k=len(episode), **cases.run.explainer.problem(episode))
    )


def explained(
    explorer: Explorer, name: str, k: int, doubt: float | None = None, **constraints: Any
) -> Any:
    explainer: Explainer = explorer.service.items.run.explainer
    episode = explorer.service.items.recorded(name).episode
    return cp.explain(
        **explainer.problem(episode),
        episode=episode,
        k=k,
        constraints=cp.Constraints(**constraints),
        **({"doubt": DEFAULT_DOUBT if doubt is None else doubt} if explainer.is_discrete else {}),
    )


def until(page: Any, read: Callable[[], Any], wanted: Any = True) -> None:
    """Wait until a page says what is wanted: charts and addresses follow a click in a moment."""
    found = read()
    for _ in range(PATIENCE // PAUSE):
        if found == wanted:
            break
        page.wait_for_timeout(PAUSE)
        found = read()
    assert found == wanted


def fits(page: Any) -> bool:
    """Whether nothing sticks out to the side."""
    wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    return bool(page.evaluate(wide))
