/**
 * The document: descriptions of elements, its update to match them, and what a part of the page lets the others do.
 *
 * A view is described again from the newest data every few seconds. Unchanged parts keep their elements, so focus, selected
 * text and scroll positions stay. Text is always inserted as text; nothing here parses markup.
 *
 * Only results of what the reader does, and the loss and return of the server, are announced to screen readers; changing
 * figures are not.
 *
 * @typedef {object} Node
 * @property {string} tag
 * @property {Record<string, any>} props
 * @property {Child[]} children
 *
 * @typedef {Node | string | number | null | undefined | false | readonly any[]} Child children may be nested in lists
 */

const KEY = Symbol("key");
const SVG = "http://www.w3.org/2000/svg";
/** The tags of drawings. */
const DRAWN = new Set(["svg", "path"]);

/**
 * Describe an element, as in `h("p.quiet", { title: "a tooltip" }, "a text")`.
 * @param {string} name the tag, and classes after points
 * @param {...any} parts the properties, which may be left out, and the children. Properties are attributes, and `key`, which
 *   distinguishes siblings; `on`, the listeners by event; `vars`, custom properties of the style; `value`, the value of a
 *   field; `keeps`, an attribute that only the reader changes
 * @returns {Node}
 */
export function h(name, ...parts) {
  const [tag = "", ...classes] = name.split(".");
  const hasProps = parts[0]?.constructor === Object && !("children" in parts[0]);
  const props = hasProps ? parts.shift() : {};
  return { tag, props: { ...props, class: [...classes, props.class].filter(Boolean).join(" ") || null }, children: parts };
}

/** Update the content of an element to match a description, and keep the focus. */
/** @param {Element} place @param {...Child} children */
export function draw(place, ...children) {
  const focused = /** @type {HTMLElement | null} */ (document.activeElement);
  patch(place, children);
  if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}

/** @param {Element} parent @param {Child[]} children */
function patch(parent, children) {
  const keyed = keys(parent);
  /** @type {ChildNode | null} */
  let place = parent.firstChild;
  for (const child of flat(children)) {
    const found = match(child, place, keyed) ?? make(child);
    if (place !== null && found === place) place = place.nextSibling;
    else parent.insertBefore(found, place);
    update(found, child);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

/** @param {Element} parent */
function keys(parent) {
  const keyed = new Map();
  for (const child of /** @type {any} */ (parent.childNodes)) if (child[KEY] !== undefined) keyed.set(child[KEY], child);
  return keyed;
}

/** @param {Child[]} children @returns {(Node | string)[]} */
function flat(children) {
  return /** @type {any[]} */ (children)
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false && child !== "")
    .map((child) => (typeof child === "object" ? child : String(child)));
}

/** Return an existing element that can be updated to match a description, or null. */
/** @param {Node | string} child @param {any} place @param {Map<unknown, any>} keyed */
function match(child, place, keyed) {
  const name = typeof child === "string" ? "#text" : child.tag;
  const key = typeof child === "string" ? undefined : child.props.key;
  const found = key === undefined ? place : keyed.get(key);
  return found && found.nodeName.toLowerCase() === name && found[KEY] === key ? found : null;
}

/** @param {Node | string} child */
function make(child) {
  if (typeof child === "string") return document.createTextNode(child);
  const made = /** @type {any} */ (DRAWN.has(child.tag) ? document.createElementNS(SVG, child.tag) : document.createElement(child.tag));
  made[KEY] = child.props.key;
  return made;
}

/** @param {any} element @param {Node | string} child */
function update(element, child) {
  if (typeof child === "string") {
    if (element.data !== child) element.data = child;
    return;
  }
  const { key, on, vars, value, keeps, ...attributes } = child.props;
  attribute(element, attributes, keeps);
  listen(element, on ?? {});
  for (const [name, amount] of Object.entries(vars ?? {})) element.style.setProperty(`--${name}`, String(amount));
  patch(element, child.children);
  // The attribute is only the initial state of a box.
  if (element.type === "checkbox") element.checked = Boolean(attributes.checked);
  if (value !== undefined && element.value !== value && document.activeElement !== element) element.value = value;
}

/** @param {Element} element @param {Record<string, any>} wanted @param {string} [kept] */
function attribute(element, wanted, kept) {
  for (const name of element.getAttributeNames()) {
    if (name !== "style" && name !== kept && (wanted[name] === undefined || wanted[name] === null || wanted[name] === false)) {
      element.removeAttribute(name);
    }
  }
  for (const [name, value] of Object.entries(wanted)) {
    if (value === undefined || value === null || value === false) continue;
    const text = value === true ? "" : String(value);
    if (element.getAttribute(name) !== text) element.setAttribute(name, text);
  }
}

/** @param {any} element @param {Record<string, any>} wanted */
function listen(element, wanted) {
  for (const name of element.listening ?? []) if (!(name in wanted)) element[`on${name}`] = null;
  for (const [name, listener] of Object.entries(wanted)) element[`on${name}`] = listener;
  element.listening = Object.keys(wanted);
}

/** Milliseconds to wait for a newer announcement, for example while the reader types. */
const DELAY = 400;

/** @type {number | undefined} */
let timer;

/** @param {string} text is read out through the one live region of the page */
export function announce(text) {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const region = document.getElementById("announcements");
    if (region) region.textContent = text;
  }, DELAY);
}

/** Load the data of the current view again. */
export function refresh() {
  window.dispatchEvent(new Event("refresh"));
}

/** Draw the current view again. */
export function redraw() {
  window.dispatchEvent(new Event("redraw"));
}
