// Which view is shown, and what all of them share.

import { get } from "./api.js";
import { showCase } from "./case.js";
import { fill, h, say } from "./dom.js";
import { showCases } from "./list.js";
import { showScenario } from "./scenario.js";
import { showScenarios } from "./scenarios.js";
import { here } from "./state.js";

const content = document.getElementById("content");
let run = null;
// What ends the view that is shown: its timers, questions and keys.
let leave = () => {};
// Where the list was left, to come back to.
let lastList = "#/";

async function start() {
  try {
    run = await get("run");
  } catch (problem) {
    fill(content, h("p.wrong", { role: "alert" }, problem.message));
    return;
  }
  document.getElementById("where").textContent = run.complete ? run.title : `${run.title} · under way, ${run.done} of ${run.parts} parts done`;
  fill(document.getElementById("bottom"), ...bottom());
  addEventListener("hashchange", render);
  document.getElementById("share").addEventListener("click", share);
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault();
    content.focus();
  });
  await render();
}

function bottom() {
  const parts = run.complete ? "" : `The run is under way: ${run.done} of ${run.parts} parts are done. `;
  return [
    h("p", {}, parts, "What would have been is what the model says, not what is known: use it to ",
      "find what to look at, with people who know the case."),
    h("p.version", {}, `counterplan ${run.version}`),
  ];
}

async function render() {
  leave();
  const { view, settings } = here();
  const isList = view === "" || view === "cases" || view === "scenarios";
  if (isList) lastList = location.hash || "#/";
  const place = h("div.view");
  const context = { run, settings, place, back: lastList, ending: new AbortController() };
  leave = () => context.ending.abort();
  const shows = run.kind === "explain"
    ? { case: showCase, cases: showCases, "": showCases }
    : { scenario: showScenario, scenarios: showScenarios, "": showScenarios };
  const make = shows[view];
  fill(content, place);
  if (!make) {
    fill(place, h("p.wrong", { role: "alert" }, "There is no such view. ",
      h("a", { href: "#/" }, `All ${run.noun}s`)));
    return;
  }
  try {
    await make(context);
  } catch (problem) {
    if (context.ending.signal.aborted) return;
    fill(place, h("p.wrong", { role: "alert" }, problem.message, " ",
      h("a", { href: lastList }, `Back to all ${run.noun}s`)));
  }
}

async function share(event) {
  const button = event.currentTarget;
  try {
    await navigator.clipboard.writeText(location.href);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Copy it from the address bar";
  }
  say(button.textContent);
  setTimeout(() => (button.textContent = "Copy link to this view"), 2000);
}

start();
