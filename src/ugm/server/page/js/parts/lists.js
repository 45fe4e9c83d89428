/**
 * Lists whose page and filters are parts of the address.
 */

import { h } from "../base/dom.js";
import { announce } from "../base/events.js";
import { count } from "../base/format.js";
import { link, route, setQuery } from "../base/route.js";

/** Rows of a page. */
export const PAGE = 50;
/** Milliseconds to wait for further input. */
const DELAY = 200;
/** The choices of an age in seconds. */
export const AGES = /** @type {[string, string][]} */ ([["", "any"], ["60", "1 min or more"], ["600", "10 min or more"], ["3600", "1 h or more"], ["86400", "1 d or more"]]);
/** The parts of the address that do not filter. */
const OTHERS = ["page", "after", "sort", "by"];

/** @type {number | undefined} */
let waiting;
/** The last search whose result was announced. */
let announced = "";

/** Return the number of the shown page, from 1 on. */
function pageNumber() {
  return Math.max(1, Number.parseInt(route.query.page ?? "1", 10) || 1);
}

/**
 * Return the place of the shown page in a list, as the server expects it.
 *
 * @param {number} [size]
 */
export function pageOf(size = PAGE) {
  return { offset: (pageNumber() - 1) * size, limit: size };
}

/** Return the parts of the address that filter the list. */
export function filters() {
  return Object.entries(route.query).filter(([name]) => !OTHERS.includes(name));
}

/**
 * Describe a list: its tools, its rows and the links to its other pages.
 *
 * @param {Child[]} tools
 * @param {object} found
 * @param {string} found.noun a row in a sentence
 * @param {Child} [found.note] follows the tools
 * @param {number} found.total
 * @param {() => Child} found.rows describes the rows, if there are any
 * @param {string} [found.none] the text of an empty list
 * @param {Child} [found.pages]
 * @param {string} [found.text] the result of a search for screen readers
 */
export function list(tools, { noun, note, total, rows, none, text = count(total), pages = pageLinks(total) }) {
  const noMatch = `No ${noun} matches.`;
  const search = JSON.stringify([route.view, filters()]);
  if (filters().length && search !== announced) announce(`${text} found`);
  announced = search;
  return [h("div", { class: "tools" }, tools, note && h("span", { class: "quiet" }, note)), total ? rows() : emptyNote(filters().length || !none ? noMatch : none), pages];
}

/**
 * Describe the links to the other pages of a list.
 *
 * @param {number} total
 * @param {number} [size]
 */
export function pageLinks(total, size = PAGE) {
  const [page, most] = [pageNumber(), Math.ceil(total / size)];
  const to = (/** @type {number} */ number) => (number >= 1 && number <= most ? { page: number } : null);
  return most <= 1 && page === 1 ? null : pageNavigation([["Previous", to(page - 1)], [`${count(page)} of ${count(most)}`], ["Next", to(page + 1)]]);
}

/**
 * Describe links to parts of a list.
 *
 * @typedef {[text: string, parts?: Record<string, string | number | undefined> | null]} PageLink a text with the changed parts
 *   of the address: null if there is no such page
 * @param {PageLink[]} links
 */
export function pageNavigation(links) {
  const to = (/** @type {PageLink} */ [text, parts]) =>
    parts ? h("a", { href: link(route.view, route.name, { ...route.query, ...parts }) }, text) : h("span", { class: parts === null && "quiet" }, text);
  return h("nav", { class: "pages", "aria-label": "Pages" }, links.map(to));
}

/** @param {string} text */
export function emptyNote(text) {
  return h("p", { class: "quiet empty" }, text);
}

/**
 * Describe a field whose text is a part of the address.
 *
 * @param {string} name of the part
 * @param {string} label
 */
export function addressField(name, label) {
  const input = (/** @type {Event} */ event) => {
    const { value } = /** @type {HTMLInputElement} */ (event.target);
    clearTimeout(waiting);
    waiting = setTimeout(() => setQuery({ [name]: value.trim() }), DELAY);
  };
  return h("label", { class: "field", key: name }, label, h("input", { type: "search", id: name, name, autocomplete: "off", spellcheck: "false", value: route.query[name] ?? "", on: { input } }));
}

/**
 * Describe a choice that is a part of the address.
 *
 * @param {string} name of the part
 * @param {string} label
 * @param {[string, string][]} options values and texts
 * @param {string} [value] by default that of the address, or the first one
 */
export function addressChoice(name, label, options, value = route.query[name] ?? options[0]?.[0] ?? "") {
  return choice(label, options, value, (chosen) => setQuery({ [name]: chosen }), name);
}

/**
 * Describe a choice.
 *
 * @param {Child} label
 * @param {[string, string][]} options values and texts
 * @param {string} value
 * @param {(value: string) => void} choose is called with the value that the reader chooses
 * @param {string | null} [name]
 * @param {string} [style]
 */
export function choice(label, options, value, choose, name = null, style = "field") {
  const change = (/** @type {Event} */ event) => choose(/** @type {HTMLSelectElement} */ (event.target).value);
  return h("label", { class: style, key: name ?? undefined }, label, h("select", { name, on: { change }, value }, options.map(([one, text]) => h("option", { key: one, value: one, selected: one === value }, text))));
}
