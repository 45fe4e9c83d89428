/**
 * The view of recent denials, with the request, the number of repetitions, and every violated limit.
 */

import { get, getRecent, orNull, path } from "../base/api.js";
import { h } from "../base/dom.js";
import { ago, amountsText, clock, count, counted } from "../base/format.js";
import { route } from "../base/route.js";
import { reasons } from "../parts/limits.js";
import { addressField, emptyNote, list, moment, nameLink } from "../parts/lists.js";

/** The number of records that are shown, and of those from which the newest are chosen. */
const SHOWN = 100;
const LOADED = 1000;

/** The seconds for which the summary of the partition may be used again. */
const SUMMARY = 10;

/** The leader is null unless another process leads, which is the only one that knows the denials. */
/** @type {View<{records: Denial[], total: number, leader: string | null} | null>} */
export const denials = {
  title: "Denials",
  async load() {
    const { has_service } = await getRecent(SUMMARY, path());
    /** @type {[{records: Denial[], counts: Record<string, number>} | null, ServiceStatus | null]} */
    const [data, status] = await Promise.all([orNull(get(path("history"), { kind: "denied", limit: LOADED })), has_service ? get(path("service")) : null]);
    // An old record is among the newest if it was repeated.
    const records = data?.records.sort((one, other) => other.last_at - one.last_at || other.last - one.last).slice(0, SHOWN) ?? [];
    const leader = status && !status.is_leading ? [status.leader || "unknown", status.address].filter(Boolean).join(" at ") : null;
    return data && { records, total: data.counts.denied ?? 0, leader };
  },
  show(data) {
    if (!data) return emptyNote("The server keeps no history of this partition.");
    const search = (route.query.search ?? "").toLowerCase();
    const text = (/** @type {Denial} */ record) => JSON.stringify(record, (_name, value) => (typeof value === "bigint" ? String(value) : value));
    const found = data.records.filter((record) => text(record).toLowerCase().includes(search));
    return list([addressField("search", "Find in these")], {
      noun: "denial",
      note: data.leader !== null ? `This process stands by. Denials are known only at the leader, ${data.leader}.` : `${counted(data.total, "denial")} since the start, the newest ${count(data.records.length)} kinds here`,
      total: found.length,
      rows: () => h("ol.denials", found.map(line)),
      none: data.leader !== null ? "No denial is known here." : "Nothing was denied yet.",
      pages: null,
    });
  },
};

/** @param {Denial} record */
function line(record) {
  const [first, ...others] = record.asks;
  return h("li", { key: record.number },
    h("div",
      first && nameLink("applications", first.application_id),
      first && ` requested ${amountsText(first.usage)}`,
      others.length > 0 && ` and ${counted(others.length, "more allocation")}`,
      record.times > 1 && h("span.badge.quiet", `${count(record.times)} times`),
      !record.decision.can_wait && h("span.badge", "can never fit"),
    ),
    h("span.quiet", moment(record.last_at, ago(record.last_at), `first ${clock(record.first_at)}, last ${clock(record.last_at)}`)),
    reasons(record.decision.violations),
  );
}
