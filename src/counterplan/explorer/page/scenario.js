// One scenario, step by step: what was revealed, what everyone did, what a planner would do now.

import { finished, get, isDropped } from "./api.js";
import { chart, leftOf, sample } from "./chart.js";
import { calmly, fill, h, s, say, undisturbed, watchWidth } from "./dom.js";
import { capital, num, show, worth } from "./format.js";
import { words_of } from "./scenarios.js";
import { note } from "./state.js";

const KINDS = { executed: "observed", policy: "best", planned: "planned", open_loop: "once", hindsight: "hindsight" };
const PLANNERS = { uct: "UCT", ments: "MENTS", bts: "BTS", dents: "DENTS" };
const EFFORTS = [200, 1000, 5000, 20000];

export async function showScenario({ run, settings, place, back, ending }) {
  const id = settings.get("id") || "";
  const one = await get("scenario", { id }, ending.signal);
  const last = Math.max(0, one.horizon - 1);
  const view = {
    run, back, id, one, ending,
    t: Math.min(last, Math.max(0, Number(settings.get("t")) || 0)),
    later: settings.get("later") === "1",
    hidden: new Set((settings.get("hide") ?? "open_loop").split("-").filter(Boolean)),
    planner: settings.get("planner") || run.planner || "uct",
    simulations: Number(settings.get("simulations")) || 1000,
    advice: new Map(), search: null, problem: null,
  };
  new ScenarioView(view, place);
}

class ScenarioView {
  constructor(view, place) {
    this.view = view;
    this.places = Object.fromEntries(["heading", "stepper", "pictures", "now", "advice"].map((name) => [name, h(`section.${name}`)]));
    this.ask = calmly(250, () => this.advise());
    fill(place, this.places.heading, this.places.stepper,
      h("div.columns", {}, this.places.pictures, h("div.side", {}, this.places.now, this.places.advice)));
    const keys = (event) => this.key(event);
    addEventListener("keydown", keys);
    view.ending.signal.addEventListener("abort", () => {
      removeEventListener("keydown", keys);
      this.stop?.();
      view.search?.abort();
    });
    fill(this.places.heading, heading(view));
    if (!view.one.tracks.length) return;
    fill(this.places.stepper, stepper(view, this));
    this.go(view.t);
  }

  key(event) {
    if (event.target.closest("input, select, textarea") || event.altKey || event.ctrlKey || event.metaKey) return;
    const moves = { ArrowLeft: this.view.t - 1, ArrowRight: this.view.t + 1, Home: 0, End: this.view.one.horizon - 1 };
    if (!(event.key in moves)) return;
    event.preventDefault();
    this.go(moves[event.key]);
  }

  go(t) {
    const view = this.view;
    view.t = Math.min(view.one.horizon - 1, Math.max(0, t));
    this.draw();
    this.ask();
    say(`Decision ${view.t + 1}: ${view.one.states[view.t]}`);
  }

  set(more) {
    Object.assign(this.view, more);
    if ("planner" in more || "simulations" in more) {
      this.view.advice.clear();
      this.ask();
    }
    this.draw();
  }

  toggle(player) {
    const hidden = this.view.hidden;
    if (!hidden.delete(player)) hidden.add(player);
    this.draw();
  }

  draw() {
    const view = this.view;
    if (view.ending.signal.aborted) return;
    note("scenario", {
      id: view.id, t: view.t || "", later: view.later,
      hide: [...view.hidden].join("-") === "open_loop" ? "" : [...view.hidden].join("-") || "none",
      planner: view.planner === (view.run.planner || "uct") ? "" : view.planner,
      simulations: view.simulations === 1000 ? "" : view.simulations,
    });
    undisturbed(() => {
      moveStepper(view);
      fill(this.places.now, now(view));
      fill(this.places.advice, advice(view, this));
      this.stop?.();
      this.stop = pictures(view, this.places.pictures, this);
    });
  }

  drawAdvice() {
    undisturbed(() => fill(this.places.advice, advice(this.view, this)));
  }

  async advise() {
    const view = this.view;
    const t = view.t;
    view.search?.abort();
    view.search = null;
    if (view.advice.has(t) || view.ending.signal.aborted) return this.drawAdvice();
    const search = new AbortController();
    view.search = search;
    view.problem = null;
    this.drawAdvice();
    const player = view.one.tracks.some((track) => track.player === "executed") ? "executed" : "policy";
    const question = { kind: "advise", id: view.id, t, player, planner: view.planner, simulations: view.simulations };
    try {
      const job = await finished(question, () => {}, search.signal);
      if (view.search !== search) return;
      view.search = null;
      if (job.state === "done") view.advice.set(t, job.advice);
      else view.problem = job.error || "Cancelled.";
      if (job.state === "done") say(`Planner: ${job.advice.words}`);
    } catch (problem) {
      if (view.search === search) view.search = null;
      if (isDropped(problem)) return;
      view.problem = problem.message;
    }
    this.drawAdvice();
  }
}

function heading({ run, one, back }) {
  const line = one.line;
  const verb = one.sense === "min" ? ["Paid", "paid"] : ["Earned", "earned"];
  const policy = one.policy === "optimal" ? "the best policy without foresight" : `the best policy known (${one.policy})`;
  return [
    h("p.crumbs", {}, h("a", { href: back }, `‹ All ${run.noun}s`)),
    h("h1", {}, `${capital(run.noun)} ${one.id}`),
    line.status === "failed" ? h("p.wrong", { role: "alert" }, line.reason) :
      h("p.lead", {},
        line.executed === null ? "" : [`${verb[0]} `, h("strong", { "data-value": line.executed, id: "executed" }, worth(run, line.executed)), "; "],
        `${policy} would have ${verb[1]} `, h("strong", {}, worth(run, line.without_foresight)), " on this path, and ", h("strong", {}, worth(run, line.hindsight)), " had the future been known.",
        line.expected_regret === null ? "" : [" In expectation the decisions lost ", h("strong.down", { "data-value": line.expected_regret }, worth(run, line.expected_regret)), ". "],
        line.costliest ? ["Costliest: ", words_of(line.costliest), "."] : ""),
  ];
}

function stepper(view, act) {
  const last = view.one.horizon - 1;
  const button = (id, text, label, to) => h("button.quiet", { type: "button", id, "aria-label": label, onclick: () => act.go(to()) }, text);
  return h("div.panel.stepper-panel", { role: "group", "aria-label": "Steps; the arrow keys move, too" },
    button("first", "« First", "First decision", () => 0),
    button("previous", "◀ Back", "Previous decision", () => view.t - 1),
    h("input", { type: "range", id: "t", min: 0, max: last, step: 1, value: view.t, "aria-label": "Decision", oninput: (event) => act.go(Number(event.target.value)) }),
    button("next", "Next ▶", "Next decision", () => view.t + 1),
    button("last", "Last »", "Last decision", () => last),
    h("output", { id: "step-words" }),
    h("label.inline", {}, h("input", { type: "checkbox", id: "later", checked: view.later, onchange: (event) => act.set({ later: event.target.checked }) }), "show what comes later"));
}

function moveStepper(view) {
  const last = view.one.horizon - 1;
  document.getElementById("t").value = view.t;
  document.getElementById("step-words").textContent = `decision ${view.t + 1} of ${view.one.horizon}`;
  for (const [id, off] of [["first", view.t === 0], ["previous", view.t === 0], ["next", view.t === last], ["last", view.t === last]]) document.getElementById(id).disabled = off;
}

// --- What is drawn ------------------------------------------------------------------------------

function pictures(view, place, act) {
  const { one } = view;
  const box = h("div");
  const legend = h("p.legend.toggles", {}, one.tracks.map((track) => h("button.toggle", { type: "button", id: `show-${track.player}`, "aria-pressed": String(!view.hidden.has(track.player)), onclick: () => act.toggle(track.player) }, sample(KINDS[track.player]), `${track.title} ${worth(view.run, track.value)}`)));
  fill(place, h("div.panel", {}, legend, box));
  return watchWidth(box, (width) => fill(box, draw(view, width, act)));
}

function draw(view, width, act) {
  const { one, t } = view;
  const isChoice = one.choices.length > 0;
  const choices = isChoice ? one.choices.map((label, i) => [i, label]) : null;
  const times = Array.from({ length: one.horizon }, (_, i) => i + 1);
  const until = view.later ? Infinity : t;
  const tracks = one.tracks.filter((track) => !view.hidden.has(track.player));
  const cut = (values) => (view.later ? values : values.map((value, i) => (i <= t ? value : null)));
  const after = [...times, one.horizon + 1];
  const domain = [1, isChoice ? one.horizon : one.horizon + 1];
  const left = leftOf(width, [...one.seen.map((series) => series.labels?.map((label) => [0, label])), choices]);
  const picture = (title, options) => {
    const drawn = chart(width, { label: title, times, timeLabel: "", pick: (step) => act.go(step), left, domain, pad: isChoice ? 8 : 26, ...options });
    drawn.point(t);
    return [h("h3", {}, title), drawn.svg];
  };
  const seen = one.seen.map((series) => picture(`${capital(series.name)}, as it was revealed`, {
    lanes: series.labels ? series.labels.map((label, i) => [i, label]) : null,
    series: [{ kind: "observed", values: cut(series.values), stair: Boolean(series.labels) }], height: series.labels ? 100 : 150, until,
  }));
  const apart = Math.min(9, (width / one.horizon) * 0.16);
  const actions = one.parts.map((part, place) => {
    const isLast = isChoice && place === one.parts.length - 1;
    return picture(capital(part), {
      lanes: choices,
      series: tracks.map((track, i) => ({
        kind: KINDS[track.player], values: cut(track.actions.map((action) => action[place])),
        stem: isChoice ? null : (i - (tracks.length - 1) / 2) * apart, stair: true,
      })),
      height: (isChoice ? 64 : 130) + (isLast ? 34 : 0), until, timeLabel: isLast ? one.step : "",
    });
  });
  const levels = one.tanks.map((tank, place) => {
    const isLast = place === one.tanks.length - 1;
    const known = (level, i) => (view.later || i <= t + 1 ? level[place] : null);
    return picture(capital(tank), {
      times: after, timeLabel: isLast ? "decision" : "", height: 130 + (isLast ? 34 : 0), until,
      series: tracks.map((track) => ({ kind: KINDS[track.player], values: track.levels.map(known) })),
    });
  });
  return [seen, actions, isChoice ? null : levels];
}

// --- The decision at hand ------------------------------------------------------------------------

function now(view) {
  const { one, t } = view;
  const lost = one.expected_losses ? num(one.expected_losses[t]) : NaN;
  const soFar = (track) => track.rewards.slice(0, t + 1).reduce((sum, reward) => sum + num(reward), 0);
  return h("div.panel", {},
    h("h2", {}, `Decision ${t + 1}`),
    h("p.state-words", {}, one.states[t]),
    one.advised ? h("p", {}, `${one.tracks.find((track) => track.player === "policy").title} in this state: `, h("strong", { id: "advised" }, one.advised[t]), Number.isFinite(lost) ? (lost > 0 ? [". The decision made lost ", h("strong.down", { id: "lost-now", "data-value": one.expected_losses[t] }, worth(view.run, lost)), " in expectation."] : h("span", { id: "lost-now", "data-value": 0 }, ". Nothing was lost here.")) : null) : null,
    h("table.players", {},
      h("caption.unseen", {}, "What everyone did"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Who"), h("th", { scope: "col" }, "did"), h("th.number", { scope: "col" }, `${one.sense === "min" ? "paid so far" : "earned so far"}${counted(view.run)}`))),
      h("tbody", {}, one.tracks.map((track) => h("tr", {}, h("th", { scope: "row" }, sample(KINDS[track.player]), track.title), h("td", {}, track.words[t]), h("td.number", {}, show(soFar(track))))))),
    one.choices.length ? null : h("p.hint", {}, "Each on its own way: what is left differs."));
}

function advice(view, act) {
  const found = view.advice.get(view.t);
  const choose = (id, options, chosen, set) => h("select", { id, onchange: (event) => set(event.target.value) }, options.map(([value, text]) => h("option", { value: String(value), selected: String(value) === String(chosen) }, text)));
  return h("div.panel", {},
    h("h2", {}, "What a planner would do now"),
    h("div.planner-choice", {},
      h("label.field", {}, h("span", {}, "Planner"), choose("planner", Object.entries(PLANNERS), view.planner, (planner) => act.set({ planner }))),
      h("label.field", {}, h("span", {}, "Simulations"), choose("simulations", EFFORTS.map((n) => [n, n.toLocaleString("en-US")]), view.simulations, (n) => act.set({ simulations: Number(n) })))),
    view.problem ? h("p.wrong", { role: "alert" }, view.problem) : null,
    !found ? (view.search ? h("p.soft", {}, h("progress", { "aria-label": "Planning" }), " simulating …") : null) : [
      h("p.big-words", { id: "suggestion" }, capital(found.words)),
      between(found, view),
      h("table.choices", {},
        h("caption.unseen", {}, "Choices with their estimated values"),
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Choice"), h("th.number", { scope: "col" }, `${view.one.sense === "min" ? "cost to come" : "reward to come"}${counted(view.run)}`), h("th.number", { scope: "col" }, "tried"))),
        h("tbody", {}, found.choices.slice(0, 12).map((one) => h(`tr${one.words === found.words ? ".chosen" : ""}`, {}, h("th", { scope: "row" }, one.words), h("td.number", {}, one.value === null ? "–" : estimate(one.value, one.se)), h("td.number", {}, one.simulations.toLocaleString("en-US")))))),
      h("p.hint", {}, "Choices have means over all that was tried after them, good or poor; the estimate above follows the best of it. ± is one standard error."),
    ]);
}

const counted = (run) => (run.values_in ? ` (${run.values_in})` : "");

/** A mean over samples. */
function estimate(value, error) {
  return num(error) > 0 ? `${show(value)} ± ${show(error)}` : show(value);
}

/** What the optimum lies between, with the optimum and the planner's value on it. */
function between(found, { run, one }) {
  const width = 300;
  const [low, high] = [num(found.lower), num(found.upper)];
  const marks = [low, high, num(found.value), num(found.exact)].filter(Number.isFinite);
  const [from, to] = [Math.min(...marks), Math.max(...marks)];
  const x = (value) => 12 + ((value - from) / (to - from || 1)) * (width - 24);
  const what = `What the best policy will still ${one.sense === "min" ? "pay" : "earn"}${counted(run)}`;
  const drawn = s("svg.between", { width, height: 40, viewBox: `0 0 ${width} 40`, role: "img", "aria-label": `${what}: between ${show(low)} and ${show(high)}` },
    s("rect.band", { x: x(low), y: 14, width: Math.max(2, x(high) - x(low)), height: 12 }),
    Number.isFinite(num(found.exact)) ? s("path.exact", { d: `M${x(num(found.exact))} 8 V32` }) : null,
    s("g.dot.planned", {}, s("path", { d: `M${x(num(found.value)) - 5} 20 H${x(num(found.value)) + 5} M${x(num(found.value))} 15 V25` })));
  return h("figure.bounds", {}, h("figcaption", {}, what), drawn,
    h("p.hint", {}, `Bounds${found.bounds_of ? ` of ${found.bounds_of}` : ""}: ${estimate(low, found.lower_se)} to ${estimate(high, found.upper_se)}`, Number.isFinite(num(found.exact)) ? [" · exactly ", h("strong", { id: "exact", "data-value": found.exact }, show(found.exact)), " (bar)"] : "", ` · planner's estimate${found.bounds_of ? ` (${found.planner})` : ""} ${show(found.value)} (cross)`));
}
