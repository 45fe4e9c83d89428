/**
 * The views of users and of groups: those closest to a limit first, one page at a time. The server sorts and searches. The
 * detail of one has the usage by queue, and every limit up to the root.
 */

import { get, orNull, path, YUNIKORN_PREFIX } from "../base/api.js";
import { h, refresh } from "../base/dom.js";
import { amountsText, amountText, count, counted, resourceName, withUnit } from "../base/format.js";
import { route } from "../base/route.js";
import { bar, figures, gauge } from "../parts/bars.js";
import { Columns, shownNames } from "../parts/columns.js";
import { historySection, loadHistory } from "../parts/history.js";
import { chain } from "../parts/limits.js";
import { addressField, choice, CLIP, detailLink, list, nameLink, Order, pageOf, queueLink, table } from "../parts/lists.js";
import { applicationsOf, loadApplications } from "./applications.js";
import { accounts } from "./budgets.js";

/**
 * Create the view of users or of groups.
 *
 * @param {"users" | "groups"} view
 * @param {Detail<any, any>} detail
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
  if (!limit || !share) return h("span", { class: "quiet" }, limit ? "no limit is used" : "no limit");
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

/** The queue that the reader has chosen, by partition and user. */
const chosenQueues = new Map();

/** @returns {Promise<OwnerData | null>} */
async function loadUser() {
  const { partition, name } = route;
  const usage = await orNull(get(path("usage", "user", name), {}, YUNIKORN_PREFIX));
  if (!usage) return null;
  const page = await loadApplications({ user: name });
  const leaves = busyLeaves(usage.queues);
  const wanted = chosenQueues.get(`${partition}/${name}`);
  const queue = leaves.includes(wanted) ? wanted : leaves[0] ?? "root";
  // The groups are a property of an application, because a user may submit applications as a member of different groups.
  const application = page.applications.find((/** @type {any} */ one) => one.queue_path === queue) ?? page.applications[0];
  const [{ limits, headroom }, samples] = await Promise.all([get(path("limits"), { user: name, group: application?.user.groups.slice(0, 20), queue }), loadHistory({ kind: "user", name })]);
  return { usage, leaves, queue, samples, ...page, limits, headroom };
}

/** @returns {Promise<OwnerData | {budgets: import("./budgets.js").Accounts}>} */
async function loadGroup() {
  const { name } = route;
  const usage = await orNull(get(path("usage", "group", name), {}, YUNIKORN_PREFIX));
  if (!usage) return { budgets: await get(path("budgets"), { owner: name, limit: LISTED }) };
  const [page, samples] = await Promise.all([loadApplications({ group: name }), loadHistory({ kind: "group", name })]);
  return { usage, leaves: [], queue: "", samples, ...page, limits: limitsOf(usage.queues), headroom: null };
}

/**
 * Return the lowest queues with running applications, the busiest first.
 *
 * @param {UsageNode} top
 */
function busyLeaves(top) {
  /** @type {[number, string][]} */
  const found = [];
  for (const [node, queuePath] of nodes(top, "")) {
    if (!node.children.length) found.push([node.runningApplications.length, queuePath]);
  }
  return found.sort((one, other) => other[0] - one[0]).map(([, queuePath]) => queuePath);
}

/** @param {UsageNode} node @param {string} above @returns {Generator<[UsageNode, string, number]>} */
function* nodes(node, above, level = 0) {
  // The format of the design documents has paths in some places and names in others.
  const name = node.queuename;
  const queuePath = !above || name.startsWith(`${above}.`) ? name : `${above}.${name}`;
  yield [node, queuePath, level];
  for (const child of node.children) yield* nodes(child, queuePath, level + 1);
}

/** @param {UsageNode} top */
function limitsOf(top) {
  return [...nodes(top, "")].reverse().map(([node, queuePath]) => ({
    kind: "group",
    name: route.name,
    queue_path: queuePath,
    limit_name: route.name,
    max_resources: node.maxResources,
    max_applications: node.maxApplications,
    usage: node.resourceUsage,
    running_applications: node.runningApplications.length,
  }));
}

/** @param {OwnerData | null} data */
function showUser(data) {
  if (!data) return h("p", { class: "quiet" }, `Nothing runs or waits for ${route.name} now.`);
  return [
    data.leaves.length > 1 && chooser(data),
    chain(`Every limit in ${data.queue}`, data.limits),
    data.headroom && h("p", null, "One more allocation there may take ", h("strong", null, amountsText(data.headroom)), "."),
    historySection(data.samples),
    usageTable(data),
    applicationsOf(data, { user: route.name }),
  ];
}

/** @param {OwnerData | {budgets: import("./budgets.js").Accounts}} data */
function showGroup(data) {
  if ("budgets" in data) {
    const note = `No limit names ${route.name} where its members run, so nothing is charged to the group now.`;
    return [h("p", { class: "quiet" }, note), data.budgets.total > 0 && accounts(data.budgets)];
  }
  const users = /** @type {string[]} */ (data.usage.users);
  return [
    chain("Every limit of the group", data.limits),
    historySection(data.samples),
    usageTable(data),
    h("h3", null, counted(users.length, "user")),
    h(
      "p",
      null,
      users.slice(0, LISTED).map((name) => [nameLink("users", name), " "]),
      users.length > LISTED && h("span", { class: "quiet" }, `and ${count(users.length - LISTED)} more`),
    ),
    applicationsOf(data, { group: route.name }),
  ];
}

export const users = utilizationView("users", { noun: "User", load: loadUser, show: showUser });
export const groups = utilizationView("groups", { noun: "Group", load: loadGroup, show: showGroup });

/** @param {OwnerData} data */
function chooser(data) {
  return choice("Limits in the queue", data.leaves.map((queue) => [queue, queue]), data.queue, (queue) => {
    chosenQueues.set(`${route.partition}/${route.name}`, queue);
    refresh();
  });
}

/** @param {OwnerData} data */
function usageTable(data) {
  const found = [...nodes(data.usage.queues, "")];
  const names = shownNames(found.map(([node]) => node.resourceUsage));
  /** @typedef {(typeof found)[number]} Place */
  return table(
    "Usage by queue",
    found,
    [
      { name: "Queue", show: ([, queue]) => nameLink("queues", queue, { ...CLIP, "aria-label": queue }, queue.slice(queue.lastIndexOf(".") + 1)), props: ([, , level]) => ({ vars: { level }, class: "indented" }) },
      { name: "Running", show: ([node]) => gauge(null, node.runningApplications.length, node.maxApplications || undefined) },
      ...names.map((name) => ({ name: resourceName(name), resource: name, show: (/** @type {Place} */ [node]) => gauge(name, node.resourceUsage[name] ?? 0, node.maxResources?.[name]) })),
    ],
    { style: "usage stack", key: ([, queue]) => queue },
  );
}
