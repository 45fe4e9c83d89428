/**
 * The choice of resources that have a column: cores and memory if they are used or limited, then those with the largest
 * used share, so that a short resource is never hidden.
 */

import { byName, shareOf, sortedNames } from "./format.js";

/** The difference of shares at which a resource replaces one that is shown. */
const MARGIN = 0.2;

/** The resources with a column, which change only if others are clearly closer to their limits. */
export class Columns {
  /** @param {number} most the largest number of columns */
  constructor(most) {
    this.most = most;
    /** @type {Set<string>} */
    this.shown = new Set();
  }

  /**
   * Choose resources by their shares, with a preference for those that are shown already.
   *
   * @param {Map<string, number>} shares of all resources that are used, pending or limited; see `recordShare`
   * @returns {{names: string[], hidden: string[]}} both sorted
   */
  choose(shares) {
    const basic = ["vcore", "memory"].filter((name) => shares.has(name) || !shares.size);
    const score = (/** @type {string} */ name) => (shares.get(name) ?? 0) + (this.shown.has(name) ? MARGIN : 0);
    const others = [...shares.keys()].filter((name) => !basic.includes(name));
    others.sort((one, other) => score(other) - score(one) || byName(one, other));
    const names = [...basic, ...others.slice(0, Math.max(0, this.most - basic.length))];
    this.shown = new Set(names);
    return { names: sortedNames(names), hidden: sortedNames(others.filter((name) => !this.shown.has(name))) };
  }
}

/**
 * Record the used share of a limit, if it is the largest of the resource; without a limit, the share is 0.
 *
 * @param {Map<string, number>} shares
 * @param {string} name
 * @param {import("./types.js").Amount} used
 * @param {import("./types.js").Amount | undefined} limit undefined for none
 */
export function recordShare(shares, name, used, limit) {
  // A limit of 0 only counts if something is used.
  const share = limit === undefined || (!Number(limit) && !Number(used)) ? 0 : shareOf(used, limit);
  // Resources that are used without a limit come before unused ones.
  shares.set(name, Math.max(shares.get(name) ?? 0, share, Number(used) > 0 ? 0.001 : 0));
}
