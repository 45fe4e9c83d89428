/**
 * The views of users and of groups: those closest to a limit first, one page at a time. The server sorts and searches.
 */

import { get, path } from "../base/api.js";
import { bar, level } from "../parts/bars.js";
import { h } from "../base/dom.js";
import { Columns, recordShare } from "../parts/columns.js";
import { amountsText, amountText, count, counted, percent, resourceName, withUnit } from "../base/format.js";
import { queueLink } from "../parts/limits.js";
import { addressField, pageOf, pages } from "../parts/paging.js";
import { link } from "../base/route.js";
import { remembered } from "../base/settings.js";
import { columnHead, orderField } from "../parts/sorting.js";
import { announce } from "../base/announcements.js";
import { emptyNote, table } from "../parts/tables.js";

/** Rows of a page. */
const PAGE = 50;

/**
 * Create the view of users or of groups.
 *
 * @param {"users" | "groups"} view
 */
export function utilizationView(view) {
  const noun = view.slice(0, -1);
  const columnChoice = new Columns(4, view);
  const order = remembered(`${view} order`, "share");
  /** The last search whose result was announced. */
  let announced = "";

  /** @param {import("../types.js").Route} route */
  async function load(route) {
    const { search = "", queue = "" } = route.query;
    const [sort, resource] = order.get().split(" of ");
    const data = await get(path(route.partition, "utilization", view), { search, queue, sort, resource, offset: (pageOf(route) - 1) * PAGE, limit: PAGE });
    if (search !== announced && search) announce(`${counted(data.total, noun)} found`);
    announced = search;
    return data;
  }

  /** @param {string} by */
  function sort(by) {
    order.set(by);
    window.dispatchEvent(new Event("refresh"));
  }

  /**
   * @param {import("../types.js").Route} route
   * @param {{total: number, utilizations: import("../types.js").LimitUtilization[]}} data
   */
  function show(route, data) {
    const { names: resources } = columnChoice.choose(shares(data.utilizations));
    const columns = [
      { name: noun === "user" ? "User" : "Group", sort: "name" },
      { name: "Nearest limit", sort: "share" },
      ...resources.map((name) => ({ name: resourceName(name), sort: `usage of ${name}` })),
      { name: "Running", sort: "applications" },
      ...(noun === "user" ? [{ name: "Pending", sort: "pending" }] : []),
    ];
    const rows = { columns, sorted: order.get(), owner: { sort } };
    return [
      h(
        "div",
        { class: "tools" },
        addressField(route, "search", `Find a ${noun}`),
        addressField(route, "queue", "Queue"),
        orderField(rows),
        columnChoice.field(),
        h("span", { class: "quiet" }, `${counted(data.total, noun)}${route.query.search ? " found" : ""}${rows.sorted === "share" ? ", the closest to a limit first" : ""}`),
      ),
      data.utilizations.length ? list(route, data.utilizations, resources, rows) : emptyNote(route.query.search ? `No ${noun} matches.` : noun === "user" ? "Nothing runs or waits for any user now." : "Nothing is charged to any group now."),
      pages(route, data.total, PAGE),
    ];
  }

  /**
   * @param {import("../types.js").Route} route
   * @param {import("../types.js").LimitUtilization[]} found
   * @param {string[]} resources
   * @param {import("../parts/sorting.js").Sorted} rows
   */
  function list(route, found, resources, rows) {
    const heads = rows.columns.map((column, index) => columnHead("th", { key: column.name, scope: "col", class: index < 2 ? null : "number" }, column, rows));
    return table(view, heads, found.map((one) => line(route, one, resources)), "list utilization stack");
  }

  /**
   * @param {import("../types.js").Route} route
   * @param {import("../types.js").LimitUtilization} one
   * @param {string[]} resources
   */
  function line(route, one, resources) {
    const isShown = route.name === one.name;
    return h(
      "tr",
      { key: one.name, class: isShown ? "shown" : null },
      h("th", { scope: "row" }, h("a", { href: link(route.partition, view, one.name, route.query), class: "clip", title: one.name, "aria-current": isShown ? "true" : null }, one.name)),
      h("td", { class: "bars" }, nearest(route.partition, one)),
      resources.map((name) => h("td", { class: "number" }, amountText(name, one.usage[name] ?? 0))),
      h("td", { class: "number" }, count(one.running_applications)),
      noun === "user" && h("td", { class: "number", title: amountsText(one.pending) }, one.pending_allocations ? count(one.pending_allocations) : "–"),
    );
  }

  return { title: noun === "user" ? "Users" : "Groups", load, show };
}

/**
 * Return the largest used share of every resource.
 *
 * @param {import("../types.js").LimitUtilization[]} utilizations
 */
function shares(utilizations) {
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const one of utilizations) {
    for (const [name, used] of Object.entries(one.usage)) recordShare(found, name, used, one.limit?.max_resources?.[name]);
    for (const name of Object.keys(one.pending)) recordShare(found, name, 0, undefined);
  }
  return found;
}

/**
 * @param {string} partition
 * @param {import("../types.js").LimitUtilization} one
 */
function nearest(partition, one) {
  const { limit, resource, share } = one;
  if (!limit) return h("span", { class: "quiet" }, "no limit");
  if (!share) return h("span", { class: "quiet" }, "no limit is used");
  const used = resource === null ? limit.running_applications : limit.usage[resource] ?? 0;
  const most = resource === null ? limit.max_applications : limit.max_resources?.[resource] ?? 0;
  const name = resource ?? "applications";
  return [
    h(
      "div",
      { class: "figures" },
      h("span", { class: "amount" }, amountText(name, used)),
      h("span", { class: "of" }, ` of ${withUnit(name, most)} in `, queueLink(partition, limit.queue_path)),
      h("span", { class: `share ${level(share)}` }, percent(share)),
    ),
    bar(share),
  ];
}
