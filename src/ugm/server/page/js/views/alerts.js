/**
 * The view of what needs attention: limits above a threshold, allocations after their promised end, and limits that a
 * schedule is about to change.
 *
 * @typedef {import("../types.js").Amount} Amount
 * @typedef {{kind: string, name: string, place: string, resource: string | null, threshold: number, used: Amount | string,
 *   limit: Amount | string, share: number}} Crossed
 * @typedef {{allocation_id: string, application_id: string, user: string | null, queue_path: string | null, state: string,
 *   usage: import("../types.js").Amounts, until: number}} Overdue
 * @typedef {{at: number, text: string, newly_exceeded: import("../types.js").Violation[]}} Change
 * @typedef {{crossed: {shares: number[], total: number, crossed: Crossed[]}, overdue: {total: number, allocations: Overdue[]},
 *   changes: Change[], now: number}} Alerts
 */

import { get, path } from "../base/api.js";
import { bar, gauge, hoursFigures } from "../parts/bars.js";
import { h } from "../base/dom.js";
import { ago, amountsText, count, counted, duration, hourUnit, momentText, whole } from "../base/format.js";
import { owner, queueLink, reasons } from "../parts/limits.js";
import { addressChoice, addressField, pageOf, pages } from "../parts/paging.js";
import { cell, CLIP, clipped, emptyNote, LONG, nameLink, numberCell, table, resourceLabel } from "../parts/tables.js";

/** Rows of a page, and coming changes. */
const PAGE = 50;
const CHANGES = 10;
const KINDS = /** @type {[string, string][]} */ ([["", "all limits"], ["user", "users"], ["group", "groups"], ["queue", "queues"], ["budget", "budgets"]]);

export const title = "Alerts";

/**
 * @param {import("../types.js").Route} route
 * @returns {Promise<Alerts>}
 */
export async function load(route) {
  const { search, kind } = route.query;
  const [crossed, overdue, { changes }] = await Promise.all([
    get(path(route.partition, "thresholds"), { search, kind, offset: (pageOf(route) - 1) * PAGE, limit: PAGE }),
    get(path(route.partition, "overdue"), { limit: PAGE }),
    get(path(route.partition, "scheduled_changes"), { limit: CHANGES }),
  ]);
  return { crossed, overdue, changes, now: Date.now() / 1000 };
}

/**
 * @param {import("../types.js").Route} route
 * @param {Alerts} data
 */
export function show(route, { crossed, overdue, changes, now }) {
  const { partition } = route;
  const isFiltered = Boolean(route.query.search || route.query.kind);
  const shares = crossed.shares.map((share) => `${share}%`).join(", ");
  return [
    h("div", { class: "tools" }, addressField(route, "search", "Find a limit"), addressChoice(route, "kind", "Of", KINDS), h("span", { class: "quiet" }, shares ? `thresholds of ${shares}: ${count(crossed.total)} exceeded` : "")),
    h("h3", null, "Nearly full limits"),
    crossed.total
      ? table("Nearly full limits", ["Limit of", "On", ["Used", "bars"], ["Thresholds", "number"]], byLimit(crossed.crossed).map((found) => limitRow(partition, found)), "list alerts stack")
      : emptyNote(!shares ? "No thresholds are declared for this partition. In its configuration, ugm: {thresholds: {shares: [80, 95]}} declares them." : isFiltered ? "No limit above a threshold matches." : "No limit is above a threshold."),
    pages(route, crossed.total, PAGE),
    h("h3", null, "Allocations after their promised end"),
    overdue.total ? table("Allocations after their promised end", ["Allocation", "User", "Queue", "Holds", "Ended"], overdue.allocations.map((one) => overdueRow(partition, one)), "list alerts wide") : emptyNote("None is overdue."),
    overdue.total > overdue.allocations.length && h("p", { class: "quiet" }, `and ${count(overdue.total - overdue.allocations.length)} more`),
    h("h3", null, "Coming changes of limits"),
    changes.length ? h("ol", { class: "attempts" }, changes.map((one) => change(partition, one, now))) : emptyNote("No schedule changes a limit."),
  ];
}

/**
 * @param {string} partition
 * @param {Crossed[]} found the crossed thresholds of one limit, the highest first
 */
function limitRow(partition, found) {
  const [one] = /** @type {[Crossed]} */ (found);
  const { kind, name, place, resource, share } = one;
  const isBudget = kind === "budget";
  const holder = isBudget ? [`budget ${place} of `, clipped(name, "name-link")] : owner(partition, { kind, name, limit_name: "", queue_path: kind === "queue" ? name : "" });
  const used = isBudget ? [hoursFigures(resource ?? "", one.used, one.limit, share), bar(share)] : gauge(resource, whole(one.used), whole(one.limit));
  return h(
    "tr",
    { key: limitKey(one) },
    h("th", { scope: "row" }, holder, !isBudget && kind !== "queue" && [" in ", queueLink(partition, place)]),
    cell("On", isBudget ? hourUnit(resource ?? "") : resourceLabel(resource), LONG),
    h("td", { class: "bars" }, used),
    numberCell("Thresholds", found.map(({ threshold }) => `${threshold}%`).join(", ")),
  );
}

/** @param {Crossed} one */
function limitKey({ kind, name, place, resource }) {
  return JSON.stringify([kind, name, place, resource]);
}

/**
 * Return the crossed thresholds by limit; those of one limit follow each other.
 *
 * @param {Crossed[]} crossed
 */
function byLimit(crossed) {
  /** @type {Map<string, Crossed[]>} */
  const found = new Map();
  for (const one of crossed) found.set(limitKey(one), [...(found.get(limitKey(one)) ?? []), one]);
  return [...found.values()];
}

/**
 * @param {string} partition
 * @param {Overdue} one
 */
function overdueRow(partition, one) {
  return h(
    "tr",
    { key: one.allocation_id },
    h("th", { scope: "row" }, clipped(one.allocation_id), h("span", { class: "quiet clip" }, "of ", nameLink(partition, "applications", one.application_id, { class: null }))),
    cell("User", one.user !== null && nameLink(partition, "users", one.user, CLIP)),
    cell("Queue", one.queue_path !== null && queueLink(partition, one.queue_path), LONG),
    cell("Holds", amountsText(one.usage), LONG),
    cell("Ended", [ago(one.until), one.state === "terminating" && h("span", { class: "badge quiet" }, "terminating")], { title: momentText(one.until) }),
  );
}

/**
 * @param {string} partition
 * @param {Change} one
 * @param {number} now
 */
function change(partition, one, now) {
  return h(
    "li",
    { key: one.at },
    h("p", null, h("time", { datetime: new Date(one.at * 1000).toISOString() }, momentText(one.at)), h("span", { class: "quiet" }, one.at > now ? `, in ${duration(one.at - now)}` : "")),
    h("ul", { class: "difference" }, one.text.split("\n").map((line) => h("li", null, line))),
    one.newly_exceeded.length > 0 && [h("p", { class: "late" }, `${counted(one.newly_exceeded.length, "limit")} would be exceeded by the current usage:`), reasons(partition, one.newly_exceeded)],
  );
}
