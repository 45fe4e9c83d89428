/**
 * Requests to the server. Every address is relative, because the application may be mounted below any path.
 */

import { escaped, queryText, route } from "./route.js";

/** The prefixes of paths: of the interface of ugm, and of the one that responds in the format of Apache YuniKorn. */
const PREFIX = "api/v1/";
export const YUNIKORN_PREFIX = "ws/v1/";

/** Milliseconds after which a request fails. */
const TIMEOUT = 30_000;

/** Integers that a number may not hold exactly. */
const LONG_INTEGER = /[0-9]{16}/;

/** A request that the server refuses, with a message for people. */
export class ApiError extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/**
 * Send a GET request.
 * @param {string} path below the prefix, with its parts escaped
 * @param {import("./route.js").Query} [query] @param {string} [prefix]
 */
export async function get(path, query = {}, prefix = PREFIX) {
  return request(prefix + path + queryText(query));
}

/** The last answer of each path, with its address and when it was requested, in milliseconds. */
/** @type {Map<string, {address: string, at: number, data: any}>} */
const answers = new Map();

/** Send a GET request, unless the last one for the same object was sent in the last seconds. */
/** @param {number} seconds @param {string} path @param {import("./route.js").Query} [query] */
export async function getRecent(seconds, path, query = {}) {
  const [address, at, last] = [path + queryText(query), Date.now(), answers.get(path)];
  if (last?.address === address && at - last.at < seconds * 1000) return last.data;
  const data = await get(path, query);
  answers.set(path, { address, at, data });
  return data;
}

/** Send a POST request with a body. The page only sends those that change nothing. */
/** @param {string} path @param {unknown} body */
export async function post(path, body) {
  const headers = { "content-type": "application/json", accept: "application/json" };
  return request(PREFIX + path, { method: "POST", headers, body: JSON.stringify(body) });
}

/**
 * Return the JSON or text that the server responds. A browser removes the parts `.` and `..` of a path, even if they are
 * escaped, and would send the request for another object; therefore such a path counts as unknown, as on the server.
 * @param {string} address @param {RequestInit} [options]
 * @returns {Promise<any>}
 */
async function request(address, options = {}) {
  if (/\/\.\.?(\/|\?|$)/.test(address)) throw new ApiError(404, "there is no such path");
  const response = await fetch(address, { ...options, signal: /** @type {any} */ (AbortSignal).timeout(TIMEOUT) });
  const text = await response.text();
  const data = response.headers.get("content-type")?.includes("json") ? parseJson(text) : text;
  if (response.ok) return data;
  throw new ApiError(response.status, data?.detail ?? `the server responded with status ${response.status}`);
}

/** Return null if the object of a request does not exist. */
/** @param {Promise<any>} response */
export async function orNull(response) {
  try {
    return await response;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

/** Return the path of an object in the current partition. */
/** @param {...string} parts */
export function path(...parts) {
  return ["partition", route.partition, ...parts].map(escaped).join("/");
}

/** Parse JSON. The objects have no prototype, because their keys may be any names, such as that of a resource `constructor`. */
/** @param {string} text */
export function parseJson(text) {
  try {
    return bare(LONG_INTEGER.test(text) ? JSON.parse(text, exact) : JSON.parse(text));
  } catch {
    return null;
  }
}

/** Remove the prototypes of all objects in a value. This is faster than to do so while the text is parsed. */
/** @param {any} value */
function bare(value) {
  if (typeof value !== "object" || value === null) return value;
  for (const one of Object.values(value)) bare(one);
  return Array.isArray(value) ? value : Object.setPrototypeOf(value, null);
}

/** Return an integer that a number cannot hold exactly as a bigint, if the browser passes its digits. */
/** @param {string} _name @param {any} value @param {{source?: string}} [context] */
function exact(_name, value, context) {
  if (typeof value !== "number" || Number.isSafeInteger(value) || !context?.source) return value;
  return /^-?[0-9]+$/.test(context.source) ? BigInt(context.source) : value;
}
