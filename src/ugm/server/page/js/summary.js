/**
 * A partition in one line: what is used of the cluster, and how much there is of everything.
 */

import { gauge } from "./bars.js";
import { h } from "./dom.js";
import { counted, resourceName, sortedNames } from "./format.js";

/** Resources that are shown; the detail of the root has all of them. */
const SHOWN = 3;

/** @param {import("./types.js").Partition} partition */
export function summary(partition) {
  const names = sortedNames([...new Set(["vcore", "memory", ...Object.keys(partition.usage)])]).slice(0, SHOWN);
  const counts = [
    counted(partition.applications, "application"),
    counted(partition.users, "user"),
    counted(partition.groups, "group"),
    counted(partition.queues, "queue"),
  ];
  return h(
    "dl",
    { class: "summary" },
    names.map((name) => h("div", null, h("dt", null, resourceName(name)), h("dd", null, gauge(name, partition.usage[name] ?? 0, partition.cluster?.[name])))),
    h("div", { class: "counts" }, h("dt", { class: "unseen" }, "Counts"), h("dd", null, counts.join(" · "))),
  );
}
