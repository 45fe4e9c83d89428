/**
 * The view of fair shares: the accounts and users with their part of the shares and of the usage, the best first.
 *
 * @typedef {{path: string, level: string, share: string | null, used: string, usage: string}} Ranked numbers are fractions
 * @typedef {{as_of: number | null, total: number, users: (Ranked & {user: string, place: number})[], accounts: Ranked[]}} Shares
 */

import { get, path } from "../base/api.js";
import { bar } from "../parts/bars.js";
import { h } from "../base/dom.js";
import { count, counted, percent } from "../base/format.js";
import { addressField, pageOf, pages } from "../parts/paging.js";
import { clipped, CLIP, emptyNote, nameLink, numberCell, table } from "../parts/tables.js";

/** Rows of a page. */
const PAGE = 50;

export const title = "Fair shares";

/**
 * @param {import("../types.js").Route} route
 * @returns {Promise<Shares>}
 */
export function load(route) {
  return get(path(route.partition, "shares"), { search: route.query.search, offset: (pageOf(route) - 1) * PAGE, limit: PAGE });
}

/**
 * @param {import("../types.js").Route} route
 * @param {Shares} data
 */
export function show(route, data) {
  if (data.as_of === null) return emptyNote("No fair shares are declared for this partition.");
  const heads = /** @type {import("../parts/tables.js").Head[]} */ (["Used of the share", ["Level", "number"], ["Usage", "number"]]);
  const account = (/** @type {Ranked} */ one) => {
    const level = one.path.split("/").length - 1;
    return h("tr", { key: one.path }, h("th", { scope: "row", class: "indented", vars: { level } }, clipped(one.path)), cells(one));
  };
  const user = (/** @type {Shares["users"][number]} */ one) => {
    const above = one.path.slice(0, one.path.lastIndexOf("/"));
    const place = h("td", { class: "place", title: `${counted(one.place - 1, "user")} of all come before` }, count(one.place));
    return h("tr", { key: one.path }, place, h("th", { scope: "row" }, nameLink(route.partition, "users", one.user, CLIP), above && h("span", { class: "quiet clip", title: above }, above)), cells(one));
  };
  return [
    h("div", { class: "tools" }, addressField(route, "search", "Find a user or account"), h("span", { class: "quiet" }, counted(data.total, "user"), route.query.search ? " found" : "", ", the best first")),
    data.total ? table("Users", [["Place", "place"], "User", ...heads], data.users.map(user), "list shares wide") : emptyNote(route.query.search ? "No user or account matches." : "No user has shares or usage yet."),
    pages(route, data.total, PAGE),
    data.accounts.length > 0 && table("Accounts of these users", ["Account", ...heads], data.accounts.map(account), "shares wide"),
    h("p", { class: "quiet" }, "The level is the part of the shares divided by the part of the usage of its account: above 1, less is used than the share. The mark of a bar is the share. The usage is decayed and weighted."),
  ];
}

/** @param {Ranked} one */
function cells(one) {
  const [share, used] = [one.share === null ? null : number(one.share), number(one.used)];
  return [
    h(
      "td",
      { class: "bars" },
      h("div", { class: "figures" }, h("span", { class: "amount" }, percent(used)), h("span", { class: "of" }, share === null ? " without limit" : ` of ${percent(share)}`)),
      bar(used, { guaranteed: share ?? undefined, level: share !== null && used > share ? "near" : "free" }),
    ),
    numberCell("Level", one.level === "infinity" ? h("span", { title: "nothing is used" }, "∞") : decimal(number(one.level)), one.level),
    numberCell("Usage", decimal(number(one.usage)), one.usage),
  ];
}

/**
 * Convert a fraction such as 7/2.
 *
 * @param {string} text
 */
function number(text) {
  const [above = "0", below = "1"] = text.split("/");
  return Number(above) / Number(below);
}

/** @param {number} value */
function decimal(value) {
  return value.toLocaleString("en", { maximumSignificantDigits: 3 });
}
