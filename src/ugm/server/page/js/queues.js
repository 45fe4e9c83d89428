/**
 * The view of all queues: a tree grid with only the visible rows in the document.
 *
 * All rows have the same height, and their number determines their position. Rows outside of the visible part are removed,
 * except the one with the keyboard focus. Arrow keys move, open and close, as in any tree.
 */

import { get, path } from "./api.js";
import { gauge } from "./bars.js";
import { Columns, recordShare } from "./columns.js";
import { draw, h } from "./dom.js";
import { amountsText, count, counted, resourceName } from "./format.js";
import { link } from "./route.js";
import { announce } from "./announcements.js";
import { every, visible } from "./tree.js";

/** The largest number of queues that are all open at first. */
const MOST_OPEN = 60;
/** The number of rows that are drawn above and below the visible part. */
const MARGIN = 8;
/** The resources with a column; the detail has all of them. */
const columnChoice = new Columns(4);

export const title = "Queues";

/** @type {Map<string, boolean>} */
const opened = new Map();
const choice = { find: "", fullest: false };
/** The path of the row with the keyboard focus. */
let current = "root";
/** @type {import("./tree.js").Row[]} */
let rows = [];
/** @type {{partition: string, root: import("./types.js").Queue, shown: string} | null} */
let last = null;
let queues = 0;
/** @type {{names: string[], hidden: string[]}} */
let columns = { names: [], hidden: [] };

/** @param {import("./types.js").Route} route */
export async function load(route) {
  return get(path(route.partition, "queues"));
}

/**
 * @param {import("./types.js").Route} route
 * @param {import("./types.js").Queue} root
 */
export function show(route, root) {
  last = { partition: route.partition, root, shown: route.name };
  queues = [...every(root)].length;
  columns = columnChoice.choose(shares(root, {}, new Map()));
  rows = visible(root, { ...choice, isOpen });
  return [
    h(
      "div",
      { class: "tools" },
      h("label", { class: "field" }, "Find a queue", h("input", { type: "search", id: "find", on: { input: find }, value: choice.find })),
      h("label", { class: "check" }, h("input", { type: "checkbox", checked: choice.fullest, on: { change: sort } }), "fullest first"),
      h("span", { class: "quiet" }, counted(queues, "queue")),
      columns.hidden.length > 0 && h("span", { class: "quiet" }, `also counted: ${columns.hidden.join(", ")}`),
    ),
    h("div", { id: "tree", class: "tree", on: { scroll: redrawVisible } }, grid()),
  ];
}

/** Draw the visible rows again when the layout is known. */
export function shown() {
  redrawVisible();
}

/**
 * @param {import("./types.js").Queue} queue
 * @param {number} level
 */
function isOpen(queue, level) {
  return opened.get(queue.queue_path) ?? (level === 1 || queues <= MOST_OPEN);
}

function grid() {
  const { names } = columns;
  const place = document.getElementById("tree");
  if (!rows.some((row) => row.queue.queue_path === current)) current = rows[0]?.queue.queue_path ?? "root";
  return h(
    "div",
    { role: "treegrid", "aria-label": "Queues", "aria-rowcount": rows.length + 1, class: `grid columns${names.length}`, vars: { columns: names.length }, on: { keydown: key } },
    h(
      "div",
      { role: "row", class: "row head", "aria-rowindex": 1 },
      ["Queue", ...names.map(resourceName), "Applications", "Pending"].map((name, index) =>
        h("div", { role: "columnheader", class: cellClass(index, names.length), title: name }, name),
      ),
    ),
    h(
      "div",
      { role: "rowgroup", class: "rows", vars: { count: rows.length } },
      visibleNumbers(place).map((number) => line(number, names)),
    ),
  );
}

/**
 * @param {number} index
 * @param {number} resources
 */
function cellClass(index, resources) {
  if (index === 0) return "name";
  return index <= resources ? "measure" : "number";
}

/**
 * Record the largest used share of every resource in any queue.
 *
 * @param {import("./types.js").Queue} queue
 * @param {import("./types.js").Amounts} above the lowest limits of the queues above
 * @param {Map<string, number>} found
 */
function shares(queue, above, found) {
  const limits = { ...above };
  for (const [name, most] of Object.entries(queue.max_resources ?? {})) limits[name] = limits[name] === undefined || most < limits[name] ? most : limits[name];
  for (const name of new Set([queue.usage, queue.pending, queue.max_resources ?? {}].flatMap(Object.keys))) recordShare(found, name, queue.usage[name] ?? 0, limits[name]);
  for (const child of queue.children) shares(child, limits, found);
  return found;
}

/**
 * Return the numbers of the rows to draw.
 *
 * @param {HTMLElement | null} place
 */
function visibleNumbers(place) {
  const height = rowHeight(place);
  const first = Math.max(0, Math.floor((place?.scrollTop ?? 0) / height) - MARGIN);
  const end = Math.min(rows.length, first + Math.ceil((place?.clientHeight ?? 800) / height) + 2 * MARGIN);
  const numbers = Array.from({ length: Math.max(0, end - first) }, (_, index) => first + index);
  const kept = rows.findIndex((row) => row.queue.queue_path === current);
  if (kept >= 0 && kept < first) numbers.unshift(kept);
  if (kept >= end) numbers.push(kept);
  return numbers;
}

/** @param {Element | null} place */
function rowHeight(place) {
  return place?.querySelector(".rows > .row")?.getBoundingClientRect().height || 56;
}

/**
 * @param {number} number
 * @param {string[]} names
 */
function line(number, names) {
  const row = /** @type {import("./tree.js").Row} */ (rows[number]);
  const { queue, level, ceilings } = row;
  const isParent = queue.children.length > 0;
  return h(
    "div",
    {
      key: queue.queue_path,
      role: "row",
      class: "row",
      "data-path": queue.queue_path,
      tabindex: queue.queue_path === current ? "0" : "-1",
      "aria-level": level,
      "aria-rowindex": number + 2,
      "aria-posinset": row.position,
      "aria-setsize": row.siblings,
      "aria-expanded": isParent ? String(row.isOpen) : null,
      "aria-selected": String(last?.shown === queue.queue_path),
      vars: { number, level },
      on: { click, focus },
    },
    h(
      "div",
      { role: "rowheader", class: "name" },
      h("span", { class: isParent ? `twist${row.isOpen ? " open" : ""}` : "twist none", "aria-hidden": "true" }),
      h("span", { class: "label", title: queue.queue_path }, row.name),
      queue.is_draining && h("span", { class: "badge quiet" }, "draining"),
    ),
    names.map((name) => h("div", { role: "gridcell", class: "measure" }, h("span", { class: "measure-name", "aria-hidden": "true" }, resourceName(name)), measure(name, queue, ceilings[name]))),
    h("div", { role: "gridcell", class: "number" }, applications(queue)),
    h("div", { role: "gridcell", class: "number", title: amountsText(queue.pending) }, queue.pending_allocations ? count(queue.pending_allocations) : "–"),
  );
}

/**
 * @param {string} name
 * @param {import("./types.js").Queue} queue
 * @param {import("./tree.js").Ceiling | undefined} ceiling
 */
function measure(name, queue, ceiling) {
  const inherited = ceiling && ceiling.setBy !== queue.queue_path ? ceiling.setBy : undefined;
  return gauge(name, queue.usage[name] ?? 0, ceiling?.amount, {
    guaranteed: queue.guaranteed?.[name],
    pending: queue.pending[name],
    inheritedFrom: inherited,
  });
}

/** @param {import("./types.js").Queue} queue */
function applications(queue) {
  const running = count(queue.running_applications);
  return queue.max_applications ? [running, h("span", { class: "of" }, ` of ${count(queue.max_applications)}`)] : running;
}

// Input

function redraw() {
  if (last) rows = visible(last.root, { ...choice, isOpen });
  redrawVisible();
}

/** Draw the visible rows again. */
function redrawVisible() {
  const place = document.getElementById("tree");
  if (place && last) draw(place, grid());
}

/** @param {Event} event */
function find(event) {
  choice.find = /** @type {HTMLInputElement} */ (event.target).value.trim();
  redraw();
  const found = rows.filter((row) => row.queue.queue_path.includes(choice.find.toLowerCase())).length;
  if (choice.find) announce(`${counted(found, "queue")} found`);
}

/** @param {Event} event */
function sort(event) {
  choice.fullest = /** @type {HTMLInputElement} */ (event.target).checked;
  redraw();
}

/** @param {MouseEvent} event */
function click(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  const found = pathOf(/** @type {Element} */ (event.currentTarget));
  if (target.classList.contains("twist")) toggle(found);
  else go(found);
}

/** @param {FocusEvent} event */
function focus(event) {
  const found = pathOf(/** @type {Element} */ (event.currentTarget));
  if (found === current) return;
  current = found;
  redrawVisible();
}

/** @param {Element} row */
function pathOf(row) {
  return row.getAttribute("data-path") ?? "root";
}

/** @param {string} found */
function go(found) {
  current = found;
  if (last) location.hash = link(last.partition, "queues", found);
}

/**
 * @param {string} found
 * @param {boolean} [open]
 */
function toggle(found, open) {
  const row = rows.find((one) => one.queue.queue_path === found);
  if (!row?.queue.children.length) return;
  opened.set(found, open ?? !row.isOpen);
  current = found;
  redraw();
}

/** @param {KeyboardEvent} event */
function key(event) {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const place = document.getElementById("tree");
  const at = rows.findIndex((row) => row.queue.queue_path === current);
  const row = rows[at];
  if (!place || !row) return;
  const page = Math.max(1, Math.floor(place.clientHeight / rowHeight(place)) - 2);
  /** @type {Record<string, () => void>} */
  const moves = {
    ArrowDown: () => move(at + 1),
    ArrowUp: () => move(at - 1),
    Home: () => move(0),
    End: () => move(rows.length - 1),
    PageDown: () => move(at + page),
    PageUp: () => move(at - page),
    ArrowRight: () => (row.isOpen ? move(at + 1) : toggle(current, true)),
    ArrowLeft: () => (row.isOpen ? toggle(current, false) : move(rows.findIndex((one) => row.queue.queue_path.startsWith(`${one.queue.queue_path}.`) && one.level === row.level - 1))),
    Enter: () => go(current),
    " ": () => go(current),
  };
  const moved = moves[event.key];
  if (!moved) return;
  event.preventDefault();
  moved();
}

/** @param {number} to */
function move(to) {
  const place = document.getElementById("tree");
  const row = rows[Math.min(rows.length - 1, Math.max(0, to))];
  if (!place || !row) return;
  current = row.queue.queue_path;
  const [height, head] = [rowHeight(place), place.querySelector(".head")?.getBoundingClientRect().height ?? 0];
  const top = rows.indexOf(row) * height;
  if (top < place.scrollTop) place.scrollTop = top;
  else if (top + height > place.scrollTop + place.clientHeight - head) place.scrollTop = top + height - place.clientHeight + head;
  redrawVisible();
  /** @type {HTMLElement | null} */ (place.querySelector('.rows > [tabindex="0"]'))?.focus({ preventScroll: true });
}
