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
import { h } from "../base/dom.js";
import { counted, duration, hoursText, hourUnit, momentText, whole } from "../base/format.js";
import { route } from "../base/route.js";
import { hoursGauge } from "../parts/limits.js";
import { addressChoice, addressField, clipped, list, nameLink, pageOf, queueLink, table, undeclared } from "../parts/lists.js";

const ORDERS = /** @type {[string, string][]} */ ([["", "used share"], ["remaining", "remaining"], ["exhausted", "exhausted first"], ["name", "name"]]);
/** The views with a detail of an owner. */
const OWNERS = new Map([["user", "users"], ["group", "groups"], ["queue", "queues"], ["elastic group", "elastic"], ["quota node", "quota"]]);

/** @type {View<Accounts>} */
export const budgets = {
  title: "Budgets",
  topic: "users",
  model: "Budgets",
  load() {
    const { search, sort, budget, owner } = route.query;
    return get(path("budgets"), { search, sort, budget, owner, ...pageOf() });
  },
  show: (data) =>
    list([addressField("search", "Find a budget or owner"), addressChoice("sort", "Order", ORDERS)], {
      noun: "budget or owner",
      note: `${counted(data.total, "account")}; amounts in hours of each resource`,
      total: data.total,
      rows: () => accounts(data),
      none: undeclared("budgets", "budgets: [{name: hours, user: '*', amounts: {vcore: 100}, unit: hour, period: month, mode: admit}]"),
    }),
};

/** Return the table of accounts. */
/** @param {Accounts} data */
export function accounts(data) {
  const now = data.now ?? Date.now() / 1000;
  const parts = /** @type {const} */ (["settled", "committed", "remaining"]);
  const figure = (/** @type {typeof parts[number]} */ part) => ({
    name: `${part[0]?.toUpperCase()}${part.slice(1)}`,
    style: "number",
    show: (/** @type {Account} */ one) => hoursText(one.resource, one[part]),
    props: (/** @type {Account} */ one) => ({ title: exactHours(one.resource, one[part]) }),
  });
  return table("Accounts", data.accounts, [
    { name: "Account", width: "24%", show: (one) => [clipped(one.budget), owner(one), h("span.quiet.clip", { title: one.resource }, hourUnit(one.resource))] },
    { name: "Used of the limit", style: "bars", width: "24%", show: used },
    ...parts.map(figure),
    { name: "Renewed", style: "renewal", show: (one) => renewal(one, now) },
  ], { style: "list accounts wide", key: (one) => `${one.budget} ${one.scope} ${one.owner} ${one.resource}` });
}

/** @param {Account} one */
function owner({ scope, owner: name, queue_path }) {
  const found = name === "*" ? "every other group together" : nameLink(OWNERS.get(scope) ?? "queues", name);
  return h("span.quiet", `${scope} `, found, scope !== "queue" && queue_path && queue_path !== "root" && [" in ", queueLink(queue_path)]);
}

/** @param {Account} one */
function used({ resource, settled, committed, limit, share }) {
  const most = Number(whole(limit));
  return hoursGauge(resource, whole(settled) + whole(committed), limit, share, most > 0 ? Number(whole(settled)) / most : 1);
}

/** @param {Account} one @param {number} now */
function renewal(one, now) {
  return [
    one.renews === null ? "never" : [`in ${duration(Math.max(0, one.renews - now))}`, h("span.quiet.moment", momentText(one.renews))],
    one.exhausted !== null && h("span.late.moment", one.exhausted <= now ? "exhausted" : `exhausted in ${duration(one.exhausted - now)} at the current rate`),
  ];
}

/** @param {string} resource @param {Exact} amount */
function exactHours(resource, amount) {
  const unit = resource === "vcore" ? "thousandths of a core" : resource === "memory" ? "bytes" : resource;
  return `${amount} ${unit} times seconds`;
}
