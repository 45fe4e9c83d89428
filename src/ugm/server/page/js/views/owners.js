/**
 * The views of users and of groups: those closest to a limit first, one page at a time. The server sorts and searches. The
 * detail of one has the usage by queue, and every limit up to the root.
 */

import { get, orNull, path, YUNIKORN_PREFIX } from "../base/api.js";
import { h, refresh } from "../base/dom.js";
import { amountsText, amountText, count, counted, resourceName, withUnit } from "../base/format.js";
import { route } from "../base/route.js";
import { Columns, shownNames } from "../parts/columns.js";
import { historySection } from "../parts/history.js";
import { bar, chain, figures, gauge } from "../parts/limits.js";
import { addressChoice, addressField, CLIP, detailLink, list, more, nameLink, Order, pageOf, queueLink, table } from "../parts/lists.js";
import { applicationsOf, loadWork } from "./applications.js";
import { accounts } from "./budgets.js";

/**
 * Create the view of users or of groups.
 * @param {"users" | "groups"} view @param {Detail<any, any>} detail
 * @returns {View<{total: number, utilizations: LimitUtilization[]}>}
 */
function utilizationView(view, detail) {
  const noun = view.slice(0, -1);
  const columnChoice = new Columns(4, view);
  const order = new Order(view, "share", refresh);

  async function load() {
    const { search = "", queue = "" } = route.query;
    const [sort, resource] = order.sorted.split(" of ");
    return get(path("utilization", view), { search, queue, sort, resource, ...pageOf() });
  }

  /** @param {{total: number, utilizations: LimitUtilization[]}} data */
  function show({ total, utilizations }) {
    const { names } = columnChoice.choose(utilizations.map((one) => ({ ...one, limits: one.limit?.max_resources })));
    /** @type {Column<LimitUtilization>[]} */
    const columns = [
      { name: detail.noun, sort: "name", show: ({ name }) => detailLink(name) },
      { name: "Nearest limit", sort: "share", style: "bars", width: "27%", show: nearest },
      ...names.map((name) => /** @type {Column<LimitUtilization>} */ ({ name: resourceName(name), resource: name, sort: `usage of ${name}`, style: "number", show: ({ usage }) => amountText(name, usage[name] ?? 0) })),
      { name: "Running", sort: "applications", style: "number", show: (one) => count(one.running_applications) },
    ];
    if (view === "users") columns.push({ name: "Pending", sort: "pending", style: "number", show: (one) => (one.pending_allocations ? count(one.pending_allocations) : "–"), props: ({ pending }) => ({ title: amountsText(pending) }) });
    const note = `${counted(total, noun)}${route.query.search ? " found" : ""}${order.sorted === "share" ? ", the closest to a limit first" : ""}`;
    return list([addressField("search", `Find a ${noun}`), addressField("queue", "Queue"), order.field(columns), columnChoice.field()], {
      noun,
      note,
      total,
      rows: () => table(view, utilizations, columns, { style: "list utilization stack", key: ({ name }) => name, order }),
      none: view === "users" ? "Nothing runs or waits for any user now." : "Nothing is charged to any group now.",
      text: counted(total, noun),
    });
  }

  return { title: `${detail.noun}s`, topic: view, load, show, detail };
}

/** @param {LimitUtilization} one */
function nearest({ limit, resource, share }) {
  if (!limit || !share) return h("span.quiet", limit ? "no limit is used" : "no limit");
  const [used, most] = resource === null ? [limit.running_applications, limit.max_applications] : [limit.usage[resource], limit.max_resources?.[resource]];
  const name = resource ?? "applications";
  return [figures(amountText(name, used ?? 0), [` of ${withUnit(name, most ?? 0)} in `, queueLink(limit.queue_path)], share), bar(share)];
}

/** The number of members and accounts in a list. */
const LISTED = 20;

/**
 * @typedef {{usage: any, applications: Application[], more: boolean,
 *   limits: EffectiveLimit[], headroom: Amounts | null, queue: string,
 *   leaves: string[], samples: import("../parts/history.js").Found}} OwnerData
 */

/** @returns {Promise<OwnerData | null>} */
async function loadUser() {
  const { name, query } = route;
  const usage = await orNull(get(path("usage", "user", name), {}, YUNIKORN_PREFIX));
  if (!usage) return null;
  const work = await loadWork("user", name);
  const leaves = busyLeaves(usage.queues);
  const queue = leaves.find((one) => one === query.leaf) ?? leaves[0] ?? "root";
  // The groups are a property of an application, because a user may submit applications as a member of different groups.
  const application = work.applications.find((one) => one.queue_path === queue) ?? work.applications[0];
  const { limits, headroom } = await get(path("limits"), { user: name, group: application?.user.groups.slice(0, 20), queue });
  return { usage, leaves, queue, limits, headroom, ...work };
}

/** @returns {Promise<OwnerData | {budgets: import("./budgets.js").Accounts}>} */
async function loadGroup() {
  const { name } = route;
  const usage = await orNull(get(path("usage", "group", name), {}, YUNIKORN_PREFIX));
  if (!usage) return { budgets: await get(path("budgets"), { owner: name, limit: LISTED }) };
  return { usage, leaves: [], queue: "", limits: limitsOf(usage.queues), headroom: null, ...(await loadWork("group", name)) };
}

/** Return the lowest queues with running applications, the busiest first. */
/** @param {UsageNode} top */
function busyLeaves(top) {
  const leaves = places(top).filter(({ node }) => !node.children.length);
  return leaves.sort((one, other) => other.node.runningApplications.length - one.node.runningApplications.length).map(({ queue }) => queue);
}

/** @param {UsageNode} node @returns {{node: UsageNode, queue: string, level: number}[]} the queue and all below it */
function places(node, above = "", level = 0) {
  // The format of the design documents has paths in some places and names in others.
  const name = node.queuename;
  const queue = !above || name.startsWith(`${above}.`) ? name : `${above}.${name}`;
  return [{ node, queue, level }, ...node.children.flatMap((child) => places(child, queue, level + 1))];
}

/** @param {UsageNode} top */
function limitsOf(top) {
  return places(top).reverse().map(({ node, queue }) => ({
    kind: "group",
    name: route.name,
    queue_path: queue,
    limit_name: route.name,
    max_resources: node.maxResources,
    max_applications: node.maxApplications,
    usage: node.resourceUsage,
    running_applications: node.runningApplications.length,
  }));
}

/** @param {OwnerData} data */
function showUser(data) {
  return [
    data.leaves.length > 1 && addressChoice("leaf", "Limits in the queue", data.leaves.map((queue) => [queue, queue]), data.queue),
    chain(`Every limit in ${data.queue}`, data.limits),
    data.headroom && h("p", "One more allocation there may take ", h("strong", amountsText(data.headroom)), "."),
    historySection(data.samples),
    usageTable(data),
    applicationsOf(data, { user: route.name }),
  ];
}

/** @param {OwnerData | {budgets: import("./budgets.js").Accounts}} data */
function showGroup(data) {
  if ("budgets" in data) {
    const note = `No limit names ${route.name} where its members run, so nothing is charged to the group now.`;
    return [h("p.quiet", note), data.budgets.total > 0 && accounts(data.budgets)];
  }
  const users = /** @type {string[]} */ (data.usage.users);
  return [
    chain("Every limit of the group", data.limits),
    historySection(data.samples),
    usageTable(data),
    h("h3", counted(users.length, "user")),
    h("p", users.slice(0, LISTED).map((name) => [nameLink("users", name), " "]), more(users.length - LISTED)),
    applicationsOf(data, { group: route.name }),
  ];
}

export const users = utilizationView("users", { noun: "User", missing: (name) => `Nothing runs or waits for ${name} now.`, load: loadUser, show: showUser });
export const groups = utilizationView("groups", { noun: "Group", load: loadGroup, show: showGroup });

/** @param {OwnerData} data */
function usageTable(data) {
  const found = places(data.usage.queues);
  /** @param {string} name @returns {Column<found[number]>} */
  const measure = (name) => ({ name: resourceName(name), resource: name, show: ({ node }) => gauge(name, node.resourceUsage[name] ?? 0, node.maxResources?.[name]) });
  return table("Usage by queue", found, [
    { name: "Queue", show: ({ queue }) => nameLink("queues", queue, { ...CLIP, "aria-label": queue }, queue.slice(queue.lastIndexOf(".") + 1)), props: ({ level }) => ({ vars: { level }, class: "indented" }) },
    { name: "Running", show: ({ node }) => gauge(null, node.runningApplications.length, node.maxApplications || undefined) },
    ...shownNames(found.map(({ node }) => node.resourceUsage)).map(measure),
  ], { style: "usage stack", key: ({ queue }) => queue });
}
