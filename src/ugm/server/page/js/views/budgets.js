/**
 * The view of budgets: the accounts with their limit, what is settled, committed and left, and when they are renewed.
 *
 * @typedef {number | bigint | string} Exact an amount times seconds, or a fraction such as "7/2"
 * @typedef {{budget: string, owner: string, resource: string, limit: Exact, settled: Exact, committed: Exact,
 *   remaining: Exact, renews: number | null, exhausted: number | null, share: number, scope: string, queue_path: string,
 *   period: string}} Account
 * @typedef {{now: number | null, total: number, accounts: Account[]}} Accounts
 */

import { get, path } from "../base/api.js";
import { bar, hoursFigures } from "../parts/bars.js";
import { h } from "../base/dom.js";
import { counted, duration, hourUnit, hoursText, momentText, whole } from "../base/format.js";
import { queueLink } from "../parts/limits.js";
import { addressChoice, addressField, pageOf, pages } from "../parts/paging.js";
import { clipped, emptyNote, nameLink, numberCell, table } from "../parts/tables.js";

/** Rows of a page. */
const PAGE = 50;
const ORDERS = /** @type {[string, string][]} */ ([["", "used share"], ["remaining", "remaining"], ["exhausted", "exhausted first"], ["name", "name"]]);
/** The views with a detail of an owner. */
const OWNERS = new Map([["user", "users"], ["group", "groups"], ["queue", "queues"], ["elastic group", "elastic"], ["quota node", "quota"]]);

export const title = "Budgets";

/**
 * @param {import("../types.js").Route} route
 * @returns {Promise<Accounts>}
 */
export function load(route) {
  const { search, sort, budget, owner } = route.query;
  return get(path(route.partition, "budgets"), { search, sort, budget, owner, offset: (pageOf(route) - 1) * PAGE, limit: PAGE });
}

/**
 * @param {import("../types.js").Route} route
 * @param {Accounts} data
 */
export function show(route, data) {
  return [
    h("div", { class: "tools" }, addressField(route, "search", "Find a budget or owner"), addressChoice(route, "sort", "Order", ORDERS), h("span", { class: "quiet" }, counted(data.total, "account"), "; amounts in hours of each resource")),
    data.total ? accounts(route.partition, data) : emptyNote(route.query.search ? "No budget or owner matches." : "No budget is declared for this partition."),
    pages(route, data.total, PAGE),
  ];
}

/**
 * Return the table of accounts.
 *
 * @param {string} partition
 * @param {Accounts} data
 */
export function accounts(partition, data) {
  const heads = /** @type {import("../parts/tables.js").Head[]} */ (["Account", "Used of the limit", ["Settled", "number"], ["Committed", "number"], ["Remaining", "number"], "Renewed"]);
  return table("Accounts", heads, data.accounts.map((one) => row(partition, one, data.now ?? Date.now() / 1000)), "list accounts wide");
}

/**
 * @param {string} partition
 * @param {Account} one
 * @param {number} now
 */
function row(partition, one, now) {
  const figure = (/** @type {string} */ label, /** @type {Exact} */ amount) => numberCell(label, hoursText(one.resource, amount), exactHours(one.resource, amount));
  const used = [one.settled, one.committed].reduce((/** @type {bigint} */ sum, amount) => sum + whole(amount), 0n);
  const settled = ratio(one.settled, one.limit);
  return h(
    "tr",
    { key: `${one.budget} ${one.scope} ${one.owner} ${one.resource}` },
    h("th", { scope: "row" }, clipped(one.budget), owner(partition, one), h("span", { class: "quiet clip", title: one.resource }, hourUnit(one.resource))),
    h(
      "td",
      { class: "bars" },
      hoursFigures(one.resource, used, one.limit, one.share),
      bar(settled, { pending: Math.max(0, one.share - settled) }),
    ),
    figure("Settled", one.settled),
    figure("Committed", one.committed),
    figure("Remaining", one.remaining),
    h("td", { class: "renewal", "data-label": "Renewed" }, renewal(one, now)),
  );
}

/**
 * @param {string} partition
 * @param {Account} one
 */
function owner(partition, { scope, owner: name, queue_path }) {
  const found = name === "*" ? "every other group together" : nameLink(partition, OWNERS.get(scope) ?? "queues", name);
  return h("span", { class: "quiet" }, `${scope} `, found, scope !== "queue" && queue_path && queue_path !== "root" && [" in ", queueLink(partition, queue_path)]);
}

/**
 * @param {Account} one
 * @param {number} now
 */
function renewal(one, now) {
  return [
    one.renews === null ? "never" : [`in ${duration(Math.max(0, one.renews - now))}`, h("span", { class: "quiet moment" }, momentText(one.renews))],
    one.exhausted !== null && h("span", { class: "late moment" }, one.exhausted <= now ? "exhausted" : `exhausted in ${duration(one.exhausted - now)} at the current rate`),
  ];
}

/**
 * @param {Exact} part
 * @param {Exact} limit
 */
function ratio(part, limit) {
  const most = Number(whole(limit));
  return most > 0 ? Number(whole(part)) / most : 1;
}

/**
 * @param {string} resource
 * @param {Exact} amount
 */
function exactHours(resource, amount) {
  const unit = resource === "vcore" ? "thousandths of a core" : resource === "memory" ? "bytes" : resource;
  return `${amount} ${unit} times seconds`;
}
