/**
 * Tables that scroll in their own place, described by their columns, and links with the name of an object.
 */

import { h } from "../base/dom.js";
import { resourceName } from "../base/format.js";
import { link, route } from "../base/route.js";
import { variantsButton } from "./families.js";
import { columnHead } from "./sorting.js";

/**
 * Describe a table. The first column is the head of each row, or the second one if the first is a place.
 *
 * @template T
 * @param {string} label
 * @param {readonly T[]} items
 * @param {Column<T>[]} columns
 * @param {{key?: (one: T) => string, style?: string, rowStyle?: (one: T) => string | null,
 *   order?: import("./sorting.js").Order}} options `style` has the classes of the table: a `list` reacts to the pointer, and
 *   its label is only read out; a row of a `stack` or `wide` is a name above its figures on a small screen, or in half a window
 */
export function table(label, items, columns, { key, style = "list", rowStyle, order }) {
  const rowHead = columns.find((column) => column.style !== "place");
  const cell = (/** @type {T} */ one, /** @type {number} */ index, /** @type {Column<T>} */ column) =>
    h(column === rowHead ? "th" : "td", { "data-label": column.name, scope: column === rowHead && "row", class: column.style, ...column.props?.(one) }, column.show(one, index));
  const head = (/** @type {Column<T>} */ column) => columnHead("th", { scope: "col", key: column.name, class: column.style, vars: { width: column.width ?? "auto" } }, column, order);
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": label },
    h(
      "table",
      { class: style },
      h("caption", { class: /\blist\b/.test(style) ? "unseen" : null }, label),
      h("thead", null, h("tr", null, columns.map(head))),
      h("tbody", null, items.map((one, index) => h("tr", { key: key?.(one), class: rowStyle ? rowStyle(one) : route.name && route.name === key?.(one) && "shown" }, columns.map((column) => cell(one, index, column))))),
    ),
  );
}

/**
 * Describe a link to the detail of an object.
 *
 * @param {string} view
 * @param {string} name
 * @param {Record<string, any>} [props] `class` is `clip` for a name with its own line
 * @param {Child} [text]
 */
export function nameLink(view, name, props = {}, text = name) {
  return h("a", { href: link(view, name), class: "name-link", title: name, ...props }, text);
}

/** Names with their own line. */
export const CLIP = { class: "clip" };

/**
 * Describe a link to a queue.
 *
 * @param {string} path
 */
export function queueLink(path) {
  return nameLink("queues", path, { class: "path name-link" }, breakable(path));
}

/** Columns of rows that belong to a user, to a queue, or to an allocation of an application. */
export const USER = { name: "User", show: (/** @type {{user: string | null}} */ { user }) => user !== null && nameLink("users", user, CLIP) };
export const QUEUE = { name: "Queue", style: "long", show: (/** @type {{queue_path?: string | null}} */ { queue_path: path }) => path && queueLink(path) };
export const ALLOCATION = { name: "Request", show: (/** @type {{allocation_id: string, application_id: string}} */ one) => [clipped(one.allocation_id), ownerOf("applications", one.application_id)] };

/**
 * Describe a second line of a cell: of whom the row is.
 *
 * @param {string} view
 * @param {string} name
 */
export function ownerOf(view, name) {
  return h("span", { class: "quiet clip" }, "of ", nameLink(view, name, { class: null }));
}

/**
 * Describe a link from a list to the detail of an object in it.
 *
 * @param {string} name
 */
export function detailLink(name) {
  return nameLink(route.view, name, { ...CLIP, href: link(route.view, name, route.query), "aria-current": route.name === name ? "true" : null });
}

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
 * Describe the name of a resource, with the button of a family.
 *
 * @param {string | null} resource
 */
export function resourceLabel(resource) {
  return [breakable(resourceName(resource)), variantsButton(resource)];
}
