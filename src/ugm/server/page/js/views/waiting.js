/**
 * The view of waiting work: pending requests in scheduling order with their age and what blocks them, summed up by
 * application or user, or with the comparisons that determine the order.
 *
 * @typedef {{allocation_id: string, application_id: string, user: string, queue_path: string, blocked_by: string,
 *   usage: Amounts, priority: number, fits: boolean}} Pending
 * @typedef {Pending & {position: number, requested_at: number | null,
 *   reasons: {allowed: boolean, can_wait: boolean, violations: Violation[]} | null}} Request
 * @typedef {Pending & {reasons: string[]}} Turn
 * @typedef {{position: number, requested_at: number | null, pending: Amounts, pending_allocations: number, user: string,
 *   application_id?: string, queue_path?: string, running_applications?: number}} Sum
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
/** What is listed: the value in the address and the text. */
const LISTS = /** @type {[string, string][]} */ ([["", "requests"], ["applications", "applications"], ["users", "users"], ["order", "order explained"]]);
/** @type {Column<Pending>} */
const REQUESTED = { name: "Requested", style: "long", show: ({ usage, priority }) => [amountsText(usage), priority !== 0 && h("span", { class: "quiet" }, ` priority ${priority}`)] };
/** @type {Column<Request>} */
const WHY = { name: "What blocks it", style: "why", width: "42%", show: why };

/** @type {View<WaitingWork | {turns: Turn[]}>} */
export const waiting = {
  title: "Waiting",
  topic: "users",
  async load() {
    const { by = "", search, user, queue, application, older_than, sort } = route.query;
    if (by === "order") return get(path("order"), { limit: EXPLAINED });
    const parts = ["applications", "users"].includes(by) ? [by] : [];
    return get(path("waiting", ...parts), { search, user, queue, application, older_than, sort, ...pageOf() });
  },
  show,
};

/** @param {WaitingWork | {turns: Turn[]}} data */
function show(data) {
  const choice = addressChoice("by", "Show", LISTS);
  const texts = { none: "Nothing waits now.", noun: "pending request" };
  if ("turns" in data) return list([choice], { ...texts, note: `the first ${counted(data.turns.length, "request")}`, total: data.turns.length, rows: () => order(data.turns), pages: null });
  const noun = data.users ? "user" : data.applications ? "application" : "request";
  const tools = [
    choice,
    addressField("search", "Find"),
    addressField("user", "User"),
    addressField("queue", "Queue"),
    addressChoice("older_than", "Age", AGES),
    addressChoice("sort", "Order", [["", "position"], ["age", "age"], ["name", "name"]]),
  ];
  return list(tools, { ...texts, note: [counted(data.total, noun), filters().length > 0 && " found"], total: data.total, rows: () => (data.requests ? waitingTable("Pending requests", data.requests, ({ position }) => position, [ALLOCATION, USER, QUEUE, age(data.as_of), REQUESTED, WHY]) : sums(data)) });
}

/**
 * @template {Pending | Sum} T
 * @param {string} label
 * @param {T[]} found
 * @param {(one: T, index: number) => number} position
 * @param {Column<T>[]} columns after the place
 */
function waitingTable(label, found, position, columns) {
  /** @type {Column<T>} */
  const place = { name: "#", style: "place", width: "3.5rem", show: (one, index) => count(position(one, index)), props: () => ({ title: "place in the scheduling order" }) };
  return table(label, found, [place, ...columns], { style: "list waiting wide", key: (one) => ("allocation_id" in one ? one.allocation_id : one.application_id ?? one.user) });
}

/** @param {number} now */
function age(now) {
  return { name: "Age", width: "5rem", show: (/** @type {{requested_at: number | null}} */ one) => ageText(one.requested_at, now) };
}

/** @param {Turn[]} turns */
function order(turns) {
  const reasons = (/** @type {Turn} */ one) => h("ul", { class: "reasons" }, one.reasons.map((reason) => h("li", null, reason)), !one.fits && h("li", null, "It does not fit yet: it exceeds ", queueLink(one.blocked_by), "."));
  return waitingTable("Scheduling order", turns, (_, index) => index + 1, [ALLOCATION, USER, QUEUE, REQUESTED, { name: "Why it has this place", style: "why", width: "42%", show: reasons }]);
}

/** @param {WaitingWork} data */
function sums({ users, applications, as_of: now }) {
  const noun = users ? "User" : "Application";
  /** @type {Column<Sum>} */
  const last = users ? { name: "Running", show: (one) => count(one.running_applications ?? 0) } : QUEUE;
  return waitingTable(`Pending requests by ${noun.toLowerCase()}`, users ?? applications ?? [], ({ position }) => position, [
    { name: noun, show: (one) => (users ? nameLink("users", one.user, CLIP) : [nameLink("applications", one.application_id ?? "", CLIP), ownerOf("users", one.user)]) },
    { name: "Requests", show: requestsOf },
    age(now),
    { name: "Requested", style: "long", show: ({ pending }) => amountsText(pending) },
    last,
  ]);
}

/**
 * Describe the link to the requests of a user or application.
 *
 * @param {Sum} one
 */
function requestsOf({ application_id: application, user, pending_allocations: number }) {
  const { by: _by, page: _page, ...query } = route.query;
  const href = link("waiting", "", { ...query, ...(application === undefined ? { user } : { application }) });
  return h("a", { href, "aria-label": `${counted(number, "request")} of ${application ?? user}` }, count(number));
}

/** @param {Request} one */
function why({ reasons: found, fits, blocked_by: queue }) {
  if (!found) return h("span", { class: "quiet" }, "It has just ended.");
  if (found.allowed) return fits ? "Nothing: it would be granted now." : ["Earlier requests: together with them, it exceeds ", queueLink(queue), "."];
  return [found.can_wait ? "Waiting can help." : "Waiting cannot help: a limit has to be raised.", reasons(found.violations)];
}
