/**
 * The views of users and of groups: those closest to a limit first, one page at a time. The server sorts and searches.
 */

import { get, path } from "../base/api.js";
import { bar, figures } from "../parts/bars.js";
import { h } from "../base/dom.js";
import { refresh } from "../base/events.js";
import { Columns } from "../parts/columns.js";
import { amountsText, amountText, count, counted, resourceName, withUnit } from "../base/format.js";
import { addressField, list, pageOf } from "../parts/lists.js";
import { route } from "../base/route.js";
import { Order } from "../parts/sorting.js";
import { detailLink, queueLink, table } from "../parts/tables.js";

/**
 * Create the view of users or of groups.
 *
 * @param {"users" | "groups"} view
 * @param {Detail<any, any>} detail
 * @returns {View<{total: number, utilizations: LimitUtilization[]}>}
 */
export function utilizationView(view, detail) {
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
