/**
 * The view of nodes: what each offers. The partition does not know what runs where; schedulers do.
 */

import { get, path } from "../base/api.js";
import { h } from "../base/dom.js";
import { amountText, byName, count, counted, exactText, resourceName, sortedNames } from "../base/format.js";
import { addressField, pageOf, pages } from "../parts/paging.js";
import { remembered } from "../base/settings.js";
import { columnHead, orderField } from "../parts/sorting.js";
import { clipped, emptyNote, numberCell, table } from "../parts/tables.js";

/** Rows of a page. */
const PAGE = 100;

export const title = "Nodes";

const order = remembered("nodes order", "name");

/**
 * @param {import("../types.js").Route} route
 * @returns {Promise<Record<string, import("../types.js").Amounts>>}
 */
export function load(route) {
  return get(path(route.partition, "nodes"));
}

/**
 * @param {import("../types.js").Route} route
 * @param {Record<string, import("../types.js").Amounts>} nodes
 */
export function show(route, nodes) {
  const all = Object.entries(nodes);
  if (!all.length) return emptyNote("No node is registered: the size of the cluster limits nothing.");
  const resources = sortedNames([...new Set(all.flatMap(([, offers]) => Object.keys(offers)))]);
  const search = (route.query.search ?? "").toLowerCase();
  const found = all.filter(([name]) => name.toLowerCase().includes(search)).sort((one, other) => compare(one, other));
  const sort = (/** @type {string} */ by) => {
    order.set(by);
    window.dispatchEvent(new Event("redraw"));
  };
  const columns = [{ name: "Node", sort: "name" }, ...resources.map((name) => ({ name: resourceName(name), sort: `of ${name}` }))];
  const rows = { columns, sorted: columns.some((one) => one.sort === order.get()) ? order.get() : "name", owner: { sort } };
  const first = (pageOf(route) - 1) * PAGE;
  return [
    h("div", { class: "tools" }, addressField(route, "search", "Find a node"), orderField(rows), h("span", { class: "quiet" }, counted(all.length, "node"), search && `; ${count(found.length)} found`)),
    table("Nodes", columns.map((column, index) => columnHead("th", { key: column.name, scope: "col", class: index ? "number" : null }, column, rows)), found.slice(first, first + PAGE).map(([name, offers]) => row(name, offers, resources)), "list nodes stack"),
    pages(route, found.length, PAGE),
  ];
}

/**
 * @param {[string, import("../types.js").Amounts]} one
 * @param {[string, import("../types.js").Amounts]} other
 */
function compare(one, other) {
  const resource = order.get().slice(3);
  const more = order.get() === "name" ? 0 : Number(other[1][resource] ?? 0) - Number(one[1][resource] ?? 0);
  return more || byName(one[0], other[0]);
}

/**
 * @param {string} name
 * @param {import("../types.js").Amounts} offers
 * @param {string[]} resources
 */
function row(name, offers, resources) {
  return h(
    "tr",
    { key: name },
    h("th", { scope: "row" }, clipped(name)),
    resources.map((resource) => {
      const amount = offers[resource];
      return numberCell(resourceName(resource), amount === undefined ? "–" : amountText(resource, amount), amount === undefined ? null : exactText(resource, amount));
    }),
  );
}
