// What both lists share: settings in the address, filters, the spread of a number, order, pages, and keys.

import { get } from "./api.js";
import { histogram } from "./chart.js";
import { calmly, fill, h, say, watchWidth } from "./dom.js";
import { count, show } from "./format.js";
import { address, note } from "./state.js";

const PAGE = 25;

/** Draw a list, and follow what is asked of it.
 *
 *     view     its name in the address, and of its question
 *     usual    its settings, as they are if the address does not say
 *     top      what stands above it, by the overview
 *     summary  of all items, drawn anew with every filter
 *     filters  the fields of its form
 *     query    what is asked about lines besides search, order and page
 *     table    head and body for the lines that were found
 */
export async function showList({ run, settings, place, ending }, { view, usual, top, summary, filters, query, table }) {
  const wanted = Object.fromEntries(Object.entries({ search: "", min: "", up: "", page: "", ...usual }).map(([name, value]) => [name, settings.get(name) || value]));
  wanted.page = Number(wanted.page) || 1;
  const overview = await get("overview", { k: wanted.k }, ending.signal);
  const above = h("div");
  const lines = h("div", { "aria-live": "off" });
  let asked = null;

  async function change(more, keepPage = false) {
    // Someone has typed and gone on to a case.
    if (ending.signal.aborted) return;
    const isAnother = "k" in more && more.k !== wanted.k;
    Object.assign(wanted, more, keepPage ? {} : { page: 1 });
    if (isAnother) {
      location.hash = address(view, wanted);
      return;
    }
    fill(above, summary(overview, wanted, change));
    note(view, { ...wanted, sort: wanted.sort === usual.sort ? "" : wanted.sort, page: wanted.page > 1 ? wanted.page : "" });
    asked?.abort();
    asked = new AbortController();
    const order = { search: wanted.search, sort: wanted.sort, descending: wanted.up ? "false" : "true", offset: (wanted.page - 1) * PAGE, limit: PAGE };
    try {
      const found = await get(view, { ...order, ...query(wanted) }, asked.signal);
      if (ending.signal.aborted) return;
      fill(lines, found.total ? paged(run, wanted, found, table(overview, wanted, found, change), change) : h("p.empty", {}, `No ${run.noun} meets all of these conditions.`));
      say(`${count(found.total, run.noun)} found`);
    } catch (problem) {
      if (problem.name !== "AbortError") fill(lines, h("p.wrong", { role: "alert" }, problem.message));
    }
  }

  fill(place, top(overview), above,
    h("form.filters", { "aria-label": "Filters", onsubmit: (event) => event.preventDefault() }, filters(overview, wanted, change)),
    lines);
  await change({}, true);
}

export const tile = (value, text) => h("div", {}, h("dd", {}, value), h("dt", {}, text));

/** A filter under its name. */
export const field = (name, input) => h("label.field", {}, h("span", {}, name), input);

/** An input of a setting, which is followed a moment after the last letter. */
export function typing(wanted, change) {
  const later = calmly(250, change);
  return (key, attributes) => h("input", { id: key, value: wanted[key], oninput: (event) => {
    if (event.target.validity.valid) later({ [key]: event.target.value.trim() });
  }, ...attributes });
}

/** The heading of a column that can be sorted by; `isUp`: small or early ones come first at first. */
export function sorting(key, title, isNumber, isUp, wanted, change) {
  const active = wanted.sort === key;
  const arrow = active ? (wanted.up ? " ↑" : " ↓") : "";
  return h(`th${isNumber ? ".number" : ""}`, { scope: "col", "aria-sort": active ? (wanted.up ? "ascending" : "descending") : "none" },
    h("button.sort", { type: "button", onclick: () => change({ sort: key, up: (active ? !wanted.up : isUp) ? "1" : "" }) }, title, arrow));
}

function paged(run, wanted, found, [head, body], change) {
  const pages = Math.max(1, Math.ceil(found.total / PAGE));
  walkRows(body);
  const turn = () => pager(found.total, wanted.page, pages, run.noun, (page) => change({ page }, true));
  return [
    turn(),
    h("div.scroll", {}, h("table.cases", {}, h("caption.unseen", {}, `${run.noun}s; arrow keys move, Enter opens`), h("thead", {}, head), body)),
    pages > 1 ? turn() : null,
  ];
}

function pager(total, page, pages, noun, go) {
  const from = (page - 1) * PAGE + 1;
  const to = Math.min(total, page * PAGE);
  const button = (text, target, words) => h("button.quiet", { type: "button", disabled: target < 1 || target > pages || target === page, "aria-label": words, onclick: () => go(target) }, text);
  return h("nav.pager", { "aria-label": "Pages" },
    h("span.found", {}, `${from.toLocaleString("en-US")}–${to.toLocaleString("en-US")} of ${total.toLocaleString("en-US")} ${noun}s`),
    pages > 1 ? [button("« First", 1, "First page"), button("‹ Previous", page - 1, "Previous page"), h("span", {}, `Page ${page} of ${pages}`), button("Next ›", page + 1, "Next page")] : null);
}

/** Arrow keys move from row to row, Home and End to the first and last; Enter follows the link. */
function walkRows(body) {
  body.addEventListener("keydown", (event) => {
    const links = [...body.querySelectorAll("a.row-link")];
    const now = links.indexOf(document.activeElement);
    const moves = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: links.length - 1 };
    if (now < 0 || !(event.key in moves)) return;
    event.preventDefault();
    links[Math.max(0, Math.min(links.length - 1, moves[event.key]))].focus();
  });
  body.addEventListener("click", (event) => {
    if (event.target.closest("a, button") || String(getSelection())) return;
    event.target.closest("tr")?.querySelector("a.row-link")?.click();
  });
}

/** How a number is spread over all items: a histogram in a box; a click keeps the tail. `texts` are its
 * caption, its label for readers of the screen, and its axis. Where all are alike, a sentence says so. */
export function spread(texts, bars, wanted, change, ending) {
  const box = h("figure.panel.spread");
  if (bars.length === 1) {
    fill(box, h("figcaption", {}, texts.caption.replace("; click to keep the tail", "")),
      h("p.alike", {}, `It is ${show(bars[0].high)} in each of ${bars[0].count.toLocaleString("en-US")}: there is no spread to draw.`));
    return box;
  }
  const stop = watchWidth(box, (width) => fill(box,
    h("figcaption", {}, texts.caption),
    histogram(width - 4, {
      label: texts.label, bars, axis: texts.axis,
      from: wanted.min === "" ? null : Number(wanted.min),
      pick: (low) => {
        const least = Number(low.toPrecision(3));
        document.getElementById("min").value = least > 0 ? least : "";
        change({ min: least > 0 ? String(least) : "" });
      },
    })));
  ending.signal.addEventListener("abort", stop);
  return box;
}
