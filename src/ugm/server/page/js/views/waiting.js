/**
 * The view of waiting work: pending requests in scheduling order with their age and what blocks them, summed up by
 * application or user, or with the comparisons that determine the order.
 *
 * @typedef {{allocation_id: string, application_id: string, user: string, queue_path: string, blocked_by: string,
 *   usage: Amounts, priority: number, fits: boolean}} Pending
 * @typedef {{position: number, requested_at: number | null, age: number | null}} Aged the page computes the age
 * @typedef {Pending & Aged & {reasons: {allowed: boolean, can_wait: boolean, violations: Violation[]} | null}} Request
 * @typedef {Pending & {reasons: string[]}} Turn
 * @typedef {Aged & {pending: Amounts, pending_allocations: number, user: string, application_id?: string,
 *   queue_path?: string, running_applications?: number}} Sum
 * @typedef {{as_of: number, total: number, requests?: Request[], applications?: Sum[], users?: Sum[]}} WaitingWork
 */

import { get, path } from "../base/api.js";
import { h } from "../base/dom.js";
import { amountsText, count, counted } from "../base/format.js";
import { link, route } from "../base/route.js";
import { reasons } from "../parts/limits.js";
import { addressChoice, addressField, AGES, ALLOCATION, CLIP, filters, list, nameLink, ownerOf, pageOf, QUEUE, queueLink, table, USER } from "../parts/lists.js";
import { ageText } from "./applications.js";

/** Requests whose place is explained. */
const EXPLAINED = 100;

/** @type {Column<Aged>} */
const AGE = { name: "Age", width: "5rem", show: ({ age }) => ageText(age) };
/** @type {Column<Pending>} */
const REQUESTED = { name: "Requested", style: "long", show: ({ usage, priority }) => [amountsText(usage), priority !== 0 && h("span.quiet", ` priority ${priority}`)] };
/** @type {Column<Sum>[]} */
const SUMS = [{ name: "Requests", show: requestsOf }, AGE, { name: "Requested", style: "long", show: ({ pending }) => amountsText(pending) }];
const WHY = { style: "why", width: "42%" };
/** @type {Column<any>} */
const PLACE = { name: "#", style: "place", width: "3.5rem", show: ({ position }, index) => count(position ?? index + 1), props: () => ({ title: "place in the scheduling order" }) };

/** What is listed, by the value in the address: the text of the choice, the caption, and the columns after the place. */
/** @type {Map<string | undefined, {text: string, caption: string, columns: Column<any>[]}>} */
const LISTS = new Map(Object.entries({
  "": { text: "requests", caption: "Pending requests", columns: [ALLOCATION, USER, QUEUE, AGE, REQUESTED, { ...WHY, name: "What blocks it", show: why }] },
  applications: {
    text: "applications",
    caption: "Pending requests by application",
    columns: [{ name: "Application", show: application }, ...SUMS, QUEUE],
  },
  users: { text: "users", caption: "Pending requests by user", columns: [USER, ...SUMS, { name: "Running", show: running }] },
  order: { text: "order explained", caption: "Scheduling order", columns: [ALLOCATION, USER, QUEUE, REQUESTED, { ...WHY, name: "Why it has this place", show: whyThere }] },
}));

/** @type {View<{by: string, total: number, rows: any[]}>} */
export const waiting = {
  title: "Waiting",
  topic: "users",
  async load() {
    const { search, user, queue, application, older_than, sort } = route.query;
    const by = LISTS.has(route.query.by) ? route.query.by ?? "" : "";
    if (by === "order") {
      const { turns } = await get(path("order"), { limit: EXPLAINED });
      return { by, total: turns.length, rows: turns };
    }
    /** @type {WaitingWork} */
    const data = await get(path("waiting", ...(by ? [by] : [])), { search, user, queue, application, older_than, sort, ...pageOf() });
    const rows = data.requests ?? data.applications ?? data.users ?? [];
    return { by, total: data.total, rows: rows.map((one) => ({ ...one, age: one.requested_at === null ? null : data.as_of - one.requested_at })) };
  },
  show({ by, total, rows }) {
    const { caption, columns, text } = LISTS.get(by) ?? { caption: "", columns: [], text: "" };
    const isOrder = by === "order";
    const tools = [
      addressField("search", "Find"),
      addressField("user", "User"),
      addressField("queue", "Queue"),
      addressChoice("older_than", "Age", AGES),
      addressChoice("sort", "Order", [["", "position"], ["age", "age"], ["name", "name"]]),
    ];
    return list([addressChoice("by", "Show", [...LISTS].map(([value, one]) => [value ?? "", one.text])), !isOrder && tools], {
      noun: "pending request",
      note: isOrder ? `the first ${counted(total, "request")}` : [counted(total, text.slice(0, -1)), filters().length > 0 && " found"],
      total,
      rows: () => table(caption, rows, [PLACE, ...columns], { style: "list waiting wide", key: (one) => one.allocation_id ?? one.application_id ?? one.user }),
      none: "Nothing waits now.",
      pages: isOrder ? null : undefined,
    });
  },
};

/** @param {Sum} one */
function application({ application_id = "", user }) {
  return [nameLink("applications", application_id, CLIP), ownerOf("users", user)];
}

/** @param {Sum} one */
function running({ running_applications = 0 }) {
  return count(running_applications);
}

/** Describe the link to the requests of a user or application. */
/** @param {Sum} one */
function requestsOf({ application_id: application, user, pending_allocations: number }) {
  const { by: _by, page: _page, ...query } = route.query;
  const href = link("waiting", "", { ...query, ...(application === undefined ? { user } : { application }) });
  return h("a", { href, "aria-label": `${counted(number, "request")} of ${application ?? user}` }, count(number));
}

/** @param {Request} one */
function why({ reasons: found, fits, blocked_by: queue }) {
  if (!found) return h("span.quiet", "It has just ended.");
  if (found.allowed) return fits ? "Nothing: it would be granted now." : ["Earlier requests: together with them, it exceeds ", queueLink(queue), "."];
  return [found.can_wait ? "Waiting can help." : "Waiting cannot help: a limit has to be raised.", reasons(found.violations)];
}

/** @param {Turn} one */
function whyThere(one) {
  return h("ul.reasons", one.reasons.map((reason) => h("li", reason)), !one.fits && h("li", "It does not fit yet: it exceeds ", queueLink(one.blocked_by), "."));
}
