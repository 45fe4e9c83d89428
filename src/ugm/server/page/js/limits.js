/**
 * Limits and what stands against them: the chain from the queue to the root, which limit binds, and denials in words.
 */

import { gauge } from "./bars.js";
import { h } from "./dom.js";
import { amountText, exactText, resourceName, sortedNames, withUnit } from "./format.js";
import { link } from "./route.js";

/**
 * One limit on one resource, or with null on the number of applications.
 *
 * @typedef {{limit: import("./types.js").EffectiveLimit, resource: string | null, used: import("./types.js").Amount,
 *   most: import("./types.js").Amount, free: bigint, binds: boolean}} Line
 */

/**
 * Take limits apart by resource. The one that leaves the least of a resource binds.
 *
 * @param {import("./types.js").EffectiveLimit[]} limits
 * @returns {Line[]}
 */
export function linesOf(limits) {
  const lines = limits.flatMap((limit) => [
    ...sortedNames(Object.keys(limit.max_resources ?? {})).map((resource) =>
      line(limit, resource, limit.usage[resource] ?? 0, limit.max_resources?.[resource] ?? 0),
    ),
    ...(limit.max_applications ? [line(limit, null, limit.running_applications, limit.max_applications)] : []),
  ]);
  /** @type {Map<string | null, bigint>} */
  const least = new Map();
  for (const { resource, free } of lines) {
    const known = least.get(resource);
    if (known === undefined || free < known) least.set(resource, free);
  }
  return lines.map((found) => ({ ...found, binds: found.free === least.get(found.resource) }));
}

/**
 * @param {import("./types.js").EffectiveLimit} limit
 * @param {string | null} resource
 * @param {import("./types.js").Amount} used
 * @param {import("./types.js").Amount} most
 * @returns {Line}
 */
function line(limit, resource, used, most) {
  return { limit, resource, used, most, free: BigInt(most) - BigInt(used), binds: false };
}

/**
 * The whole chain as a table.
 *
 * @param {string} partition
 * @param {string} caption
 * @param {import("./types.js").EffectiveLimit[]} limits
 */
export function chain(partition, caption, limits) {
  const lines = linesOf(limits);
  if (!lines.length) return h("p", { class: "quiet" }, "No limit holds here.");
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
    h(
      "table",
      { class: "chain" },
      h("caption", null, caption),
      h("thead", null, h("tr", null, ...["Limit of", "On", "Used", "Free"].map((name) => h("th", { scope: "col", class: name === "Free" ? "number" : null }, name)))),
      h("tbody", null, lines.map((found) => row(partition, found))),
    ),
  );
}

/**
 * @param {string} partition
 * @param {Line} found
 */
function row(partition, found) {
  const { limit, resource, used, most, free } = found;
  const name = resource ?? "applications";
  return h(
    "tr",
    { class: found.binds ? "binds" : null },
    h("td", { class: "whose" }, whose(partition, limit), place(partition, limit)),
    h("td", null, resourceName(resource)),
    h("td", { class: "bars" }, gauge(resource, used, most)),
    h("td", { class: "number", title: exactText(name, free) }, amountText(name, free), found.binds && h("span", { class: "badge" }, "binds")),
  );
}

/**
 * Whose a limit is, with a link to them.
 *
 * @param {string} partition
 * @param {{kind: string, name: string, limit_name: string, queue_path: string}} limit
 */
export function whose(partition, limit) {
  const wildcard = limit.limit_name === "*" && h("span", { class: "quiet" }, limit.name === "*" ? "" : " (by *)");
  if (limit.kind === "queue") return ["queue ", queueLink(partition, limit.queue_path || limit.name)];
  const view = { user: "users", group: "groups" }[limit.kind];
  if (!view) return [`${limit.kind} ${limit.name}`, wildcard];
  return [`${limit.kind} `, h("a", { href: link(partition, view, limit.name) }, limit.name), wildcard];
}

/**
 * @param {string} partition
 * @param {string} path
 */
export function queueLink(partition, path) {
  return h("a", { href: link(partition, "queues", path), class: "path" }, path);
}

/**
 * Limits in the way, one sentence each, with who holds what is missing.
 *
 * @param {string} partition
 * @param {import("./types.js").Violation[]} violations
 */
export function reasons(partition, violations) {
  return h(
    "ul",
    { class: "reasons" },
    violations.map((found) =>
      h("li", null, whose(partition, found), place(partition, found), ": ", sentence(found), holders(partition, found)),
    ),
  );
}

/**
 * @param {string} partition
 * @param {{kind: string, queue_path: string}} found
 */
function place(partition, found) {
  return found.kind === "queue" || !found.queue_path ? null : [" in ", queueLink(partition, found.queue_path)];
}

/** @param {import("./types.js").Violation} found */
export function sentence(found) {
  if (found.resource === null) return `${found.used} of ${found.limit} applications running`;
  const name = found.resource;
  const most = withUnit(name, found.limit);
  if (!found.can_wait) return `${withUnit(name, found.requested)} requested, never more than ${most} allowed`;
  const [used, more] = [amountText(name, found.used), withUnit(name, found.shortfall)];
  return `${withUnit(name, found.requested)} requested, ${used} of ${most} used, ${more} too much`;
}

/**
 * @param {string} partition
 * @param {import("./types.js").Violation} found
 */
function holders(partition, found) {
  if (!found.holders?.length) return null;
  const name = found.resource ?? "applications";
  return h(
    "div",
    { class: "quiet" },
    "Most is held by ",
    found.holders.map((holder, index) => [
      index ? ", " : "",
      h("a", { href: link(partition, "applications", holder.application_id) }, holder.application_id),
      ` (${holder.user}, ${withUnit(name, holder.amount)})`,
    ]),
    ".",
  );
}
