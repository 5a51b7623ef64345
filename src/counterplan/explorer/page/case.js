// One case: what happened, what should have been done, and what one's own plan would have led to.
//
// All that is shown follows from a few settings, which are in the address:
//
//     id, k        which case, how many changes at most
//     edit         actions chosen by hand, by step
//     forbid, fix  rules for the search, and
//     ranges       between which numbers doses may be
//     anywhere     whether the search may leave the data
//     dial         how careful it is, if not as the run was
//     solved       whether it was searched again, under these rules, although the run has an answer
//     feature      what the large chart shows

import { finished, get, isDropped, post } from "./api.js";
import { calmly, fill, h, say, undisturbed } from "./dom.js";
import { isSameAction, show } from "./format.js";
import { cards, heading, notices, proof } from "./judgement.js";
import { pictures } from "./picture.js";
import { restsPanel } from "./rests.js";
import { budget, reachedBy, rulesPanel, searching } from "./rules.js";
import { edits, editsText, note, numbers, numbersText } from "./state.js";
import { stepTable } from "./steps.js";

export async function showCase({ run, settings, place, back, ending }) {
  const id = settings.get("id") || "";
  const view = {
    run, back, id,
    k: settings.get("k") === null ? null : Number(settings.get("k")),
    edits: edits(settings.get("edit")),
    forbidden: numbers(settings.get("forbid")),
    ranges: rangesOf(run, settings.get("ranges")),
    fixed: numbers(settings.get("fix")),
    anywhere: settings.get("anywhere") === "1",
    dial: dialOf(settings.get("dial")),
    solved: settings.get("solved") === "1",
    feature: run.features[settings.get("feature")] ? Number(settings.get("feature")) : defaultFeature(run),
    case: null, best: null, hand: null, search: null, problem: null,
    rests: null, ruled: false,
    ending,
  };
  view.case = await get("case", { id, k: view.k }, ending.signal);
  if (view.k === null) view.k = view.case.answer?.k ?? run.budgets.at(-1);
  new CaseView(view, place);
}

/** The least and the most of each dose; null where nothing is said of them. */
function rangesOf(run, text) {
  const ends = text ? text.split(":").map(Number) : [];
  if (!run.doses[0]?.bounds || ends.length !== 2 * run.doses.length || !ends.every(Number.isFinite)) return null;
  return run.doses.map((_, place) => [ends[2 * place], ends[2 * place + 1]]);
}

/** A number from 0 to 1; null where there is none. */
function dialOf(text) {
  const value = text === null || text === "" ? NaN : Number(text);
  return value >= 0 && value <= 1 ? value : null;
}

function defaultFeature(run) {
  const good = run.features.findIndex((feature) => feature.better);
  return good >= 0 ? good : Math.max(0, run.features.length - 1);
}

class CaseView {
  constructor(view, place) {
    this.view = view;
    this.places = Object.fromEntries(["heading", "cards", "searching", "notices", "pictures", "budget", "proof", "rests", "rules", "steps"].map((name) => [name, h(`section.${name}`)]));
    this.later = calmly(350, () => view.ending.signal.aborted || this.solve(view.solved));
    fill(place,
      this.places.heading, this.places.cards, this.places.searching, this.places.notices,
      h("div.columns", {}, h("div.main", {}, this.places.pictures, this.places.rests), h("div.side", {}, this.places.budget, this.places.proof)),
      this.places.rules, this.places.steps);
    view.ending.signal.addEventListener("abort", () => {
      this.stopDrawing?.();
      view.search?.abort.abort();
      view.rests?.abort.abort();
    });
    this.begin();
  }

  get isStored() {
    return this.view.case.budgets.some((one) => one.k === this.view.k);
  }

  get hasRules() {
    return this.view.forbidden.size > 0 || this.view.ranges !== null || this.view.fixed.size > 0 || this.view.anywhere || this.view.dial !== null;
  }

  /** Show what the address says: the run's own answer, or one to be found first. */
  async begin() {
    const view = this.view;
    view.best = view.case.answer;
    const doses = view.run.doses.length;
    for (const [t, action] of view.edits) {
      // An address may have been made for another run.
      const isKnown = view.run.doses[0]?.bounds ? action.length === doses : Number.isInteger(action);
      if (!isKnown || isSameAction(action, view.case.observed.actions[t])) view.edits.delete(t);
    }
    this.draw();
    if (view.edits.size) this.ask();
    if (view.case.observed.states.length && (view.solved || !this.isStored)) await this.solve(view.solved);
  }

  note() {
    const view = this.view;
    note("case", {
      id: view.id, k: view.k, edit: editsText(view.edits), forbid: numbersText(view.forbidden), ranges: view.ranges?.flat().join(":") ?? "", fix: numbersText(view.fixed), anywhere: view.anywhere ? "1" : "", dial: view.dial,
      solved: view.solved && (this.hasRules || this.isStored),
      feature: view.feature === defaultFeature(view.run) ? "" : view.feature,
    });
  }

  draw() {
    if (this.view.ending.signal.aborted) return;
    this.note();
    undisturbed(() => this.redraw());
    this.examine();
  }

  /** What the answer that is shown rests on: asked once for each. */
  async examine() {
    const view = this.view;
    if (!view.best?.changes.length || view.best.status === "failed" || view.search) return;
    const edits = view.best.changes.map(({ t, alternative }) => ({ t, action: alternative }));
    const question = { kind: "rests", id: view.id, k: Math.min(view.k, view.case.steps), edits, ...(view.ruled ? this.rules : {}) };
    const key = JSON.stringify(question);
    if (view.rests?.key === key) return;
    view.rests?.abort.abort();
    const rests = { key, abort: new AbortController(), found: null, problem: null };
    view.rests = rests;
    try {
      const job = await finished(question, () => null, rests.abort.signal);
      if (view.rests !== rests || view.ending.signal.aborted) return;
      rests.found = job.rests;
      rests.problem = job.error;
    } catch (problem) {
      if (isDropped(problem)) return;
      rests.problem = problem.message;
    }
    undisturbed(() => fill(this.places.rests, restsPanel(view, this)));
  }

  /** As a question has them. */
  get rules() {
    const { view } = this;
    const dial = view.dial === null || !view.run.dial ? {} : { [view.run.dial]: view.dial };
    return { forbidden: [...view.forbidden], ranges: view.ranges ?? [], fixed: [...view.fixed], anywhere: view.anywhere, ...dial };
  }

  redraw() {
    const view = this.view;
    fill(this.places.heading, heading(view));
    fill(this.places.cards, cards(view));
    this.drawSearch();
    fill(this.places.notices, notices(view));
    fill(this.places.budget, budget(view, this));
    fill(this.places.proof, proof(view));
    fill(this.places.rules, rulesPanel(view, this));
    fill(this.places.rests, restsPanel(view, this));
    this.stopDrawing?.();
    this.point = null;
    if (view.case.observed.states.length) {
      const drawn = pictures(view, this.places.pictures, this);
      this.stopDrawing = drawn.stop;
      this.point = drawn.point;
      fill(this.places.steps, stepTable(view, this));
    }
  }

  /** Only what tells how far a search is. */
  drawSearch() {
    const place = this.places.searching;
    if (!this.view.search) return fill(place);
    if (!place.firstChild) fill(place, searching(this));
    return fill(place.querySelector(".reached"), reachedBy(this.view));
  }

  // --- What people do -------------------------------------------------------------------------

  async chooseBudget(k) {
    const view = this.view;
    if (k === view.k) return;
    view.k = k;
    view.search?.abort.abort();
    view.search = view.problem = null;
    view.solved &&= this.hasRules;
    if (this.isStored && !view.solved) {
      try {
        const found = await get("case", { id: view.id, k }, view.ending.signal);
        if (view.k !== k) return;
        view.case = found;
        view.best = found.answer;
        view.ruled = false;
        this.draw();
        say(`k = ${k}: ${show(view.best?.value)}`);
      } catch (problem) {
        this.fail(problem);
      }
      return;
    }
    view.best = null;
    view.ruled = false;
    this.draw();
    this.later();
  }

  edit(t, action) {
    if (isSameAction(action, this.view.case.observed.actions[t])) this.view.edits.delete(t);
    else this.view.edits.set(t, action);
    this.ask();
  }

  clearEdits() {
    this.view.edits.clear();
    this.view.hand = null;
    this.draw();
    say("Back to what was observed");
  }

  takeBest() {
    this.view.edits = new Map((this.view.best?.changes || []).map((change) => [change.t, change.alternative]));
    this.ask();
  }

  /** What if? */
  async ask() {
    const view = this.view;
    this.asked?.abort();
    if (!view.edits.size) {
      view.hand = null;
      this.draw();
      return;
    }
    this.asked = new AbortController();
    const question = { id: view.id, edits: [...view.edits].map(([t, action]) => ({ t, action })) };
    try {
      const found = await post("what-if", question, this.asked.signal);
      view.hand = found.answer;
      view.milliseconds = found.milliseconds;
      learnNames(view, found);
      view.problem = null;
      this.draw();
      say(`What if: ${show(view.hand.value)}, observed ${show(view.hand.factual)}`);
    } catch (problem) {
      this.fail(problem);
    }
  }

  forbid(actions, isForbidden) {
    for (const action of actions) this.view.forbidden[isForbidden ? "add" : "delete"](action);
    this.rulesChanged();
  }

  /** Limit a dose: side 0 is the least, 1 the most that may be advised. */
  limit(place, side, value) {
    const { run } = this.view;
    const ranges = (this.view.ranges ?? run.doses.map((dose) => [...dose.bounds])).map((ends) => [...ends]);
    const [low, high] = run.doses[place].bounds;
    if (Number.isFinite(value)) ranges[place][side] = Math.min(Math.max(value, low), high);
    const isAll = ranges.every(([a, b], at) => a === run.doses[at].bounds[0] && b === run.doses[at].bounds[1]);
    this.view.ranges = isAll ? null : ranges;
    this.rulesChanged();
  }

  fix(t, isFixed) {
    this.view.fixed[isFixed ? "add" : "delete"](t);
    this.rulesChanged();
  }

  leaveData(isAnywhere) {
    this.view.anywhere = isAnywhere;
    this.rulesChanged();
  }

  /** Turn the dial; `isNow`: and search at once. */
  async turn(value, isNow = false) {
    this.view.dial = value === this.view.run.usual ? null : value;
    await this.rulesChanged();
    if (isNow && this.view.dial !== null) this.solve();
  }

  clearRules() {
    this.view.forbidden.clear();
    this.view.ranges = null;
    this.view.fixed.clear();
    this.view.anywhere = false;
    this.view.dial = null;
    this.rulesChanged();
  }

  /** Rules count when they are applied; until then the run's own answer is shown. */
  async rulesChanged() {
    const view = this.view;
    const isOld = view.ruled || (view.solved && this.isStored);
    view.solved = view.ruled = false;
    view.search?.abort.abort();
    view.search = null;
    if (isOld) {
      view.best = null;
      if (this.isStored) await this.restore();
      else this.later();
    }
    this.draw();
  }

  /** The run's own answer. */
  async restore() {
    const { view } = this;
    try {
      view.best = (await get("case", { id: view.id, k: view.k }, view.ending.signal)).answer;
    } catch (problem) {
      this.fail(problem);
    }
  }

  /** Search again, under the rules; without them where they have not been applied. */
  async solve(isRuled = true) {
    const view = this.view;
    const rules = isRuled ? this.rules : {};
    view.search?.abort.abort();
    view.rests?.abort.abort();
    view.rests = null;
    const search = { abort: new AbortController(), job: null, reached: [] };
    view.search = search;
    view.problem = null;
    view.solved = isRuled;
    this.draw();
    document.getElementById("cancel")?.focus({ preventScroll: true });
    const question = { kind: "solve", id: view.id, k: view.k, ...rules };
    try {
      const job = await finished(question, (now) => {
        if (view.search !== search) return;
        search.job = now;
        if (now.progress) search.reached.push(now.progress);
        this.drawSearch();
      }, search.abort.signal);
      if (view.search !== search) return;
      view.search = null;
      // Who has gone on to something else is left there.
      const hasWaited = ["cancel", ""].includes(document.activeElement?.id ?? "");
      if (job.state === "done") {
        view.best = job.solved.answer;
        view.ruled = isRuled && this.hasRules;
        learnNames(view, job.solved);
        say(`Solved: ${show(view.best.value)}`);
      } else {
        view.solved = false;
        view.problem = job.state === "cancelled" ? "Cancelled." : job.error;
      }
      this.draw();
      if (hasWaited) document.getElementById("resolve")?.focus({ preventScroll: true });
    } catch (problem) {
      if (view.search === search) view.search = null;
      if (!isDropped(problem)) view.solved = false;
      this.fail(problem);
    }
  }

  cancel() {
    const search = this.view.search;
    if (!search) return;
    this.view.search = null;
    this.view.solved = false;
    this.view.problem = "Cancelled.";
    search.abort.abort();
    this.draw();
    document.getElementById("resolve")?.focus({ preventScroll: true });
    say("Cancelled");
  }

  chooseFeature(place) {
    this.view.feature = place;
    this.draw();
  }

  fail(problem) {
    if (isDropped(problem) || this.view.ending.signal.aborted) return;
    this.view.problem = problem.message;
    this.draw();
    say(problem.message);
  }
}

/** Names of values that a later answer brings. */
function learnNames(view, found) {
  found.names.forEach((names, place) => Object.assign(view.case.names[place], names));
  found.order.forEach((order, place) => {
    const known = view.case.order[place];
    if (order.some((value) => !known.includes(value))) view.case.order[place] = merged(known, order);
  });
}

/** Two lists in the same order, as one. */
function merged(one, other) {
  const found = [...one];
  let at = 0;
  for (const value of other) {
    const place = found.indexOf(value);
    if (place >= 0) at = place + 1;
    else found.splice(at++, 0, value);
  }
  return found;
}

