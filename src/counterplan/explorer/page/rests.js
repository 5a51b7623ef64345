// What an improvement rests on that no data can tell: causal models and doubts, luck and hidden causes.

import { chart, nested, sample, tradeoff } from "./chart.js";
import { fill, h, s, watchWidth } from "./dom.js";
import { capital, show } from "./format.js";

/** One small figure with one sentence; asked for when a case is looked at, and drawn when it is known. */
export function restsPanel(view, act) {
  const { best, rests, run } = view;
  if (!best?.changes.length || best.status === "failed") return null;
  const known = rests?.found;
  const box = h("div.rests-charts");
  const words = known ? h("p.rests-words", {}, capital(known.words)) : h("p.soft", {}, rests?.problem ? `Not known: ${rests.problem}` : "Looking into it …");
  if (known) {
    const stop = watchWidth(box, (width) => fill(box, known.rho ? luck(known, width) : models(known, view, act, width)));
    view.ending.signal.addEventListener("abort", stop);
  }
  return h("div.panel", {}, h("h2", {}, run.discrete ? "What this rests on: the causal model" : "What this rests on: luck, and nothing hidden"), words, box);
}

function luck({ rho, gamma }, width) {
  const each = width > 520 ? Math.floor(width / 2) - 6 : width;
  const draw = (curve, axis) => chart(each, {
    label: `Improvement by ${axis}${curve.tipping === null ? "" : `; gone at ${show(curve.tipping)}`}`,
    times: curve.at, timeLabel: axis, lanes: null, height: 170,
    series: [{ kind: "best", values: curve.mean, band: [curve.low, curve.high], plain: true }, { kind: "observed", values: curve.at.map(() => 0), plain: true }],
    mark: curve.tipping === null ? null : [curve.tipping, `gone at ${show(Number(curve.tipping.toFixed(2)))}`],
  }).svg;
  return [draw(rho, "luck kept: 1 all, 0 re-drawn, −1 flipped"), draw(gamma, "hidden cause, in units of the noise")];
}

function models({ ranges, by_doubt }, view, act, width) {
  const { best, dial, run } = view;
  const key = (place, words) => h("span", {}, s("svg.sample", { width: 20, height: 12, "aria-hidden": "true" }, s(`rect.nested.n${place}`, { x: 0, y: 4 * place / 2, width: 20, height: 12 - 4 * place })), words);
  const sure = s("svg.sample", { width: 14, height: 12, "aria-hidden": "true" }, s("g.dot.sure", {}, s("path", { d: "M7 1 L12 6 L7 11 L2 6 Z" })));
  return [
    ranges.length ? [
      nested(width, { label: "Ranges of the value over causal models", ranges, value: best.value, guaranteed: best.guaranteed, observed: best.factual }),
      h("p.legend.small", {}, key(0, "every causal model"), key(1, "stable ones"), key(2, "monotone ones"), h("span", {}, sample("best"), "expected by Gumbel-Max"), h("span", {}, sure, "guaranteed"))] : null,
    new Set(by_doubt.map(([, value, least]) => `${value} ${least}`)).size > 1 ? [
      h("h3", {}, "A plan for each doubt: click one to take it"),
      tradeoff(width, { label: "Expected against guaranteed for each doubt", rows: by_doubt, chosen: dial ?? run.usual, pick: (doubt) => act.turn(doubt, true) })] : null,
  ];
}
