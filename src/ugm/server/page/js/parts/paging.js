/**
 * Lists whose page and filters are parts of the address.
 */

import { h } from "../base/dom.js";
import { count } from "../base/format.js";
import { link, parse } from "../base/route.js";

/** Milliseconds to wait for further input. */
const DELAY = 200;
/** The choices of an age in seconds. */
export const AGES = /** @type {[string, string][]} */ ([["", "any"], ["60", "1 min or more"], ["600", "10 min or more"], ["3600", "1 h or more"], ["86400", "1 d or more"]]);

/** @type {number | undefined} */
let waiting;

/**
 * Return the number of the shown page, from 1 on.
 *
 * @param {import("../types.js").Route} route
 */
export function pageOf(route) {
  return Math.max(1, Number.parseInt(route.query.page ?? "1", 10) || 1);
}

/**
 * Describe the links to the other pages of a list.
 *
 * @param {import("../types.js").Route} route
 * @param {number} total
 * @param {number} size of a page
 */
export function pages(route, total, size) {
  const [page, most] = [pageOf(route), Math.ceil(total / size)];
  if (most <= 1 && page === 1) return null;
  const to = (/** @type {number} */ number, /** @type {string} */ text, /** @type {boolean} */ can) =>
    can ? h("a", { href: link(route.partition, route.view, route.name, { ...route.query, page: number }) }, text) : h("span", { class: "quiet" }, text);
  return h(
    "nav",
    { class: "pages", "aria-label": "Pages" },
    to(page - 1, "Previous", page > 1),
    h("span", null, `${count(page)} of ${count(most)}`),
    to(page + 1, "Next", page < most),
  );
}

/**
 * Describe a field whose text is a part of the address.
 *
 * @param {import("../types.js").Route} route
 * @param {string} name of the part
 * @param {string} label
 */
export function addressField(route, name, label) {
  return h("label", { class: "field", key: name }, label, h("input", { type: "search", id: name, name, autocomplete: "off", spellcheck: "false", value: route.query[name] ?? "", on: { input: changeSoon } }));
}

/**
 * Describe a choice that is a part of the address.
 *
 * @param {import("../types.js").Route} route
 * @param {string} name of the part
 * @param {string} label
 * @param {[string, string][]} options values and texts; the first value is that of an address without the part
 */
export function addressChoice(route, name, label, options) {
  const value = route.query[name] ?? options[0]?.[0] ?? "";
  return h("label", { class: "field", key: name }, label, h("select", { name, on: { change: changeNow }, value }, options.map(([one, text]) => h("option", { key: one, value: one, selected: one === value }, text))));
}

/** @param {Event} event */
function changeSoon(event) {
  const { name, value } = /** @type {HTMLInputElement} */ (event.target);
  clearTimeout(waiting);
  waiting = setTimeout(() => setAddress({ [name]: value.trim() }), DELAY);
}

/** @param {Event} event */
function changeNow(event) {
  const { name, value } = /** @type {HTMLSelectElement} */ (event.target);
  setAddress({ [name]: value });
}

/**
 * Change parts of the address, and return to the first page. An empty text removes a part.
 *
 * @param {Record<string, string>} parts
 */
export function setAddress(parts) {
  const { partition, view, query } = parse(location.hash);
  const { page: _page, after: _after, ...kept } = query;
  history.replaceState(null, "", link(partition, view, "", { ...kept, ...parts }));
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}
