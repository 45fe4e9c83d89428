/**
 * The view of all queues as a tree grid, and the detail of one: its resources, the quotas up to the root, and the limits
 * that the configuration sets on it.
 *
 * @typedef {{amount: Amount, setBy: string}} Ceiling a limit, and the queue that sets it
 * @typedef {{queue: Queue, ceilings: Map<string, Ceiling>}} Limited
 * @typedef {import("./treegrid.js").GridRow & Limited & {name: string}} Row
 * @typedef {{isOpen: (queue: Queue, level: number) => boolean, search: string, sort: string}} Choice the order: `name`, `share`,
 *   `applications`, `pending`, or `of` with a resource
 */

import { get, orNull, path } from "../base/api.js";
import { announce, h, redraw } from "../base/dom.js";
import { amountsText, byName, count, counted, limitShare, resourceName } from "../base/format.js";
import { live } from "../base/live.js";
import { link, route } from "../base/route.js";
import { gauge } from "../parts/bars.js";
import { Columns, shownNames } from "../parts/columns.js";
import { historySection, loadHistory } from "../parts/history.js";
import { chain } from "../parts/limits.js";
import { Order, resourceTable } from "../parts/lists.js";
import { TreeGrid } from "./treegrid.js";
import { applicationsOf, loadApplications } from "../views/applications.js";

/**
 * Yield a queue and all queues below it, each with the lowest limits of itself and the queues above it.
 *
 * @param {Queue} queue
 * @param {Map<string, Ceiling>} [above]
 * @returns {Generator<Limited>}
 */
function* every(queue, above = new Map()) {
  const ceilings = lowered(above, queue);
  yield { queue, ceilings };
  for (const child of queue.children) yield* every(child, ceilings);
}

/** @param {Map<string, Ceiling>} above @param {Queue} queue */
function lowered(above, queue) {
  const own = Object.entries(queue.max_resources ?? {}).filter(([name, amount]) => amount <= (above.get(name)?.amount ?? amount));
  return own.length ? new Map([...above, ...own.map(([name, amount]) => /** @type {const} */ ([name, { amount, setBy: queue.queue_path }]))]) : above;
}

/**
 * Return the visible rows from the top.
 *
 * @param {Queue} root
 * @param {Choice} choice
 * @returns {Row[]}
 */
function visible(root, choice) {
  return rowsOf([root], 1, new Map(), choice, choice.search ? matching(root, choice.search.toLowerCase()) : null);
}

/**
 * @param {Queue[]} queues
 * @param {number} level
 * @param {Map<string, Ceiling>} above
 * @param {Choice} choice
 * @param {Set<string> | null} kept the paths of the only visible queues; null for no restriction
 * @returns {Row[]}
 */
function rowsOf(queues, level, above, choice, kept) {
  const shown = queues.filter((queue) => kept?.has(queue.queue_path) ?? true).map((queue) => ({ queue, ceilings: lowered(above, queue) }));
  shown.sort((one, other) => rank(other, choice.sort) - rank(one, choice.sort) || byName(one.queue.queue_path, other.queue.queue_path));
  return shown.flatMap(({ queue, ceilings }, index) => {
    const isParent = queue.children.length > 0;
    const isOpen = isParent && (kept !== null || choice.isOpen(queue, level));
    const name = queue.queue_path.slice(queue.queue_path.lastIndexOf(".") + 1);
    const row = { key: queue.queue_path, queue, name, level, position: index + 1, siblings: shown.length, isParent, isOpen, ceilings };
    return isOpen ? [row, ...rowsOf(queue.children, level + 1, ceilings, choice, kept)] : [row];
  });
}

/**
 * Return the number by which queues are sorted, the largest first.
 *
 * @param {Limited} found
 * @param {string} sort
 */
function rank({ queue, ceilings }, sort) {
  if (sort === "name") return 0;
  if (sort === "applications") return queue.running_applications;
  if (sort === "pending") return queue.pending_allocations;
  if (sort !== "share") return Number(queue.usage[sort.slice(3)] ?? 0);
  // The largest used share of anything that limits a queue: its own maximum, or one above it; -1 without a limit.
  const shares = [...ceilings].map(([name, { amount }]) => limitShare(queue.usage[name] ?? 0, amount));
  return Math.max(-1, queue.max_applications ? queue.running_applications / queue.max_applications : -1, ...shares);
}

/**
 * Return the paths that contain a text, and the paths of the queues above them.
 *
 * @param {Queue} root
 * @param {string} text
 */
function matching(root, text) {
  const kept = new Set([root.queue_path]);
  for (const { queue } of every(root)) {
    if (queue.queue_path.includes(text)) queue.queue_path.split(".").forEach((_, index, parts) => kept.add(parts.slice(0, index + 1).join(".")));
  }
  return kept;
}

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
export const queues = { title: "Queues", topic: "queues", load: async () => live.tree() ?? get(path("queues")), show, shown: () => grid.redraw(), detail: { noun: "Queue", load: loadDetail, show: showDetail } };

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

/** @typedef {{queue: QueueDetail, applications: Application[], more: boolean,
 *   samples: import("../parts/history.js").Found}} QueueData */

/** @returns {Promise<QueueData | null>} */
async function loadDetail() {
  const queue = await orNull(get(path("queue", route.name)));
  if (!queue) return null;
  const [applications, samples] = await Promise.all([loadApplications({ queue: queue.queue_path }), loadHistory({ kind: "queue", name: queue.queue_path })]);
  return { queue, ...applications, samples };
}

/** @param {QueueData | null} data @param {Queue} root */
function showDetail(data, root) {
  if (!data) return h("p", { class: "quiet" }, `There is no queue ${route.name}.`);
  const { queue } = data;
  return [
    h("p", { class: "quiet" }, facts(queue)),
    resources(queue),
    historySection(data.samples),
    chain("Quotas from here to the root", quotas(root, queue.queue_path)),
    configured(queue),
    applicationsOf(data, { queue: queue.queue_path }),
  ];
}

/** @param {Queue} queue */
function facts(queue) {
  const found = [queue.is_leaf ? "Leaf" : counted(queue.children.length, "queue") + " directly below"];
  if (!queue.is_managed) found.push("created by a placement rule");
  if (queue.is_draining) found.push("draining: it takes no new applications");
  found.push(`${count(queue.running_applications)} of ${counted(queue.applications, "application")} running`);
  if (queue.pending_allocations) found.push(`${counted(queue.pending_allocations, "allocation")} pending`);
  return `${found.join("; ")}.`;
}

/** @param {QueueDetail} queue */
function resources(queue) {
  const { usage, guaranteed, pending, headroom, maximum } = queue;
  const names = shownNames([usage, queue.max_resources, maximum, guaranteed, pending, headroom]);
  const show = (/** @type {string} */ name) => gauge(name, usage[name] ?? 0, maximum?.[name], { guaranteed: guaranteed?.[name], pending: pending[name] });
  return names.length > 0 && resourceTable(names, { name: "Used", show }, [["Guaranteed", guaranteed], ["Pending", pending], ["Free", headroom]], "stack");
}

/**
 * Return the quotas of a queue and of those above it, the queue first.
 *
 * @param {Queue} root
 * @param {string} path
 */
function quotas(root, path) {
  const found = [...every(root)].map(({ queue }) => queue).filter((queue) => `${path}.`.startsWith(`${queue.queue_path}.`));
  return found.reverse().map((queue) => ({ ...queue, kind: "queue", name: queue.queue_path, limit_name: "" }));
}

/** @param {QueueDetail} queue */
function configured(queue) {
  if (!queue.limits.length) return null;
  return [
    h("h3", null, "Limits set here for users and groups"),
    h(
      "ul",
      { class: "plain" },
      queue.limits.map((limit) =>
        h("li", null, h("strong", null, names(limit)), ": ", most(limit), limit.label && h("span", { class: "quiet" }, ` – ${limit.label}`)),
      ),
    ),
  ];
}

/** @param {ConfiguredLimit} limit */
function names(limit) {
  const users = limit.users.map((name) => (name === "*" ? "every other user" : `user ${name}`));
  const groups = limit.groups.map((name) => (name === "*" ? "all other groups together" : `group ${name}`));
  return [...users, ...groups].join(", ");
}

/** @param {ConfiguredLimit} limit */
function most(limit) {
  const found = [];
  if (limit.max_resources && Object.keys(limit.max_resources).length) found.push(amountsText(limit.max_resources));
  if (limit.max_applications) found.push(counted(limit.max_applications, "application"));
  return found.join(", ") || "no limit";
}
