/**
 * The view of fair shares: the accounts and users with their part of the shares and of the usage, the best first.
 *
 * @typedef {{path: string, level: string, share: string | null, used: string, usage: string}} Ranked numbers are fractions
 * @typedef {Ranked & {user: string, place: number}} RankedUser
 * @typedef {{as_of: number | null, total: number, users: RankedUser[], accounts: Ranked[]}} Shares
 */

import { get, path } from "../base/api.js";
import { h } from "../base/dom.js";
import { count, counted, percent } from "../base/format.js";
import { route } from "../base/route.js";
import { bar, figures } from "../parts/limits.js";
import { addressField, CLIP, clipped, emptyNote, filters, list, nameLink, pageOf, table, undeclared } from "../parts/lists.js";

/** The columns of users and of accounts. */
/** @type {Column<Ranked>[]} */
const FIGURES = [
  { name: "Used of the share", style: "bars", width: "36%", show: usedOfShare },
  { name: "Level", style: "number", show: ({ level }) => (level === "infinity" ? h("span", { title: "nothing is used" }, "∞") : decimal(number(level))), props: ({ level }) => ({ title: level }) },
  { name: "Usage", style: "number", show: ({ usage }) => decimal(number(usage)), props: ({ usage }) => ({ title: usage }) },
];

/** @type {View<Shares>} */
export const shares = {
  title: "Fair shares",
  topic: "users",
  model: "FairShares",
  load: () => get(path("shares"), { search: route.query.search, ...pageOf() }),
  show,
};

/** @param {Shares} data */
function show(data) {
  if (data.as_of === null) return emptyNote(undeclared("fair shares", "fairshare: {defaultshares: 1, weights: {vcore: 1}}"));
  const users = () => table("Users", data.users, [{ name: "Place", style: "place", width: "3.5rem", show: ({ place }) => count(place), props: ({ place }) => ({ title: `${counted(place - 1, "user")} of all come before` }) }, { name: "User", show: user }, ...FIGURES], { style: "list shares wide", key });
  return [
    list([addressField("search", "Find a user or account")], { noun: "user or account", note: [counted(data.total, "user"), filters().length > 0 && " found", ", the best first"], total: data.total, rows: users, none: "No user has shares or usage yet." }),
    data.accounts.length > 0 && table("Accounts of these users", data.accounts, [{ name: "Account", show: (one) => clipped(one.path), props: (one) => ({ class: "indented", vars: { level: one.path.split("/").length - 1 } }) }, ...FIGURES], { style: "shares wide", key }),
    h("p.quiet", "The level is the part of the shares divided by the part of the usage of its account: above 1, less is used than the share. The mark of a bar is the share. The usage is decayed and weighted."),
  ];
}

/** @param {Ranked} one */
function key(one) {
  return one.path;
}

/** @param {RankedUser} one */
function user(one) {
  const above = one.path.slice(0, one.path.lastIndexOf("/"));
  return [nameLink("users", one.user, CLIP), above && h("span.quiet.clip", { title: above }, above)];
}

/** @param {Ranked} one */
function usedOfShare(one) {
  const [share, used] = [one.share === null ? null : number(one.share), number(one.used)];
  return [figures(percent(used), share === null ? " without limit" : ` of ${percent(share)}`), bar(used, { guaranteed: share ?? undefined, level: share !== null && used > share ? "near" : "free" })];
}

/** Convert a fraction such as 7/2. */
/** @param {string} text */
function number(text) {
  const [above = "0", below = "1"] = text.split("/");
  return Number(above) / Number(below);
}

/** @param {number} value */
function decimal(value) {
  return value.toLocaleString("en", { maximumSignificantDigits: 3 });
}
