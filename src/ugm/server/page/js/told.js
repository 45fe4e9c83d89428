/**
 * The one live region: what a screen reader is told without being asked. Only answers to what the reader did, and that
 * the server was lost or found; never figures that change by themselves.
 */

/** @type {number | undefined} */
let timer;

/** @param {string} text */
export function announce(text) {
  clearTimeout(timer);
  // While somebody types, only what is left in the end is told.
  timer = setTimeout(() => {
    const place = document.getElementById("told");
    if (place) place.textContent = text;
  }, 400);
}
