// The list of scenarios, and what their decisions lost.

import { get } from "./api.js";
import { calmly, fill, h, say } from "./dom.js";
import { capital, count, num, show } from "./format.js";
import { pager, walkRows } from "./paging.js";
import { spread } from "./spread.js";
import { address, note } from "./state.js";

const PAGE = 25;
const AGAINST = {
  optimal: ["proved", "the optimum"],
  heuristic: ["heuristic", "best known"],
  failed: ["failed", "failed"],
};

export async function showScenarios({ run, settings, place, ending }) {
  const wanted = {
    search: settings.get("search") || "",
    min: settings.get("min") || "",
    sort: settings.get("sort") || "expected_regret",
    up: settings.get("up") || "",
    page: Number(settings.get("page")) || 1,
  };
  const overview = await get("overview", {}, ending.signal);
  const table = h("div");
  const summary = h("div");
  let asked = null;

  async function change(more, keepPage = false) {
    if (ending.signal.aborted) return;
    Object.assign(wanted, more, keepPage ? {} : { page: 1 });
    drawSummary();
    note("scenarios", { ...wanted, sort: wanted.sort === "expected_regret" ? "" : wanted.sort, page: wanted.page > 1 ? wanted.page : "" });
    asked?.abort();
    asked = new AbortController();
    try {
      const found = await get("scenarios", { search: wanted.search, min_expected_regret: wanted.min, sort: wanted.sort, descending: wanted.up ? "false" : "true", offset: (wanted.page - 1) * PAGE, limit: PAGE }, asked.signal);
      if (ending.signal.aborted) return;
      fill(table, drawTable(run, wanted, found, change));
      say(`${count(found.total, run.noun)} found`);
    } catch (problem) {
      if (problem.name !== "AbortError") fill(table, h("p.wrong", { role: "alert" }, problem.message));
    }
  }

  function drawSummary() {
    fill(summary, tiles(run, overview), losses(run, overview, wanted, change, ending));
  }

  const later = calmly(250, change);
  const typed = (key, attributes) => h("input", { id: key, value: wanted[key], oninput: (event) => event.target.validity.valid && later({ [key]: event.target.value.trim() }), ...attributes });
  fill(place,
    h("h1", {}, `${capital(run.noun)}s, by what their decisions lost`),
    h("p.lead", {}, `What was ${paid(run)} in each of ${count(overview.total, run.noun)}, and what the best decisions without foresight would have brought. `,
      `${run.sense === "min" ? "Lower" : "Higher"} is better.`),
    summary,
    h("form.filters", { "aria-label": "Filters", onsubmit: (event) => event.preventDefault() },
      h("label.field", {}, h("span", {}, capital(run.noun)), typed("search", { type: "search", placeholder: "id contains …", size: 12 })),
      h("label.field", {}, h("span", {}, "Lost at least"), typed("min", { type: "number", step: "any" }))),
    table);
  await change({}, true);
}

const paid = (run) => (run.sense === "min" ? "paid" : "earned");

function tiles(run, overview) {
  const tile = (value, text) => h("div", {}, h("dd", {}, value), h("dt", {}, text));
  return h("dl.tiles", {},
    tile(overview.total.toLocaleString("en-US"), `${run.noun}s${overview.statuses.failed ? `, ${overview.statuses.failed} failed` : ""}`),
    tile(show(overview.median), "median loss, in expectation"),
    tile(show(overview.mean), "mean loss"),
    tile(show(overview.largest), "largest loss"));
}

function losses(run, overview, wanted, change, ending) {
  if (!overview.bars.length) return null;
  const texts = {
    caption: "What decisions lost in expectation when they were made: luck is not in it",
    label: `Losses of ${count(overview.total, run.noun)}, median ${show(overview.median)}`,
    axis: `expected loss (${run.quantity})`,
  };
  return spread(texts, overview.bars, wanted, change, ending);
}

function drawTable(run, wanted, found, change) {
  if (!found.total) return h("p.empty", {}, `No ${run.noun} meets all of these conditions.`);
  const pages = Math.max(1, Math.ceil(found.total / PAGE));
  const planned = found.lines.some((line) => line.planned !== null);
  const columns = [["id", capital(run.noun)], ["executed", capital(paid(run))], ["without_foresight", "Best without foresight"], planned ? ["planned", "Planner"] : null, ["hindsight", "Hindsight"], ["expected_regret", "Lost"], ["against", "Judged by"], ["costliest", "Costliest decision"]].filter(Boolean);
  const body = h("tbody", {}, found.lines.map((line) => row(line, planned)));
  walkRows(body);
  return [
    pager(found.total, wanted.page, pages, PAGE, run.noun, (page) => change({ page }, true)),
    h("div.scroll", {}, h("table.cases", {},
      h("caption.unseen", {}, "Scenarios; arrow keys move, Enter opens"),
      h("thead", {}, h("tr", {}, columns.map(([key, title]) => heading(key, title, wanted, change)))), body)),
  ];
}

const SORTED = ["id", "executed", "hindsight", "expected_regret"];

function heading(key, title, wanted, change) {
  const isNumber = ["executed", "without_foresight", "planned", "hindsight", "expected_regret"].includes(key);
  const cell = `th${isNumber ? ".number" : ""}`;
  if (!SORTED.includes(key)) return h(cell, { scope: "col" }, title);
  const active = wanted.sort === key;
  return h(cell, { scope: "col", "aria-sort": active ? (wanted.up ? "ascending" : "descending") : "none" },
    h("button.sort", { type: "button", onclick: () => change({ sort: key, up: active ? (wanted.up ? "" : "1") : key === "id" ? "1" : "" }) }, title, active ? (wanted.up ? " ↑" : " ↓") : ""));
}

function row(line, planned) {
  const [kind, words] = AGAINST[line.status];
  return h("tr", { "data-id": line.id },
    h("td.name", {}, h("a.row-link", { href: address("scenario", { id: line.id }) }, line.id)),
    h("td.number", {}, show(line.executed)),
    h("td.number", {}, show(line.without_foresight)),
    planned ? h("td.number", {}, show(line.planned)) : null,
    h("td.number", {}, show(line.hindsight)),
    h("td.number.gain", { "data-value": line.expected_regret }, num(line.expected_regret) > 0 ? h("strong.down", {}, show(line.expected_regret)) : show(line.expected_regret)),
    h("td", {}, h(`span.tag.${kind}`, {}, words)),
    h("td.words", {}, line.costliest ? words_of(line.costliest) : line.reason || h("span.soft", {}, "none lost anything")));
}

/** "t=4: buy 16 units; better buy nothing" as people say it. */
export function words_of(text) {
  const [when, what] = text.split(": ");
  return [h("strong", {}, `decision ${Number(when.slice(2)) + 1}: `), (what || "").replace("; better ", ", better: ")];
}
