/**
 * Limits: the chain from a queue to the root, the limits that bind, and violations as sentences.
 */

import { gauge } from "./bars.js";
import { h } from "../base/dom.js";
import { amountText, exactText, resourceName, sortedNames, withUnit } from "../base/format.js";
import { link } from "../base/route.js";
import { breakable, clipped, nameLink, numberCell, resourceLabel, table } from "./tables.js";

/**
 * The text of a limit of a quota model, or of a limit on pending work, up to the sentence that all limits have in common.
 * The amounts are those of the server: 17600m.
 */
const COMMON = /:\s\S+ \S+ requested,\s(?:\S+ of \S+ (used|pending),\s\S+ too much|never more than \S+ (allowed|may be pending))(?=$| \(limit for )/;

/** The views of owners. */
const VIEWS = new Map([["user", "users"], ["group", "groups"]]);

/**
 * One limit on one resource, or with null on the number of applications.
 *
 * @typedef {{limit: import("../types.js").EffectiveLimit, resource: string | null, used: import("../types.js").Amount,
 *   most: import("../types.js").Amount, free: bigint, binds: boolean}} Line
 * @typedef {Map<string | null, import("../types.js").Amount>} Wanted requested amounts by resource
 */

/**
 * Split limits by resource. A limit binds if it leaves nothing, or less than the request.
 *
 * @param {import("../types.js").EffectiveLimit[]} limits
 * @param {Wanted} [wanted]
 * @returns {Line[]}
 */
export function linesOf(limits, wanted = new Map()) {
  const lines = limits.flatMap((limit) => [
    ...sortedNames(Object.keys(limit.max_resources ?? {})).map((resource) =>
      line(limit, resource, limit.usage[resource] ?? 0, limit.max_resources?.[resource] ?? 0),
    ),
    ...(limit.max_applications ? [line(limit, null, limit.running_applications, limit.max_applications)] : []),
  ]);
  return lines.map((found) => ({ ...found, binds: found.free <= 0n || found.free < BigInt(wanted.get(found.resource) ?? 0) }));
}

/**
 * Return the requested amounts of the violated limits. Those of budgets are amounts times seconds, and do not count.
 *
 * @param {import("../types.js").Violation[]} violations
 * @returns {Wanted}
 */
export function requested(violations) {
  const counted = violations.filter((found) => found.resource !== null && found.kind !== "budget");
  return new Map(counted.map((found) => [found.resource, found.requested]));
}

/**
 * @param {import("../types.js").EffectiveLimit} limit
 * @param {string | null} resource
 * @param {import("../types.js").Amount} used
 * @param {import("../types.js").Amount} most
 * @returns {Line}
 */
function line(limit, resource, used, most) {
  return { limit, resource, used, most, free: BigInt(most) - BigInt(used), binds: false };
}

/**
 * Return all limits of a chain as a table.
 *
 * @param {string} partition
 * @param {string} caption
 * @param {import("../types.js").EffectiveLimit[]} limits
 * @param {Wanted} [wanted] the requested amounts, if they were denied
 */
export function chain(partition, caption, limits, wanted = new Map()) {
  const lines = linesOf(limits, wanted);
  if (!lines.length) return h("p", { class: "quiet" }, "No limit applies here.");
  return table(caption, ["Limit of", "On", "Used", ["Free", "number"]], lines.map((found) => row(partition, found)), "chain stack");
}

/**
 * @param {string} partition
 * @param {Line} found
 */
function row(partition, found) {
  const { limit, resource, used, most, free } = found;
  const name = resource ?? "applications";
  return h(
    "tr",
    { class: found.binds ? "binds" : null },
    h("td", { class: "owner" }, owner(partition, limit), place(partition, limit)),
    h("td", { class: "resource", title: resourceName(resource) }, resourceLabel(resource)),
    h("td", { class: "bars" }, gauge(resource, used, most)),
    numberCell("Free", [amountText(name, free), found.binds && h("span", { class: "badge" }, "binds")], exactText(name, free)),
  );
}

/**
 * Return the owner of a limit, with a link.
 *
 * @param {string} partition
 * @param {{kind: string, name: string, limit_name: string, queue_path: string}} limit
 */
export function owner(partition, limit) {
  const wildcard = limit.limit_name === "*" && h("span", { class: "quiet" }, limit.name === "*" ? "" : " (by *)");
  if (limit.kind === "queue") return ["queue ", queueLink(partition, limit.queue_path || limit.name)];
  const view = VIEWS.get(limit.kind);
  if (!view) return [`${limit.kind} ${limit.name}`, wildcard];
  return [`${limit.kind} `, nameLink(partition, view, limit.name), wildcard];
}

/**
 * @param {string} partition
 * @param {string} path
 */
export function queueLink(partition, path) {
  return h("a", { href: link(partition, "queues", path), class: "path name-link", title: path }, breakable(path));
}

/**
 * Return the violated limits as sentences, with the holders of the missing resources.
 *
 * @param {string} partition
 * @param {import("../types.js").Violation[]} violations
 */
export function reasons(partition, violations) {
  return h(
    "ul",
    { class: "reasons" },
    violations.map((found) => {
      const text = isPlain(found) ? [owner(partition, found), place(partition, found), ": ", sentence(found)] : readable(found);
      return h("li", null, text, holders(partition, found));
    }),
  );
}

/**
 * @param {string} partition
 * @param {{kind: string, queue_path: string}} found
 */
function place(partition, found) {
  return found.kind === "queue" || !found.queue_path ? null : [" in ", queueLink(partition, found.queue_path)];
}

/**
 * Return whether a limit is one of a user, group or queue that does not change by a schedule. Others have texts of their
 * own.
 *
 * @param {import("../types.js").Violation} found
 */
function isPlain(found) {
  return !found.rise && ["user", "group", "queue"].includes(found.kind);
}

/**
 * Return the text of a limit with the amounts of this page, unless the quota model describes it in another way.
 *
 * @param {import("../types.js").Violation} found
 */
export function readable(found) {
  if (found.resource === null) return found.text;
  return found.text.replace(COMMON, (_, used, allowed) => `: ${sentence(found, used, allowed)}`);
}

/**
 * @param {import("../types.js").Violation} found
 * @param {string} [verb]
 * @param {string} [allowed]
 */
export function sentence(found, verb = "used", allowed = "allowed") {
  if (found.resource === null) return `${found.used} of ${found.limit} applications running`;
  const name = found.resource;
  const text = (/** @type {import("../types.js").Amount} */ amount) => withUnit(name, amount);
  if (!found.can_wait) return `${text(found.requested)} requested, never more than ${text(found.limit)} ${allowed}`;
  const use = `${amountText(name, found.used)} of ${text(found.limit)} ${verb}, ${text(found.shortfall)} too much`;
  return Number(found.requested) ? `${text(found.requested)} requested, ${use}` : use;
}

/**
 * @param {string} partition
 * @param {import("../types.js").Violation} found
 */
function holders(partition, found) {
  if (!found.holders?.length) return null;
  const name = found.resource ?? "applications";
  return h(
    "div",
    { class: "quiet" },
    "Mostly held by ",
    found.holders.map((holder, index) => [
      index ? ", " : "",
      nameLink(partition, "applications", holder.application_id),
      " ",
      h("span", { class: "together" }, "(", clipped(holder.user, "name-link"), ","),
      ` ${withUnit(name, holder.amount)})`,
    ]),
    ".",
  );
}
