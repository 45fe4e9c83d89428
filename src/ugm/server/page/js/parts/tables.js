/**
 * Tables that scroll in their own place, and links with the name of an object.
 *
 * @typedef {string | [string, string] | import("../base/dom.js").Node} Head the text of a column, a text with a class, or a cell
 */

import { h } from "../base/dom.js";
import { resourceName } from "../base/format.js";
import { link } from "../base/route.js";

/**
 * Describe a table.
 *
 * @param {string} label
 * @param {Head[]} heads
 * @param {import("../base/dom.js").Child[]} rows
 * @param {string} [style] the classes of the table: a `list` reacts to the pointer, and its label is only read out; a row
 *   of a `stack` or `wide` is a name above its figures on a small screen, or in half a window
 */
export function table(label, heads, rows, style = "list") {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": label },
    h("table", { class: style }, h("caption", { class: /\blist\b/.test(style) ? "unseen" : null }, label), h("thead", null, h("tr", null, heads.map(headCell))), h("tbody", null, rows)),
  );
}

/** @param {Head} head */
function headCell(head) {
  if (typeof head !== "string" && !Array.isArray(head)) return head;
  const [text, style] = typeof head === "string" ? [head, null] : head;
  return h("th", { scope: "col", key: text, class: style }, text);
}

/**
 * Describe a cell with a label for screens without heads.
 *
 * @param {string} label
 * @param {import("../base/dom.js").Child} content
 * @param {Record<string, any>} [props]
 */
export function cell(label, content, props = {}) {
  return h("td", { "data-label": label, ...props }, content);
}

/**
 * Describe a cell with the text of a number.
 *
 * @param {string} label
 * @param {import("../base/dom.js").Child} text
 * @param {string | null} [title]
 */
export function numberCell(label, text, title = null) {
  return cell(label, text, { class: "number", title });
}

/**
 * Describe a link to the detail of an object.
 *
 * @param {string} partition
 * @param {string} view
 * @param {string} name
 * @param {Record<string, any>} [props] `class` is `clip` for a name with its own line
 */
export function nameLink(partition, view, name, props = {}) {
  return h("a", { href: link(partition, view, name), class: "name-link", title: name, ...props }, name);
}

/** Names with their own line. */
export const CLIP = { class: "clip" };
/** Cells that need more room on a small screen. */
export const LONG = { class: "long" };
/** Cells that a list next to a detail lacks. */
export const MINOR = { class: "minor" };

/**
 * Describe a text that ends in dots if it is too long.
 *
 * @param {string} text
 * @param {string} [style]
 */
export function clipped(text, style = "clip") {
  return h("span", { class: style, title: text }, text);
}

/**
 * Describe a name that may continue in the next line after a slash or point.
 *
 * @param {string} name
 */
export function breakable(name) {
  return name.split(/(?<=[/.])/).map((part, index) => [index > 0 && h("wbr", null), part]);
}

/**
 * Describe the name of a resource.
 *
 * @param {string | null} resource
 */
export function resourceLabel(resource) {
  return breakable(resourceName(resource));
}

/** @param {string} text */
export function emptyNote(text) {
  return h("p", { class: "quiet empty" }, text);
}
