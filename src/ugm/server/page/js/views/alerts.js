/**
 * The view of what needs attention: limits above a threshold, allocations after their promised end, and limits that a
 * schedule is about to change.
 *
 * @typedef {{kind: string, name: string, place: string, resource: string | null, threshold: number, used: Amount | string,
 *   limit: Amount | string, share: number}} Crossed
 * @typedef {{allocation_id: string, application_id: string, user: string | null, queue_path: string | null, state: string,
 *   usage: Amounts, until: number}} Overdue
 * @typedef {{at: number, text: string, newly_exceeded: Violation[]}} Change
 * @typedef {{crossed: {shares: number[], kinds: string[], total: number, crossed: Crossed[]}, overdue: {total: number, allocations: Overdue[]},
 *   changes: Change[]}} Alerts
 */

import { get, path } from "../base/api.js";
import { h } from "../base/dom.js";
import { ago, amountsText, count, counted, duration, hourUnit, momentText, whole } from "../base/format.js";
import { route } from "../base/route.js";
import { gauge, hoursGauge, owner, reasons } from "../parts/limits.js";
import { addressChoice, addressField, ALLOCATION, clipped, emptyNote, list, moment, more, PAGE, pageOf, QUEUE, queueLink, resourceLabel, table, undeclared, USER } from "../parts/lists.js";

/** Coming changes. */
const CHANGES = 10;

/** @type {View<Alerts>} */
export const alerts = {
  title: "Alerts",
  topic: "users",
  async load() {
    const { search, kind } = route.query;
    const [crossed, overdue, { changes }] = await Promise.all([
      get(path("thresholds"), { search, kind, ...pageOf() }),
      get(path("overdue"), { limit: PAGE }),
      get(path("scheduled_changes"), { limit: CHANGES }),
    ]);
    return { crossed, overdue, changes };
  },
  show({ crossed, overdue, changes }) {
    const shares = crossed.shares.map((share) => `${share}%`).join(", ");
    const kinds = [["", "all limits"], ...crossed.kinds.map((kind) => [kind, `${kind}s`])];
    const [tools, ...limits] = list([addressField("search", "Find a limit"), addressChoice("kind", "Of", /** @type {[string, string][]} */ (kinds))], {
      noun: "limit above a threshold",
      note: shares && `thresholds of ${shares}: ${count(crossed.total)} exceeded`,
      total: crossed.total,
      rows: () => limitTable(crossed.crossed),
      none: shares ? "No limit is above a threshold." : undeclared("thresholds", "thresholds: {shares: [80, 95]}"),
    });
    return [
      tools,
      h("h3", "Nearly full limits"),
      limits,
      h("h3", "Allocations after their promised end"),
      overdue.total ? overdueTable(overdue.allocations) : emptyNote("None is overdue."),
      more(overdue.total - overdue.allocations.length),
      h("h3", "Coming changes of limits"),
      changes.length ? h("ol.attempts", changes.map(change)) : emptyNote("No schedule changes a limit."),
    ];
  },
};

/** Describe the limits above a threshold, each with all thresholds that it has crossed. */
/** @param {Crossed[]} crossed */
function limitTable(crossed) {
  const key = (/** @type {Crossed} */ { kind, name, place, resource }) => JSON.stringify([kind, name, place, resource]);
  const same = (/** @type {Crossed} */ one) => crossed.filter((other) => key(other) === key(one));
  return table("Nearly full limits", crossed.filter((one) => one === same(one)[0]), [
    { name: "Limit of", width: "24%", show: holder },
    { name: "On", style: "long", show: ({ kind, resource }) => (kind === "budget" ? hourUnit(resource ?? "") : resourceLabel(resource)) },
    { name: "Used", style: "bars", width: "36%", show: ({ kind, resource, used, limit, share }) => (kind === "budget" ? hoursGauge(resource ?? "", used, limit, share) : gauge(resource, whole(used), whole(limit))) },
    { name: "Thresholds", style: "number", show: (one) => same(one).map(({ threshold }) => `${threshold}%`).join(", ") },
  ], { style: "list alerts stack", key });
}

/** @param {Crossed} one */
function holder({ kind, name, place }) {
  if (kind === "budget") return [`budget ${place} of `, clipped(name, "name-link")];
  const isTracked = kind === "user" || kind === "group";
  const where = kind === "queue" || !place ? null : [" in ", isTracked ? queueLink(place) : place];
  return [owner({ kind, name, limit_name: "", queue_path: kind === "queue" ? name : "" }), where];
}

/** @param {Overdue[]} found */
function overdueTable(found) {
  return table("Allocations after their promised end", found, [
    { ...ALLOCATION, name: "Allocation", width: "24%" },
    USER,
    QUEUE,
    { name: "Holds", style: "long", show: ({ usage }) => amountsText(usage) },
    { name: "Ended", show: ({ until, state }) => [ago(until), state === "terminating" && h("span.badge.quiet", "terminating")], props: ({ until }) => ({ title: momentText(until) }) },
  ], { style: "list alerts wide", key: (one) => one.allocation_id });
}

/** @param {Change} one */
function change(one) {
  const wait = one.at - Date.now() / 1000;
  return h("li", { key: one.at },
    h("p", moment(one.at, momentText(one.at)), h("span.quiet", wait > 0 && `, in ${duration(wait)}`)),
    h("ul.difference", one.text.split("\n").map((line) => h("li", line))),
    one.newly_exceeded.length > 0 && [h("p.late", `${counted(one.newly_exceeded.length, "limit")} would be exceeded by the current usage:`), reasons(one.newly_exceeded)],
  );
}
