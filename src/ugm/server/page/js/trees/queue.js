/**
 * The detail of a queue: its resources, the quotas up to the root, and the limits that the configuration sets on it.
 */

import { get, orNull, path } from "../base/api.js";
import { gauge } from "../parts/bars.js";
import { h } from "../base/dom.js";
import { amountsText, amountText, count, counted, sortedNames } from "../base/format.js";
import { applicationTable } from "../views/applications.js";
import { historySection, loadHistory } from "../parts/history.js";
import { chain } from "../parts/limits.js";
import { link } from "../base/route.js";
import { numberCell, table, resourceLabel } from "../parts/tables.js";
import { downTo } from "./tree.js";

/** The number of applications in the list. */
const LISTED = 10;

/** @typedef {{queue: import("../types.js").QueueDetail, applications: import("../types.js").Application[], more: boolean,
 *   samples: import("../parts/history.js").Found}} QueueData */

/**
 * @param {import("../types.js").Route} route
 * @returns {Promise<QueueData | null>}
 */
export async function load(route) {
  const queue = await orNull(get(path(route.partition, "queue", route.name)));
  if (!queue) return null;
  const [page, samples] = await Promise.all([
    get(path(route.partition, "applications"), { queue: queue.queue_path, limit: LISTED }),
    loadHistory(route.partition, { kind: "queue", name: queue.queue_path }),
  ]);
  return { queue, applications: page.applications, more: page.next !== null, samples };
}

/**
 * @param {import("../types.js").Route} route
 * @param {QueueData | null} data
 * @param {import("../types.js").Queue} root
 */
export function show(route, data, root) {
  if (!data) return h("p", { class: "quiet" }, `There is no queue ${route.name}.`);
  const { queue } = data;
  return [
    h("p", { class: "quiet" }, facts(queue)),
    resources(queue),
    historySection(data.samples),
    chain(route.partition, "Quotas from here to the root", above(root, queue)),
    configured(queue),
    data.applications.length > 0 && applicationTable(route.partition, data.applications),
    data.more && h("p", null, h("a", { href: link(route.partition, "applications", "", { queue: queue.queue_path }) }, "All applications")),
  ];
}

/** @param {import("../types.js").Queue} queue */
function facts(queue) {
  const found = [queue.is_leaf ? "Leaf" : counted(queue.children.length, "queue") + " directly below"];
  if (!queue.is_managed) found.push("created by a placement rule");
  if (queue.is_draining) found.push("draining: it takes no new applications");
  found.push(`${count(queue.running_applications)} of ${counted(queue.applications, "application")} running`);
  if (queue.pending_allocations) found.push(`${counted(queue.pending_allocations, "allocation")} pending`);
  return `${found.join("; ")}.`;
}

/** @param {import("../types.js").QueueDetail} queue */
function resources(queue) {
  const parts = [queue.usage, queue.max_resources, queue.maximum, queue.guaranteed, queue.pending, queue.headroom];
  const names = sortedNames([...new Set(parts.flatMap((amounts) => Object.keys(amounts ?? {})))]);
  if (!names.length) return null;
  return table("Resources", ["Resource", "Used", ["Guaranteed", "number"], ["Pending", "number"], ["Free", "number"]], names.map((name) => resource(queue, name)), "resources stack");
}

/**
 * @param {import("../types.js").QueueDetail} queue
 * @param {string} name
 */
function resource(queue, name) {
  const figure = (/** @type {import("../types.js").Amount | undefined} */ amount) => (amount === undefined ? "–" : amountText(name, amount));
  const [guaranteed, pending] = [queue.guaranteed?.[name], queue.pending[name]];
  return h(
    "tr",
    { key: name },
    h("th", { scope: "row" }, resourceLabel(name)),
    h("td", { class: "bars" }, gauge(name, queue.usage[name] ?? 0, queue.maximum?.[name], { guaranteed, pending })),
    numberCell("Guaranteed", figure(guaranteed)),
    numberCell("Pending", figure(pending)),
    numberCell("Free", figure(queue.headroom?.[name])),
  );
}

/**
 * Return the quotas of a queue and of those above it, the queue first.
 *
 * @param {import("../types.js").Queue} root
 * @param {import("../types.js").Queue} queue
 */
function above(root, queue) {
  return downTo(root, queue.queue_path)
    .reverse()
    .map((one) => ({
      kind: "queue",
      name: one.queue_path,
      queue_path: one.queue_path,
      limit_name: "",
      max_resources: one.max_resources,
      max_applications: one.max_applications,
      usage: one.usage,
      running_applications: one.running_applications,
    }));
}

/** @param {import("../types.js").QueueDetail} queue */
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

/** @param {import("../types.js").ConfiguredLimit} limit */
function names(limit) {
  const users = limit.users.map((name) => (name === "*" ? "every other user" : `user ${name}`));
  const groups = limit.groups.map((name) => (name === "*" ? "all other groups together" : `group ${name}`));
  return [...users, ...groups].join(", ");
}

/** @param {import("../types.js").ConfiguredLimit} limit */
function most(limit) {
  const found = [];
  if (limit.max_resources && Object.keys(limit.max_resources).length) found.push(amountsText(limit.max_resources));
  if (limit.max_applications) found.push(counted(limit.max_applications, "application"));
  return found.join(", ") || "no limit";
}
