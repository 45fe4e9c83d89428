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
 * Return the used part of a limit as text and as a bar.
 *
 * @param {string | null} resource null for the number of applications
 * @param {import("../types.js").Amount} used
 * @param {import("../types.js").Amount | undefined} limit undefined for none
 * @param {{guaranteed?: import("../types.js").Amount, pending?: import("../types.js").Amount, inheritedFrom?: string}} [more]
 *   `inheritedFrom` is the queue that sets an inherited limit
 */
export function gauge(resource, used, limit, more = {}) {
  const name = resource ?? "applications";
  const title = [`${exactText(name, used)} used`];
  if (limit !== undefined) title.push(`limit ${exactText(name, limit)}${more.inheritedFrom ? `, set on ${more.inheritedFrom}` : ""}`);
  if (more.guaranteed !== undefined) title.push(`guaranteed ${exactText(name, more.guaranteed)}`);
  if (more.pending) title.push(`pending ${exactText(name, more.pending)}`);
  const scale = limit ?? more.guaranteed;
  return h(
    "div",
    { class: "gauge", title: title.join("; ") },
    h(
      "div",
      { class: "figures" },
      h("span", { class: "amount" }, amountText(name, used)),
      limit !== undefined && h("span", { class: more.inheritedFrom ? "of inherited" : "of" }, ` of ${amountText(name, limit)}`),
      limit !== undefined && h("span", { class: `share ${level(shareOf(used, limit))}` }, percent(shareOf(used, limit))),
    ),
    scale !== undefined && bar(shareOf(used, scale), marks(scale, more)),
    more.guaranteed !== undefined && h("span", { class: "unseen" }, `, guaranteed ${withUnit(name, more.guaranteed)}`),
    more.inheritedFrom && limit !== undefined && h("span", { class: "unseen" }, `, limit set on ${more.inheritedFrom}`),
  );
}

/**
 * Return the used part of a budget as text.
 *
 * @param {string} resource
 * @param {import("../types.js").Amount | string} used an amount times seconds, like the limit
 * @param {import("../types.js").Amount | string} limit
 * @param {number} share
 */
export function hoursFigures(resource, used, limit, share) {
  return h(
    "div",
    { class: "figures" },
    h("span", { class: "amount" }, hoursText(resource, used)),
    h("span", { class: "of" }, ` of ${hoursText(resource, limit)}`),
    h("span", { class: `share ${level(share)}` }, percent(share)),
  );
}

/**
 * @param {import("../types.js").Amount} scale
 * @param {{guaranteed?: import("../types.js").Amount, pending?: import("../types.js").Amount}} more
 */
function marks(scale, more) {
  return {
    guaranteed: more.guaranteed === undefined ? undefined : shareOf(more.guaranteed, scale),
    pending: more.pending ? shareOf(more.pending, scale) : 0,
  };
}
