// What is said about a case in words and numbers.

import { sample } from "./chart.js";
import { h } from "./dom.js";
import { arrows, between, capital, count, gain, num, percent, show } from "./format.js";
import { claimTag, outcomeWord, searchTag } from "./list.js";

export function heading({ run, case: one, back, best }) {
  const last = num(one.times.at(-1)) - num(one.times[0]);
  const length = run.unit ? `${count(one.steps, "step")} over ${show(last)} ${run.unit}` : count(one.steps, "step");
  return [
    h("p.crumbs", {}, h("a", { href: back }, `‹ All ${run.noun}s`)),
    h("h1", {}, `${capital(run.noun)} ${one.id}`),
    h("p.lead", {}, [length, ...Object.entries(one.outcomes).map(([name, value]) => `${name}: ${outcomeWord(value ?? "not known")}`), one.filled ? `${count(one.filled, "gap")} filled in` : null].filter(Boolean).join(" · ")),
    best?.status === "failed" ? h("p.wrong", { role: "alert" }, `This ${run.noun} could not be explained: ${best.reason}`) : null,
  ];
}

/** Observed, best, and one's own, side by side. */
export function cards(view) {
  const { run, case: one, best, hand, k, search } = view;
  if (best?.status === "failed" || !one.observed.states.length) return null;
  const observed = best ? best.factual : hand?.factual ?? total(one.observed.rewards);
  const under = view.ruled ? " under your rules" : "";
  const card = (kind, title, answer, more, id) => h(`article.card.${kind}`, { "aria-label": title },
    h("h2", {}, sample(kind), title),
    h("p.big", { id, "data-value": answer?.value ?? "" }, answer ? headline(run, answer) : "–"),
    h("p.more", {}, more));
  return [
    h("div.cards-row", {},
      card("observed", run.as_done, { value: observed, factual: observed, improvement: 0 }, run.quantity, "value-observed"),
      card("best", `Best with at most ${count(k, "change")}${under}`, best, bestWords(run, best, search), "value-best"),
      card("hand", "What if", hand, handWords(view), "value-hand")),
    best ? h(`p.holds.${best.claim === "established" ? "sure" : "unsure"}`, { id: "holds" }, best.holds) : null,
  ];
}

/** What is guaranteed where that is known, otherwise what is expected. */
function headline(run, answer) {
  if (run.discrete && answer.guaranteed !== null && answer.guaranteed !== undefined && answer.changes.length) return ["≥ ", show(answer.guaranteed)];
  return show(expected(answer));
}

/** The mean over models, or over what may happen; the value that was optimised can be a more careful one. */
function expected(answer) {
  return answer.risk === null || answer.risk === undefined ? num(answer.value) : num(answer.factual) + num(answer.improvement);
}

/** An improvement with its interval, and whether it is established. */
function claimWords(run, answer) {
  const better = num(answer.improvement);
  if (answer.claim === "no change") return ["no change helps"];
  const kind = better > 0 ? "up" : better < 0 ? "down" : "even";
  const interval = between(answer);
  const sure = run.discrete
    ? [` expected (${show(expected(answer))})`, interval ? `, guaranteed ${gain(answer.low)}` : ""]
    : interval ? ` (${interval}, 90 %)` : " by one model, interval not known";
  return [h(`strong.${kind}`, {}, gain(better)), sure, answer.harm === null ? "" : ` · harm ${percent(answer.harm)}`, " ", claimTag(answer)];
}

function total(rewards) {
  return rewards.reduce((sum, reward) => sum + num(reward), 0);
}

function bestWords(run, best, search) {
  if (!best) return search ? "searching …" : "not known for this k yet";
  const ended = `search: ${best.status === "limit" ? `at most ${show(best.gap)} better is possible` : run.statuses[best.status][0]}`;
  return [claimWords(run, best), ` · ${ended}`];
}

function handWords({ run, hand, best, edits }) {
  if (!hand) return "Choose other actions in the table below, and see at once where they lead.";
  const against = best ? num(hand.value) - num(best.value) : NaN;
  const compared = !best ? "" : Math.abs(against) < 1e-9 * (1 + Math.abs(num(best.value))) ? " · as good as the best" : against < 0 ? ` · ${show(-against)} below the best` : ` · ${show(against)} above it, with ${count(edits.size, "change")}`;
  return [num(hand.improvement) === 0 ? "no difference" : claimWords(run, hand), compared, ` · ${count(hand.changes.length, "change")}`];
}

/** What to be careful about. */
export function notices({ run, case: one, best, hand, problem }) {
  const found = [];
  if (problem) found.push(["wrong", problem]);
  if (one.outside) found.push(["new", `This ${run.noun} lies far outside what the model has learned from (${one.outside}): what the model says here means nothing.`]);
  for (const [who, answer] of [["The best plan", best], ["Your plan", hand]]) {
    const words = answer ? unsupported(answer.support) : null;
    if (words) found.push(["new", `${who} leaves the data: ${words}.`]);
  }
  for (const text of new Set([best, hand].flatMap((answer) => answer?.notes || []))) found.push(["new", capital(arrows(text)) + "."]);
  return found.map(([kind, text]) => h(`p.notice.${kind}`, { role: kind === "wrong" ? "alert" : null }, text));
}

function unsupported(support) {
  if (support.supported !== false) return null;
  const reasons = [];
  if (support.new_actions) reasons.push(`${support.new_actions === 1 ? "one action was" : `${support.new_actions} actions were`} hardly ever taken there`);
  if (support.far) reasons.push(`a state is ${show(support.distance_max)} times as far from the data as patients usually are from each other`.replace("patients", "episodes"));
  if (num(support.unseen) > 0.05) reasons.push(`with ${percent(support.unseen)} probability it takes an action in a state in which nobody took it`);
  return reasons.join("; ") || "there is hardly any data under it";
}

/** Changes in words, the certificate, and the data under it. */
export function proof(view) {
  const { best, hand, run } = view;
  if (!best || best.status === "failed") return null;
  return [
    h("div.panel", {},
      h("h2", {}, "What should have been different"),
      changeList(best, "best", run),
      hand ? [h("h2", {}, "Your plan"), changeList(hand, "hand", run)] : null),
    h("div.panel", {},
      h("h2", {}, "How sure this is"),
      h("p", {}, claimTag(best)),
      facts([
        ["Expected", show(expected(best))],
        ["Improvement", [gain(best.improvement), between(best) ? ` (${between(best)})` : ""]],
        best.guaranteed === null ? null : ["Guaranteed", show(best.guaranteed)],
        best.harm === null ? null : ["Worse than what was done", `with a probability of ${percent(best.harm)}`],
        ["Data under it", dataWords(best.support)],
        best.support.distance_max === null ? null : ["Farthest from data", `${show(best.support.distance_max)} × usual`],
        best.support.unseen === null ? null : ["Chance of an unseen action", percent(best.support.unseen)],
        best.nodes === null ? null : [run.discrete ? "Rows computed" : "Nodes searched", best.nodes.toLocaleString("en-US")],
        best.method ? ["Method", best.method] : null,
        ["Optimised", optimised(best)],
        ["Value of that, and what no plan exceeds", `${show(best.value)}, ${show(best.bound)}`],
        run.rule ? ["Inside the data", view.ruled && view.anywhere ? "no, searched anywhere" : run.rule] : null,
      ]),
      h("p", {}, "The search: ", searchTag(run, best.status), " ", best.advice)),
  ];
}

function optimised({ risk, doubt }) {
  if (risk !== null) return risk < 1 ? `mean of the worst ${percent(risk)} of models` : "mean of all models";
  return doubt ? `doubt ${show(doubt)} of the causal model` : "the outcome by the model";
}

function changeList(answer, kind, run) {
  if (!answer.changes.length) return h("p.soft", {}, "Nothing.");
  return h("ol.changes", {}, answer.changes.map((change) => h("li", { "data-t": change.t }, sample(kind), h("span", {}, arrows(change.text),
    change.taken === null ? null : h(`small${change.taken === 0 ? ".warn" : ""}`, {}, taken(change.taken, run))))));
}

function taken(times, run) {
  if (run.discrete) return times === 0 ? "never seen in that state" : `seen ${count(times, "time")} in that state`;
  return times === 0 ? "taken by none of the 50 most similar" : `taken by ${times} of the 50 most similar`;
}

function dataWords(support) {
  if (support.supported === null) return "not known";
  return support.supported ? "yes, all of it" : "not all of it";
}

function facts(pairs) {
  return h("dl.facts", {}, pairs.filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}
