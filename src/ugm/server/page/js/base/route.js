/**
 * Routes: the part of the address after `#`, such as `#/default/users/sue?page=2`.
 *
 * Every view and every detail has its own address, so it can be shared, and the buttons of the browser work.
 */

/**
 * @param {string} hash
 * @returns {import("../types.js").Route}
 */
export function parse(hash) {
  const [path = "", text = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [partition = "", view = "", ...rest] = path.split("/").map(decoded);
  return { partition, view, name: rest.join("/"), query: Object.fromEntries(new URLSearchParams(text)) };
}

/**
 * @param {string} partition
 * @param {string} view
 * @param {string} [name]
 * @param {Record<string, string | number | undefined>} [query]
 */
export function link(partition, view, name = "", query = {}) {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value !== undefined && value !== "") params.set(key, String(value));
  const parts = [partition, view, ...(name ? [name] : [])].map(escaped);
  const text = params.toString();
  return `#/${parts.join("/")}${text ? `?${text}` : ""}`;
}

/**
 * Escape a part of an address. Half of a surrogate pair has no escape, and is replaced.
 *
 * @param {string} text
 */
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
