/**
 * The view of applications, one page at a time, and the detail of one: its limits, and why its allocations are pending.
 *
 * @typedef {{applications: Application[], next: string | null, at: number}} ApplicationPage
 */

import { get, orNull, path } from "../base/api.js";
import { h } from "../base/dom.js";
import { amountsText, count, counted, duration } from "../base/format.js";
import { link, route } from "../base/route.js";
import { loadHistory } from "../parts/history.js";
import { chain, reasons, requested } from "../parts/limits.js";
import { addressChoice, addressField, AGES, CLIP, detailLink, filters, list, nameLink, PAGE, pageNavigation, QUEUE, queueLink, table, USER } from "../parts/lists.js";
import { allocations } from "./preemption.js";

const STATES = /** @type {[string, string][]} */ ([["", "any"], ...["new", "accepted", "running", "completing", "failing"].map((state) => [state, state])]);

/** The number of applications in the detail of another object. */
const LISTED = 10;

/** @type {View<ApplicationPage, any>} */
export const applications = {
  title: "Applications",
  topic: "users",
  async load() {
    const { search, user, queue, group, state, older_than, after } = route.query;
    const data = await get(path("applications"), { search, user, queue, group, state, older_than, after, limit: PAGE });
    return { ...data, at: Date.now() / 1000 };
  },
  show({ applications: found, next, at }) {
    const { after, group } = route.query;
    const text = `${next ? "more than " : ""}${counted(found.length, "application")}`;
    const tools = [addressField("search", "Find"), addressField("user", "User"), addressField("queue", "Queue"), group && addressField("group", "Group"), addressChoice("state", "State", STATES), addressChoice("older_than", "Age", AGES)];
    return list(tools, {
      noun: "application",
      note: filters().length > 0 && [text, " ", h("a", { href: link("applications") }, "Show all")],
      total: found.length,
      rows: () => applicationTable(found, at),
      none: "There is no application.",
      text,
      pages: (after || next) && pageNavigation([["First page", after ? { after: "" } : null], ["Next", next ? { after: next } : null]]),
    });
  },
  detail: {
    noun: "Application",
    async load() {
      const { name } = route;
      const found = await orNull(get(path("application", name)));
      return found?.allocations ? { ...found, held: await get(path("allocations"), { application: name, limit: PAGE }) } : found;
    },
    show: showDetail,
  },
};

/** Describe applications: the list of the view, or a table in a detail. */
/** @param {Application[]} found @param {number} [now] */
function applicationTable(found, now = Date.now() / 1000) {
  const isList = route.view === "applications";
  return table("Applications", found, [
    { name: "Application", width: "19%", show: ({ application_id: name }) => (isList ? detailLink(name) : nameLink("applications", name, CLIP)) },
    { ...USER, show: ({ user }) => USER.show({ user: user.name }) },
    { ...QUEUE, width: "19%" },
    { name: "State", style: "minor", show: ({ state }) => state },
    { name: "Age", style: "minor", width: "5rem", show: ({ submitted_at: at }) => ageText(at === null ? null : now - at) },
    { name: "Usage", style: "long", width: "20%", show: ({ usage }) => amountsText(usage) },
    { name: "Pending", style: "minor number", show: ({ pending }) => (pending ? count(pending) : "–") },
  ], { style: isList ? "list applications wide" : "applications wide", key: (one) => one.application_id });
}

/**
 * Load the first applications of a queue, user or group, and its usage over time.
 * @param {"queue" | "user" | "group"} kind @param {string} name
 * @returns {Promise<{applications: Application[], more: boolean, samples: import("../parts/history.js").Found}>}
 */
export async function loadWork(kind, name) {
  const [page, samples] = await Promise.all([get(path("applications"), { [kind]: name, limit: LISTED }), loadHistory({ kind, name })]);
  return { applications: page.applications, more: page.next !== null, samples };
}

/**
 * Describe the first applications of an object, with a link to all of them.
 * @param {{applications: Application[], more: boolean}} data
 * @param {Record<string, string>} query the filter of the link
 */
export function applicationsOf({ applications, more }, query) {
  return applications.length > 0 && [applicationTable(applications), more && h("p", h("a", { href: link("applications", "", query) }, "All applications"))];
}

/** @param {number | null} age of what was submitted or requested, in seconds */
export function ageText(age) {
  if (age === null) return h("span.quiet", { title: "before the history of the server began" }, "longer");
  return age < 1 ? "<1 s" : duration(age);
}

/** @param {any} data */
function showDetail(data) {
  return [
    h("p",
      `${data.state[0].toUpperCase()}${data.state.slice(1).toLowerCase()}, of `,
      nameLink("users", data.user.name),
      data.group && [", charged to ", nameLink("groups", data.group)],
      ", in ",
      queueLink(data.queue_path),
      data.allocations ? `. It uses ${amountsText(data.usage)} in ${counted(data.allocations, "allocation")}.` : ". It uses nothing.",
    ),
    data.waiting.length > 0 && [h("h3", data.waiting.length < data.pending ? `Why the first ${data.waiting.length} of ${data.pending} wait` : "Why it waits"), data.waiting.map(waiting)],
    chain("Every limit that applies", data.limits, requested(data.waiting.flatMap((/** @type {any} */ one) => one.explanation.violations))),
    data.held && [h("h3", "Allocations"), allocations(data.held.allocations)],
    data.headroom && h("p", "One more allocation may take ", h("strong", amountsText(data.headroom)), "."),
  ];
}

/** @param {any} one */
function waiting({ allocation, explanation }) {
  const label = allocation.label ? ` (${allocation.label})` : "";
  const request = `${allocation.allocation_id}${label} requests ${amountsText(allocation.usage)}`;
  if (explanation.allowed) return h("p", { key: allocation.allocation_id }, `${request}: it would be granted now.`);
  return h("div", { key: allocation.allocation_id }, h("p", `${request}. `, explanation.can_wait ? "Waiting can help." : "Waiting cannot help."), reasons(explanation.violations));
}
