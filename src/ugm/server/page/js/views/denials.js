/**
 * The view of recent denials, with the request, the number of repetitions, and every violated limit.
 */

import { get, path } from "../base/api.js";
import { h } from "../base/dom.js";
import { ago, amountsText, clock, count, counted } from "../base/format.js";
import { reasons } from "../parts/limits.js";
import { emptyNote, nameLink } from "../parts/tables.js";

/** The number of records that are kept. */
const KEPT = 100;

export const title = "Denials";

/** The records that were loaded so far, of one partition. */
const known = { partition: "", hasHistory: false, newest: 0, /** @type {Map<number, import("../types.js").Denial>} */ records: new Map() };
const choice = { search: "" };

/**
 * @param {import("../types.js").Route} route
 * @returns {Promise<{records: import("../types.js").Denial[], total: number} | null>}
 */
export async function load(route) {
  if (known.partition !== route.partition) {
    forget(route.partition);
    known.hasHistory = (await get(path(route.partition))).has_history;
  }
  if (!known.hasHistory) return null;
  const data = await get(path(route.partition, "history"), { kind: "denied", after: known.newest, limit: KEPT });
  if (data.newest < known.newest) {
    // The server was restarted.
    forget(route.partition);
    return load(route);
  }
  known.newest = data.newest;
  for (const record of data.records) known.records.set(record.number, record);
  const newest = [...known.records.values()].sort((one, other) => other.last_at - one.last_at || other.last - one.last).slice(0, KEPT);
  known.records = new Map(newest.map((record) => [record.number, record]));
  return { records: newest, total: data.counts.denied ?? 0 };
}

/** @param {string} partition */
function forget(partition) {
  Object.assign(known, { partition, newest: 0, records: new Map() });
}

/**
 * @param {import("../types.js").Route} route
 * @param {{records: import("../types.js").Denial[], total: number} | null} data
 */
export function show(route, data) {
  if (!data) return emptyNote("The server keeps no history of this partition.");
  const found = data.records.filter((record) => JSON.stringify(record, plain).toLowerCase().includes(choice.search));
  return [
    h(
      "div",
      { class: "tools" },
      h("label", { class: "field" }, "Find in these", h("input", { type: "search", id: "search", value: choice.search, on: { input: search } })),
      h("span", { class: "quiet" }, `${counted(data.total, "denial")} since the start, the newest ${count(data.records.length)} kinds here`),
    ),
    found.length ? h("ol", { class: "denials" }, found.map((record) => line(route.partition, record))) : emptyNote(data.records.length ? "None of these." : "Nothing was denied yet."),
  ];
}

/**
 * @param {string} _name
 * @param {unknown} value
 */
function plain(_name, value) {
  return typeof value === "bigint" ? String(value) : value;
}

/** @param {Event} event */
function search(event) {
  choice.search = /** @type {HTMLInputElement} */ (event.target).value.trim().toLowerCase();
  window.dispatchEvent(new CustomEvent("redraw"));
}

/**
 * @param {string} partition
 * @param {import("../types.js").Denial} record
 */
function line(partition, record) {
  const [first, ...others] = record.asks;
  return h(
    "li",
    { key: record.number },
    h(
      "div",
      { class: "what" },
      first && nameLink(partition, "applications", first.application_id),
      first && ` requested ${amountsText(first.usage)}`,
      others.length > 0 && ` and ${counted(others.length, "more allocation")}`,
      record.times > 1 && h("span", { class: "badge quiet" }, `${count(record.times)} times`),
      !record.decision.can_wait && h("span", { class: "badge never" }, "can never fit"),
    ),
    h("time", { class: "quiet", datetime: new Date(record.last_at * 1000).toISOString(), title: `first ${clock(record.first_at)}, last ${clock(record.last_at)}` }, ago(record.last_at)),
    reasons(partition, record.decision.violations),
  );
}
