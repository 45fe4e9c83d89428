/**
 * A partition in one line: the used part of the cluster, and the number of its objects.
 */

import { gauge } from "./bars.js";
import { h } from "../base/dom.js";
import { Columns } from "./columns.js";
import { variantsButton } from "./families.js";
import { counted, resourceName } from "../base/format.js";

/** The resources that are shown; the detail of the root has all of them. */
const columnChoice = new Columns(6);

/** @param {Partition} partition */
export function summary(partition) {
  const { names } = columnChoice.choose([{ usage: partition.usage, limits: partition.cluster }]);
  const counts = /** @type {const} */ (["application", "user", "group", "queue"]).map((noun) => counted(partition[`${noun}s`], noun));
  return h(
    "dl",
    { class: "summary" },
    names.map((name) => h("div", null, h("dt", { title: resourceName(name) }, resourceName(name), variantsButton(name)), h("dd", null, gauge(name, partition.usage[name] ?? 0, partition.cluster?.[name])))),
    h("div", { class: "counts quiet" }, h("dt", { class: "unseen" }, "Counts"), h("dd", null, counts.join(" · "))),
  );
}
