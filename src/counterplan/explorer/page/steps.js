// The table of steps: what was done, what would have been best, and what to try instead.

import { h } from "./dom.js";
import { actionName, decimals, doseText, dosesOf, fixed, isSameAction, num, percent, show, when } from "./format.js";
import { sample } from "./chart.js";

export function stepTable(view, act) {
  const { run, case: one, hand, best, feature, edits } = view;
  const column = run.features[feature];
  const digits = decimals([one.observed, best?.course, hand?.course].flatMap((course) => (course ? course.states.map((state) => state[feature]) : [])));
  return h("div.panel", {},
    h("div.rules-head", {},
      h("h2", {}, "Step by step"),
      h("p.hint", {}, "Choose another action to see what if; the answer takes milliseconds",
        view.milliseconds && hand ? ` (${view.milliseconds.toFixed(0)} ms on the server)` : "", "."),
      h("span.grow"),
      h("button.quiet", { type: "button", id: "take-best", disabled: !best?.changes.length, onclick: () => act.takeBest() }, "Start from the best plan"),
      h("button.quiet", { type: "button", id: "clear-edits", disabled: !edits.size, onclick: () => act.clearEdits() }, "Clear my changes")),
    h("div.scroll.tall", { id: "steps-table" }, h("table.steps", {},
      h("caption.unseen", {}, "Steps with the observed action, the best one, and a choice of another"),
      h("thead", {}, h("tr", {},
        h("th", { scope: "col" }, run.unit ? `Time (${run.unit})` : "Step"),
        h("th", { scope: "col" }, "Observed action"),
        h("th", { scope: "col" }, "Best plan"),
        h("th", { scope: "col" }, "What if"),
        h("th", { scope: "col" }, "Keep"),
        [["observed", "observed"], ["best", "best"], ["hand", "what if"]].map(([kind, words]) => h("th.number", { scope: "col", title: `${column.title}, ${words}` }, sample(kind), h("span.unseen", {}, `${words} `), ` ${column.name}`)))),
      h("tbody", {}, one.times.map((_, t) => row(view, act, t, digits))))));
}

function row(view, act, t, digits) {
  const { run, case: one, best, hand, edits, fixed } = view;
  const observed = one.observed.actions[t];
  const decided = observed !== null && !one.fixed.includes(t);
  const other = best?.course?.actions[t];
  const changed = decided && other !== undefined && !isSameAction(other, observed);
  const chance = best?.course ? num(best.course.changed[t]) : 0;
  return h(`tr${changed ? ".changed" : ""}${edits.has(t) ? ".edited" : ""}`, { "data-t": t, onpointerenter: () => act.point?.(t), onpointerleave: () => act.point?.(null) },
    h("th", { scope: "row" }, one.dates[t] ?? show(one.times[t])),
    h("td", {}, observed === null ? h("span.soft", {}, "–") : actionName(run, observed)),
    h("td", {}, changed ? h("strong.best-action", {}, difference(run, observed, other)) : h("span.soft", {}, decided ? "as it was" : "–"),
      run.discrete && chance > 0 ? h("small", {}, `changed with ${percent(chance)}`) : null),
    h("td.choice", {}, decided ? choice(view, act, t, edits.get(t) ?? observed) : h("span.soft", {}, "nothing to decide")),
    h("td", {}, decided ? h("label.keep", {}, h("input", { type: "checkbox", id: `keep-${t}`, checked: fixed.has(t), "aria-label": `Keep step ${show(one.times[t])} as it was`, onchange: (event) => act.fix(t, event.target.checked) })) : null),
    reading(view, one.observed, "observed", t, digits), reading(view, best?.course, "best", t, digits), reading(view, hand?.course, "hand", t, digits));
}

function reading({ feature, case: one }, course, kind, t, digits) {
  if (!course) return h("td.number");
  const value = course.states[t][feature];
  const name = one.names[feature][String(value)];
  return h(`td.number.${kind}`, { "data-value": value }, name ?? fixed(value, digits));
}

/** What is another about an action: only the doses that differ. */
function difference(run, observed, other) {
  const [old, now] = [dosesOf(run, observed), dosesOf(run, other)];
  if (!old || !now || (run.doses.length < 2 && !run.doses[0]?.bounds)) return actionName(run, other);
  return run.doses.map((dose, place) => {
    const [before, after] = [old[place], now[place]];
    if (before === after) return null;
    const arrow = dose.ordered ? (after > before ? "▲" : "▼") : "";
    return `${dose.name} ${doseText(dose, before)} → ${doseText(dose, after)}${dose.bounds && dose.unit ? ` ${dose.unit}` : ""} ${arrow}`.trim();
  }).filter(Boolean).join(", ");
}

/** One choice for each dose, or one for the whole action. */
function choice(view, act, t, current) {
  const { run, case: one } = view;
  if (run.doses[0]?.bounds) return run.doses.map((dose, place) => slider(view, act, t, current, dose, place));
  const isGrid = run.doses.length > 1 && run.doses.every((dose) => dose.values);
  if (!isGrid)
    return h("select", { id: `action-${t}-0`, "aria-label": `Action at ${when(run, one, t)}`, onchange: (event) => act.edit(t, Number(event.target.value)) },
      run.names.map((name, action) => h("option", { value: String(action), selected: action === current }, name)));
  const doses = run.actions[current];
  return run.doses.map((dose, place) => h("label.dose", {}, h("span", {}, dose.name),
    h("select", { id: `action-${t}-${place}`, "aria-label": `${dose.title} at ${when(run, one, t)}`, onchange: (event) => {
      const wanted = doses.map((value, other) => (other === place ? dose.values[Number(event.target.value)] : value));
      act.edit(t, run.actions.findIndex((action) => action.every((value, other) => value === wanted[other])));
    } }, dose.values.map((value, index) => h("option", { value: String(index), selected: value === doses[place] }, doseText(dose, value))))));
}

/** Any dose between its bounds: a slider with the number beside it, either of which may be moved. */
function slider({ run, case: one }, act, t, current, dose, place) {
  const [low, high] = dose.bounds;
  const words = (value) => `${doseText(dose, value)} ${dose.unit}`.trim();
  const about = `${dose.title} at ${when(run, one, t)}`;
  const choose = (text) => {
    const value = Number(text);
    if (text === "" || !Number.isFinite(value)) return;
    act.edit(t, current.map((other, at) => (at === place ? Math.min(Math.max(value, low), high) : other)));
  };
  const number = h("input.amount", { id: `amount-${t}-${place}`, type: "number", min: low, max: high, step: "any", value: current[place].toFixed(dose.decimals), "aria-label": about, onchange: (event) => choose(event.target.value) });
  const range = h("input", { id: `action-${t}-${place}`, type: "range", min: low, max: high, step: 10 ** (1 - dose.decimals), value: current[place], "aria-label": about, "aria-valuetext": words(current[place]),
    oninput: (event) => {
      number.value = Number(event.target.value).toFixed(dose.decimals);
      event.target.setAttribute("aria-valuetext", words(Number(event.target.value)));
    },
    onchange: (event) => choose(event.target.value) });
  return h("div.dose.slide", {}, h("span", {}, dose.name), range, number, h("span.unit", {}, dose.unit));
}
