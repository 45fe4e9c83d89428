/**
 * The view of all queues, as a tree grid.
 */

import { announce } from "../base/announcements.js";
import { get, path } from "../base/api.js";
import { gauge } from "../parts/bars.js";
import { Columns, recordShare } from "../parts/columns.js";
import { h } from "../base/dom.js";
import { amountsText, count, counted, resourceName } from "../base/format.js";
import { live } from "../base/live.js";
import { link } from "../base/route.js";
import { remembered } from "../base/settings.js";
import { every, visible } from "./tree.js";
import { orderField } from "../parts/sorting.js";
import { nameCell, TreeGrid } from "./treegrid.js";

/** The largest number of queues that are all open at first. */
const MOST_OPEN = 60;
/** The resources with a column; the detail has all of them. */
const columnChoice = new Columns(4, "queues");
const order = remembered("queues order", "name");

export const title = "Queues";

/** @type {Map<string, boolean>} */
const opened = new Map();
let text = "";
/** @type {{partition: string, root: import("../types.js").Queue} | null} */
let last = null;
let queues = 0;

/** @type {TreeGrid<import("./tree.js").Row>} */
const grid = new TreeGrid({
  label: title,
  style: "counts",
  cells,
  go: (key) => {
    if (last) location.hash = link(last.partition, "queues", key);
  },
  toggle: (row, isOpen) => {
    opened.set(row.key, isOpen);
    redraw();
  },
  sort: (by) => {
    order.set(by);
    window.dispatchEvent(new Event("redraw"));
  },
});

/** @param {import("../types.js").Route} route */
export async function load(route) {
  return live.tree() ?? get(path(route.partition, "queues"));
}

/**
 * @param {import("../types.js").Route} route
 * @param {import("../types.js").Queue} root
 */
export function show(route, root) {
  last = { partition: route.partition, root };
  queues = [...every(root)].length;
  const { names, hidden } = columnChoice.choose(shares(root, new Map(), new Map()));
  grid.columns = [
    { name: "Queue", kind: "name", sort: "name" },
    ...names.map((name) => /** @type {const} */ ({ name: resourceName(name), kind: "measure", sort: `of ${name}` })),
    { name: "Running", kind: "number", sort: "applications" },
    { name: "Pending", kind: "number", sort: "pending" },
  ];
  const sorts = [...grid.columns, { name: "Share of the limit", sort: "share" }].map((one) => one.sort);
  grid.sorted = sorts.includes(order.get()) ? order.get() : "name";
  grid.shown = route.name;
  arrange();
  return [
    h(
      "div",
      { class: "tools" },
      h("label", { class: "field" }, "Find a queue", h("input", { type: "search", id: "search", on: { input: search }, value: text })),
      orderField(grid, [["share", "Share of the limit"]]),
      columnChoice.field(),
      h("span", { class: "quiet" }, counted(queues, "queue"), hidden.length > 0 && `; also counted: ${hidden.join(", ")}`),
    ),
    grid.describe(),
  ];
}

/** Draw the visible rows again when the layout is known. */
export function shown() {
  grid.redraw();
}

function arrange() {
  if (last) grid.rows = visible(last.root, { search: text, sort: grid.sorted, isOpen: (queue, level) => opened.get(queue.queue_path) ?? (level === 1 || queues <= MOST_OPEN) });
}

function redraw() {
  arrange();
  grid.redraw();
}

/**
 * Record the largest used share of every resource in any queue.
 *
 * @param {import("../types.js").Queue} queue
 * @param {Map<string, import("../types.js").Amount>} above the lowest limits of the queues above
 * @param {Map<string, number>} found
 */
function shares(queue, above, found) {
  const limits = new Map(above);
  for (const [name, most] of Object.entries(queue.max_resources ?? {})) {
    const known = limits.get(name);
    limits.set(name, known === undefined || most < known ? most : known);
  }
  for (const name of new Set([queue.usage, queue.pending, queue.max_resources ?? {}].flatMap(Object.keys))) recordShare(found, name, queue.usage[name] ?? 0, limits.get(name));
  for (const child of queue.children) shares(child, limits, found);
  return found;
}

/** @param {import("./tree.js").Row} row */
function cells(row) {
  const { queue, ceilings } = row;
  return [
    nameCell(row, row.name, queue.is_draining && h("span", { class: "badge quiet" }, "draining")),
    columnChoice.names.map((name) => h("div", { role: "gridcell", class: "measure" }, h("span", { class: "measure-name", "aria-hidden": "true" }, resourceName(name)), measure(name, queue, ceilings.get(name)))),
    h("div", { role: "gridcell", class: "number" }, applications(queue)),
    h("div", { role: "gridcell", class: "number", title: amountsText(queue.pending) }, queue.pending_allocations ? count(queue.pending_allocations) : "–"),
  ];
}

/**
 * @param {string} name
 * @param {import("../types.js").Queue} queue
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

/** @param {import("../types.js").Queue} queue */
function applications(queue) {
  const running = count(queue.running_applications);
  return queue.max_applications ? [running, h("span", { class: "of" }, ` of ${count(queue.max_applications)}`)] : running;
}

/** @param {Event} event */
function search(event) {
  text = /** @type {HTMLInputElement} */ (event.target).value.trim();
  redraw();
  const found = grid.rows.filter((row) => row?.key.includes(text.toLowerCase())).length;
  if (text) announce(`${counted(found, "queue")} found`);
}
