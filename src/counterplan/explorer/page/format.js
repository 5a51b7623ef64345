// Numbers as people read them. The server sends infinite ones as texts.

export function num(value) {
  if (value === null || value === undefined) return NaN;
  if (value === "inf") return Infinity;
  if (value === "-inf") return -Infinity;
  return value;
}

/** Four digits, or all in front of the point if there are more. */
export function show(value) {
  const x = num(value);
  if (Number.isNaN(x)) return "–";
  if (x === Infinity) return "∞";
  if (x === -Infinity) return "−∞";
  if (x === 0) return "0";
  const size = Math.abs(x);
  const text =
    size >= 1e3 && size < 1e15
      ? Math.round(size).toLocaleString("en-US")
      : size < 1e-4 || size >= 1e15
        ? size.toExponential(2)
        : String(Number(size.toPrecision(4)));
  return x < 0 ? `−${text}` : text;
}

/** An outcome of the run, with its unit where one is known. */
export const worth = (run, value) => `${show(value)} ${run.values_in}`.trimEnd();

/** Short, to stand at an axis. */
export function tick(value) {
  if (Math.abs(value) < 1e5) return show(value);
  const text = Math.abs(value).toLocaleString("en-US", { notation: "compact", maximumSignificantDigits: 3 });
  return value < 0 ? `−${text}` : text;
}

/** How many digits behind the point tell numbers of this size apart. */
export function decimals(values) {
  const finite = values.map(num).filter(Number.isFinite).map(Math.abs);
  const largest = Math.max(0, ...finite);
  if (finite.every(Number.isInteger) || largest >= 1e4) return 0;
  return largest >= 100 ? 1 : largest >= 1 ? 2 : largest >= 0.01 || largest === 0 ? 3 : 5;
}

/** With so many digits behind the point, so that columns of numbers line up. */
export function fixed(value, digits) {
  const x = num(value);
  if (!Number.isFinite(x)) return show(value);
  const text = Math.abs(x).toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return x < 0 && Number(text.replaceAll(",", "")) !== 0 ? `−${text}` : text;
}

/** With its sign. */
export function gain(value) {
  const x = num(value);
  return x > 0 ? `+${show(x)}` : show(x);
}

/** An interval of an improvement; empty where it is not known. */
export function between({ low, high }) {
  if (low === null) return "";
  return high === null ? `${gain(low)} or more` : `${gain(low)} to ${gain(high)}`;
}

export function percent(value) {
  const x = num(value);
  if (Number.isNaN(x)) return "–";
  if (x > 0 && x < 0.01) return "< 1 %";
  if (x > 0.99 && x < 1) return "> 99 %";
  return `${Math.round(100 * x)} %`;
}

export function count(number, noun) {
  return `${number.toLocaleString("en-US")} ${noun}${number === 1 ? "" : "s"}`;
}

/** Round numbers to write at an axis, from low to high. */
export function ticks(low, high, wanted = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((f) => f * power).find((f) => f >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1)
    found.push(Number((i * step).toPrecision(12)));
  return found;
}

/** The doses of an action: of its number, or those that it is. */
export const dosesOf = (run, action) => (Array.isArray(action) ? action : run.actions[action]);

/** Whether two actions are the same. */
export const isSameAction = (one, other) => one === other || (Array.isArray(one) && Array.isArray(other) && one.every((dose, place) => dose === other[place]));

/** A dose in its decimals, or the name of a level. */
export function doseText(dose, value) {
  if (dose.bounds) return fixed(value, dose.decimals);
  const place = dose.values ? dose.values.indexOf(value) : -1;
  return dose.labels && place >= 0 ? dose.labels[place] : show(value);
}

/** An action in words. */
export const actionName = (run, action) => (Array.isArray(action) ? run.doses.map((dose, place) => `${dose.name} ${doseText(dose, action[place])} ${dose.unit}`.trim()).join(", ") : run.names[action]);

/** When a step begins: a date, a time with its unit, or the number of the step. */
export const when = (run, one, t) => one.dates[t] ?? (run.unit ? `${show(one.times[t])} ${run.unit}` : `step ${show(one.times[t])}`);

export const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);
/** Arrows of the server's texts, as type has them. */
export const arrows = (text) => text.replaceAll(" -> ", " → ");
