/**
 * The view of all queues, as a tree grid.
 */

import { get, path } from "../base/api.js";
import { gauge } from "../parts/bars.js";
import { Columns } from "../parts/columns.js";
import { h } from "../base/dom.js";
import { announce, redraw } from "../base/events.js";
import { amountsText, count, counted, resourceName } from "../base/format.js";
import { live } from "../base/live.js";
import { link } from "../base/route.js";
import { detail } from "./queue.js";
import { every, visible } from "./tree.js";
import { Order } from "../parts/sorting.js";
import { TreeGrid } from "./treegrid.js";

/** @typedef {import("./tree.js").Row} Row */

/** The largest number of queues that are all open at first. */
const MOST_OPEN = 60;
/** The resources with a column; the detail has all of them. */
const columnChoice = new Columns(4, "queues");
const order = new Order("queues", "name", redraw);

/** @type {Map<string, boolean>} */
const opened = new Map();
let text = "";
/** @type {Queue | null} */
let last = null;
let total = 0;

/** @type {TreeGrid<Row>} */
const grid = new TreeGrid({
  label: "Queues",
  style: "counts",
  order,
  go: (key) => {
    location.hash = link("queues", key);
  },
  toggle: (row, isOpen) => {
    opened.set(row.key, isOpen);
    update();
  },
});

/** @type {View<Queue>} */
export const queues = { title: "Queues", topic: "queues", load: async () => live.tree() ?? get(path("queues")), show, shown: () => grid.redraw(), detail };

/** @param {Queue} root */
function show(root) {
  last = root;
  const all = [...every(root)];
  total = all.length;
  const { names, hidden } = columnChoice.choose(all.map(({ queue }) => ({ ...queue, limits: queue.max_resources })));
  grid.columns = [
    { name: "Queue", style: "name", sort: "name", show: ({ queue }) => queue.is_draining && h("span", { class: "badge quiet" }, "draining") },
    ...names.map((name) => /** @type {Column<Row>} */ ({ name: resourceName(name), resource: name, style: "measure", sort: `of ${name}`, show: measure(name) })),
    { name: "Running", style: "number", sort: "applications", show: ({ queue }) => applications(queue) },
    { name: "Pending", style: "number", sort: "pending", show: ({ queue }) => (queue.pending_allocations ? count(queue.pending_allocations) : "–"), props: ({ queue }) => ({ title: amountsText(queue.pending) }) },
  ];
  order.known = ["share", ...grid.columns.map(({ sort }) => sort)];
  arrange();
  return [
    h(
      "div",
      { class: "tools" },
      h("label", { class: "field" }, "Find a queue", h("input", { type: "search", id: "search", on: { input: search }, value: text })),
      order.field(grid.columns, [["share", "Share of the limit"]]),
      columnChoice.field(),
      h("span", { class: "quiet" }, counted(total, "queue"), hidden.length > 0 && `; also counted: ${hidden.join(", ")}`),
    ),
    grid.describe(),
  ];
}

function arrange() {
  if (last) grid.rows = visible(last, { search: text, sort: order.sorted, isOpen: (queue, level) => opened.get(queue.queue_path) ?? (level === 1 || total <= MOST_OPEN) });
}

function update() {
  arrange();
  grid.redraw();
}

/** @param {string} name */
function measure(name) {
  return (/** @type {Row} */ { queue, ceilings }) => {
    const { amount, setBy } = ceilings.get(name) ?? {};
    return gauge(name, queue.usage[name] ?? 0, amount, { guaranteed: queue.guaranteed?.[name], pending: queue.pending[name], inheritedFrom: setBy === queue.queue_path ? undefined : setBy });
  };
}

/** @param {Queue} queue */
function applications(queue) {
  const running = count(queue.running_applications);
  return queue.max_applications ? [running, h("span", { class: "of" }, ` of ${count(queue.max_applications)}`)] : running;
}

/** @param {Event} event */
function search(event) {
  text = /** @type {HTMLInputElement} */ (event.target).value.trim();
  update();
  const found = grid.rows.filter((row) => row?.key.includes(text.toLowerCase())).length;
  if (text) announce(`${counted(found, "queue")} found`);
}
