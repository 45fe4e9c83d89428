/**
 * Announcements to screen readers, through the one live region of the page.
 *
 * Only results of what the reader does, and the loss and return of the server, are announced; changing figures are not.
 */

/** Milliseconds to wait for a newer announcement, for example while the reader types. */
const DELAY = 400;

/** @type {number | undefined} */
let timer;

/** @param {string} text */
export function announce(text) {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const region = document.getElementById("announcements");
    if (region) region.textContent = text;
  }, DELAY);
}
