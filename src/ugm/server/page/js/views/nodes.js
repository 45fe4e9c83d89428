/**
 * The view of nodes: what each offers. The partition does not know what runs where; schedulers do.
 */

import { get, path } from "../base/api.js";
import { redraw } from "../base/dom.js";
import { amountText, byName, count, counted, exactText, resourceName } from "../base/format.js";
import { route } from "../base/route.js";
import { shownNames } from "../parts/columns.js";
import { addressField, clipped, emptyNote, list, Order, pageLinks, pageOf, table } from "../parts/lists.js";

/** Rows of a page. */
const MOST = 100;

const order = new Order("nodes", "name", redraw);

/** @typedef {[name: string, offers: Amounts]} Node */

/** @type {View<Record<string, Amounts>>} */
export const nodes = { title: "Nodes", load: () => get(path("nodes")), show };

/** @param {Record<string, Amounts>} found */
function show(found) {
  const all = Object.entries(found);
  if (!all.length) return emptyNote("No node is registered: the size of the cluster limits nothing.");
  const resources = shownNames(all.map(([, offers]) => offers));
  const search = (route.query.search ?? "").toLowerCase();
  const columns = [
    { name: "Node", sort: "name", width: "16rem", show: (/** @type {Node} */ [name]) => clipped(name) },
    ...resources.map((resource) => ({
      name: resourceName(resource),
      resource,
      sort: `of ${resource}`,
      style: "number",
      show: (/** @type {Node} */ [, { [resource]: amount }]) => (amount === undefined ? "–" : amountText(resource, amount)),
      props: (/** @type {Node} */ [, { [resource]: amount }]) => ({ title: amount === undefined ? null : exactText(resource, amount) }),
    })),
  ];
  order.known = columns.map(({ sort }) => sort);
  const amount = (/** @type {Node} */ [, offers]) => (order.sorted === "name" ? 0 : Number(offers[order.sorted.slice(3)] ?? 0));
  const kept = all.filter(([name]) => name.toLowerCase().includes(search)).sort((one, other) => amount(other) - amount(one) || byName(one[0], other[0]));
  const { offset, limit } = pageOf(MOST);
  return list([addressField("search", "Find a node"), order.field(columns)], {
    noun: "node",
    note: [counted(all.length, "node"), search && `; ${count(kept.length)} found`],
    total: kept.length,
    rows: () => table("Nodes", kept.slice(offset, offset + limit), columns, { style: "list nodes stack", key: ([name]) => name, order }),
    pages: pageLinks(kept.length, MOST),
  });
}
