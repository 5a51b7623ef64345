// The budget, the rules of a search, and the search itself while it goes on.

import { frontier, sample } from "./chart.js";
import { h, s, watchWidth, fill } from "./dom.js";
import { count, num, show } from "./format.js";

/** How many changes are allowed: a slider, and the value of each budget of the run. */
export function budget(view, act) {
  const { case: one, k, best, ruled, solved } = view;
  if (!one.observed.states.length) return null;
  const decisions = one.steps - one.fixed.length;
  const most = Math.max(decisions, ...one.budgets.map((b) => Math.min(b.k, one.steps)));
  const stored = one.budgets.some((b) => b.k === k);
  const box = h("div");
  const found = best && !stored && !ruled && best.status !== "failed" ? [{ k, value: best.value, bound: best.bound, status: best.status }] : [];
  const known = [...one.budgets.filter((b) => b.status !== "failed" && b.k <= one.steps), ...found].sort((a, b) => a.k - b.k);
  const shown = known.some((b) => b.k === 0) ? known : [{ k: 0, value: observedValue(view), bound: observedValue(view), status: "optimal" }, ...known];
  const stop = watchWidth(box, (width) => fill(box, frontier(width, { budgets: shown, chosen: k, pick: (chosen) => chosen === 0 && !known.some((b) => b.k === 0) ? null : act.chooseBudget(chosen), label: "Value for each number of changes, and what nothing exceeds" })));
  view.ending.signal.addEventListener("abort", stop);
  return h("div.panel", {},
    h("h2", {}, h("label", { for: "k" }, "Changes allowed")),
    h("div.slider", {},
      h("input", { id: "k", type: "range", min: 0, max: most, step: 1, value: k, list: "budgets", "aria-valuetext": count(k, "change"),
        oninput: (event) => (event.target.nextElementSibling.textContent = event.target.value),
        onchange: (event) => act.chooseBudget(Number(event.target.value)) }),
      h("output", { for: "k" }, k)),
    h("datalist", { id: "budgets" }, one.budgets.map((b) => h("option", { value: String(b.k) }))),
    h("p.hint", {}, stored && solved ? `Searched again${ruled ? " under your rules" : ""}.` : stored ? "From the run." : `Not in the run (k = ${one.budgets.map((b) => b.k).join(", ")}): searched for now.`),
    box,
    h("p.legend.small", {}, h("span", {}, sample("best"), "best"), h("span", {}, s("svg.sample", { width: 34, height: 12, "aria-hidden": "true" }, s("path.line.bound", { d: "M1 6 H33" })), "no plan exceeds")));
}

function observedValue({ best, case: one }) {
  return best ? best.factual : one.observed.rewards.reduce((sum, reward) => sum + num(reward), 0);
}

/** What the search may not do, and the button that starts it. */
export function rulesPanel(view, act) {
  const { run, case: one, forbidden, ranges, fixed, anywhere, dial, search, ruled } = view;
  if (!one.observed.states.length) return null;
  const some = forbidden.size || ranges || fixed.size || anywhere || dial !== null;
  const words = [forbidden.size ? `${count(forbidden.size, "action")} forbidden` : null, ranges ? "doses limited" : null, fixed.size ? `${count(fixed.size, "step")} kept` : null, anywhere ? "outside the data, too" : null, dial !== null ? `${run.dial} ${show(dial)}` : null].filter(Boolean).join(", ") || "no rules yet";
  const state = some && !ruled && !search ? h("span.tag.limit", {}, "not applied yet") : ruled && !search ? h("span.tag.seen", {}, "applied") : null;
  return h("div.panel.rules-panel", {},
    h("div.rules-head", {},
      h("h2", {}, "Your rules for the search"),
      h("p.hint", {}, words, " ", state),
      h("span.grow"),
      some ? h("button.quiet", { type: "button", id: "clear-rules", onclick: () => act.clearRules() }, "Clear rules") : null,
      h(`button.primary`, { type: "button", id: "resolve", disabled: Boolean(search), onclick: () => act.solve() }, "Re-solve")),
    careful(view, act),
    run.doses[0]?.bounds ? limits(view, act) : h("details", { open: forbidden.size > 0, id: "forbid" },
      h("summary", {}, "Forbid actions: what may never be chosen instead"),
      run.doses.length === 2 && run.actions.length <= 150 ? grid(view, act) : listed(view, act)),
    run.notes.map((text) => h("p.hint", {}, text)),
    run.rule ? h("label.inline", { title: `Else inside the data: ${run.rule}.` }, h("input", { type: "checkbox", id: "anywhere", checked: anywhere, onchange: (event) => act.leaveData(event.target.checked) }), "Search outside the data, too") : null,
    h("p.hint", {}, "Tick ", h("em", {}, "keep"), " in the table below for steps that must stay as they were. What was done may always stay."));
}

/** The least and the most of each dose that may be advised. */
function limits({ run, ranges }, act) {
  const end = (dose, place, side) => {
    const value = (ranges ?? run.doses.map((one) => one.bounds))[place][side];
    return h("input.amount", { id: `limit-${place}-${side}`, type: "number", step: "any", min: dose.bounds[0], max: dose.bounds[1], value, "aria-label": `${side ? "Most" : "Least"} ${dose.title} that may be advised`, onchange: (event) => act.limit(place, side, event.target.value === "" ? NaN : Number(event.target.value)) });
  };
  return h("details", { open: ranges !== null, id: "forbid" },
    h("summary", {}, "Limit doses: between which numbers they may be advised"),
    run.doses.map((dose, place) => h("p.limits", {}, h("span", {}, dose.name), end(dose, place, 0), "to", end(dose, place, 1), dose.unit)));
}

/** The dial: how careful the search is, from believing the model to vouching for most. */
function careful({ run, dial }, act) {
  if (!run.dial) return null;
  const isDoubt = run.dial === "doubt";
  const words = (value) => isDoubt
    ? `${show(value)}: ${value === 0 ? "believe the causal model" : value === 1 ? "guarantee as much as possible" : "believe it, but count the worst causal model as well"}`
    : value >= 1 ? "all models count alike" : `the worst ${Math.round(100 * value)} % of models count`;
  const at = dial ?? num(run.usual);
  return h("div.dial", {},
    h("label", { for: "dial" }, isDoubt ? "Doubt of the causal model" : "How many models must agree"),
    h("input", { id: "dial", type: "range", min: isDoubt ? 0 : 0.05, max: 1, step: 0.05, value: at, "aria-valuetext": words(at),
      oninput: (event) => (event.target.nextElementSibling.textContent = words(Number(event.target.value))),
      onchange: (event) => act.turn(Number(event.target.value)) }),
    h("output", { for: "dial" }, words(at)));
}

/** Room for how far the search is, and the button that ends it: drawn once for a search, since a
 * button that is drawn anew loses the focus, and a click that has begun. */
export function searching(act) {
  return h("div.progress", {}, h("div.reached"), h("button.danger", { type: "button", id: "cancel", onclick: () => act.cancel() }, "Cancel"));
}

/** How far the search is. */
export function reachedBy(view) {
  const { search } = view;
  const job = search.job;
  if (!job || job.state === "queued") return [h("progress", { "aria-label": "Search" }), h("p", {}, job?.ahead ? `Waiting: ${count(job.ahead, "question")} before this one.` : "Waiting for a worker …")];
  const reached = job.progress;
  const share = Math.min(1, job.seconds / Math.max(job.limit, 1e-9));
  const words = reached
    ? [h("strong", {}, `best so far ${show(reached.value)}`), `, nothing exceeds ${show(reached.bound)} · ${reached.nodes.toLocaleString("en-US")} ${view.run.discrete ? "rows" : "nodes"}`]
    : ["preparing the search"];
  return [
    h("progress", { value: share, max: 1, "aria-label": "Time used", "aria-valuetext": `${Math.round(job.seconds)} of ${job.limit} seconds` }),
    h("p", {}, words, ` · ${Math.round(job.seconds)} s of ${show(job.limit)} s`),
    closing(search.reached),
  ];
}

/** The best value and the bound as they approach each other. */
function closing(reached) {
  const known = reached.filter((one) => Number.isFinite(num(one.bound)));
  if (known.length < 2) return null;
  const values = known.flatMap((one) => [num(one.value), num(one.bound)]);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const at = (i, value) => `${(i / (known.length - 1)) * 118 + 1} ${31 - ((value - low) / (high - low || 1)) * 30}`;
  const path = (of) => known.map((one, i) => `${i ? "L" : "M"}${at(i, num(of(one)))}`).join(" ");
  return s("svg.closing", { width: 120, height: 32, "aria-hidden": "true" }, s("path.line.bound", { d: path((one) => one.bound) }), s("path.line.best", { d: path((one) => one.value) }));
}

/** Two doses: a cell for each combination; headings forbid a whole line. */
function grid({ run, forbidden }, act) {
  const [rows, columns] = run.doses;
  const named = (dose, value) => (dose.labels ? dose.labels[dose.values.indexOf(value)] : show(value));
  const values = (place) => [...new Set(run.actions.map((action) => action[place]))];
  const found = (a, b) => run.actions.findIndex((action) => action[0] === a && action[1] === b);
  const line = (actions, text) => {
    const all = actions.every((action) => forbidden.has(action));
    return h("button.line", { type: "button", id: `line-${text.replace(/\W+/g, "-")}`, "aria-pressed": String(all), title: all ? `Allow ${text}` : `Forbid ${text}`, "aria-label": `${all ? "Allow" : "Forbid"} ${text}`, onclick: () => act.forbid(actions, !all) }, text.split(" ").at(-1));
  };
  return h("div.scroll", {}, h("table.grid", {},
    h("caption.unseen", {}, "Actions; pressed ones are forbidden"),
    h("thead", {}, h("tr", {}, h("td", {}, `${rows.name} ↓ ${columns.name} →`), values(1).map((b) => h("th", { scope: "col" }, line(values(0).map((a) => found(a, b)), `${columns.name} ${named(columns, b)}`))))),
    h("tbody", {}, values(0).map((a) => h("tr", {}, h("th", { scope: "row" }, line(values(1).map((b) => found(a, b)), `${rows.name} ${named(rows, a)}`)),
      values(1).map((b) => {
        const action = found(a, b);
        const isForbidden = forbidden.has(action);
        if (run.barred.includes(action)) return h("td", {}, h("span.soft", { title: `${run.names[action]}: never advised` }, "–"));
        return h("td", {}, h("button.cell", { type: "button", id: `forbid-${action}`, "aria-pressed": String(isForbidden), "aria-label": `${isForbidden ? "Allow" : "Forbid"} ${run.names[action]}`, title: run.names[action], onclick: () => act.forbid([action], !isForbidden) }, isForbidden ? "✕" : ""));
      }))))));
}

/** Actions without such a form: one box each. */
function listed({ run, forbidden }, act) {
  return h("div.boxes", {}, run.names.map((name, action) => run.barred.includes(action) ? null : h("label", {}, h("input", { type: "checkbox", id: `forbid-${action}`, checked: forbidden.has(action), onchange: (event) => act.forbid([action], event.target.checked) }), name)));
}
