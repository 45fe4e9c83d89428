/**
 * Bars: how much of a limit is used, where the guarantee ends, and what is pending.
 *
 * A bar only repeats the text next to it, which a screen reader reads.
 */

import { h } from "../base/dom.js";
import { amountText, exactText, hoursText, percent, shareOf, withUnit } from "../base/format.js";

/** The share from which a limit counts as nearly used up. */
const NEAR = 0.8;

/** @param {number} share */
export function level(share) {
  if (share >= 1) return "full";
  return share >= NEAR ? "near" : "free";
}

/**
 * Return a bar without text.
 *
 * @param {number} share of the whole that is used
 * @param {{guaranteed?: number, pending?: number, level?: string}} [marks] shares of the same whole, and the colour
 */
export function bar(share, marks = {}) {
  const used = Math.min(1, Math.max(0, share));
  const pending = Math.min(1 - used, marks.pending ?? 0);
  const isMarked = marks.guaranteed !== undefined && marks.guaranteed > 0 && marks.guaranteed <= 1;
  return h(
    "div",
    { class: `bar ${marks.level ?? level(share)}`, "aria-hidden": "true" },
    h("div", { class: "used", vars: { share: used } }),
    pending > 0 && h("div", { class: "pending", vars: { from: used, share: pending } }),
    isMarked && h("div", { class: "guaranteed", vars: { from: marks.guaranteed } }),
  );
}

/**
 * Return a used amount, its limit and its share as text.
 *
 * @param {string} amount
 * @param {import("../base/dom.js").Child} [of] the limit
 * @param {number} [share]
 * @param {string} [style] of the limit
 */
export function figures(amount, of, share, style = "of") {
  return h(
    "div",
    { class: "figures" },
    h("span", { class: "amount" }, amount),
    of && h("span", { class: style }, of),
    share !== undefined && h("span", { class: `share ${level(share)}` }, percent(share)),
  );
}

/**
 * Return the used part of a limit as text and as a bar.
 *
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
  return h(
    "div",
    { class: "gauge", title: title.join("; ") },
    figures(amountText(name, used), isLimited && ` of ${amountText(name, limit)}`, isLimited ? shareOf(used, limit) : undefined, inheritedFrom ? "of inherited" : "of"),
    marks && bar(shareOf(used, scale), marks),
    guaranteed !== undefined && h("span", { class: "unseen" }, `, guaranteed ${withUnit(name, guaranteed)}`),
    inheritedFrom && isLimited && h("span", { class: "unseen" }, `, limit set on ${inheritedFrom}`),
  );
}

/**
 * Return the used part of a budget as text.
 *
 * @param {string} resource
 * @param {Amount | string} used an amount times seconds, like the limit
 * @param {Amount | string} limit
 * @param {number} share
 */
export function hoursFigures(resource, used, limit, share) {
  return figures(hoursText(resource, used), ` of ${hoursText(resource, limit)}`, share);
}
