/**
 * The view of applications, one page at a time, and the detail of one: its limits, and why its allocations are pending.
 */

import { get, orNull, path } from "./api.js";
import { h } from "./dom.js";
import { amountsText, counted } from "./format.js";
import { chain, queueLink, reasons, requested } from "./limits.js";
import { link } from "./route.js";

/** Rows of a page. */
const PAGE = 50;
/** Columns that are hidden on small screens. */
const MINOR = new Set(["State", "Pending"]);
const FILTERS = ["user", "group", "queue", "state"];

export const title = "Applications";

/** @param {import("./types.js").Route} route */
export async function load(route) {
  const filters = Object.fromEntries(FILTERS.map((name) => [name, route.query[name]]));
  return get(path(route.partition, "applications"), { ...filters, after: route.query.after, most: PAGE });
}

/**
 * @param {import("./types.js").Route} route
 * @param {{applications: import("./types.js").Application[], next: string | null}} data
 */
export function show(route, data) {
  const { after, ...query } = route.query;
  const first = link(route.partition, "applications", "", query);
  const chosen = FILTERS.filter((name) => query[name]).map((name) => `${name} ${query[name]}`);
  return [
    chosen.length > 0 && h("p", { class: "tools" }, h("span", null, `Only of ${chosen.join(", ")}. `), h("a", { href: link(route.partition, "applications") }, "Show all")),
    data.applications.length ? applicationTable(route.partition, data.applications, route.name) : h("p", { class: "quiet empty" }, "There is no application."),
    (after || data.next) &&
      h(
        "nav",
        { class: "pages", "aria-label": "Pages" },
        after ? h("a", { href: first }, "First page") : h("span", { class: "quiet" }, "First page"),
        data.next ? h("a", { href: link(route.partition, "applications", "", { ...query, after: data.next }) }, "Next") : h("span", { class: "quiet" }, "Next"),
      ),
  ];
}

/**
 * @param {string} partition
 * @param {import("./types.js").Application[]} found
 * @param {string} [shown]
 */
export function applicationTable(partition, found, shown) {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": "Applications" },
    h(
      "table",
      { class: "list" },
      h("caption", { class: "unseen" }, "Applications"),
      h("thead", null, h("tr", null, ["Application", "User", "Queue", "State", "Usage", "Pending"].map((name) => h("th", { scope: "col", class: MINOR.has(name) ? "minor" : null }, name)))),
      h(
        "tbody",
        null,
        found.map((one) =>
          h(
            "tr",
            { key: one.application_id, class: shown === one.application_id ? "shown" : null },
            h("th", { scope: "row" }, h("a", { href: link(partition, "applications", one.application_id), class: "clip", title: one.application_id }, one.application_id)),
            h("td", null, h("a", { href: link(partition, "users", one.user.name), class: "clip", title: one.user.name }, one.user.name)),
            h("td", null, queueLink(partition, one.queue_path)),
            h("td", { class: "minor" }, one.state.toLowerCase()),
            h("td", null, amountsText(one.usage)),
            h("td", { class: "minor" }, one.pending ? counted(one.pending, "allocation") : "–"),
          ),
        ),
      ),
    ),
  );
}

/** @param {import("./types.js").Route} route */
export async function loadDetail(route) {
  return orNull(get(path(route.partition, "application", route.name)));
}

/**
 * @param {import("./types.js").Route} route
 * @param {any} data
 */
export function showDetail(route, data) {
  if (!data) return h("p", { class: "quiet" }, `There is no application ${route.name} now.`);
  const { partition } = route;
  return [
    h(
      "p",
      null,
      `${data.state[0].toUpperCase()}${data.state.slice(1).toLowerCase()}, of `,
      h("a", { href: link(partition, "users", data.user.name) }, data.user.name),
      data.group && [", charged to ", h("a", { href: link(partition, "groups", data.group) }, data.group)],
      ", in ",
      queueLink(partition, data.queue_path),
      data.allocations ? `. It uses ${amountsText(data.usage)} in ${counted(data.allocations, "allocation")}.` : ". It uses nothing.",
    ),
    data.waiting.length > 0 && [
      h("h3", null, data.waiting.length < data.pending ? `Why the first ${data.waiting.length} of ${data.pending} wait` : "Why it waits"),
      data.waiting.map((/** @type {any} */ one) => waiting(partition, one)),
    ],
    chain(partition, "Every limit that applies", data.limits, requested(data.waiting.flatMap((/** @type {any} */ one) => one.explanation.violations))),
    data.headroom && h("p", null, "One more allocation may take ", h("strong", null, amountsText(data.headroom)), "."),
  ];
}

/**
 * @param {string} partition
 * @param {any} one
 */
function waiting(partition, one) {
  const { allocation, explanation } = one;
  const request = `${allocation.allocation_id} asks for ${amountsText(allocation.usage)}`;
  if (explanation.allowed) return h("p", { key: allocation.allocation_id }, `${request}: it would be granted now.`);
  return h(
    "div",
    { key: allocation.allocation_id },
    h("p", null, `${request}. `, explanation.can_wait ? "Waiting can help." : "Waiting cannot help."),
    reasons(partition, explanation.violations),
  );
}
