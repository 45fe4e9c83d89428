/**
 * The detail of a user or group: the usage by queue, and every limit up to the root.
 */

import { get, orNull, path, YUNIKORN_PREFIX } from "../base/api.js";
import { gauge } from "../parts/bars.js";
import { accounts } from "../views/budgets.js";
import { h } from "../base/dom.js";
import { amountsText, count, counted, resourceName, sortedNames } from "../base/format.js";
import { applicationTable } from "../views/applications.js";
import { historySection, loadHistory } from "../parts/history.js";
import { chain } from "../parts/limits.js";
import { link } from "../base/route.js";
import { cell, nameLink, table } from "../parts/tables.js";

/** The number of applications in the list; twice as many members are listed. */
const LISTED = 10;

/**
 * @typedef {{usage: any, applications: import("../types.js").Application[], more: boolean,
 *   limits: import("../types.js").EffectiveLimit[], headroom: import("../types.js").Amounts | null, queue: string,
 *   leaves: string[], samples: import("../parts/history.js").Found}} OwnerData
 */

/** The queue that the reader has chosen, by partition and user. */
const chosenQueues = new Map();

/**
 * @param {import("../types.js").Route} route
 * @returns {Promise<OwnerData | null>}
 */
export async function loadUser(route) {
  const usage = await orNull(get(path(route.partition, "usage", "user", route.name), {}, YUNIKORN_PREFIX));
  if (!usage) return null;
  const page = await get(path(route.partition, "applications"), { user: route.name, limit: LISTED });
  const leaves = busyLeaves(usage.queues);
  const wanted = chosenQueues.get(`${route.partition}/${route.name}`);
  const queue = leaves.includes(wanted) ? wanted : leaves[0] ?? "root";
  // The groups are a property of an application, because a user may submit applications as a member of different groups.
  const application = page.applications.find((/** @type {any} */ one) => one.queue_path === queue) ?? page.applications[0];
  const limits = get(path(route.partition, "limits"), { user: route.name, group: application?.user.groups.slice(0, 20), queue });
  const [found, samples] = await Promise.all([limits, loadHistory(route.partition, { kind: "user", name: route.name })]);
  return { usage, leaves, queue, samples, applications: page.applications, more: page.next !== null, limits: found.limits, headroom: found.headroom };
}

/**
 * @param {import("../types.js").Route} route
 * @returns {Promise<OwnerData | {budgets: import("../views/budgets.js").Accounts}>}
 */
export async function loadGroup(route) {
  const usage = await orNull(get(path(route.partition, "usage", "group", route.name), {}, YUNIKORN_PREFIX));
  if (!usage) return { budgets: await get(path(route.partition, "budgets"), { owner: route.name, limit: 2 * LISTED }) };
  const [page, samples] = await Promise.all([
    get(path(route.partition, "applications"), { group: route.name, limit: LISTED }),
    loadHistory(route.partition, { kind: "group", name: route.name }),
  ]);
  const limits = limitsOf(usage.queues, route.name);
  return { usage, leaves: [], queue: "", samples, applications: page.applications, more: page.next !== null, limits, headroom: null };
}

/**
 * Return the lowest queues with running applications, the busiest first.
 *
 * @param {import("../types.js").UsageNode} top
 */
function busyLeaves(top) {
  /** @type {[number, string][]} */
  const found = [];
  for (const [node, queuePath] of nodes(top, "")) {
    if (!node.children.length) found.push([node.runningApplications.length, queuePath]);
  }
  return found.sort((one, other) => other[0] - one[0]).map(([, queuePath]) => queuePath);
}

/**
 * @param {import("../types.js").UsageNode} node
 * @param {string} above
 * @returns {Generator<[import("../types.js").UsageNode, string, number]>}
 */
function* nodes(node, above, level = 0) {
  // The format of the design documents has paths in some places and names in others.
  const name = node.queuename;
  const queuePath = !above || name.startsWith(`${above}.`) ? name : `${above}.${name}`;
  yield [node, queuePath, level];
  for (const child of node.children) yield* nodes(child, queuePath, level + 1);
}

/**
 * @param {import("../types.js").UsageNode} top
 * @param {string} name
 * @returns {import("../types.js").EffectiveLimit[]}
 */
function limitsOf(top, name) {
  return [...nodes(top, "")].reverse().map(([node, queuePath]) => ({
    kind: "group",
    name,
    queue_path: queuePath,
    limit_name: name,
    max_resources: node.maxResources,
    max_applications: node.maxApplications,
    usage: node.resourceUsage,
    running_applications: node.runningApplications.length,
  }));
}

/**
 * @param {import("../types.js").Route} route
 * @param {OwnerData | null} data
 */
export function showUser(route, data) {
  if (!data) return h("p", { class: "quiet" }, `Nothing runs or waits for ${route.name} now.`);
  return [
    data.leaves.length > 1 && chooser(route, data),
    chain(route.partition, `Every limit in ${data.queue}`, data.limits),
    data.headroom && h("p", null, "One more allocation there may take ", h("strong", null, amountsText(data.headroom)), "."),
    historySection(data.samples),
    usageTable(route.partition, data),
    applications(route, data, "user"),
  ];
}

/**
 * @param {import("../types.js").Route} route
 * @param {OwnerData | {budgets: import("../views/budgets.js").Accounts}} data
 */
export function showGroup(route, data) {
  if ("budgets" in data) {
    const note = `No limit names ${route.name} where its members run, so nothing is charged to the group now.`;
    return [h("p", { class: "quiet" }, note), data.budgets.total > 0 && accounts(route.partition, data.budgets)];
  }
  const users = /** @type {string[]} */ (data.usage.users);
  return [
    chain(route.partition, "Every limit of the group", data.limits),
    historySection(data.samples),
    usageTable(route.partition, data),
    h("h3", null, counted(users.length, "user")),
    h(
      "p",
      { class: "names" },
      users.slice(0, 2 * LISTED).map((name) => [nameLink(route.partition, "users", name), " "]),
      users.length > 2 * LISTED && h("span", { class: "quiet" }, `and ${count(users.length - 2 * LISTED)} more`),
    ),
    applications(route, data, "group"),
  ];
}

/**
 * @param {import("../types.js").Route} route
 * @param {OwnerData} data
 */
function chooser(route, data) {
  /** @param {Event} event */
  function change(event) {
    chosenQueues.set(`${route.partition}/${route.name}`, /** @type {HTMLSelectElement} */ (event.target).value);
    window.dispatchEvent(new CustomEvent("refresh"));
  }
  const options = data.leaves.map((queue) => h("option", { value: queue, selected: queue === data.queue }, queue));
  return h("label", { class: "field" }, "Limits in the queue", h("select", { on: { change }, value: data.queue }, options));
}

/**
 * @param {string} partition
 * @param {OwnerData} data
 */
function usageTable(partition, data) {
  const found = [...nodes(data.usage.queues, "")];
  const names = sortedNames([...new Set(found.flatMap(([node]) => Object.keys(node.resourceUsage)))]);
  return table("Usage by queue", ["Queue", "Running", ...names.map(resourceName)], found.map(([node, queuePath, level]) => usageRow(partition, node, queuePath, level, names)), "usage stack");
}

/**
 * @param {string} partition
 * @param {import("../types.js").UsageNode} node
 * @param {string} queuePath
 * @param {number} level
 * @param {string[]} names
 */
function usageRow(partition, node, queuePath, level, names) {
  const running = node.runningApplications.length;
  const name = queuePath.slice(queuePath.lastIndexOf(".") + 1);
  return h(
    "tr",
    { key: queuePath },
    h("th", { scope: "row", vars: { level }, class: "indented" }, h("a", { href: link(partition, "queues", queuePath), class: "clip", title: queuePath, "aria-label": queuePath }, name)),
    cell("Running", gauge(null, running, node.maxApplications || undefined)),
    names.map((name) => cell(resourceName(name), gauge(name, node.resourceUsage[name] ?? 0, node.maxResources?.[name]))),
  );
}

/**
 * @param {import("../types.js").Route} route
 * @param {OwnerData} data
 * @param {"user" | "group"} kind
 */
function applications(route, data, kind) {
  if (!data.applications.length) return null;
  return [
    applicationTable(route.partition, data.applications),
    data.more && h("p", null, h("a", { href: link(route.partition, "applications", "", { [kind]: route.name }) }, "All applications")),
  ];
}
