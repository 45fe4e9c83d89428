/**
 * The view of nodes: what each offers. The partition does not know what runs where; schedulers do.
 */

import { get, path } from "../base/api.js";
import { redraw } from "../base/dom.js";
import { amountText, count, counted, exactText, resourceName } from "../base/format.js";
import { route } from "../base/route.js";
import { shownNames } from "../parts/columns.js";
import { addressField, clipped, emptyNote, list, Order, pageOf, table } from "../parts/lists.js";

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
  /** @type {Column<Node>[]} */
  const columns = [
    { name: "Node", sort: "name", width: "16rem", show: ([name]) => clipped(name) },
    ...resources.map((resource) => /** @type {Column<Node>} */ ({
      name: resourceName(resource),
      resource,
      sort: `of ${resource}`,
      rank: ([, { [resource]: amount }]) => Number(amount ?? 0),
      style: "number",
      show: ([, { [resource]: amount }]) => (amount === undefined ? "–" : amountText(resource, amount)),
      props: ([, { [resource]: amount }]) => ({ title: amount === undefined ? null : exactText(resource, amount) }),
    })),
  ];
  const kept = order.sort(all.filter(([name]) => name.toLowerCase().includes(search)), columns, ([name]) => name);
  const { offset, limit } = pageOf();
  return list([addressField("search", "Find a node"), order.field(columns)], {
    noun: "node",
    note: [counted(all.length, "node"), search && `; ${count(kept.length)} found`],
    total: kept.length,
    rows: () => table("Nodes", kept.slice(offset, offset + limit), columns, { style: "list nodes stack", key: ([name]) => name, order }),
  });
}
