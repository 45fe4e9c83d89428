/**
 * Which resources have a column where not all have room: cores and memory if they are used or limited at all, then those
 * of which the largest share is used, so that the resource that is short is never hidden.
 */

import { byName, shareOf, sortedNames } from "./format.js";

/** By how much another resource must be closer to its limit to take the place of one that is shown. */
const MARGIN = 0.2;

/**
 * How near a limit the nearest use of each resource is; a resource without a limit has a share of 0.
 */
export class Columns {
  /** @param {number} most how many resources have room */
  constructor(most) {
    this.most = most;
    /** @type {Set<string>} */
    this.shown = new Set();
  }

  /**
   * Choose from resources, and keep to earlier choices as long as they are nearly as good.
   *
   * @param {Map<string, number>} shares of every resource that is used, pending or limited
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
 * Note how much of a limit is used.
 *
 * @param {Map<string, number>} shares
 * @param {string} name
 * @param {import("./types.js").Amount} used
 * @param {import("./types.js").Amount | undefined} limit undefined for none
 */
export function note(shares, name, used, limit) {
  // A limit of nothing is only near to somebody who uses some.
  const share = limit === undefined || (!Number(limit) && !Number(used)) ? 0 : shareOf(used, limit);
  // What is used without a limit comes before what nobody uses.
  shares.set(name, Math.max(shares.get(name) ?? 0, share, Number(used) > 0 ? 0.001 : 0));
}
