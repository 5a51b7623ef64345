// Elements, built so that text is always text: nothing from data is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element: h("td.number", {title: "..."}, "text", another). Attributes that are null, undefined or
 * false are left out; names that start with "on" are listeners. */
export function h(what, attributes = {}, ...children) {
  return made((tag) => document.createElement(tag), what, attributes, children);
}

/** The same for the parts of a drawing. */
export function s(what, attributes = {}, ...children) {
  return made((tag) => document.createElementNS(SVG, tag), what, attributes, children);
}

function made(create, what, attributes, children) {
  const [tag, ...classes] = what.split(".");
  const element = create(tag);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else if (name === "checked") element.checked = true;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Put something in the place of all that an element holds. */
export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

/** Draw anew, and leave focus, scrolling and what is folded open as they were. */
export function undisturbed(draw) {
  const focused = document.activeElement?.id;
  const scrolled = [...document.querySelectorAll("[id].tall")].map((one) => [one.id, one.scrollTop]);
  const folded = [...document.querySelectorAll("details[id]")].map((one) => [one.id, one.open]);
  draw();
  for (const [id, open] of folded) {
    const one = document.getElementById(id);
    if (one) one.open = open;
  }
  for (const [id, top] of scrolled) {
    const one = document.getElementById(id);
    if (one) one.scrollTop = top;
  }
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

/** Tell those who listen instead of looking. */
export function say(text) {
  document.getElementById("live").textContent = text;
}

/** Call with the width of an element, now and whenever it changes; returns what ends that. */
export function watchWidth(element, draw) {
  let last = 0;
  const drawFor = (width) => {
    if (width > 0 && width !== last) draw((last = width));
  };
  // What stands in the page already is not left empty until the observer is heard.
  drawFor(Math.floor(element.getBoundingClientRect().width));
  const observer = new ResizeObserver((entries) => drawFor(Math.floor(entries[0].contentRect.width)));
  observer.observe(element);
  return () => observer.disconnect();
}

/** Wait until nothing has been asked for some milliseconds. */
export function calmly(milliseconds, act) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...given), milliseconds);
  };
}
