// The courses of a case: one feature large, the doses below it, all features small.

import { chart, leftOf, sample } from "./chart.js";
import { fill, h, watchWidth } from "./dom.js";
import { actionName, dosesOf, doseText, num, show, when } from "./format.js";

/** Draw all charts of a case; returns what marks a step in them, and what ends the drawing. */
export function pictures(view, place, act) {
  const { run, case: one, best, hand, feature } = view;
  const courses = [["observed", one.observed], ["best", best?.course], ["hand", hand?.course]].filter(([, course]) => course);
  const readout = h("p.readout", { "aria-hidden": "true" });
  const large = h("div");
  const small = h("div.small-charts");
  let points = [];
  const point = (t) => {
    for (const mark of points) mark(t);
    fill(readout, t === null ? "" : readings(run, one, courses, feature, t));
    for (const row of document.querySelectorAll("tr[data-t]")) row.classList.toggle("pointed", Number(row.dataset.t) === t);
  };
  fill(place, h("div.panel", {},
    h("div.chart-head", {}, legend(courses, view), featureChoice(run, feature, act)),
    large, readout),
    run.features.length > 1 ? h("details.panel", { open: true, id: "measurements" }, h("summary", {}, "All measurements"), small) : null);
  const options = { over: point, pick: (t) => document.getElementById(`action-${t}-0`)?.focus() };
  const stops = [watchWidth(large, (width) => {
    points = [];
    const left = leftOf(width, [lanesOf(view, feature, courses), ...run.doses.map((dose, place) => doseLanes(view, dose, place, courses))]);
    const shared = { ...options, left };
    fill(large, drawFeature(view, courses, width, shared, points), drawDoses(view, courses, width, shared, points));
  })];
  if (run.features.length > 1) stops.push(watchWidth(small, (width) => fill(small, drawSmall(view, courses, width, act))));
  return { point, stop: () => stops.forEach((stop) => stop()) };
}

function legend(courses, view) {
  const names = { observed: "observed", best: view.ruled ? "best under your rules" : "best", hand: "what if" };
  return h("p.legend", {}, courses.map(([kind]) => h("span", {}, sample(kind), names[kind])));
}

function featureChoice(run, feature, act) {
  if (run.features.length < 2) return null;
  return h("label.field.inline", {}, h("span", {}, "Show"),
    h("select", { id: "feature", onchange: (event) => act.chooseFeature(Number(event.target.value)) },
      run.features.map((one, place) => h("option", { value: String(place), selected: place === feature }, one.title))));
}

function timeLabel(run) {
  return run.unit ? `time (${run.unit})` : "step";
}

/** Names of a feature's values as lanes; null where they are numbers. */
function lanesOf(view, place, courses) {
  const column = view.run.features[place];
  const names = view.case.names[place];
  if (!Object.keys(names).length) return null;
  if (column.labels && !view.case.order[place].length) return column.values.map((value, index) => [value, column.labels[index]]);
  const used = new Set(courses.flatMap(([, course]) => course.states.map((state) => state[place])));
  const order = view.case.order[place].length ? view.case.order[place] : [...used].sort((a, b) => a - b);
  return order.filter((value) => used.has(value)).map((value) => [value, names[String(value)] ?? String(value)]);
}

function drawFeature(view, courses, width, options, points) {
  const { run, case: one, feature } = view;
  const column = run.features[feature];
  const drawn = chart(width, {
    label: `${column.title} over time: ${courses.map(([kind, course]) => `${kind} from ${show(course.states[0][feature])} to ${show(course.states.at(-1)[feature])}`).join(", ")}`,
    times: one.times.map(num), timeLabel: timeLabel(run), lanes: lanesOf(view, feature, courses),
    series: courses.map(([kind, course]) => ({ kind, values: course.states.map((state) => state[feature]), band: course.band?.map((side) => side.map((state) => state[feature])) })),
    levels: column.labels ? null : column.values, height: 250, ...options,
  });
  points.push(drawn.point);
  const banded = courses.some(([, course]) => course.band) ? h("p.hint", {}, "Bands hold 9 in 10 of the models that the data allows.") : null;
  const better = column.better ? h("p.hint", {}, `${column.better} is better`) : null;
  const order = view.case.order[feature]?.length ? "States are ordered by what they are worth at the end, the best on top. " : "";
  const chance = run.discrete ? h("p.hint", {}, order, "Chance decides: the likeliest course of each plan is shown, values are means over all. The best plan reacts to what happens.") : null;
  return [h("h3", {}, column.title, better), drawn.svg, banded, chance];
}

function drawDoses(view, courses, width, options, points) {
  const { run, case: one } = view;
  return run.doses.map((dose, place) => {
    const lanes = doseLanes(view, dose, place, courses);
    const value = (action) => (action === null ? null : dosesOf(run, action)?.[place] ?? null);
    const changes = changesOf(view, place, value);
    const drawn = chart(width, {
      label: `${dose.title} over time`,
      times: one.times.map(num), timeLabel: "", lanes,
      series: courses.map(([kind, course]) => ({ kind, stair: true, values: course.actions.map(value) })),
      changes, levels: lanes ? null : dose.values,
      height: 74 + 20 * new Set(changes.map((change) => change.row)).size, ...options,
    });
    points.push(drawn.point);
    return [h("h3", {}, dose.title), drawn.svg];
  });
}

/** Names of doses that are used, as lanes; null for levels that are numbers. */
function doseLanes(view, dose, place, courses) {
  if (!view.case.observed.actions.length || dose.bounds || (!dose.labels && dose.values)) return null;
  const actions = view.run.actions;
  const used = new Set(courses.flatMap(([, course]) => course.actions.filter((a) => a !== null).map((a) => actions[a][place])));
  const name = (value) => (dose.labels ? dose.labels[dose.values.indexOf(value)] : view.run.names[actions.findIndex((one) => one[place] === value)]);
  return [...used].sort((a, b) => a - b).map((value) => [value, name(value) ?? String(value)]);
}

/** Where a dose is another, in which direction and by how much. */
function changesOf({ best, hand, run, case: one }, place, value) {
  const dose = run.doses[place];
  const rows = [["best", best], ["hand", hand]].filter(([, answer]) => answer?.changes.length);
  return rows.flatMap(([kind, answer], row) => answer.changes.map((change) => {
    const [before, after] = [value(one.observed.actions[change.t]), value(change.alternative)];
    // As they are written.
    const size = dose.bounds ? Number(after.toFixed(dose.decimals)) - Number(before.toFixed(dose.decimals)) : after - before;
    return before === null || size === 0 ? null : { t: change.t, kind, row, direction: dose.ordered ? Math.sign(size) : 0, text: dose.ordered && !dose.labels ? `${size > 0 ? "+" : "−"}${doseText(dose, Math.abs(size))}` : "" };
  })).filter(Boolean);
}

function drawSmall(view, courses, width, act) {
  const { run, case: one } = view;
  const isConstant = run.features.map((column, place) => column.fixed || isSame(courses.flatMap(([, course]) => course.states.map((state) => state[place]))));
  const moving = run.features.filter((_, place) => !isConstant[place]).length;
  const rows = Math.ceil(moving / Math.max(2, Math.floor(width / 165)));
  const size = Math.floor(width / Math.ceil(moving / rows)) - 20;
  const constant = run.features.map((column, place) => {
    if (!isConstant[place]) return null;
    const value = one.observed.states[0][place];
    return h("span", {}, `${column.name} `, h("strong", {}, one.names[place][String(value)] ?? show(value)), column.unit ? ` ${column.unit}` : "");
  });
  return [h("p.constants", {}, constant), run.features.map((column, place) => {
    if (isConstant[place]) return null;
    const drawn = chart(size, {
      label: column.title, times: one.times.map(num), lanes: null, bare: true, height: 64,
      series: courses.map(([kind, course]) => ({ kind, values: course.states.map((state) => state[place]) })),
    });
    const ends = courses.map(([kind, course]) => h(`span.${kind}`, {}, one.names[place][String(course.states.at(-1)[place])] ?? show(course.states.at(-1)[place])));
    return h(`button.small-chart${place === view.feature ? ".chosen" : ""}`, { type: "button", "aria-pressed": String(place === view.feature), "aria-label": `Show ${column.title}`, onclick: () => act.chooseFeature(place) },
      h("span.name", {}, column.title), drawn.svg, h("span.ends", { title: "at the end" }, "end ", ends));
  })];
}

const isSame = (values) => values.every((value) => value === values[0]);

function readings(run, one, courses, feature, t) {
  const column = run.features[feature];
  const names = one.names[feature];
  const texts = courses.map(([kind, course]) => {
    const value = course.states[t][feature];
    const action = course.actions[t];
    return h(`span.${kind}`, {}, sample(kind), ` ${names[String(value)] ?? show(value)}${action === null || action === undefined ? "" : `, ${actionName(run, action)}`}`);
  });
  return [h("strong", {}, `${when(run, one, t)} · ${column.name}`), texts];
}
