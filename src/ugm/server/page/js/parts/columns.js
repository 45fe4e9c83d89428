/**
 * The choice of resources that have a column: those that the reader has chosen, or else cores and memory if they are used
 * or limited, then those with the largest used share, so that a short resource is never hidden.
 *
 * A family such as `gpu` includes its variants `gpu:a100` and `gpu:v100`, and is one column or row until the reader opens
 * it. A family that is opened once is open in all places of the page.
 */

import { h, redraw } from "../base/dom.js";
import { byName, limitShare, namesOf, resourceName, sortedNames } from "../base/format.js";
import { remembered, route } from "../base/route.js";

/** The families with variants, by partition and name, and whether each is open. */
/** @type {Map<string, boolean>} */
const families = new Map();

/** @param {string} name */
function key(name) {
  return `${route.partition}/${name}`;
}

/** Return the family of a variant; empty for another resource. */
/** @param {string} name */
function familyOf(name) {
  return name.slice(0, Math.max(0, name.indexOf(":")));
}

/** Return the sorted names of all resources of some amounts, without the variants of closed families. */
/** @param {readonly (Amounts | null | undefined)[]} amounts */
export function shownNames(amounts) {
  const names = namesOf(amounts);
  for (const family of names.map(familyOf)) if (names.includes(family) && !families.has(key(family))) families.set(key(family), false);
  return names.filter((name) => !names.includes(familyOf(name)) || families.get(key(familyOf(name))));
}

/** Describe the button that opens and closes a family; null for a resource without variants. */
/** @param {string | null | undefined} name */
export function variantsButton(name) {
  const isOpen = families.get(key(name ?? ""));
  if (isOpen === undefined) return null;
  const click = () => {
    families.set(key(name ?? ""), !isOpen);
    redraw();
  };
  return h("button.variants", { type: "button", "aria-label": `Variants of ${name}`, "aria-expanded": String(isOpen), on: { click } }, isOpen ? "▴" : "▾");
}

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
    this.choice = view ? remembered(`${view} resources`, "") : null;
    /** @type {string[]} */
    this.names = [];
    /** @type {string[]} */
    this.known = [];
  }

  /** @returns {string[]} the resources that the reader has chosen; empty if the page chooses */
  get chosen() {
    return this.choice?.get().split("\n").filter(Boolean) ?? [];
  }

  /**
   * Choose resources by their shares, with a preference for those that are shown already. Open families have all variants.
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
    const set = (/** @type {string[]} */ names) => this.choice?.set(names.join("\n"));
    const box = (/** @type {string} */ text, /** @type {boolean} */ checked, /** @type {() => void} */ change) => h("label.check", { key: text }, h("input", { type: "checkbox", checked, on: { change } }), text);
    const turn = (/** @type {string} */ name) => set(this.names.includes(name) ? this.names.filter((one) => one !== name) : [...this.names, name]);
    return h("details.chooser", { keeps: "open" },
      h("summary", "Columns"),
      h("div", { role: "group", "aria-label": "Columns" }, box("the scarcest", !this.chosen.length, () => set(this.chosen.length ? [] : this.names)), this.known.map((name) => box(resourceName(name), this.names.includes(name), () => turn(name)))),
    );
  }
}

/** Return the largest used share of a limit for every resource, a family with its variants; without a limit, it is 0. */
/** @param {{usage: Amounts, pending?: Amounts, limits?: Amounts | null}[]} rows */
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
