// How a number is spread over all items of a list; a click keeps the tail.

import { histogram } from "./chart.js";
import { fill, h, watchWidth } from "./dom.js";

/** A histogram in a box. `texts` are its caption, its label for readers of the screen, and its axis. */
export function spread(texts, bars, wanted, change, ending) {
  const box = h("figure.panel.spread");
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
