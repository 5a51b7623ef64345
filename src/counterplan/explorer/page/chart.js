// Courses over the steps of an episode, drawn as SVG. A meaning has a colour, a line and a marker of
// its own, any of which is enough to tell it from others:
//
//     observed   dark grey, dashed, squares        best   blue, solid, circles
//     hand       amber, dash and dot, diamonds     hindsight  green, dotted, triangles

import { s } from "./dom.js";
import { num, show, tick, ticks } from "./format.js";

const LEFT = 64;
const RIGHT = 14;
// With more points than this, lines do without markers.
const MOST_MARKERS = 70;
const LANE = 20;

const SHAPES = {
  observed: (x, y, r) => s("rect", { x: x - r, y: y - r, width: 2 * r, height: 2 * r }),
  best: (x, y, r) => s("circle", { cx: x, cy: y, r: r * 1.1 }),
  hand: (x, y, r) => s("path", { d: `M${x} ${y - r * 1.5} L${x + r * 1.5} ${y} L${x} ${y + r * 1.5} L${x - r * 1.5} ${y} Z` }),
  hindsight: (x, y, r) => s("path", { d: triangle(x, y, r * 1.4, -1) }),
  planned: (x, y, r) => s("path", { d: `M${x - r * 1.3} ${y} H${x + r * 1.3} M${x} ${y - r * 1.3} V${y + r * 1.3}` }),
  once: (x, y, r) => s("path", { d: triangle(x, y, r * 1.4, 1) }),
};

function triangle(x, y, r, direction) {
  return `M${x - r} ${y - direction * r * 0.8} L${x + r} ${y - direction * r * 0.8} L${x} ${y + direction * r} Z`;
}

/** How something is marked, for legends: a piece of line with its marker. */
export function sample(kind) {
  return s("svg.sample", { width: 34, height: 12, viewBox: "0 0 34 12", "aria-hidden": "true" },
    s(`path.line.${kind}`, { d: "M1 6 H33" }),
    s(`g.dot.${kind}`, {}, SHAPES[kind](17, 6, 3)));
}

/** Where numbers lie between top and bottom. */
function numberScale(values, height, top, bottom, levels = null) {
  const finite = (levels || values).filter(Number.isFinite);
  let low = finite.length ? Math.min(...finite) : 0;
  let high = finite.length ? Math.max(...finite) : 1;
  if (!(high > low)) [low, high] = [low - (Math.abs(low) || 1) * 0.05, high + (Math.abs(high) || 1) * 0.05];
  const margin = (high - low) * 0.06;
  [low, high] = [low - margin, high + margin];
  const at = (value) => top + ((high - value) / (high - low)) * (height - top - bottom);
  const room = (height - top - bottom) / 13;
  const marks = levels ? thinned(levels, room) : ticks(low, high, Math.max(2, Math.round(room / 3.2)));
  return { at, ticks: marks.map((value) => [value, tick(value)]) };
}

/** So many of the levels, evenly, the first and the last among them. */
function thinned(levels, most) {
  const step = Math.max(1, Math.ceil((levels.length - 1) / Math.max(1, Math.floor(most) - 1)));
  return levels.filter((_, place) => place % step === 0 || place === levels.length - 1);
}

/** Where names lie: one lane for each, the last on top. */
function laneScale(lanes, height, top, bottom) {
  const step = (height - top - bottom) / lanes.length;
  const place = new Map(lanes.map(([value], index) => [value, index]));
  const at = (value) => (place.has(value) ? height - bottom - (place.get(value) + 0.5) * step : NaN);
  return { at, ticks: lanes };
}

/** The room that names or numbers need at the left of charts. */
export function leftOf(width, laneLists) {
  const longest = Math.max(0, ...laneLists.flatMap((lanes) => (lanes || []).map(([, name]) => name.length)));
  return Math.max(LEFT, Math.min(width * 0.3, 14 + longest * 6.4));
}

/**
 * A chart.
 *
 *   times    when the steps begin          timeLabel  what that is
 *   series   [{kind, values, stair, stem, band, plain}]
 *            (a stem stands on zero, so many points beside its step; a band is [lows, highs] around
 *            the line; a plain line has no markers)
 *   lanes    [[value, name], ...] where values are names
 *   mark     a place on the axis of time with a line, and words beside it: [at, words]
 *   changes  [{t, kind, direction, text}]  markers of changes, drawn along the bottom
 *   levels   the numbers that values may have, where they are few
 *   until    steps behind it are faint, such as those that are not revealed yet
 *
 *   left     room for what stands at the axis; the same for charts below each other (`leftOf`)
 *   pad      room between the ends of the axis and the first and last step
 *   domain   [from, to] of the axis of time, if it is more than that of the steps
 *
 * Returns {svg, point(t)}: `point` marks a step.
 */
export function chart(width, { label, times, timeLabel, series, lanes, levels = null, changes = [], left = leftOf(width, [lanes]), domain = null, pad = 8, height = 220, until = Infinity, bare = false, mark = null, pick = null, over = null }) {
  const rows = new Set(changes.map((change) => change.row ?? 0)).size;
  const strip = rows * 20;
  const top = 10;
  const bottom = (bare ? 8 : timeLabel ? 38 : 4) + strip;
  if (lanes) height = Math.max(height, top + bottom + LANE * lanes.length);
  const every = series.flatMap((one) => [...one.values, ...(one.band || []).flat()].map(num));
  if (series.some((one) => Number.isFinite(one.stem))) every.push(0);
  const scale = lanes ? laneScale(lanes, height, top, bottom) : numberScale(every, height, top, bottom, levels);
  if (bare) left = 8;
  const right = bare ? 8 : RIGHT;
  const [from, to] = domain || [times[0], times[times.length - 1]];
  const x = (t) => left + pad + ((times[t] - from) / (to - from || 1)) * (width - left - right - 2 * pad);
  const svg = s("svg.chart", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  svg.append(s("title", {}, label));
  const ends = { left, right: width - right, top, bottom: height - bottom };
  frame(svg, ends, scale, times, timeLabel, x, height, bare, strip);
  const cursor = s("line.cursor", { x1: 0, x2: 0, y1: top, y2: height - bottom + strip, visibility: "hidden" });
  svg.append(cursor);
  if (!lanes) for (const one of series) if (one.band) svg.append(bandOf(one, x, scale.at));
  for (const one of series) svg.append(course(one, times, x, scale.at, until, bare));
  if (mark) svg.append(markAt(mark, from, to, ends, pad));
  for (const change of changes) svg.append(changeMark(change, x(change.t), height - bottom + 12 + (change.row ?? 0) * 20));
  if (!bare) svg.append(touch(times, x, ends, pick, over));
  return {
    svg,
    point(t) {
      cursor.setAttribute("visibility", t === null ? "hidden" : "visible");
      if (t !== null && t < times.length) for (const end of ["x1", "x2"]) cursor.setAttribute(end, x(t));
    },
  };
}

/** What lies between the lows and highs of a band. */
function bandOf({ kind, band: [lows, highs] }, x, at) {
  const side = (values) => values.map((value, t) => [x(t), at(num(value))]).filter(([, y]) => Number.isFinite(y));
  const points = [...side(highs), ...side(lows).reverse()].map(([px, py]) => `${px.toFixed(1)} ${py.toFixed(1)}`);
  return s(`path.band.${kind}`, { d: points.length ? `M${points.join(" L")} Z` : "" });
}

function markAt([place, words], from, to, { left, right, top, bottom }, pad) {
  const share = (place - from) / (to - from || 1);
  const px = left + pad + share * (right - left - 2 * pad);
  return s("g", {}, s("line.cursor", { x1: px, x2: px, y1: top, y2: bottom }),
    s(`text.tick${share > 0.55 ? ".end" : ""}`, { x: px + (share > 0.55 ? -4 : 4), y: top + 9 }, words));
}

function frame(svg, ends, scale, times, timeLabel, x, height, bare, strip) {
  const { left, right, top, bottom } = ends;
  for (const [value, text] of scale.ticks) {
    const y = scale.at(value);
    svg.append(s("line.grid", { x1: left, x2: right, y1: y, y2: y }));
    if (!bare) svg.append(s("text.tick.end", { x: left - 7, y: y + 3.5 }, short(text, left)));
  }
  if (bare || !timeLabel) return;
  const y = bottom + strip;
  for (const t of timeTicks(times, right - left)) {
    svg.append(s("line.grid", { x1: x(t), x2: x(t), y1: top, y2: bottom }));
    svg.append(s("text.tick.middle", { x: x(t), y: y + 15 }, show(times[t])));
  }
  svg.append(s("text.axis.middle", { x: (left + right) / 2, y: height - 5 }, timeLabel));
}

function short(text, left) {
  const most = Math.max(4, Math.floor((left - 12) / 6.2));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** Some of the steps, evenly. */
function timeTicks(times, width) {
  const most = Math.max(2, Math.floor(width / 46));
  const every = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 24, 30, 50, 100, 200, 500, 1000].find((step) => times.length / step <= most) || times.length;
  return times.map((_, t) => t).filter((t) => t % every === 0);
}

function course({ kind, values, stair, stem = null, plain = false }, times, x, at, until, bare) {
  const group = s("g");
  const aside = stem ?? 0;
  const points = values.map((value, t) => [x(t) + aside, at(num(value)), t]).filter(([, y]) => Number.isFinite(y));
  const known = points.filter(([, , t]) => t <= until);
  const later = points.filter(([, , t]) => t >= until);
  if (stem !== null) for (const [px, py, t] of points) group.append(s(`path.stem.${kind}${t > until ? ".later" : ""}`, { d: `M${px} ${py} V${at(0)}` }));
  else group.append(s(`path.line.${kind}`, { d: line(known, stair) }));
  if (stem === null && later.length > 1) group.append(s(`path.line.${kind}.later`, { d: line(later, stair) }));
  if (points.length <= MOST_MARKERS && !plain)
    for (const [px, py, t] of points)
      group.append(s(`g.dot.${kind}${t > until ? ".later" : ""}`, {}, SHAPES[kind](px, py, bare ? 1.6 : 2.8)));
  return group;
}

function line(points, stair) {
  return points
    .map(([px, py], i) => {
      if (i === 0) return `M${px.toFixed(1)} ${py.toFixed(1)}`;
      return stair ? `H${px.toFixed(1)} V${py.toFixed(1)}` : `L${px.toFixed(1)} ${py.toFixed(1)}`;
    })
    .join(" ");
}

/** Up, down or (a diamond) merely another. */
function changeMark({ kind, direction, text }, px, py) {
  const shape = direction ? s("path", { d: triangle(px, py, 5, -direction) }) : SHAPES.hand(px, py, 3);
  return s(`g.change.${kind}`, {}, shape, text ? s("text.tick", { x: px + 7, y: py + 4 }, text) : null, s("title", {}, text));
}

/** What notices the pointer: one column for each step. */
function touch(times, x, ends, pick, over) {
  const group = s("g");
  times.forEach((_, t) => {
    const from = t === 0 ? ends.left : (x(t - 1) + x(t)) / 2;
    const to = t === times.length - 1 ? ends.right : (x(t) + x(t + 1)) / 2;
    group.append(s("rect.touch", {
      x: from, y: ends.top, width: Math.max(0, to - from), height: ends.bottom - ends.top,
      onpointerenter: over && (() => over(t)), onpointerleave: over && (() => over(null)),
      onclick: pick && (() => pick(t)),
    }));
  });
  return group;
}

/** Bars side by side; those from `from` on are emphasised. `pick` is called with a bar's low end. */
export function histogram(width, { label, bars, from = null, axis, pick = null, height = 120 }) {
  const svg = s("svg.chart", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  if (!bars.length) return svg;
  const low = bars[0].low;
  const high = bars[bars.length - 1].high;
  const most = Math.max(...bars.map((bar) => bar.count), 1);
  const left = 34, right = 20, top = 8, bottom = 34;
  const x = (value) => left + ((value - low) / (high - low || 1)) * (width - left - right);
  const y = (count) => top + (1 - count / most) * (height - top - bottom);
  for (const mark of [0, most]) svg.append(s("line.grid", { x1: left, x2: width - right, y1: y(mark), y2: y(mark) }), s("text.tick.end", { x: left - 5, y: y(mark) + 4 }, tick(mark)));
  for (const bar of bars) {
    const part = from !== null && bar.high <= from ? "out" : "in";
    const rect = s(`rect.bar.${part}`, { x: x(bar.low) + 0.5, y: y(bar.count), width: Math.max(1, x(bar.high) - x(bar.low) - 1), height: Math.max(0, y(0) - y(bar.count)) },
      s("title", {}, `${show(bar.low)} to ${show(bar.high)}: ${bar.count.toLocaleString("en-US")}`));
    svg.append(rect);
    if (pick) svg.append(s("rect.touch.hand-cursor", { x: x(bar.low), y: top, width: x(bar.high) - x(bar.low), height: height - top - bottom, onclick: () => pick(bar.low) }, s("title", {}, `only from ${show(bar.low)}: ${bar.count.toLocaleString("en-US")} here`)));
  }
  for (const mark of ticks(low, high, Math.floor(width / 70))) svg.append(s("text.tick.middle", { x: x(mark), y: height - bottom + 14 }, tick(mark)));
  svg.append(s("text.axis.middle", { x: (left + width - right) / 2, y: height - 4 }, axis));
  return svg;
}

/** The value for each budget, with what nothing can exceed, as points to choose from. */
export function frontier(width, { budgets, chosen, pick, height = 130, label }) {
  const svg = s("svg.chart", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const known = budgets.filter((one) => Number.isFinite(num(one.value)));
  if (!known.length) return svg;
  const values = known.map((one) => num(one.value));
  const room = 3 * (Math.max(...values) - Math.min(...values)) || 1;
  // A bound far above everything would flatten the rest: it is told beside the point instead.
  const bounds = known.map((one) => num(one.bound)).filter((bound) => bound <= Math.max(...values) + room);
  const left = 52, right = 16, top = 10, bottom = 34;
  const scale = numberScale([...values, ...bounds], height, top, bottom);
  const last = Math.max(1, known[known.length - 1].k);
  const first = known[0].k;
  const x = (k) => left + 8 + ((k - first) / (last - first || 1)) * (width - left - right - 16);
  for (const [value, text] of scale.ticks) svg.append(s("line.grid", { x1: left, x2: width - right, y1: scale.at(value), y2: scale.at(value) }), s("text.tick.end", { x: left - 6, y: scale.at(value) + 4 }, text));
  const path = (of) => known.filter((one) => num(of(one)) <= Math.max(...values) + room).map((one, i) => `${i ? "L" : "M"}${x(one.k)} ${scale.at(num(of(one)))}`).join(" ");
  svg.append(s("path.line.bound", { d: path((one) => one.bound) }), s("path.line.best", { d: path((one) => one.value) }));
  for (const one of known) {
    const picked = one.k === chosen;
    svg.append(s(`g.dot.best${picked ? ".picked" : ""}`, {}, SHAPES.best(x(one.k), scale.at(num(one.value)), picked ? 5 : 3)));
    svg.append(s("rect.touch.hand-cursor", { x: x(one.k) - 12, y: top, width: 24, height: height - top - bottom, onclick: () => pick(one.k) }, s("title", {}, `k = ${one.k}: ${show(one.value)}, at most ${show(one.bound)}`)));
    if (known.length <= 12 || one.k % Math.ceil(known.length / 10) === 0) svg.append(s("text.tick.middle", { x: x(one.k), y: height - bottom + 14 }, one.k));
  }
  svg.append(s("text.axis.middle", { x: (left + width - right) / 2, y: height - 4 }, "changes allowed (k)"));
  return svg;
}

/** Ranges of a value over causal models, the widest first, as nested bars on one line. */
export function nested(width, { label, ranges, value, guaranteed, observed, height = 62 }) {
  const svg = s("svg.chart", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const known = [...ranges.flat(), value, guaranteed, observed].map(num).filter(Number.isFinite);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const x = (number) => 14 + ((number - low) / (high - low || 1)) * (width - 28);
  const middle = 20;
  for (const mark of ticks(low, high, Math.floor(width / 60))) svg.append(s("line.grid", { x1: x(mark), x2: x(mark), y1: 2, y2: 38 }), s("text.tick.middle", { x: x(mark), y: 53 }, tick(mark)));
  ranges.forEach(([from, to], place) => svg.append(s(`rect.nested.n${place}`, { x: x(num(from)), y: middle - 12 + 4 * place, width: Math.max(2, x(num(to)) - x(num(from))), height: 24 - 8 * place })));
  svg.append(s("path.line.observed", { d: `M${x(num(observed))} 2 V38` }));
  svg.append(s("g.dot.best", {}, SHAPES.best(x(num(value)), middle, 4)));
  if (Number.isFinite(num(guaranteed))) svg.append(s("g.dot.sure", {}, SHAPES.hand(x(num(guaranteed)), middle, 3.4)));
  return svg;
}

/** What is expected of a plan against what is guaranteed, a point for each doubt, to choose from. */
export function tradeoff(width, { label, rows, chosen, pick, height = 190 }) {
  const svg = s("svg.chart", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const points = rows.map((row) => row.map(num)).filter((row) => row.every(Number.isFinite));
  if (points.length < 2) return svg;
  const left = 56, right = 30, top = 16, bottom = 40;
  const scale = numberScale(points.map(([, value]) => value), height, top, bottom);
  const sure = points.map(([, , value]) => value);
  const [low, high] = [Math.min(...sure), Math.max(...sure)];
  const x = (value) => left + 10 + ((value - low) / (high - low || 1)) * (width - left - right - 10);
  for (const [value, text] of scale.ticks) svg.append(s("line.grid", { x1: left, x2: width - right + 10, y1: scale.at(value), y2: scale.at(value) }), s("text.tick.end", { x: left - 6, y: scale.at(value) + 4 }, text));
  for (const mark of ticks(low, high, Math.floor(width / 80))) svg.append(s("text.tick.middle", { x: x(mark), y: height - bottom + 16 }, tick(mark)));
  svg.append(s("path.line.best", { d: points.map(([, value, least], i) => `${i ? "L" : "M"}${x(least)} ${scale.at(value)}`).join(" ") }));
  const told = [];
  for (const [doubt, value, least] of points) {
    const [px, py] = [x(least), scale.at(value)];
    const picked = doubt === chosen;
    svg.append(s(`g.dot.${picked ? "sure" : "best"}`, {}, (picked ? SHAPES.hand : SHAPES.best)(px, py, picked ? 5 : 3.4)));
    // Plans that are nearly the same have one label.
    if (!told.some(([ox, oy]) => Math.abs(ox - px) < 24 && Math.abs(oy - py) < 13)) {
      told.push([px, py]);
      svg.append(s("text.tick", { x: px + 6, y: py - 5 }, show(doubt)));
    }
    svg.append(s("rect.touch.hand-cursor", { x: px - 9, y: py - 9, width: 18, height: 18, onclick: () => pick(doubt) }, s("title", {}, `doubt ${show(doubt)}: expected ${show(value)}, guaranteed ${show(least)}`)));
  }
  svg.append(s("text.axis.middle", { x: (left + width - right) / 2, y: height - 5 }, "guaranteed in every causal model"));
  svg.append(s("text.tick", { x: 4, y: 10 }, "expected"));
  return svg;
}
