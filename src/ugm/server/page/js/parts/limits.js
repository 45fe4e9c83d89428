/**
 * Limits: how much of one is used, the chain of limits from a queue to the root, and violations as sentences.
 *
 * A bar shows how much of a limit is used, where the guarantee ends, and what is pending. It only repeats the text next to
 * it, which a screen reader reads.
 */

import { h } from "../base/dom.js";
import { amountText, exactText, hoursText, namesOf, percent, resourceName, shareOf, withUnit } from "../base/format.js";
import { shownNames } from "./columns.js";
import { clipped, nameLink, queueLink, resourceLabel, table } from "./lists.js";

/** The share from which a limit counts as nearly used up. */
const NEAR = 0.8;

/**
 * The text of a limit of a quota model, or of a limit on pending work, up to the sentence that all limits have in common.
 * The amounts are those of the server: 17600m.
 */
const COMMON = /:\s\S+ \S+ requested,\s(?:\S+ of \S+ (used|pending),\s\S+ too much|never more than \S+ (allowed|may be pending))(?=$| \(limit for )/;

/** The views of owners. */
const VIEWS = new Map([["user", "users"], ["group", "groups"]]);

/** @param {number} share */
export function level(share) {
  if (share >= 1) return "full";
  return share >= NEAR ? "near" : "free";
}

/**
 * Return a bar without text.
 * @param {number} share of the whole that is used
 * @param {{guaranteed?: number, pending?: number, level?: string}} [marks] shares of the same whole, and the colour
 */
export function bar(share, marks = {}) {
  const used = Math.min(1, Math.max(0, share));
  const pending = Math.min(1 - used, marks.pending ?? 0);
  const isMarked = marks.guaranteed !== undefined && marks.guaranteed > 0 && marks.guaranteed <= 1;
  return h("div", { class: `bar ${marks.level ?? level(share)}`, "aria-hidden": "true" },
    h("div.used", { vars: { share: used } }),
    pending > 0 && h("div.pending", { vars: { from: used, share: pending } }),
    isMarked && h("div.guaranteed", { vars: { from: marks.guaranteed } }),
  );
}

/**
 * Return a used amount, its limit and its share as text.
 * @param {string} amount
 * @param {import("../base/dom.js").Child} [of] the limit
 * @param {number} [share]
 * @param {string} [style] of the limit
 */
export function figures(amount, of, share, style = "of") {
  return h("div.figures",
    h("span.amount", amount),
    of && h("span", { class: style }, of),
    share !== undefined && h("span", { class: `share ${level(share)}` }, percent(share)),
  );
}

/**
 * Return the used part of a limit as text and as a bar.
 * @param {string | null} resource null for the number of applications
 * @param {Amount} used
 * @param {Amount | undefined} limit undefined for none
 * @param {{guaranteed?: Amount, pending?: Amount, inheritedFrom?: string}} [more] `inheritedFrom` is the queue that sets an
 *   inherited limit
 */
export function gauge(resource, used, limit, more = {}) {
  const { guaranteed, pending, inheritedFrom } = more;
  const name = resource ?? "applications";
  const isLimited = limit !== undefined;
  const title = [`${exactText(name, used)} used`];
  if (isLimited) title.push(`limit ${exactText(name, limit)}${inheritedFrom ? `, set on ${inheritedFrom}` : ""}`);
  if (guaranteed !== undefined) title.push(`guaranteed ${exactText(name, guaranteed)}`);
  if (pending) title.push(`pending ${exactText(name, pending)}`);
  const scale = limit ?? guaranteed;
  const marks = scale !== undefined && { guaranteed: guaranteed === undefined ? undefined : shareOf(guaranteed, scale), pending: pending ? shareOf(pending, scale) : 0 };
  return h("div.gauge", { title: title.join("; ") },
    figures(amountText(name, used), isLimited && ` of ${amountText(name, limit)}`, isLimited ? shareOf(used, limit) : undefined, inheritedFrom ? "of inherited" : "of"),
    marks && bar(shareOf(used, scale), marks),
    guaranteed !== undefined && h("span.unseen", `, guaranteed ${withUnit(name, guaranteed)}`),
    inheritedFrom && isLimited && h("span.unseen", `, limit set on ${inheritedFrom}`),
  );
}

/**
 * Return the used part of a budget as text and as a bar.
 * @param {string} resource
 * @param {Amount | string} used an amount times seconds, like the limit
 * @param {Amount | string} limit @param {number} share
 * @param {number} [settled] the share without what is committed
 */
export function hoursGauge(resource, used, limit, share, settled = share) {
  return [figures(hoursText(resource, used), ` of ${hoursText(resource, limit)}`, share), bar(settled, { pending: Math.max(0, share - settled) })];
}

/**
 * One limit on one resource, or with null on the number of applications.
 *
 * @typedef {{limit: EffectiveLimit, resource: string | null, used: Amount, most: Amount, free: bigint, binds: boolean}} Line
 * @typedef {Map<string | null, Amount>} Wanted requested amounts by resource
 */

/**
 * Split limits by resource. A limit binds if it leaves nothing, or less than the request. A variant that binds is always shown.
 * @param {EffectiveLimit[]} limits @param {Wanted} wanted
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
    const counts = limit.kind.startsWith("pending ") ? "requests" : null;
    return limit.max_applications ? [...lines, line(counts, limit.running_applications, limit.max_applications)] : lines;
  });
}

/**
 * Return the requested amounts of the violated limits. Those of budgets are amounts times seconds, and do not count.
 * @param {Violation[]} violations
 * @returns {Wanted}
 */
export function requested(violations) {
  const counted = violations.filter((found) => found.resource !== null && found.kind !== "budget");
  return new Map(counted.map((found) => [found.resource, found.requested]));
}

/**
 * Return all limits of a chain as a table.
 * @param {string} caption @param {EffectiveLimit[]} limits
 * @param {Wanted} [wanted] the requested amounts, if they were denied
 */
export function chain(caption, limits, wanted = new Map()) {
  const lines = linesOf(limits, wanted);
  if (!lines.length) return h("p.quiet", "No limit applies here.");
  const name = (/** @type {Line} */ { resource }) => resource ?? "applications";
  return table(caption, lines, [
    { name: "Limit of", style: "owner", width: "26%", show: ({ limit }) => [owner(limit), place(limit)] },
    { name: "On", style: "resource", width: "22%", show: ({ resource }) => resourceLabel(resource), props: ({ resource }) => ({ title: resourceName(resource) }) },
    { name: "Used", style: "bars", show: ({ resource, used, most }) => gauge(resource, used, most) },
    { name: "Free", style: "number", width: "18%", show: (one) => [amountText(name(one), one.free), one.binds && h("span.badge", "binds")], props: (one) => ({ title: exactText(name(one), one.free) }) },
  ], { style: "chain stack" });
}

/** Return the owner of a limit, with a link. */
/** @param {{kind: string, name: string, limit_name: string, queue_path: string}} limit */
export function owner(limit) {
  const wildcard = limit.limit_name === "*" && h("span.quiet", limit.name === "*" ? "" : " (by *)");
  if (limit.kind === "queue") return ["queue ", queueLink(limit.queue_path || limit.name)];
  const view = VIEWS.get(limit.kind);
  return view ? [`${limit.kind} `, nameLink(view, limit.name), wildcard] : [`${limit.kind} ${limit.name}`, wildcard];
}

/** Return the violated limits as sentences, with the holders of the missing resources. */
/** @param {Violation[]} violations */
export function reasons(violations) {
  return h("ul.reasons",
    violations.map((found) => {
      // Limits of quota models, and those that a schedule changes, have texts of their own.
      const isPlain = !found.rise && ["user", "group", "queue"].includes(found.kind);
      return h("li", isPlain ? [owner(found), place(found), ": ", sentence(found)] : readable(found), holders(found));
    }),
  );
}

/** @param {{kind: string, queue_path: string}} found */
function place(found) {
  return found.kind === "queue" || !found.queue_path ? null : [" in ", queueLink(found.queue_path)];
}

/** Return the text of a limit with the amounts of this page, unless the quota model describes it in another way. */
/** @param {Violation} found */
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
  return h("div.quiet",
    "Mostly held by ",
    found.holders.map((holder, index) => [
      index ? ", " : "",
      nameLink("applications", holder.application_id),
      " ",
      h("span.together", "(", clipped(holder.user, "name-link"), ","),
      ` ${withUnit(name, holder.amount)})`,
    ]),
    ".",
  );
}
