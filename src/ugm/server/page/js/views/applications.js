/**
 * The view of applications, one page at a time, and the detail of one: its limits, and why its allocations are pending.
 */

import { announce } from "../base/announcements.js";
import { get, orNull, path } from "../base/api.js";
import { h } from "../base/dom.js";
import { amountsText, count, counted, duration } from "../base/format.js";
import { chain, queueLink, reasons, requested } from "../parts/limits.js";
import { addressChoice, addressField, AGES } from "../parts/paging.js";
import { allocations } from "./preemption.js";
import { link } from "../base/route.js";
import { cell, CLIP, emptyNote, LONG, MINOR, nameLink, table } from "../parts/tables.js";

/** Rows of a page. */
const PAGE = 50;
/** The parts of the address that filter; the group comes from links. */
const FILTERS = ["search", "user", "queue", "state", "older_than", "group"];
const STATES = /** @type {[string, string][]} */ ([["", "any"], ...["new", "accepted", "running", "completing", "failing"].map((state) => [state, state])]);

export const title = "Applications";

/** The last search whose result was announced. */
let announced = "{}";

/** @param {import("../types.js").Route} route */
export async function load(route) {
  const filters = Object.fromEntries(FILTERS.map((name) => [name, route.query[name]]));
  const data = await get(path(route.partition, "applications"), { ...filters, after: route.query.after, limit: PAGE });
  const search = JSON.stringify(filters);
  if (search !== announced) announce(`${foundText(data)} found`);
  announced = search;
  return { ...data, at: Date.now() / 1000 };
}

/** @typedef {{applications: import("../types.js").Application[], next: string | null, at: number}} Page */

/** @param {Page} data */
function foundText({ applications, next }) {
  return `${next ? "more than " : ""}${counted(applications.length, "application")}`;
}

/**
 * @param {import("../types.js").Route} route
 * @param {Page} data
 */
export function show(route, data) {
  const { after, ...query } = route.query;
  const isFiltered = FILTERS.some((name) => query[name]);
  const to = (/** @type {string} */ text, /** @type {string | undefined} */ from, /** @type {boolean} */ can) =>
    can ? h("a", { href: link(route.partition, "applications", "", { ...query, after: from }) }, text) : h("span", { class: "quiet" }, text);
  return [
    h(
      "div",
      { class: "tools" },
      addressField(route, "search", "Find"),
      addressField(route, "user", "User"),
      addressField(route, "queue", "Queue"),
      query.group && addressField(route, "group", "Group"),
      addressChoice(route, "state", "State", STATES),
      addressChoice(route, "older_than", "Age", AGES),
      isFiltered && h("span", { class: "quiet" }, foundText(data), " ", h("a", { href: link(route.partition, "applications") }, "Show all")),
    ),
    data.applications.length ? applicationTable(route.partition, data.applications, route, data.at) : emptyNote(isFiltered ? "No application matches." : "There is no application."),
    (after || data.next) && h("nav", { class: "pages", "aria-label": "Pages" }, to("First page", undefined, Boolean(after)), to("Next", data.next ?? "", Boolean(data.next))),
  ];
}

/**
 * @param {string} partition
 * @param {import("../types.js").Application[]} found
 * @param {import("../types.js").Route} [route] of the list, if it is not a part of a detail
 * @param {number} [now]
 */
export function applicationTable(partition, found, route, now = Date.now() / 1000) {
  const heads = /** @type {import("../parts/tables.js").Head[]} */ (["Application", "User", "Queue", ["State", "minor"], ["Age", "minor age"], "Usage", ["Pending", "minor number"]]);
  return table(
    "Applications",
    heads,
    found.map((one) => {
      const isShown = route?.name === one.application_id;
      return h(
        "tr",
        { key: one.application_id, class: isShown ? "shown" : null },
        h("th", { scope: "row" }, h("a", { href: link(partition, "applications", one.application_id, route?.query), ...CLIP, title: one.application_id, "aria-current": isShown ? "true" : null }, one.application_id)),
        cell("User", nameLink(partition, "users", one.user.name, CLIP)),
        cell("Queue", queueLink(partition, one.queue_path), LONG),
        cell("State", one.state, MINOR),
        cell("Age", ageText(one.submitted_at, now), MINOR),
        cell("Usage", amountsText(one.usage), LONG),
        cell("Pending", one.pending ? count(one.pending) : "–", { class: "minor number" }),
      );
    }),
    route ? "list applications wide" : "applications wide",
  );
}

/**
 * @param {number | null} at when something was submitted or requested
 * @param {number} now
 */
export function ageText(at, now) {
  if (at === null) return h("span", { class: "quiet", title: "before the history of the server began" }, "longer");
  return now - at < 1 ? "<1 s" : duration(now - at);
}

/** @param {import("../types.js").Route} route */
export async function loadDetail({ partition, name }) {
  const found = await orNull(get(path(partition, "application", name)));
  return found?.allocations ? { ...found, held: await get(path(partition, "allocations"), { application: name, limit: PAGE }) } : found;
}

/**
 * @param {import("../types.js").Route} route
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
      nameLink(partition, "users", data.user.name),
      data.group && [", charged to ", nameLink(partition, "groups", data.group)],
      ", in ",
      queueLink(partition, data.queue_path),
      data.allocations ? `. It uses ${amountsText(data.usage)} in ${counted(data.allocations, "allocation")}.` : ". It uses nothing.",
    ),
    data.waiting.length > 0 && [
      h("h3", null, data.waiting.length < data.pending ? `Why the first ${data.waiting.length} of ${data.pending} wait` : "Why it waits"),
      data.waiting.map((/** @type {any} */ one) => waiting(partition, one)),
    ],
    chain(partition, "Every limit that applies", data.limits, requested(data.waiting.flatMap((/** @type {any} */ one) => one.explanation.violations))),
    data.held && [h("h3", null, "Allocations"), allocations(partition, data.held.allocations)],
    data.headroom && h("p", null, "One more allocation may take ", h("strong", null, amountsText(data.headroom)), "."),
  ];
}

/**
 * @param {string} partition
 * @param {any} one
 */
function waiting(partition, one) {
  const { allocation, explanation } = one;
  const label = allocation.label ? ` (${allocation.label})` : "";
  const request = `${allocation.allocation_id}${label} requests ${amountsText(allocation.usage)}`;
  if (explanation.allowed) return h("p", { key: allocation.allocation_id }, `${request}: it would be granted now.`);
  return h(
    "div",
    { key: allocation.allocation_id },
    h("p", null, `${request}. `, explanation.can_wait ? "Waiting can help." : "Waiting cannot help."),
    reasons(partition, explanation.violations),
  );
}
