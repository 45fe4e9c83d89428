/**
 * The view of the service of a partition: the leader, the clients, and the commits.
 */

import { get, orNull, path } from "../base/api.js";
import { h } from "../base/dom.js";
import { count, counted, duration } from "../base/format.js";
import { emptyNote } from "../parts/lists.js";

/** The age of the state of a standby, in seconds, from which on it is late. */
const LATE = 5;

/** @type {View<ServiceStatus | null>} */
export const service = { title: "Service", model: "Service", load: () => orNull(get(path("service"))), show };

/** @param {ServiceStatus | null} status */
function show(status) {
  if (!status) return emptyNote("This partition is not part of a service: it is in the process of this server.");
  return [
    status.outage && h("p.error", { key: "outage" }, `The log accepts no changes: ${status.outage}`),
    isLate(status) && h("p.error", { key: "late" }, `This process has not read the log for ${duration(status.age)}.`),
    facts(status),
  ];
}

/** @param {ServiceStatus} status */
function isLate(status) {
  return !status.is_leading && status.age > LATE;
}

/** @param {ServiceStatus} status */
function facts(status) {
  const { commits } = status;
  const own = status.is_leading ? "this process" : `this process, ${status.name}, stands by`;
  const silent = status.sessions - status.connected;
  const led = [
    ["Sessions", count(status.sessions), silent ? `${count(silent)} not connected` : "all connected"],
    ["Waiting operations", count(status.waiting), "for the next commit"],
    ["Commit", commits.count ? duration(commits.median) : "none yet", commits.count ? `median; 99% within ${duration(commits.p99)}; ${counted(commits.count, "commit")}` : ""],
  ];
  const found = [
    ["Leader", status.leader || "unknown", [status.address, own].filter(Boolean).join(" · ")],
    ["Term", count(status.term), "grows with every new leader"],
    ["Last change", count(status.change), "its number in the log"],
    ...(status.is_leading ? led : [["Age", duration(status.age), "since this process had all changes"]]),
  ];
  return h("dl.facts", found.map(([name, value, note]) => h("div", h("dt", name), h("dd.figure", value), note && h("dd.quiet", note))));
}
