// The list of scenarios, and what their decisions lost.

import { h } from "./dom.js";
import { capital, count, num, show } from "./format.js";
import { field, showList, sorting, spread, tile, typing } from "./paging.js";
import { address } from "./state.js";

const AGAINST = {
  optimal: ["proved", "the optimum"],
  heuristic: ["heuristic", "best known"],
  failed: ["failed", "failed"],
};

export async function showScenarios(context) {
  const { run, ending } = context;
  await showList(context, {
    view: "scenarios",
    usual: { sort: "expected_regret" },
    top: (overview) => [
      h("h1", {}, `${capital(run.noun)}s, by what their decisions lost`),
      h("p.lead", {}, `What was ${paid(run)} in each of ${count(overview.total, run.noun)}, and what the best ${isKnown(overview) ? "decisions without foresight" : "policy known"} would have brought. `,
        `${run.sense === "min" ? "Lower" : "Higher"} is better.${run.values_in ? ` Values are in ${run.values_in}.` : ""}`),
    ],
    summary: (overview, wanted, change) => [tiles(run, overview), losses(run, overview, wanted, change, ending)],
    filters: (overview, wanted, change) => {
      const typed = typing(wanted, change);
      return [
        field(capital(run.noun), typed("search", { type: "search", placeholder: "id contains …", size: 12 })),
        field("Lost at least", typed("min", { type: "number", step: "any" })),
      ];
    },
    query: (wanted) => ({ min_expected_regret: wanted.min }),
    table: (overview, wanted, found, change) => drawTable(run, overview, wanted, found, change),
  });
}

/** The policy to compare with: nothing does better without foresight, or that is not known. */
const isKnown = (overview) => !overview.statuses.heuristic;
const paid = (run) => (run.sense === "min" ? "paid" : "earned");

function tiles(run, overview) {
  const lost = (value) => [show(value), run.values_in ? h("small", {}, ` ${run.values_in}`) : null];
  return h("dl.tiles", {},
    tile(overview.total.toLocaleString("en-US"), `${run.noun}s${overview.statuses.failed ? `, ${overview.statuses.failed} failed` : ""}`),
    tile(lost(overview.median), `median loss, ${overview.of}`),
    tile(lost(overview.mean), "mean loss"),
    tile(lost(overview.largest), "largest loss"));
}

function losses(run, overview, wanted, change, ending) {
  if (!overview.bars.length) return null;
  const texts = {
    caption: overview.of === "in expectation" ? "What decisions lost in expectation when they were made: luck is not in it" : `What decisions lost ${overview.of}`,
    label: `Losses of ${count(overview.total, run.noun)}, median ${show(overview.median)}`,
    axis: `${overview.of === "in expectation" ? "expected loss" : "loss"} (${run.quantity})`,
  };
  return spread(texts, overview.bars, wanted, change, ending);
}

function drawTable(run, overview, wanted, found, change) {
  const planned = found.lines.some((line) => line.planned !== null);
  const columns = [["id", capital(run.noun)], ["executed", capital(paid(run))], ["without_foresight", isKnown(overview) ? "Best without foresight" : "Best policy known"], planned ? ["planned", "Planner"] : null, ["hindsight", "Hindsight"], ["expected_regret", "Lost"], ["against", "Judged by"], ["costliest", "Costliest decision"]].filter(Boolean);
  const body = h("tbody", {}, found.lines.map((line) => row(line, planned)));
  return [h("tr", {}, columns.map(([key, title]) => heading(key, title, wanted, change))), body];
}

const SORTED = ["id", "executed", "hindsight", "expected_regret"];

function heading(key, title, wanted, change) {
  const isNumber = ["executed", "without_foresight", "planned", "hindsight", "expected_regret"].includes(key);
  if (SORTED.includes(key)) return sorting(key, title, isNumber, key === "id", wanted, change);
  return h(`th${isNumber ? ".number" : ""}`, { scope: "col" }, title);
}

function row(line, planned) {
  const [kind, words] = AGAINST[line.status];
  const lost = line.expected_regret ?? line.regret_policy;
  return h("tr", { "data-id": line.id },
    h("td.name", {}, h("a.row-link", { href: address("scenario", { id: line.id }) }, line.id)),
    h("td.number", {}, show(line.executed)),
    h("td.number", {}, show(line.without_foresight)),
    planned ? h("td.number", {}, show(line.planned)) : null,
    h("td.number", {}, show(line.hindsight)),
    h("td.number.gain", { "data-value": lost }, num(lost) > 0 ? h("strong.down", {}, show(lost)) : show(lost)),
    h("td", {}, h(`span.tag.${kind}`, {}, words)),
    h("td.words", {}, line.costliest ? words_of(line.costliest) : line.reason || h("span.soft", {}, line.expected_regret === 0 ? "none lost anything" : line.executed === null ? "none are given" : "not known here")));
}

/** "t=4: buy 16 units; better buy nothing" as people say it. */
export function words_of(text) {
  const [when, what] = text.split(": ");
  return [h("strong", {}, `decision ${Number(when.slice(2)) + 1}: `), (what || "").replace("; better ", ", better: ")];
}
