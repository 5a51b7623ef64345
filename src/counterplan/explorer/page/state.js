// What is shown is in the address, so that a view can be shared and reloaded.

/** The view and its settings, from the part of the address behind #. */
export function here() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { view: path || "", settings: new URLSearchParams(query || "") };
}

/** The address of a view; settings that are empty are left out. */
export function address(view, settings) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(settings)) {
    if (value !== null && value !== undefined && value !== "" && value !== false)
      given.set(name, value === true ? "1" : value);
  }
  const text = given.toString();
  return `#/${view}${text ? `?${text}` : ""}`;
}

/** Go to a view, as one step of the history. */
export function go(view, settings = {}) {
  location.hash = address(view, settings);
}

/** Note settings of the view that is shown already, without a step of the history. */
export function note(view, settings) {
  history.replaceState(null, "", address(view, settings));
}

/** A map from step to action as text, "4.12-7.3", or to doses, "4:61.3:2_7:0:5", and back. */
export function edits(text) {
  const found = new Map();
  for (const part of (text || "").includes(":") ? text.split("_") : []) {
    const [t, ...doses] = part.split(":").map(Number);
    if (Number.isInteger(t) && doses.length && doses.every(Number.isFinite)) found.set(t, doses);
  }
  if (found.size) return found;
  for (const pair of (text || "").split("-")) {
    const [t, action] = pair.split(".").map(Number);
    if (Number.isInteger(t) && Number.isInteger(action) && pair) found.set(t, action);
  }
  return found;
}

export function editsText(map) {
  const pairs = [...map].sort((a, b) => a[0] - b[0]);
  return pairs.every(([, a]) => Array.isArray(a)) ? pairs.map(([t, a]) => [t, ...a].join(":")).join("_") : pairs.map(([t, a]) => `${t}.${a}`).join("-");
}

/** A set of numbers as text, "1-4-7", and back. */
export function numbers(text) {
  const parts = (text || "").split("-").filter((part) => /^\d+$/.test(part));
  return new Set(parts.map(Number));
}

export function numbersText(set) {
  return [...set].sort((a, b) => a - b).join("-");
}
