"""The explorer in a real browser: it shows what the library says, by mouse and by keyboard."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplan.runs.run import CaseQuery

from ..viz.report.runs import ODD
from .exploring import (
    Served,
    explained,
    fits,
    ids,
    improvable,
    open_case,
    open_list,
    setting_of,
    shown,
    until,
    value,
    wait_for_value,
)

pytestmark = pytest.mark.slow  # in a real browser

# --- The list -----------------------------------------------------------------------------------


def test_the_list(page: Any, served: Served) -> None:
    explorer = served("discrete")
    open_list(page, explorer)
    ranked = explorer.service.run.cases(CaseQuery())["episode_id"].to_list()
    until(page, lambda: ids(page), ranked[:25])
    until(page, lambda: page.locator(".found").first.inner_text(), "1–25 of 71 episodes")
    page.get_by_role("button", name="Next page").first.click()
    page.wait_for_function("() => document.querySelector('.found').textContent.startsWith('26–50')")
    until(page, lambda: ids(page), ranked[25:50])
    until(page, lambda: "page=2" in page.url)
    page.reload()
    page.wait_for_selector("table.cases tbody tr")
    until(page, lambda: ids(page), ranked[25:50])
    until(page, lambda: fits(page))
    # Without a change nothing is better: a sentence says so instead of one bar.
    page.goto(page.url.replace("page=2", "k=0"))
    page.wait_for_selector("p.alike")
    assert "It is 0 in each of 70" in page.locator("p.alike").inner_text()
    assert not page.locator("figure.spread svg").count()


def test_filters_and_order(page: Any, served: Served) -> None:
    explorer = served("discrete")
    open_list(page, explorer)

    def expect(**wanted: Any) -> None:
        lines = explorer.get("cases", limit=25, **wanted)["lines"]
        wanted_ids = [line["id"] for line in lines]
        page.wait_for_function(
            "wanted => JSON.stringify([...document.querySelectorAll('table.cases td.name')]"
            ".map((one) => one.innerText)) === JSON.stringify(wanted)",
            arg=wanted_ids,
        )

    page.select_option("#support", "yes")
    expect(support="yes")
    page.fill("#min", "0.2")
    expect(support="yes", min_improvement=0.2)
    page.select_option("#outcome-cured", "cured=1")
    expect(support="yes", min_improvement=0.2, outcome="cured=1")
    page.get_by_role("button", name="Observed").click()
    expect(support="yes", min_improvement=0.2, outcome="cured=1", sort="factual", descending=False)
    # Another window shows the same list.
    url = page.url
    page.goto("about:blank")
    page.goto(url)
    page.wait_for_selector("table.cases tbody tr")
    expect(support="yes", min_improvement=0.2, outcome="cured=1", sort="factual", descending=False)
    until(page, lambda: page.locator("#min").input_value(), "0.2")
    page.get_by_role("button", name="Clear").click()
    expect()
    page.select_option("#status", "failed")
    expect(status="failed")
    until(page, lambda: "state" in page.locator("td.words").inner_text())
    # Who goes on before the list has followed stays where he has gone.
    page.fill("#search", "lost")
    page.locator("a.row-link").first.click()
    page.wait_for_selector("text=could not be explained")
    page.wait_for_timeout(500)
    until(page, lambda: "#/case?" in page.url)
    page.click("text=All episodes")
    page.fill("#search", "nothing like that")
    page.wait_for_selector("p.empty")


def test_names_that_are_markup_are_text(page: Any, served: Served) -> None:
    explorer = served("discrete")
    open_list(page, explorer)
    for name in ODD:
        page.fill("#search", name)
        page.wait_for_function(
            "name => [...document.querySelectorAll('td.name')].some((a) => a.innerText === name)",
            arg=name,
        )
        open_case(page, explorer, name)
        page.wait_for_function(
            "name => document.querySelector('h1').textContent === name", arg=f"Episode {name}"
        )
        open_list(page, explorer)
    assert page.evaluate("document.querySelectorAll('main script, main img, main b').length") == 0


# --- A case -------------------------------------------------------------------------------------


def test_k_moves_through_the_run_and_beyond_it(page: Any, served: Served) -> None:
    explorer = served("continuous")
    name = improvable(explorer)
    open_case(page, explorer, name)
    budgets = {one["k"]: one["value"] for one in explorer.get("case", id=name)["budgets"]}
    assert set(budgets) == {0, 1, 2}
    wait_for_value(page, "best", budgets[2])
    for k in (1, 0, 1, 2):
        page.locator("#k").fill(str(k))
        wait_for_value(page, "best", budgets[k])
        until(page, lambda k=k: f"k={k}" in page.url)
    # The run has no answer for three: it is searched for.
    page.locator("#k").fill("3")
    wait_for_value(page, "best", explained(explorer, name, 3).value)
    setting = setting_of(explorer, name)
    until(page, lambda: value(page, "observed"), setting.outcomes(setting.observed[None]))
    before = shown(page)
    page.reload()
    wait_for_value(page, "best", explained(explorer, name, 3).value)
    until(page, lambda: shown(page), before)


def test_an_action_is_edited_by_hand(page: Any, served: Served) -> None:
    explorer = served("continuous")
    name = improvable(explorer)
    setting = setting_of(explorer, name)
    open_case(page, explorer, name)
    page.wait_for_selector("#action-1-0")
    actions = setting.observed.copy()
    for t, action in ((1, 2), (3, 0), (1, 1)):
        action = (action + int(setting.observed[t] == action)) % 3
        page.select_option(f"#action-{t}-0", str(action))
        actions[t] = action
        wait_for_value(page, "hand", float(setting.outcomes(actions[None])[0]))
    model = setting.members[0]
    states = model.in_episode_units(model.trajectories(actions[None])[0])
    level = 1  # the feature that is shown first: it says what is better
    cells = page.locator("table.steps td.hand")
    until(
        page,
        lambda: [float(cells.nth(t).get_attribute("data-value")) for t in range(cells.count())],
        states[:, level].tolist(),
    )
    until(page, lambda: page.locator("g.dot.hand").count() > len(states))
    before = shown(page)
    page.reload()
    wait_for_value(page, "hand", float(setting.outcomes(actions[None])[0]))
    until(page, lambda: shown(page), before)
    page.click("#take-best")
    best = explorer.get("case", id=name)["answer"]
    wait_for_value(page, "hand", best["value"])
    until(page, lambda: "as good as the best" in page.locator(".card.hand").inner_text())
    page.click("#clear-edits")
    page.wait_for_function("() => document.getElementById('value-hand').dataset.value === ''")
    until(page, lambda: "edit=" not in page.url)


def test_a_dose_is_moved_typed_and_limited(page: Any, served: Served) -> None:
    explorer = served("doses")
    case = explorer.get("case", id="s0")
    doses = [*case["observed"]["actions"][1]]

    def led_to() -> float:
        edits = [{"t": 1, "action": doses}]
        return float(explorer.post("what-if", {"id": "s0", "edits": edits})["answer"]["value"])

    open_case(page, explorer, "s0")
    slider, number = page.locator("#action-1-0"), page.locator("#amount-1-0")
    slider.focus()
    page.keyboard.press("ArrowRight")
    until(page, lambda: slider.input_value() == f"{float(number.input_value()):g}")
    doses[0] = float(slider.input_value())
    wait_for_value(page, "hand", led_to())
    assert page.evaluate("document.activeElement.id") == "action-1-0"
    assert slider.get_attribute("aria-valuetext") == f"{doses[0]:.1f} mg/h"
    page.locator("#amount-1-1").fill("500")  # more than there is
    page.locator("#amount-1-1").press("Enter")
    doses[1] = 40.0
    wait_for_value(page, "hand", led_to())
    until(page, lambda: "Your plan leaves the data" in page.locator(".notices").inner_text())
    before = shown(page)
    page.reload()
    wait_for_value(page, "hand", led_to())
    until(page, lambda: shown(page), before)
    page.click("#take-best")
    wait_for_value(page, "hand", case["answer"]["value"])
    page.click("#forbid summary")
    page.locator("#limit-0-1").fill("30")
    page.locator("#limit-0-1").press("Tab")
    until(page, lambda: "doses limited" in page.locator(".rules-head").first.inner_text())
    page.click("#resolve")
    page.wait_for_selector("text=under your rules")
    until(page, lambda: "ranges=0%3A30%3A0%3A40" in page.url)
    best = page.locator("tr.changed strong.best-action").all_inner_texts()
    assert all(float(text.split("→ ")[1].split(" ")[0]) <= 30.0 for text in best)


def test_solved_again_under_rules(page: Any, served: Served) -> None:
    explorer = served("continuous")
    name = improvable(explorer)
    change = explorer.get("case", id=name)["answer"]["changes"][0]
    open_case(page, explorer, name)
    page.wait_for_selector("#resolve")
    page.check(f"#keep-{change['t']}")
    page.click("#forbid summary")
    page.check(f"#forbid-{change['alternative']}")
    until(page, lambda: "not applied yet" in page.locator(".rules-head").first.inner_text())
    page.click("#resolve")
    allowed = np.ones(3, dtype=np.bool_)
    allowed[change["alternative"]] = False
    found = explained(explorer, name, 2, allowed=allowed, fixed_steps=[change["t"]])
    wait_for_value(page, "best", found.value)
    page.wait_for_selector("text=under your rules")
    words = page.locator(".proof .changes").first
    until(page, lambda: words.inner_text().count("→"), len(found.changes))
    before = shown(page)
    page.reload()
    page.wait_for_selector("text=under your rules")
    until(page, lambda: shown(page), before)
    page.click("#clear-rules")
    wait_for_value(page, "best", explorer.get("case", id=name)["answer"]["value"])


def test_claims_are_told_with_bands_and_what_they_rest_on(page: Any, served: Served) -> None:
    explorer = served("members")
    open_list(page, explorer)
    lines = explorer.get("cases")["lines"]
    until(page, lambda: ids(page), [line["id"] for line in lines])
    name = next(line["id"] for line in lines if line["changes"])
    open_case(page, explorer, name)
    answer = explorer.get("case", id=name)["answer"]
    wait_for_value(page, "best", answer["value"])
    card = page.locator(".card.best")
    until(page, lambda: answer["claim"] in card.inner_text())
    until(page, lambda: "90 %" in card.inner_text())
    until(page, lambda: page.locator("#holds").inner_text(), answer["holds"])
    # What it rests on has bands of its own, and may be there already.
    until(page, lambda: page.locator("path.band.best").count() > 0)
    page.wait_for_selector(".rests-words")
    until(page, lambda: page.locator(".rests-charts svg").count(), 2)
    taken = explorer.get("case", id=name)["observed"]["actions"][0]
    action = next(one for one in range(3) if one != taken)
    page.select_option("#action-0-0", str(action))
    page.wait_for_selector("path.band.hand")
    until(page, lambda: "90 %" in page.locator(".card.hand").inner_text())
    until(page, lambda: fits(page))


def test_the_dial_is_turned(page: Any, served: Served) -> None:
    explorer = served("discrete")
    name = improvable(explorer)
    open_case(page, explorer, name)
    page.wait_for_selector(".rests-words")
    page.locator("#dial").fill("1")
    until(page, lambda: "doubt 1" in page.locator(".rules-head").first.inner_text())
    page.click("#resolve")
    found = explained(explorer, name, 2, doubt=1.0)
    wait_for_value(page, "best", found.value)
    page.wait_for_selector("text=under your rules")
    until(page, lambda: "dial=1" in page.url)
    before = shown(page)
    page.reload()
    page.wait_for_selector("text=under your rules")
    until(page, lambda: shown(page), before)


def test_a_search_is_cancelled(page: Any, served: Served) -> None:
    explorer = served("long")

    def is_question(response: Any) -> bool:
        return bool(response.request.method == "POST")

    with page.expect_response(is_question) as asked:
        open_case(page, explorer, "long 0", k=12)
    first = asked.value.json()["job"]
    page.wait_for_selector("text=best so far", timeout=60_000)
    until(page, lambda: page.locator("progress").count(), 1)
    # The button has the focus, and keeps it while what stands beside it changes.
    told = page.locator(".reached").inner_text()
    page.wait_for_function(
        "told => document.querySelector('.reached').innerText !== told", arg=told
    )
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Cancelled.")
    page.wait_for_function(
        "() => document.querySelector('section.searching').childElementCount === 0"
    )
    assert explorer.wait(first)["state"] == "cancelled"
    # Going elsewhere ends a search, too.
    with page.expect_response(is_question) as asked:
        page.click("#resolve")
    second = asked.value.json()["job"]
    page.wait_for_selector("text=best so far", timeout=60_000)
    page.click("text=All episodes")
    page.wait_for_selector("table.cases tbody tr")
    assert explorer.wait(second)["state"] == "cancelled"
    # So does closing the page, and going on before the server has answered at all.
    with page.expect_response(is_question) as asked:
        open_case(page, explorer, "long 0", k=11)
    third = asked.value.json()["job"]
    page.wait_for_selector("progress")
    page.goto("about:blank")
    assert explorer.wait(third)["state"] == "cancelled"
    with page.expect_response(is_question) as asked:
        with page.expect_request("**/api/jobs"):
            open_case(page, explorer, "long 0", k=10)
        page.evaluate("location.hash = '#/'")
    assert explorer.wait(asked.value.json()["job"])["state"] == "cancelled"
    with page.expect_request("**/api/jobs") as sent:
        open_case(page, explorer, "long 0", k=9)
    page.goto("about:blank")
    name = sent.value.post_data_json["job"]
    until(page, lambda: explorer.client.get(f"/api/jobs/{name}").status_code, 200)
    assert explorer.wait(name)["state"] == "cancelled"


def test_a_view_is_the_same_in_another_browser(page: Any, browser: Any, served: Served) -> None:
    explorer = served("continuous")
    name = improvable(explorer)
    open_case(page, explorer, name, k=2, feature=2)
    page.wait_for_selector("#k")
    page.locator("#k").fill("3")
    wait_for_value(page, "best", explained(explorer, name, 3).value)
    observed = int(setting_of(explorer, name).observed[1])
    page.select_option("#action-1-0", str((observed + 1) % 3))
    page.wait_for_selector("tr.edited")
    page.check("#keep-0")
    for said in ("not applied yet", "under your rules"):
        page.wait_for_selector(f"text={said}")
        context = browser.new_context(viewport={"width": 1366, "height": 768})
        other = context.new_page()
        other.goto(page.url)
        other.wait_for_selector(f"text={said}")
        other.wait_for_selector("tr.edited")
        wait_for_value(other, "best", value(page, "best") or 0.0)
        assert shown(other) == shown(page)
        assert other.locator("#feature").input_value() == "2"
        assert other.locator("#keep-0").is_checked()
        context.close()
        page.click("#resolve")


def test_a_discrete_case(page: Any, served: Served) -> None:
    explorer = served("discrete")
    name = improvable(explorer)
    open_case(page, explorer, name)
    found = explained(explorer, name, 2)
    wait_for_value(page, "best", found.value)
    observed = int(explorer.service.items.recorded(name).episode.actions[1])
    page.select_option("#action-1-0", str((observed + 1) % 3))
    answer = explorer.post(
        "what-if", {"id": name, "edits": [{"t": 1, "action": (observed + 1) % 3}]}
    )
    wait_for_value(page, "hand", answer["answer"]["value"])
    until(page, lambda: fits(page))


def test_what_went_wrong_is_told(browser: Any, served: Served) -> None:
    """The browser notes answers that are no answers; the page says why."""
    explorer = served("discrete")
    page = browser.new_page()
    for view, says in (
        ("#/case?id=nobody", "the run has no episode 'nobody'"),
        ("#/case?id=lost-one", "could not be explained"),
        ("#/nowhere", "There is no such view."),
        ("#/cases?k=9", "the run has answers for k = 0, 1, 2, not for 9"),
        ("#/case?id=e7&edit=99.0", "step 99 has no decision to edit"),
    ):
        page.goto("about:blank")
        page.goto(f"{explorer.url}/{view}")
        page.wait_for_selector(f"[role=alert]:has-text({says!r})")
    page.close()


def test_by_keyboard_alone(page: Any, served: Served) -> None:
    explorer = served("continuous")
    open_list(page, explorer)
    page.keyboard.press("Tab")
    until(page, lambda: page.evaluate("document.activeElement.textContent"), "Skip to the content")
    page.keyboard.press("Enter")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('a.row-link')"):
            break
    listed = ids(page)
    until(page, lambda: page.evaluate("document.activeElement.textContent"), listed[0])
    page.keyboard.press("End")
    until(page, lambda: page.evaluate("document.activeElement.textContent"), listed[-1])
    page.keyboard.press("Home")
    wanted = listed.index(improvable(explorer))
    for _ in range(wanted):
        page.keyboard.press("ArrowDown")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    until(page, lambda: page.evaluate(outline), "solid")
    page.keyboard.press("Enter")
    page.wait_for_selector("#k")
    name = listed[wanted]
    _tab_to(page, "#k")
    page.keyboard.press("ArrowLeft")
    wait_for_value(page, "best", explorer.get("case", id=name, k=1)["answer"]["value"])
    until(page, lambda: page.evaluate("document.activeElement.id"), "k")
    _tab_to(page, "#keep-0")
    page.keyboard.press("Space")
    page.wait_for_selector("text=not applied yet")
    until(page, lambda: page.evaluate("document.activeElement.id"), "keep-0")
    _tab_to(page, "#resolve", back=True)
    page.keyboard.press("Enter")
    wait_for_value(page, "best", explained(explorer, name, 1, fixed_steps=[0]).value)
    setting = setting_of(explorer, name)
    _tab_to(page, "#action-0-0")
    step = "ArrowUp" if setting.observed[0] == 2 else "ArrowDown"
    page.keyboard.press(step)
    actions = setting.observed.copy()
    actions[0] += -1 if step == "ArrowUp" else 1
    wait_for_value(page, "hand", float(setting.outcomes(actions[None])[0]))
    until(page, lambda: page.evaluate("document.activeElement.id"), "action-0-0")


def _tab_to(page: Any, selector: str, back: bool = False) -> None:
    for _ in range(150):
        if page.evaluate(f"document.activeElement.matches({selector!r})"):
            return
        page.keyboard.press("Shift+Tab" if back else "Tab")
    raise AssertionError(selector)


@pytest.mark.parametrize("kind", ["continuous", "discrete", "doses", "voyages"])
def test_everything_has_a_name(page: Any, served: Served, kind: str) -> None:
    """For those who hear the page."""
    explorer = served(kind)
    nameless = """() => {
        const parts = document.querySelectorAll("main input, main select, main button, svg.chart");
        const name = (one) => one.getAttribute("aria-label") || one.textContent.trim();
        return [...parts].filter((one) => !name(one) && !one.labels?.length)
            .map((one) => one.outerHTML);
    }"""
    open_list(page, explorer)
    until(page, lambda: page.evaluate(nameless), [])
    first = ids(page)[0]
    page.locator("table.cases a.row-link").first.click()
    # The list has a heading and a chart of its own: wait for those of the case.
    page.wait_for_function(
        "name => document.querySelector('h1')?.textContent.endsWith(name)", arg=first
    )
    page.wait_for_selector("svg.chart")
    until(page, lambda: page.evaluate(nameless), [])
    until(page, lambda: page.evaluate("document.querySelectorAll('h1').length"), 1)
    until(page, lambda: page.evaluate("document.documentElement.lang"), "en")
