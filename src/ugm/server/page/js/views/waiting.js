/**
 * The view of waiting work: pending requests in scheduling order with their age and what blocks them, summed up by
 * application or user, or with the comparisons that determine the order.
 *
 * @typedef {{allocation_id: string, application_id: string, user: string, queue_path: string, blocked_by: string,
 *   usage: import("../types.js").Amounts, priority: number, fits: boolean}} Pending
 * @typedef {Pending & {position: number, requested_at: number | null,
 *   reasons: {allowed: boolean, can_wait: boolean, violations: import("../types.js").Violation[]} | null}} Request
 * @typedef {{position: number, requested_at: number | null, pending: import("../types.js").Amounts, pending_allocations: number,
 *   user: string, application_id?: string, queue_path?: string, running_applications?: number}} Sum
 * @typedef {{as_of: number, total: number, requests?: Request[], applications?: Sum[], users?: Sum[]}} WaitingWork
 * @typedef {{turns: (Pending & {reasons: string[]})[]}} Order
 */

import { announce } from "../base/announcements.js";
import { ageText } from "./applications.js";
import { get, path } from "../base/api.js";
import { h } from "../base/dom.js";
import { amountsText, count, counted } from "../base/format.js";
import { queueLink, reasons } from "../parts/limits.js";
import { addressChoice, addressField, AGES, pageOf, pages } from "../parts/paging.js";
import { link } from "../base/route.js";
import { cell, CLIP, clipped, emptyNote, LONG, nameLink, table } from "../parts/tables.js";

/** Rows of a page, and requests whose place is explained. */
const PAGE = 50;
const EXPLAINED = 100;
/** The parts of the address that filter. */
const FILTERS = ["search", "user", "queue", "application", "older_than"];
/** What is listed: the value in the address and the text. */
const LISTS = /** @type {[string, string][]} */ ([["", "requests"], ["applications", "applications"], ["users", "users"], ["order", "order explained"]]);

export const title = "Waiting";

/** The last search whose result was announced. */
let announced = "{}";

/**
 * @param {import("../types.js").Route} route
 * @returns {Promise<WaitingWork | Order>}
 */
export async function load(route) {
  const { by = "", sort } = route.query;
  if (by === "order") return get(path(route.partition, "order"), { limit: EXPLAINED });
  const filters = Object.fromEntries(FILTERS.map((name) => [name, route.query[name]]));
  const parts = ["applications", "users"].includes(by) ? [by] : [];
  /** @type {WaitingWork} */
  const data = await get(path(route.partition, "waiting", ...parts), { ...filters, sort, offset: (pageOf(route) - 1) * PAGE, limit: PAGE });
  const search = JSON.stringify(filters);
  if (search !== announced) announce(`${count(data.total)} found`);
  announced = search;
  return data;
}

/**
 * @param {import("../types.js").Route} route
 * @param {WaitingWork | Order} data
 */
export function show(route, data) {
  const list = addressChoice(route, "by", "Show", LISTS);
  if ("turns" in data) return [h("div", { class: "tools" }, list, h("span", { class: "quiet" }, `the first ${counted(data.turns.length, "request")}`)), order(route.partition, data)];
  const isFiltered = FILTERS.some((name) => route.query[name]);
  const noun = data.users ? "user" : data.applications ? "application" : "request";
  return [
    h(
      "div",
      { class: "tools" },
      list,
      addressField(route, "search", "Find"),
      addressField(route, "user", "User"),
      addressField(route, "queue", "Queue"),
      addressChoice(route, "older_than", "Age", AGES),
      addressChoice(route, "sort", "Order", [["", "position"], ["age", "age"], ["name", "name"]]),
      h("span", { class: "quiet" }, counted(data.total, noun), isFiltered ? " found" : ""),
    ),
    data.total ? rows(route, data) : emptyNote(isFiltered ? "No pending request matches." : "Nothing waits now."),
    pages(route, data.total, PAGE),
  ];
}

/**
 * @param {string} label
 * @param {import("../parts/tables.js").Head[]} heads the columns after the place
 * @param {import("../base/dom.js").Child[]} rows
 */
function list(label, heads, rows) {
  return table(label, [["#", "place"], ...heads], rows, "list waiting wide");
}

/**
 * @param {import("../types.js").Route} route
 * @param {WaitingWork} data
 */
function rows(route, data) {
  if (data.requests) return list("Pending requests", ["Request", "User", "Queue", ["Age", "age"], "Requested", ["What blocks it", "why"]], data.requests.map((one) => requestRow(route.partition, one, data.as_of)));
  const noun = data.users ? "User" : "Application";
  return list(`Pending requests by ${noun.toLowerCase()}`, [noun, "Requests", ["Age", "age"], "Requested", noun === "User" ? "Running applications" : "Queue"], (data.users ?? data.applications ?? []).map((one) => sumRow(route, one, data.as_of)));
}

/**
 * @param {string} partition
 * @param {Pending} one
 */
function requestCells(partition, one) {
  return [
    h(
      "th",
      { scope: "row" },
      clipped(one.allocation_id),
      h("span", { class: "quiet clip" }, "of ", nameLink(partition, "applications", one.application_id, { class: null })),
    ),
    cell("User", nameLink(partition, "users", one.user, CLIP)),
    cell("Queue", queueLink(partition, one.queue_path), LONG),
  ];
}

/** @param {Pending} one */
function asked(one) {
  return h("td", { "data-label": "Requested", ...LONG }, amountsText(one.usage), one.priority !== 0 && h("span", { class: "quiet" }, ` priority ${one.priority}`));
}

/**
 * @param {string} partition
 * @param {Request} one
 * @param {number} now
 */
function requestRow(partition, one, now) {
  return h("tr", { key: one.allocation_id }, placeCell(one.position), requestCells(partition, one), ageCell(one.requested_at, now), asked(one), h("td", { class: "why" }, why(partition, one)));
}

/** @param {number} position */
function placeCell(position) {
  return h("td", { class: "place", title: "place in the scheduling order" }, count(position));
}

/**
 * @param {number | null} at when it was requested
 * @param {number} now
 */
function ageCell(at, now) {
  return cell("Age", ageText(at, now));
}

/**
 * @param {string} partition
 * @param {Request} one
 */
function why(partition, one) {
  const found = one.reasons;
  if (!found) return h("span", { class: "quiet" }, "It has just ended.");
  if (found.allowed) return one.fits ? "Nothing: it would be granted now." : ["Earlier requests: together with them, it exceeds ", queueLink(partition, one.blocked_by), "."];
  return [found.can_wait ? "Waiting can help." : "Waiting cannot help: a limit has to be raised.", reasons(partition, found.violations)];
}

/**
 * @param {import("../types.js").Route} route
 * @param {Sum} one
 * @param {number} now
 */
function sumRow(route, one, now) {
  const { by: _by, page: _page, ...query } = route.query;
  const { partition } = route;
  const name = one.application_id ?? one.user;
  const view = one.application_id === undefined ? "users" : "applications";
  const detail = link(partition, "waiting", "", { ...query, ...(view === "users" ? { user: name } : { application: name }) });
  return h(
    "tr",
    { key: name },
    placeCell(one.position),
    h(
      "th",
      { scope: "row" },
      nameLink(partition, view, name, CLIP),
      view === "applications" && h("span", { class: "quiet clip" }, "of ", nameLink(partition, "users", one.user, { class: null })),
    ),
    h("td", { "data-label": "Requests" }, h("a", { href: detail, "aria-label": `${counted(one.pending_allocations, "request")} of ${name}` }, count(one.pending_allocations))),
    ageCell(one.requested_at, now),
    cell("Requested", amountsText(one.pending), LONG),
    view === "users" ? cell("Running", count(one.running_applications ?? 0)) : cell("Queue", queueLink(partition, one.queue_path ?? "root"), LONG),
  );
}

/**
 * @param {string} partition
 * @param {Order} data
 */
function order(partition, { turns }) {
  if (!turns.length) return emptyNote("Nothing waits now.");
  const line = (/** @type {Order["turns"][number]} */ one, /** @type {number} */ index) =>
    h("tr", { key: one.allocation_id }, placeCell(index + 1), requestCells(partition, one), asked(one), h("td", { class: "why" }, h("ul", { class: "reasons" }, one.reasons.map((reason) => h("li", null, reason)), !one.fits && h("li", null, "It does not fit yet: it exceeds ", queueLink(partition, one.blocked_by), "."))));
  return list("Scheduling order", ["Request", "User", "Queue", "Requested", ["Why it has this place", "why"]], turns.map(line));
}
