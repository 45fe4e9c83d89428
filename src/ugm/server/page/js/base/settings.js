/**
 * Choices of the reader that the browser remembers, such as columns.
 */

import { redraw } from "./dom.js";

/** Prefix of the names in the storage, which the page shares with others of its origin. */
const PREFIX = "ugm ";

/**
 * Return a remembered text. If the browser stores nothing, it is remembered until the page is closed.
 *
 * @param {string} name
 * @param {string} initial
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
