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

/** A request that the server refuses, with a code for programs and a message for people. */
export class ApiError extends Error {
  /** @param {number} status @param {string} code @param {string} message */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/**
 * Send a GET request.
 *
 * @param {string} path below the prefix, with its parts escaped
 * @param {Record<string, string | number | string[] | undefined>} [query]
 * @param {string} [prefix]
 * @returns {Promise<any>}
 */
export async function get(path, query = {}, prefix = PREFIX) {
  return answer(await send(path, prefix, queryText(query)));
}

/**
 * Send a GET request for text.
 *
 * @param {string} path
 */
export async function getText(path) {
  const response = await send(path, PREFIX);
  return response.ok ? response.text() : answer(response);
}

/**
 * Send a POST request with a body. The page only sends those that change nothing.
 *
 * @param {string} path
 * @param {unknown} body
 */
export async function post(path, body) {
  const headers = { "content-type": "application/json", accept: "application/json" };
  return answer(await send(path, PREFIX, "", { method: "POST", headers, body: JSON.stringify(body) }));
}

/**
 * Send a request. A browser removes the parts `.` and `..` of a path, even if they are escaped, and would send the request for
 * another object; therefore such a path counts as unknown, as on the server.
 *
 * @param {string} path
 * @param {string} prefix
 * @param {string} [query]
 * @param {RequestInit} [options]
 */
async function send(path, prefix, query = "", options = {}) {
  if (/(^|\/)\.\.?(\/|$)/.test(path)) throw new ApiError(404, "path-unknown", "there is no such path");
  return fetch(prefix + path + query, { ...options, signal: /** @type {any} */ (AbortSignal).timeout(TIMEOUT) });
}

/** @param {Response} response */
async function answer(response) {
  const data = parseJson(await response.text());
  if (response.ok) return data;
  throw new ApiError(response.status, data?.code ?? "failed", data?.detail ?? `the server responded with status ${response.status}`);
}

/**
 * Return null if the object of a request does not exist.
 *
 * @param {Promise<any>} response
 */
export async function orNull(response) {
  try {
    return await response;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

/**
 * Return the path of an object in the current partition.
 *
 * @param {...string} parts
 */
export function path(...parts) {
  return ["partition", route.partition, ...parts].map(escaped).join("/");
}

/**
 * Parse JSON. The objects have no prototype, because their keys may be any names, such as that of a resource `constructor`.
 *
 * @param {string} text
 */
export function parseJson(text) {
  try {
    return bare(LONG_INTEGER.test(text) ? JSON.parse(text, exact) : JSON.parse(text));
  } catch {
    return null;
  }
}

/**
 * Remove the prototypes of all objects in a value. This is faster than to do so while the text is parsed.
 *
 * @param {any} value
 */
function bare(value) {
  if (typeof value !== "object" || value === null) return value;
  for (const one of Object.values(value)) bare(one);
  return Array.isArray(value) ? value : Object.setPrototypeOf(value, null);
}

/**
 * Return an integer that a number cannot hold exactly as a bigint, if the browser passes its digits.
 *
 * @param {string} _name
 * @param {any} value
 * @param {{source?: string}} [context]
 */
function exact(_name, value, context) {
  if (typeof value !== "number" || Number.isSafeInteger(value) || !context?.source) return value;
  return /^-?[0-9]+$/.test(context.source) ? BigInt(context.source) : value;
}
