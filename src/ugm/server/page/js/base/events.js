/**
 * What a part of the page lets the others do: load or draw everything again, and tell screen readers a result.
 *
 * Only results of what the reader does, and the loss and return of the server, are announced; changing figures are not.
 */

/** Milliseconds to wait for a newer announcement, for example while the reader types. */
const DELAY = 400;

/** @type {number | undefined} */
let timer;

/** @param {string} text is read out through the one live region of the page */
export function announce(text) {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const region = document.getElementById("announcements");
    if (region) region.textContent = text;
  }, DELAY);
}

/** Load the data of the current view again. */
export function refresh() {
  window.dispatchEvent(new Event("refresh"));
}

/** Draw the current view again. */
export function redraw() {
  window.dispatchEvent(new Event("redraw"));
}
