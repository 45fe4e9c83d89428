/**
 * The choice of resources that have a column: those that the reader has chosen, or else cores and memory if they are used
 * or limited, then those with the largest used share, so that a short resource is never hidden.
 */

import { h } from "../base/dom.js";
import { byName, limitShare, resourceName, sortedNames } from "../base/format.js";
import { familyOf, shownNames } from "./families.js";
import { remembered } from "../base/settings.js";

/** The difference of shares at which a resource replaces one that is shown. */
const MARGIN = 0.2;

/** The resources with a column, which change only if others are clearly closer to their limits. */
export class Columns {
  /**
   * @param {number} most the largest number of columns that are not chosen by the reader
   * @param {string} [view] the view for which the browser remembers the choice
   */
  constructor(most, view = "") {
    this.most = most;
    this.choice = view ? remembered(`${view} columns`, "[]") : null;
    /** @type {string[]} */
    this.names = [];
    /** @type {string[]} */
    this.known = [];
  }

  /** @returns {string[]} the resources that the reader has chosen; empty if the page chooses */
  get chosen() {
    try {
      return JSON.parse(this.choice?.get() ?? "[]").map(String);
    } catch {
      return [];
    }
  }

  /**
   * Choose resources by their shares, with a preference for those that are shown already. Open families have all variants.
   *
   * @param {{usage: Amounts, pending?: Amounts, limits?: Amounts | null}[]} rows whose resources are used, pending or limited
   * @returns {{names: string[], hidden: string[]}} both sorted
   */
  choose(rows) {
    const shares = largestShares(rows);
    const score = (/** @type {string} */ name) => (shares.get(name) ?? 0) + (this.names.includes(name) ? MARGIN : 0);
    const basic = ["vcore", "memory"].filter((name) => shares.has(name) || !shares.size);
    const others = [...shares.keys()].filter((name) => !basic.includes(name)).sort((one, other) => score(other) - score(one) || byName(one, other));
    const { chosen } = this;
    this.known = sortedNames([...new Set([...basic, ...others, ...chosen])]);
    this.names = sortedNames(chosen.length ? chosen : [...basic, ...others.slice(0, Math.max(0, this.most - basic.length))]);
    const variants = shownNames(rows.flatMap(({ usage, pending, limits }) => [usage, pending, limits])).filter((name) => this.names.includes(familyOf(name)));
    return { names: sortedNames([...this.names, ...variants]), hidden: this.known.filter((name) => !this.names.includes(name)) };
  }

  /** Describe the field in which the reader chooses. */
  field() {
    const set = (/** @type {string[]} */ names) => this.choice?.set(JSON.stringify(names));
    const box = (/** @type {string} */ text, /** @type {boolean} */ checked, /** @type {() => void} */ change) => h("label", { class: "check", key: text }, h("input", { type: "checkbox", checked, on: { change } }), text);
    const turn = (/** @type {string} */ name) => set(this.names.includes(name) ? this.names.filter((one) => one !== name) : [...this.names, name]);
    return h(
      "details",
      { class: "chooser", keeps: "open" },
      h("summary", null, "Columns"),
      h("div", { role: "group", "aria-label": "Columns" }, box("the scarcest", !this.chosen.length, () => set(this.chosen.length ? [] : this.names)), this.known.map((name) => box(resourceName(name), this.names.includes(name), () => turn(name)))),
    );
  }
}

/**
 * Return the largest used share of a limit for every resource, a family with its variants; without a limit, it is 0.
 *
 * @param {{usage: Amounts, pending?: Amounts, limits?: Amounts | null}[]} rows
 */
function largestShares(rows) {
  /** @type {Map<string, number>} */
  const shares = new Map();
  for (const { usage, pending, limits } of rows) {
    for (const name of new Set([usage, pending ?? {}, limits ?? {}].flatMap(Object.keys))) {
      const [used, limit] = [usage[name] ?? 0, limits?.[name]];
      // Resources that are used without a limit come before unused ones.
      shares.set(name, Math.max(shares.get(name) ?? 0, limit === undefined ? 0 : limitShare(used, limit), Number(used) > 0 ? 0.001 : 0));
    }
  }
  for (const [name, share] of shares) {
    const family = familyOf(name);
    if (shares.has(family) && shares.delete(name)) shares.set(family, Math.max(shares.get(family) ?? 0, share));
  }
  return shares;
}
