/**
 * Limits: the chain from a queue to the root, the limits that bind, and violations as sentences.
 */

import { h } from "../base/dom.js";
import { amountText, exactText, namesOf, resourceName, withUnit } from "../base/format.js";
import { gauge } from "./bars.js";
import { shownNames } from "./columns.js";
import { clipped, nameLink, queueLink, resourceLabel, table } from "./lists.js";

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
 * @typedef {{limit: EffectiveLimit, resource: string | null, used: Amount, most: Amount, free: bigint, binds: boolean}} Line
 * @typedef {Map<string | null, Amount>} Wanted requested amounts by resource
 */

/**
 * Split limits by resource. A limit binds if it leaves nothing, or less than the request. A variant that binds is always shown.
 *
 * @param {EffectiveLimit[]} limits
 * @param {Wanted} wanted
 * @returns {Line[]}
 */
function linesOf(limits, wanted) {
  return limits.flatMap((limit) => {
    const line = (/** @type {string | null} */ resource, /** @type {Amount} */ used, /** @type {Amount} */ most) => {
      const free = BigInt(most) - BigInt(used);
      return { limit, resource, used, most, free, binds: free <= 0n || free < BigInt(wanted.get(resource) ?? 0) };
    };
    const shown = shownNames([limit.max_resources]);
    const lines = namesOf([limit.max_resources]).map((name) => line(name, limit.usage[name] ?? 0, limit.max_resources?.[name] ?? 0)).filter(({ resource, binds }) => binds || shown.includes(resource ?? ""));
    return limit.max_applications ? [...lines, line(null, limit.running_applications, limit.max_applications)] : lines;
  });
}

/**
 * Return the requested amounts of the violated limits. Those of budgets are amounts times seconds, and do not count.
 *
 * @param {Violation[]} violations
 * @returns {Wanted}
 */
export function requested(violations) {
  const counted = violations.filter((found) => found.resource !== null && found.kind !== "budget");
  return new Map(counted.map((found) => [found.resource, found.requested]));
}

/**
 * Return all limits of a chain as a table.
 *
 * @param {string} caption
 * @param {EffectiveLimit[]} limits
 * @param {Wanted} [wanted] the requested amounts, if they were denied
 */
export function chain(caption, limits, wanted = new Map()) {
  const lines = linesOf(limits, wanted);
  if (!lines.length) return h("p", { class: "quiet" }, "No limit applies here.");
  const name = (/** @type {Line} */ { resource }) => resource ?? "applications";
  return table(
    caption,
    lines,
    [
      { name: "Limit of", style: "owner", width: "26%", show: ({ limit }) => [owner(limit), place(limit)] },
      { name: "On", style: "resource", width: "22%", show: ({ resource }) => resourceLabel(resource), props: ({ resource }) => ({ title: resourceName(resource) }) },
      { name: "Used", style: "bars", show: ({ resource, used, most }) => gauge(resource, used, most) },
      { name: "Free", style: "number", width: "18%", show: (one) => [amountText(name(one), one.free), one.binds && h("span", { class: "badge" }, "binds")], props: (one) => ({ title: exactText(name(one), one.free) }) },
    ],
    { style: "chain stack", rowStyle: ({ binds }) => (binds ? "binds" : null) },
  );
}

/**
 * Return the owner of a limit, with a link.
 *
 * @param {{kind: string, name: string, limit_name: string, queue_path: string}} limit
 */
export function owner(limit) {
  const wildcard = limit.limit_name === "*" && h("span", { class: "quiet" }, limit.name === "*" ? "" : " (by *)");
  if (limit.kind === "queue") return ["queue ", queueLink(limit.queue_path || limit.name)];
  const view = VIEWS.get(limit.kind);
  return view ? [`${limit.kind} `, nameLink(view, limit.name), wildcard] : [`${limit.kind} ${limit.name}`, wildcard];
}

/**
 * Return the violated limits as sentences, with the holders of the missing resources.
 *
 * @param {Violation[]} violations
 */
export function reasons(violations) {
  return h(
    "ul",
    { class: "reasons" },
    violations.map((found) => {
      // Limits of quota models, and those that a schedule changes, have texts of their own.
      const isPlain = !found.rise && ["user", "group", "queue"].includes(found.kind);
      return h("li", null, isPlain ? [owner(found), place(found), ": ", sentence(found)] : readable(found), holders(found));
    }),
  );
}

/** @param {{kind: string, queue_path: string}} found */
function place(found) {
  return found.kind === "queue" || !found.queue_path ? null : [" in ", queueLink(found.queue_path)];
}

/**
 * Return the text of a limit with the amounts of this page, unless the quota model describes it in another way.
 *
 * @param {Violation} found
 */
export function readable(found) {
  if (found.resource === null) return found.text;
  return found.text.replace(COMMON, (_, used, allowed) => `: ${sentence(found, used, allowed)}`);
}

/** @param {Violation} found @param {string} [verb] @param {string} [allowed] */
export function sentence(found, verb = "used", allowed = "allowed") {
  if (found.resource === null) return `${found.used} of ${found.limit} applications running`;
  const name = found.resource;
  const text = (/** @type {Amount} */ amount) => withUnit(name, amount);
  if (!found.can_wait) return `${text(found.requested)} requested, never more than ${text(found.limit)} ${allowed}`;
  const use = `${amountText(name, found.used)} of ${text(found.limit)} ${verb}, ${text(found.shortfall)} too much`;
  return Number(found.requested) ? `${text(found.requested)} requested, ${use}` : use;
}

/** @param {Violation} found */
function holders(found) {
  if (!found.holders?.length) return null;
  const name = found.resource ?? "applications";
  return h(
    "div",
    { class: "quiet" },
    "Mostly held by ",
    found.holders.map((holder, index) => [
      index ? ", " : "",
      nameLink("applications", holder.application_id),
      " ",
      h("span", { class: "together" }, "(", clipped(holder.user, "name-link"), ","),
      ` ${withUnit(name, holder.amount)})`,
    ]),
    ".",
  );
}
