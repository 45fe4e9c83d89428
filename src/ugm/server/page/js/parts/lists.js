/**
 * Lists: tables that are described by their columns and scroll in their own place, links with the name of an object, the
 * order of the rows, and pages and filters, which are parts of the address.
 */

import { announce, h } from "../base/dom.js";
import { amountText, byName, count, momentText, resourceName } from "../base/format.js";
import { link, remembered, route, setQuery } from "../base/route.js";
import { variantsButton } from "./columns.js";

/**
 * Describe a table. The first column is the head of each row, or the second one if the first is a place.
 * @template T
 * @param {string} label @param {readonly T[]} items @param {Column<T>[]} columns
 * @param {{key?: (one: T) => string, style?: string, order?: Order}} options `style` has
 *   the classes of the table: a `list` reacts to the pointer, and its label is only read out; a row of a `stack` or `wide` is a
 *   name above its figures on a small screen, or in half a window
 */
export function table(label, items, columns, { key, style = "list", order }) {
  const rowHead = columns.find((column) => column.style !== "place");
  const head = (/** @type {Column<T>} */ column) => columnHead("th", { scope: "col", key: column.name, class: column.style, vars: { width: column.width ?? "auto" } }, column, order);
  const row = (/** @type {T} */ one, /** @type {number} */ index) => {
    const name = key?.(one);
    const cell = (/** @type {Column<T>} */ column) => {
      const isHead = column === rowHead;
      return h(isHead ? "th" : "td", { "data-label": column.name, scope: isHead && "row", class: column.style, ...column.props?.(one) }, column.show(one, index));
    };
    return h("tr", { key: name, class: route.name && route.name === name && "shown" }, columns.map(cell));
  };
  return h("div.scroll", { tabindex: "0", role: "group", "aria-label": label },
    h("table", { class: style },
      h("caption", { class: /\blist\b/.test(style) && "unseen" }, label),
      h("thead", h("tr", columns.map(head))),
      h("tbody", items.map(row)),
    ),
  );
}

/**
 * Describe a link to the detail of an object.
 * @param {string} view @param {string} name
 * @param {Record<string, any>} [props] `class` is `clip` for a name with its own line
 * @param {Child} [text]
 */
export function nameLink(view, name, props = {}, text = name) {
  return h("a", { href: link(view, name), class: "name-link", title: name, ...props }, text);
}

/**
 * Describe a table of resources: how much of each is used, and further amounts.
 * @param {string[]} names @param {{name: string, show: (name: string) => Child}} used
 * @param {[heading: string, amounts: Amounts | null | undefined][]} figures @param {string} style
 */
export function resourceTable(names, used, figures, style) {
  const columns = figures.map(([name, amounts]) => ({
    name,
    style: "number",
    show: (/** @type {string} */ resource) => (amounts?.[resource] === undefined ? "–" : amountText(resource, amounts[resource] ?? 0)),
  }));
  return table("Resources", names, [{ name: "Resource", width: "21%", show: resourceLabel }, { style: "bars", width: "29%", ...used }, ...columns], { style: `resources ${style}`, key: String });
}

/** Names with their own line. */
export const CLIP = { class: "clip" };

/** Describe a link to a queue. */
/** @param {string} path */
export function queueLink(path) {
  return nameLink("queues", path, { class: "path name-link" }, breakable(path));
}

/** Columns of rows that belong to a user, to a queue, or to an allocation of an application. */
export const USER = { name: "User", show: (/** @type {{user: string | null}} */ { user }) => user !== null && nameLink("users", user, CLIP) };
export const QUEUE = { name: "Queue", style: "long", show: (/** @type {{queue_path?: string | null}} */ { queue_path: path }) => path && queueLink(path) };
export const ALLOCATION = { name: "Request", show: (/** @type {{allocation_id: string, application_id: string}} */ one) => [clipped(one.allocation_id), ownerOf("applications", one.application_id)] };

/** Describe a second line of a cell: of whom the row is. */
/** @param {string} view @param {string} name */
export function ownerOf(view, name) {
  return h("span.quiet.clip", "of ", nameLink(view, name, { class: null }));
}

/** Describe a link from a list to the detail of an object in it. */
/** @param {string} name */
export function detailLink(name) {
  return nameLink(route.view, name, { ...CLIP, href: link(route.view, name, route.query), "aria-current": route.name === name ? "true" : null });
}

/** Describe a text that ends in dots if it is too long. */
/** @param {string} text @param {string} [style] */
export function clipped(text, style = "clip") {
  return h("span", { class: style, title: text }, text);
}

/** Describe a name that may continue in the next line after a slash or point. */
/** @param {string} name */
function breakable(name) {
  return name.split(/(?<=[/.])/).map((part, index) => [index > 0 && h("wbr"), part]);
}

/** Describe the name of a resource, with the button of a family. */
/** @param {string | null} resource */
export function resourceLabel(resource) {
  return [breakable(resourceName(resource)), variantsButton(resource)];
}

/** The order of rows, which the browser remembers: a choice by the heads of columns, or by a field on screens without heads. */
export class Order {
  /**
   * @param {string} view @param {string} initial
   * @param {() => void} changed is called when the reader has chosen another order
   */
  constructor(view, initial, changed) {
    this.choice = remembered(`${view} order`, initial, changed);
  }

  get sorted() {
    return this.choice.get();
  }

  /** Describe the choice of an order. */
  /** @param {{name: string, sort?: string}[]} columns, and orders without a column */
  field(columns) {
    return choice("Order", columns.flatMap(({ name, sort }) => (sort ? [[sort, name]] : [])), this.sorted, this.choice.set);
  }

  /**
   * Sort rows by the chosen column, the largest first, and rows with equal ranks by name.
   * @template T
   * @param {T[]} rows @param {{sort?: string, rank?: (one: T) => number}[]} columns
   * @param {(one: T) => string} nameOf
   */
  sort(rows, columns, nameOf) {
    const rank = columns.find(({ sort }) => sort === this.sorted)?.rank ?? (() => 0);
    return rows.sort((one, other) => rank(other) - rank(one) || byName(nameOf(one), nameOf(other)));
  }
}

/**
 * Describe the head of a column.
 * @param {string} tag @param {Record<string, any>} props @param {Column<any>} column
 * @param {Order} [order] of rows that the reader can sort
 */
export function columnHead(tag, props, { name, sort, resource }, order) {
  const variants = variantsButton(resource);
  if (!order || !sort) return h(tag, { ...props, title: order && name }, name, variants);
  const direction = sort !== order.sorted ? "none" : sort === "name" ? "ascending" : "descending";
  return h(tag, { ...props, title: name, "aria-sort": direction }, h("button.sort", { type: "button", on: { click: () => order.choice.set(sort) } }, name), variants);
}

/** Rows of a page. */
export const PAGE = 50;
/** Milliseconds to wait for further input. */
const DELAY = 200;
/** The choices of an age in seconds. */
export const AGES = /** @type {[string, string][]} */ ([["", "any"], ["60", "1 min or more"], ["600", "10 min or more"], ["3600", "1 h or more"], ["86400", "1 d or more"]]);
/** The parts of the address that do not filter. */
const OTHERS = ["page", "after", "sort", "by", "leaf"];

/** @type {number | undefined} */
let waiting;
/** The last search whose result was announced. */
let announced = "";

/** Return the number of the shown page, from 1 on. */
function pageNumber() {
  return Math.max(1, Number.parseInt(route.query.page ?? "1", 10) || 1);
}

/** Return the place of the shown page in a list, as the server expects it. */
export function pageOf() {
  return { offset: (pageNumber() - 1) * PAGE, limit: PAGE };
}

/** Return the parts of the address that filter the list. */
export function filters() {
  return Object.entries(route.query).filter(([name]) => !OTHERS.includes(name));
}

/**
 * Describe a list: its tools, its rows and the links to its other pages.
 * @param {Child[]} tools @param {object} found
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
  return [h("div.tools", tools, note && h("span.quiet", note)), total ? rows() : emptyNote(filters().length || !none ? noMatch : none), pages];
}

/** Describe the links to the other pages of a list. */
/** @param {number} total */
function pageLinks(total) {
  const [page, most] = [pageNumber(), Math.ceil(total / PAGE)];
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
  return h("nav.pages", { "aria-label": "Pages" }, links.map(to));
}

/** @param {string} text */
export function emptyNote(text) {
  return h("p.quiet.empty", text);
}

/** Return that a partition lacks something, and how its configuration declares it. */
/** @param {string} what @param {string} example in the key `ugm` */
export function undeclared(what, example) {
  return `No ${what} are declared for this partition. In its configuration, ugm: {${example}} declares them.`;
}

/** Describe how many objects are not listed. */
/** @param {number} number */
export function more(number) {
  return number > 0 && h("span.quiet", ` and ${count(number)} more`);
}

/** @param {number} seconds since 1970 @param {string} text @param {string} [title] */
export function moment(seconds, text, title = momentText(seconds)) {
  return h("time", { datetime: new Date(seconds * 1000).toISOString(), title }, text);
}

/**
 * Describe a field whose text is a part of the address.
 * @param {string} name of the part
 * @param {string} label
 */
export function addressField(name, label) {
  const input = (/** @type {Event} */ event) => {
    const { value } = /** @type {HTMLInputElement} */ (event.target);
    clearTimeout(waiting);
    waiting = setTimeout(() => setQuery({ [name]: value.trim() }), DELAY);
  };
  return h("label.field", { key: name }, label, h("input", { type: "search", id: name, name, autocomplete: "off", spellcheck: "false", value: route.query[name] ?? "", on: { input } }));
}

/**
 * Describe a choice that is a part of the address.
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
 * @param {Child} label
 * @param {[string, string][]} options values and texts
 * @param {string} value
 * @param {(value: string) => void} choose is called with the value that the reader chooses
 * @param {string | null} [name] @param {string} [style]
 */
export function choice(label, options, value, choose, name = null, style = "field") {
  const change = (/** @type {Event} */ event) => choose(/** @type {HTMLSelectElement} */ (event.target).value);
  return h("label", { class: style, key: name ?? undefined }, label, h("select", { name, on: { change }, value }, options.map(([one, text]) => h("option", { key: one, value: one, selected: one === value }, text))));
}
