/**
 * What the server is asked. Every address is relative: the application may be mounted below any path.
 */

/** Milliseconds after which an answer is given up. */
const PATIENCE = 30_000;

/** Digits that a number may not hold exactly. */
const LONG = /[0-9]{16}/;

/** An answer that is no: the code says why, the message says it to people. */
export class Refused extends Error {
  /**
   * @param {number} status
   * @param {string} code
   * @param {string} message
   */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/**
 * Ask for something.
 *
 * @param {string} path below the prefix, with its parts escaped
 * @param {Record<string, string | number | string[] | undefined>} [query]
 * @returns {Promise<any>}
 */
export async function get(path, query = {}) {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) asked.append(name, String(one));
  }
  const text = asked.toString();
  return answer(await fetch(`ws/v1/${path}${text ? `?${text}` : ""}`, { headers: { accept: "application/json" }, signal: AbortSignal.timeout(PATIENCE) }));
}

/**
 * Ask a question that has a body. Nothing is changed by it.
 *
 * @param {string} path
 * @param {unknown} body
 */
export async function post(path, body) {
  const headers = { "content-type": "application/json", accept: "application/json" };
  return answer(await fetch(`ws/v1/${path}`, { method: "POST", headers, body: JSON.stringify(body), signal: AbortSignal.timeout(PATIENCE) }));
}

/**
 * Ask for something that may not be there.
 *
 * @param {Promise<any>} asked
 */
export async function orNull(asked) {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return null;
    throw error;
  }
}

/**
 * @param {string} partition
 * @param {...string} parts
 */
export function path(partition, ...parts) {
  return ["partition", partition, ...parts].map(encodeURIComponent).join("/");
}

/** @param {Response} response */
async function answer(response) {
  const told = read(await response.text());
  if (response.ok) return told;
  throw new Refused(response.status, told?.code ?? "failed", told?.message ?? `the server responded with status ${response.status}`);
}

/** @param {string} text */
function read(text) {
  try {
    return LONG.test(text) ? JSON.parse(text, exact) : JSON.parse(text);
  } catch {
    return null;
  }
}

/**
 * Read an integer that no number holds as a bigint, where the browser tells the digits.
 *
 * @param {string} _name
 * @param {any} value
 * @param {{source?: string}} [context]
 */
function exact(_name, value, context) {
  if (typeof value !== "number" || Number.isSafeInteger(value) || !context?.source) return value;
  return /^-?[0-9]+$/.test(context.source) ? BigInt(context.source) : value;
}
