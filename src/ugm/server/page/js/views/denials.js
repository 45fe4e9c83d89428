/**
 * The view of recent denials, with the request, the number of repetitions, and every violated limit.
 */

import { get, path } from "../base/api.js";
import { h } from "../base/dom.js";
import { ago, amountsText, clock, count, counted } from "../base/format.js";
import { reasons } from "../parts/limits.js";
import { addressField, emptyNote, list } from "../parts/lists.js";
import { route } from "../base/route.js";
import { nameLink } from "../parts/tables.js";

/** The number of records that are kept. */
const KEPT = 100;

export const title = "Denials";

/** The records that were loaded so far, of one partition. */
const known = { partition: "", hasHistory: false, newest: 0, /** @type {Map<number, Denial>} */ records: new Map() };

/** @returns {Promise<{records: Denial[], total: number} | null>} */
export async function load() {
  if (known.partition !== route.partition) {
    forget(route.partition);
    known.hasHistory = (await get(path())).has_history;
  }
  if (!known.hasHistory) return null;
  const data = await get(path("history"), { kind: "denied", after: known.newest, limit: KEPT });
  if (data.newest < known.newest) {
    // The server was restarted.
    forget(route.partition);
    return load();
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

/** @param {{records: Denial[], total: number} | null} data */
export function show(data) {
  if (!data) return emptyNote("The server keeps no history of this partition.");
  const search = (route.query.search ?? "").toLowerCase();
  const found = data.records.filter((record) => JSON.stringify(record, plain).toLowerCase().includes(search));
  const tools = [addressField("search", "Find in these"), h("span", { class: "quiet" }, `${counted(data.total, "denial")} since the start, the newest ${count(data.records.length)} kinds here`)];
  const none = "Nothing was denied yet.";
  return list(tools, { total: found.length, rows: () => h("ol", { class: "denials" }, found.map(line)), none, noMatch: data.records.length ? "None of these." : none, pages: null });
}

/**
 * @param {string} _name
 * @param {unknown} value
 */
function plain(_name, value) {
  return typeof value === "bigint" ? String(value) : value;
}

/** @param {Denial} record */
function line(record) {
  const [first, ...others] = record.asks;
  return h(
    "li",
    { key: record.number },
    h(
      "div",
      { class: "what" },
      first && nameLink("applications", first.application_id),
      first && ` requested ${amountsText(first.usage)}`,
      others.length > 0 && ` and ${counted(others.length, "more allocation")}`,
      record.times > 1 && h("span", { class: "badge quiet" }, `${count(record.times)} times`),
      !record.decision.can_wait && h("span", { class: "badge never" }, "can never fit"),
    ),
    h("time", { class: "quiet", datetime: new Date(record.last_at * 1000).toISOString(), title: `first ${clock(record.first_at)}, last ${clock(record.last_at)}` }, ago(record.last_at)),
    reasons(record.decision.violations),
  );
}
