// The list of cases: filters, order, pages.

import { h } from "./dom.js";
import { arrows, capital, count, decimals, fixed, gain, num, percent, show } from "./format.js";
import { field, showList, sorting, spread, tile, typing } from "./paging.js";
import { address } from "./state.js";

/** How a search ended, in the run's words. */
export function searchTag(run, status) {
  const [words, why] = run.statuses[status];
  return h(`span.tag.${status === "optimal" ? "proved" : status}`, { title: `The search: ${why}.` }, words);
}

/** How sure an improvement is, told by words and by a sign, not by colour alone. */
export const CLAIM = {
  established: ["seen", "All of its interval is an improvement."],
  "not established": ["new", "Its interval reaches down to no improvement, or is not known."],
  "no change": ["none", "No change was found that helps."],
};

export function claimTag(answer) {
  const [kind, why] = CLAIM[answer.claim] || ["failed", "There is no answer."];
  return h(`span.tag.${kind}`, { title: why }, answer.claim || "none");
}

/** Draw the list. */
export async function showCases(context) {
  const { run, ending } = context;
  await showList(context, {
    view: "cases",
    usual: { k: "", status: "", support: "", sure: "", changes: "", changed: "", outcome: "", sort: "low" },
    top: (overview) => [
      h("h1", {}, `${capital(run.noun)}s worth a look`),
      h("p.lead", {}, `What should have been done differently in each of ${count(overview.total, run.noun)}, with at most `,
        h("strong", {}, count(overview.k, "change")), ", according to the model. ", run.quantity === "outcome" ? "A higher outcome is better." : `Outcome: ${run.quantity}; higher is better.`),
    ],
    summary: (overview, wanted, change) => [tiles(run, overview), spread(words(run, overview), overview.bars, wanted, change, ending)],
    filters: (overview, wanted, change) => filters(run, overview, wanted, change),
    query: (wanted) => ({
      k: wanted.k, status: wanted.status, min_improvement: wanted.min, support: wanted.support, established: wanted.sure,
      max_changes: wanted.changes, changed: wanted.changed, outcome: wanted.outcome ? wanted.outcome.split("&") : [],
    }),
    table: (overview, wanted, found, change) => drawTable(run, overview, wanted, found, change),
  });
}

function tiles(run, overview) {
  const total = overview.total || 1;
  const failed = overview.statuses.failed || 0;
  return h("dl.tiles", {},
    tile(overview.total.toLocaleString("en-US"), `${run.noun}s${failed ? `, ${failed} failed` : ""}`),
    tile(overview.established === null ? "not known" : overview.established.toLocaleString("en-US"), "with an established improvement"),
    tile(gain(overview.median), overview.established === null ? "median improvement by the model" : "median of what is vouched for"),
    overview.supported === null ? null : tile(percent(overview.supported / total), "with data under the explanation"));
}

function words(run, overview) {
  return {
    caption: overview.established === null
      ? `How much better each ${run.noun} could have been by the model alone; click to keep the tail`
      : `How much better each ${run.noun} could have been at least: ${run.discrete ? "guaranteed" : "the lower end of the interval"}; click to keep the tail`,
    label: `Improvements of ${count(overview.total, run.noun)}, median ${show(overview.median)}, largest ${show(overview.largest)}`,
    axis: run.quantity === "outcome" ? "improvement of the outcome" : `improvement (${run.quantity})`,
  };
}

function filters(run, overview, wanted, change) {
  const typed = typing(wanted, change);
  const choice = (key, options) => chooser(key, options, wanted[key], (value) => change({ [key]: value }));
  const outcomes = Object.entries(overview.outcomes).filter(([, values]) => values.length > 1);
  return [
    field(capital(run.noun), typed("search", { type: "search", placeholder: "id contains …", size: 12 })),
    run.budgets.length > 1 ? field("Changes allowed", choice("k", run.budgets.map((k) => [k === run.budgets.at(-1) ? "" : String(k), `k = ${k}`]).reverse())) : null,
    field("Search", choice("status", [["", "any"], ...Object.entries(run.statuses).map(([key, [words]]) => [key, words])])),
    overview.established === null ? null : field("Claim", choice("sure", [["", "any"], ["yes", "established"], ["no", "not established"]])),
    field("Better by at least", typed("min", { type: "number", step: "any", inputmode: "decimal" })),
    field("Changes at most", typed("changes", { type: "number", min: 0, max: 1000000, step: 1 })),
    overview.supported === null ? null : field("Data", choice("support", [["", "any"], ["yes", "supported"], ["no", "not supported"]])),
    field("Change of", typed("changed", { type: "search", placeholder: run.doses[0]?.name || "action", size: 11 })),
    outcomes.map(([name, values]) => field(capital(name), chooser(`outcome-${name}`, [["", "any"], ...values.map((value) => [`${name}=${value}`, outcomeWord(value, values)])],
      wanted.outcome.split("&").find((one) => one.startsWith(`${name}=`)) || "",
      (value) => change({ outcome: [...wanted.outcome.split("&").filter((one) => one && !one.startsWith(`${name}=`)), value].filter(Boolean).join("&") })))),
    h("button.quiet", { type: "button", onclick: () => { location.hash = "#/cases"; if (location.hash === "#/cases") dispatchEvent(new HashChangeEvent("hashchange")); } }, "Clear"),
  ];
}

function chooser(key, options, chosen, act) {
  return h("select", { id: key, onchange: (event) => act(event.target.value) },
    options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
}

/** 0 and 1 are no and yes. */
export function outcomeWord(value, values = ["0", "1"]) {
  const isFlag = values.every((one) => one === "0" || one === "1");
  return isFlag ? { 0: "no", 1: "yes" }[value] ?? value : value;
}

const COLUMNS = [
  ["id", null],
  ["outcomes", null],
  ["steps", "Steps"],
  ["factual", null],
  ["low", "At least"],
  ["improvement", "Expected"],
  ["claim", "Claim"],
  ["gap", "Search"],
  ["support", "Data"],
  ["changes", "What should have been different"],
];

function drawTable(run, overview, wanted, found, change) {
  const outcomes = Object.keys(found.lines[0]?.outcomes || {});
  const head = h("tr", {}, COLUMNS.flatMap(([key, title]) => {
    if (key === "outcomes") return outcomes.map((name) => h("th", { scope: "col" }, capital(name)));
    if (key === "support") return overview.supported === null ? [] : [h("th", { scope: "col" }, title)];
    if (key === "claim") return [h("th", { scope: "col" }, title)];
    if (key === "low") return overview.established === null ? [] : [heading(key, run.discrete ? "Guaranteed" : "At least", wanted, change)];
    return [heading(key, key === "factual" ? run.as_done : title ?? capital(run.noun), wanted, change)];
  }));
  const largest = Math.max(num(overview.largest), 0) || 1;
  const digits = {
    values: decimals(found.lines.map((line) => line.factual)),
    gains: decimals([overview.largest]),
  };
  const body = h("tbody", {}, found.lines.map((line) => row(run, overview, wanted, line, outcomes, largest, digits)));
  return [head, body];
}

function heading(key, title, wanted, change) {
  const isNumber = ["steps", "factual", "low", "improvement"].includes(key);
  return sorting(key, title, isNumber, key === "id" || key === "factual", wanted, change);
}

function row(run, overview, wanted, line, outcomes, largest, digits) {
  const to = address("case", { id: line.id, k: wanted.k });
  const better = num(line.improvement);
  const sure = line.low === null ? better : num(line.low);
  const share = Number.isFinite(sure) ? Math.max(0, Math.min(1, sure / largest)) : 0;
  return h("tr", { "data-id": line.id },
    h("td.name", {}, h("a.row-link", { href: to }, line.id)),
    outcomes.map((name) => h("td", {}, outcomeWord(line.outcomes[name] ?? "–"))),
    h("td.number", {}, line.steps),
    h("td.number", {}, fixed(line.factual, digits.values)),
    overview.established === null ? null : h("td.number.gain", { "data-value": line.low }, h("span", {}, num(line.low) > 0 ? "+" : "", fixed(line.low, digits.gains)), shareBar(share)),
    h("td.number.gain", { "data-value": line.improvement }, h("span", {}, better > 0 ? "+" : "", fixed(line.improvement, digits.gains)),
      line.high === null ? null : h("small", {}, `up to ${gain(line.high)}`), overview.established === null ? shareBar(share) : null),
    h("td", {}, claimTag(line)),
    h("td", {}, searchTag(run, line.status), line.status === "limit" ? h("small", {}, `at most ${fixed(line.gap, digits.gains)} more`) : null),
    overview.supported === null ? null : h("td", {}, support(line)),
    h("td.words", {}, line.status === "failed" ? line.reason : changes(line.changes)));
}

function shareBar(share) {
  const inside = h("i");
  inside.style.width = `${Math.round(100 * share)}%`;
  return h("span.share", { "aria-hidden": "true" }, inside);
}

export function support(line) {
  if (line.supported === null) return "–";
  if (line.supported) return h("span.tag.seen", { title: "There is data under all of it." }, "seen");
  const why = line.far ? "far from data" : line.new_actions ? `${line.new_actions} new` : "new pairs";
  return h("span.tag.new", { title: "The explanation leaves the data: it takes actions or comes to states that are hardly in it." }, why);
}

function changes(texts) {
  if (!texts.length) return h("span.soft", {}, "nothing would have helped");
  const shown = texts.slice(0, 3).map((text) => h("div", {}, arrows(text)));
  return texts.length > 3 ? [...shown, h("div.soft", {}, `and ${texts.length - 3} more`)] : shown;
}
