// Pages of a list, and the keys that move through its rows.

import { h } from "./dom.js";

export function pager(total, page, pages, size, noun, go) {
  const from = (page - 1) * size + 1;
  const to = Math.min(total, page * size);
  const button = (text, target, words) => h("button.quiet", { type: "button", disabled: target < 1 || target > pages || target === page, "aria-label": words, onclick: () => go(target) }, text);
  return h("nav.pager", { "aria-label": "Pages" },
    h("span.found", {}, `${from.toLocaleString("en-US")}–${to.toLocaleString("en-US")} of ${total.toLocaleString("en-US")} ${noun}s`),
    pages > 1 ? [button("« First", 1, "First page"), button("‹ Previous", page - 1, "Previous page"), h("span", {}, `Page ${page} of ${pages}`), button("Next ›", page + 1, "Next page")] : null);
}

/** Arrow keys move from row to row, Home and End to the first and last; Enter follows the link. */
export function walkRows(body) {
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
