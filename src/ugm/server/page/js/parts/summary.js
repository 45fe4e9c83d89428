/**
 * A partition in one line: the used part of the cluster, and the number of its objects.
 */

import { gauge } from "./bars.js";
import { h } from "../base/dom.js";
import { Columns, recordShare } from "./columns.js";
import { counted, resourceName } from "../base/format.js";

/** The resources that are shown; the detail of the root has all of them. */
const columnChoice = new Columns(6);

/** @param {Partition} partition */
export function summary(partition) {
  /** @type {Map<string, number>} */
  const shares = new Map();
  for (const name of new Set([partition.usage, partition.cluster ?? {}].flatMap(Object.keys))) recordShare(shares, name, partition.usage[name] ?? 0, partition.cluster?.[name]);
  const { names } = columnChoice.choose(shares);
  const counts = [
    counted(partition.applications, "application"),
    counted(partition.users, "user"),
    counted(partition.groups, "group"),
    counted(partition.queues, "queue"),
  ];
  return h(
    "dl",
    { class: "summary" },
    names.map((name) => h("div", null, h("dt", { title: resourceName(name) }, resourceName(name)), h("dd", null, gauge(name, partition.usage[name] ?? 0, partition.cluster?.[name])))),
    h("div", { class: "counts quiet" }, h("dt", { class: "unseen" }, "Counts"), h("dd", null, counts.join(" · "))),
  );
}
