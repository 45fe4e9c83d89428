/**
 * Families of resources: `gpu` includes its variants `gpu:a100` and `gpu:v100`, and is one column or row until the reader
 * opens it. A family that is opened once is open in all places of the page.
 */

import { h } from "../base/dom.js";
import { redraw } from "../base/events.js";
import { namesOf } from "../base/format.js";
import { route } from "../base/route.js";

/** The families with variants, by partition and name, and whether each is open. @type {Map<string, boolean>} */
const families = new Map();

/** @param {string} name */
function key(name) {
  return `${route.partition}/${name}`;
}

/**
 * Return the family of a variant; empty for another resource.
 *
 * @param {string} name
 */
export function familyOf(name) {
  return name.slice(0, Math.max(0, name.indexOf(":")));
}

/**
 * Return the sorted names of all resources of some amounts, without the variants of closed families.
 *
 * @param {readonly (Amounts | null | undefined)[]} amounts
 */
export function shownNames(amounts) {
  const names = namesOf(amounts);
  for (const family of names.map(familyOf)) if (names.includes(family) && !families.has(key(family))) families.set(key(family), false);
  return names.filter((name) => !names.includes(familyOf(name)) || families.get(key(familyOf(name))));
}

/**
 * Describe the button that opens and closes a family; null for a resource without variants.
 *
 * @param {string | null | undefined} name
 */
export function variantsButton(name) {
  const isOpen = families.get(key(name ?? ""));
  if (isOpen === undefined) return null;
  const click = () => {
    families.set(key(name ?? ""), !isOpen);
    redraw();
  };
  return h("button", { type: "button", class: "variants", "aria-label": `Variants of ${name}`, "aria-expanded": String(isOpen), on: { click } }, isOpen ? "▴" : "▾");
}
