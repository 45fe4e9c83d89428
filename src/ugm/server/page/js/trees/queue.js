/**
 * The detail of a queue: its resources, the quotas up to the root, and the limits that the configuration sets on it.
 */

import { get, orNull, path } from "../base/api.js";
import { gauge } from "../parts/bars.js";
import { h } from "../base/dom.js";
import { amountsText, amountText, count, counted } from "../base/format.js";
import { applicationTable } from "../views/applications.js";
import { shownNames } from "../parts/families.js";
import { historySection, loadHistory } from "../parts/history.js";
import { chain } from "../parts/limits.js";
import { link, route } from "../base/route.js";
import { resourceLabel, table } from "../parts/tables.js";
import { every } from "./tree.js";

/** The number of applications in the list. */
const LISTED = 10;

/** @typedef {{queue: QueueDetail, applications: Application[], more: boolean,
 *   samples: import("../parts/history.js").Found}} QueueData */

/** @returns {Promise<QueueData | null>} */
async function load() {
  const queue = await orNull(get(path("queue", route.name)));
  if (!queue) return null;
  const [page, samples] = await Promise.all([get(path("applications"), { queue: queue.queue_path, limit: LISTED }), loadHistory({ kind: "queue", name: queue.queue_path })]);
  return { queue, applications: page.applications, more: page.next !== null, samples };
}

/**
 * @param {QueueData | null} data
 * @param {Queue} root
 */
function show(data, root) {
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

export const detail = { noun: "Queue", load, show };

/**
 * Describe the first applications of an object, with a link to all of them.
 *
 * @param {{applications: Application[], more: boolean}} data
 * @param {Record<string, string>} query the filter of the link
 */
export function applicationsOf({ applications, more }, query) {
  return applications.length > 0 && [applicationTable(applications), more && h("p", null, h("a", { href: link("applications", "", query) }, "All applications"))];
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
  const figure = (/** @type {string} */ name, /** @type {Amounts | null} */ amounts) => ({
    name,
    style: "number",
    show: (/** @type {string} */ resource) => (amounts?.[resource] === undefined ? "–" : amountText(resource, amounts[resource] ?? 0)),
  });
  if (!names.length) return null;
  return table(
    "Resources",
    names,
    [
      { name: "Resource", width: "21%", show: resourceLabel },
      { name: "Used", style: "bars", width: "29%", show: (name) => gauge(name, usage[name] ?? 0, maximum?.[name], { guaranteed: guaranteed?.[name], pending: pending[name] }) },
      figure("Guaranteed", guaranteed),
      figure("Pending", pending),
      figure("Free", headroom),
    ],
    { style: "resources stack", key: String },
  );
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
