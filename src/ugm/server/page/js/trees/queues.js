/**
 * The view of all queues as a tree grid, and the detail of one: its resources, the quotas up to the root, and the limits
 * that the configuration sets on it.
 *
 * @typedef {{amount: Amount, setBy: string}} Ceiling a limit, and the queue that sets it
 * @typedef {{key: string, name: string, queue: Queue, ceilings: Map<string, Ceiling>, children: Limited[]}} Limited a queue with
 *   the lowest limits of itself and the queues above it
 * @typedef {import("./treegrid.js").GridRow & Limited} Row
 * @typedef {{queue: QueueDetail, applications: Application[], more: boolean, samples: import("../parts/history.js").Found}} QueueData
 */

import { get, orNull, path } from "../base/api.js";
import { h } from "../base/dom.js";
import { amountsText, count, counted, limitShare, resourceName } from "../base/format.js";
import { live } from "../base/live.js";
import { route } from "../base/route.js";
import { Columns, shownNames } from "../parts/columns.js";
import { historySection } from "../parts/history.js";
import { chain, gauge } from "../parts/limits.js";
import { addressField, list, resourceTable } from "../parts/lists.js";
import { TreeGrid } from "./treegrid.js";
import { applicationsOf, loadWork } from "../views/applications.js";

/** The resources with a column; the detail has all of them. */
const columnChoice = new Columns(4, "queues");
/** The order by the largest used share of anything that limits a queue: its own maximum, or one above it. */
const SHARE = { name: "Share of the limit", sort: "share", rank: largestShare };

/** @type {TreeGrid<Row>} */
const grid = new TreeGrid({ view: "queues", label: "Queues" });
grid.orders = [SHARE];

/** @type {View<Queue, QueueData>} */
export const queues = {
  title: "Queues",
  topic: "queues",
  load: async () => live.tree() ?? get(path("queues")),
  show,
  shown: () => grid.redraw(),
  detail: { noun: "Queue", load: loadDetail, show: showDetail },
};

/** @param {Queue} root */
function show(root) {
  const top = limited(root);
  const all = every(top);
  const search = (route.query.search ?? "").toLowerCase();
  const { names, hidden } = columnChoice.choose(all.map(({ queue }) => ({ ...queue, limits: queue.max_resources })));
  grid.columns = [
    { name: "Queue", style: "name", sort: "name", show: ({ queue }) => queue.is_draining && h("span.badge.quiet", "draining") },
    ...names.map(measure),
    { name: "Running", style: "number", sort: "applications", rank: ({ queue }) => queue.running_applications, show: running },
    { name: "Pending", style: "number", sort: "pending", rank: ({ queue }) => queue.pending_allocations, show: ({ queue }) => (queue.pending_allocations ? count(queue.pending_allocations) : "–"), props: ({ queue }) => ({ title: amountsText(queue.pending) }) },
  ];
  grid.fill([top], all.length);
  return list([addressField("search", "Find a queue"), grid.orderField(), columnChoice.field()], {
    noun: "queue",
    note: [counted(all.length, "queue"), hidden.length > 0 && `; also counted: ${hidden.join(", ")}`],
    total: all.filter(({ key }) => key.toLowerCase().includes(search)).length,
    rows: () => grid.describe(),
    pages: null,
  });
}

/**
 * @param {Queue} queue @param {Map<string, Ceiling>} [above]
 * @returns {Limited}
 */
function limited(queue, above = new Map()) {
  const own = Object.entries(queue.max_resources ?? {}).filter(([name, amount]) => amount <= (above.get(name)?.amount ?? amount));
  const ceilings = new Map([...above, ...own.map(([name, amount]) => /** @type {const} */ ([name, { amount, setBy: queue.queue_path }]))]);
  const key = queue.queue_path;
  return { key, name: key.slice(key.lastIndexOf(".") + 1), queue, ceilings, children: queue.children.map((child) => limited(child, ceilings)) };
}

/** @param {Limited} top @returns {Limited[]} the queue and all queues below it */
function every(top) {
  return [top, ...top.children.flatMap(every)];
}

/** @param {Limited} found */
function largestShare({ queue, ceilings }) {
  const shares = [...ceilings].map(([name, { amount }]) => limitShare(queue.usage[name] ?? 0, amount));
  return Math.max(-1, queue.max_applications ? queue.running_applications / queue.max_applications : -1, ...shares);
}

/** @param {string} name @returns {Column<Row>} the column of a resource */
function measure(name) {
  const rank = (/** @type {Row} */ { queue }) => Number(queue.usage[name] ?? 0);
  const show = (/** @type {Row} */ { queue, ceilings }) => {
    const { amount, setBy } = ceilings.get(name) ?? {};
    return gauge(name, queue.usage[name] ?? 0, amount, { guaranteed: queue.guaranteed?.[name], pending: queue.pending[name], inheritedFrom: setBy === queue.queue_path ? undefined : setBy });
  };
  return { name: resourceName(name), resource: name, style: "measure", sort: `of ${name}`, rank, show };
}

/** @param {Row} row */
function running({ queue }) {
  return [count(queue.running_applications), queue.max_applications > 0 && h("span.of", ` of ${count(queue.max_applications)}`)];
}

/** @returns {Promise<QueueData | null>} */
async function loadDetail() {
  const queue = await orNull(get(path("queue", route.name)));
  if (!queue) return null;
  return { queue, ...(await loadWork("queue", queue.queue_path)) };
}

/** @param {QueueData} data @param {Queue} root */
function showDetail(data, root) {
  const { queue } = data;
  return [
    h("p.quiet", facts(queue)),
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

/** Return the quotas of a queue and of those above it, the queue first. */
/** @param {Queue} root @param {string} path */
function quotas(root, path) {
  const found = every(limited(root)).filter(({ queue }) => `${path}.`.startsWith(`${queue.queue_path}.`));
  return found.reverse().map(({ queue }) => ({ ...queue, kind: "queue", name: queue.queue_path, limit_name: "" }));
}

/** @param {QueueDetail} queue */
function configured(queue) {
  const line = (/** @type {ConfiguredLimit} */ limit) => h("li", h("strong", names(limit)), ": ", most(limit), limit.label && h("span.quiet", ` – ${limit.label}`));
  return queue.limits.length > 0 && [h("h3", "Limits set here for users and groups"), h("ul.plain", queue.limits.map(line))];
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
