/**
 * The order of rows, which the browser remembers: the heads of columns as buttons, and a field for screens without heads.
 */

import { h } from "../base/dom.js";
import { variantsButton } from "./families.js";
import { remembered } from "../base/settings.js";
import { choice } from "./lists.js";

export class Order {
  /**
   * @param {string} view
   * @param {string} initial
   * @param {() => void} changed is called when the reader has chosen another order
   */
  constructor(view, initial, changed) {
    this.initial = initial;
    this.choice = remembered(`${view} order`, initial, changed);
    /** The possible orders; null for any. */
    /** @type {(string | undefined)[] | null} */
    this.known = null;
  }

  get sorted() {
    const sorted = this.choice.get();
    return this.known?.includes(sorted) ?? true ? sorted : this.initial;
  }

  /**
   * Describe the choice of an order.
   *
   * @param {Column<any>[]} columns
   * @param {[string, string][]} more orders without a column: their values and names
   */
  field(columns, more = []) {
    const orders = columns.flatMap(({ name, sort }) => (sort ? [/** @type {[string, string]} */ ([sort, name])] : []));
    return choice("Order", [...orders, ...more], this.sorted, this.choice.set);
  }
}

/**
 * Describe the head of a column.
 *
 * @param {string} tag
 * @param {Record<string, any>} props
 * @param {Column<any>} column
 * @param {Order} [order] of rows that the reader can sort
 */
export function columnHead(tag, props, { name, sort, resource }, order) {
  const variants = variantsButton(resource);
  if (!order || !sort) return h(tag, { ...props, title: order && name }, name, variants);
  const direction = sort !== order.sorted ? "none" : sort === "name" ? "ascending" : "descending";
  return h(tag, { ...props, title: name, "aria-sort": direction }, h("button", { type: "button", class: "sort", on: { click: () => order.choice.set(sort) } }, name), variants);
}
