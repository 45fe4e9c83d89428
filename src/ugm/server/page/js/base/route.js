/**
 * The choices of the reader. Routes are the part of the address after `#`, such as `#/default/users/sue?page=2`: every view
 * and every detail has its own address, so it can be shared, and the buttons of the browser work. Other choices, such as
 * columns, are remembered by the browser.
 *
 * @typedef {Record<string, string | number | string[] | undefined>} Query parameters of an address; empty ones are left out
 */

import { redraw } from "./dom.js";

/** The current route. */
export let route = parse(location.hash);

/** Take the current route from the address. Until then, a link that the reader has just followed does not change it. */
export function follow() {
  route = current();
}

/** Return the route of the address, for input that may follow a link immediately. */
export function current() {
  return parse(location.hash);
}

/** @param {string} hash @returns {Route} */
function parse(hash) {
  const [path = "", text = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [partition = "", view = "", ...rest] = path.split("/").map(decoded);
  return { partition, view, name: rest.join("/"), query: Object.fromEntries(new URLSearchParams(text)) };
}

/**
 * Return the address of a view, or of the detail of an object in it.
 * @param {string} view @param {string} [name] @param {Query} [query]
 * @param {string} [partition] by default the current one
 */
export function link(view, name = "", query = {}, partition = route.partition) {
  const parts = [partition, view, ...(name ? [name] : [])].map(escaped);
  return `#/${parts.join("/")}${queryText(query)}`;
}

/** Return the parameters of an address with a question mark, without those that are empty. */
/** @param {Query} query */
export function queryText(query) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) for (const one of [value ?? ""].flat()) if (one !== "") params.append(name, String(one));
  const text = params.toString();
  return text && `?${text}`;
}

/** Change parts of the address, and return to the first page of the list. An empty text removes a part. */
/** @param {Record<string, string>} parts */
export function setQuery(parts) {
  const { partition, view, name, query } = current();
  const { page: _page, after: _after, ...kept } = query;
  history.replaceState(null, "", link(view, name, { ...kept, ...parts }, partition));
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

/** Escape a part of an address. Half of a surrogate pair has no escape, and is replaced. */
/** @param {string} text */
export function escaped(text) {
  return encodeURIComponent(text.replace(/\p{Surrogate}/gu, "\ufffd"));
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Prefix of the names in the storage, which the page shares with others of its origin. */
const PREFIX = "ugm ";

/**
 * Return a remembered text. If the browser stores nothing, it is remembered until the page is closed.
 * @param {string} name @param {string} initial
 * @param {() => void} [changed] is called after each choice
 */
export function remembered(name, initial, changed = redraw) {
  let value = initial;
  try {
    value = localStorage.getItem(PREFIX + name) ?? initial;
  } catch {
    // The storage is forbidden.
  }
  return {
    get: () => value,
    /** @param {string} text */
    set(text) {
      value = text;
      try {
        localStorage.setItem(PREFIX + name, text);
      } catch {
        // The storage is forbidden or full.
      }
      changed();
    },
  };
}
