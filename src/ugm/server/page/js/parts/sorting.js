/**
 * The order of rows: the heads of columns as buttons, and a field for screens without heads.
 *
 * @typedef {{name: string, sort?: string}} Column
 * @typedef {{columns: Column[], sorted: string, owner: {sort: (by: string) => void}}} Sorted rows with the current order
 */

import { h } from "../base/dom.js";

/**
 * Describe the head of a column.
 *
 * @param {string} tag
 * @param {Record<string, any>} props
 * @param {Column} column
 * @param {Sorted} rows
 */
export function columnHead(tag, props, { name, sort }, { sorted, owner }) {
  const order = sort !== sorted ? "none" : sort === "name" ? "ascending" : "descending";
  const click = () => owner.sort(sort ?? "");
  return h(tag, { ...props, title: name, "aria-sort": sort ? order : null }, sort ? h("button", { type: "button", class: "sort", on: { click } }, name) : name);
}

/**
 * Describe the choice of an order.
 *
 * @param {Sorted} rows
 * @param {[string, string][]} more orders without a column: their values and names
 */
export function orderField({ columns, sorted, owner }, more = []) {
  const change = (/** @type {Event} */ event) => owner.sort(/** @type {HTMLSelectElement} */ (event.target).value);
  const orders = [...columns.flatMap(({ name, sort }) => (sort ? [[sort, name]] : [])), ...more];
  const options = orders.map(([value, name]) => h("option", { key: value, value, selected: value === sorted }, name));
  return h("label", { class: "field" }, "Order", h("select", { on: { change }, value: sorted }, options));
}
