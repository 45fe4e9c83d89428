/**
 * The view of preemption: which allocations could be evicted for a pending request, what protects the others, and the
 * plans that are being carried out. It plans only, and evicts nothing.
 *
 * @typedef {{queue_path: string, resource: string, used: Amount, guaranteed: Amount, after: Amount}} Use
 * @typedef {{allocation_id: string, application_id: string, queue_path: string, usage: Amounts,
 *   priority: number, exceeds: Use[], entitled_by: Use[]}} Victim
 * @typedef {{outcome: string, due: number | null, victims: Victim[], by_model: Victim[], others: Record<string, string>,
 *   missing: {queue_path: string, resource: string, amount: Amount}[], is_optimal: boolean,
 *   decision: {violations: Violation[]} | null}} Plan
 * @typedef {{allocation_id: string, application_id: string, user: string | null, queue_path: string | null,
 *   usage: Amounts, node: string | null}} Owned
 * @typedef {{terminating: Owned[], placed: Owned[], timers: {queue_path: string, since: number, due: number}[]}} Status
 * @typedef {{status: Status, waiting: import("./waiting.js").WaitingWork}} Preemption
 * @typedef {{request: import("./waiting.js").Request, plan: Plan, at: number}} Planned
 */

import { get, orNull, path, post } from "../base/api.js";
import { h, refresh } from "../base/dom.js";
import { amountsText, amountText, counted, momentText, withUnit } from "../base/format.js";
import { route } from "../base/route.js";
import { reasons } from "../parts/limits.js";
import { addressField, clipped, detailLink, list, more, nameLink, pageOf, QUEUE, queueLink, table, USER } from "../parts/lists.js";

/** Names in a list. */
const LISTED = 20;

const OUTCOMES = new Map(Object.entries({
  fits: "It fits now: nothing has to be evicted.",
  awaits_terminating: "It fits as soon as terminating allocations are released.",
  blocked: "Evictions cannot help: the request is denied by a limit that they cannot relieve.",
  never: "Evictions cannot help: the request alone exceeds a maximum.",
  must_not_preempt: "It must not preempt.",
  early: "It has not waited long enough: the delay of its queue has not passed.",
  plan: "It would fit without these allocations:",
  none: "No permitted set of evictions makes room.",
}));
/** What protects an allocation; the keys are those of the server. */
const LAWS = new Map(Object.entries({
  terminating: "already terminating",
  other_node: "not on the node of the plan",
  not_preemptible: "not preemptible",
  disabled: "the policy of the queue is disabled",
  fence: "outside a fence of the request",
  same_application: "of the same application as the request",
  same_queue: "in the queue of the request",
  priority: "the priority is too high",
  frees_nothing: "frees nothing of what is missing",
  not_entitled: "no guarantee entitles the request to its resources",
  guarantee: "a queue would fall below its guarantee",
  not_needed: "nothing protects them, but other victims cost less or no plan exists",
}));

/** The last plan. A plan is made once, and again only if the reader requests it. */
const known = { address: "", /** @type {{plan: Plan, at: number} | null} */ found: null };

/** @type {View<Preemption, Planned>} */
export const preemption = {
  title: "Preemption",
  topic: "users",
  async load() {
    const [status, waiting] = await Promise.all([get(path("preemption")), get(path("waiting"), { search: route.query.search, ...pageOf() })]);
    return { status, waiting };
  },
  show,
  detail: { noun: "Request", missing: (name) => `There is no pending request ${name} now.`, load: loadDetail, show: showDetail },
};

/** @param {Preemption} data */
function show({ status, waiting: { requests = [], total } }) {
  return [
    list([addressField("search", "Find a pending request")], { noun: "pending request", note: counted(total, "request"), total, rows: () => requestTable(requests), none: "Nothing waits now, so nothing could be preempted." }),
    status.terminating.length > 0 && [h("h3", `${counted(status.terminating.length, "allocation")} terminating`), allocations(status.terminating)],
    status.placed.length > 0 && [h("h3", "Requests for which a plan has reserved capacity"), allocations(status.placed)],
    status.timers.length > 0 && [h("h3", "Queues above a lowered maximum"), h("ul.plain", status.timers.map((one) => h("li", { key: one.queue_path }, queueLink(one.queue_path), ` since ${momentText(one.since)}; reduced from ${momentText(one.due)} on`)))],
  ];
}

/** @param {import("./waiting.js").Request[]} found */
function requestTable(found) {
  return table("Pending requests", found, [
    { name: "Request", show: (one) => detailLink(one.allocation_id) },
    { ...USER, style: "minor" },
    QUEUE,
    { name: "Requested", style: "long", show: ({ usage }) => amountsText(usage) },
  ], { style: "list wide", key: (one) => one.allocation_id });
}

/** @param {Owned[]} found */
export function allocations(found) {
  const line = (/** @type {Owned} */ one) => h("li", { key: one.allocation_id }, allocation(one), `: ${amountsText(one.usage)}`, one.node && ` on ${one.node}`);
  return [h("ul.plain", found.slice(0, LISTED).map(line)), more(found.length - LISTED)];
}

/** @param {{allocation_id: string, application_id: string}} one */
function allocation(one) {
  return [clipped(one.allocation_id, "name-link"), " of ", nameLink("applications", one.application_id)];
}

/** @returns {Promise<Planned | null>} */
async function loadDetail() {
  const { name } = route;
  // Before the reader can choose another partition.
  const [address, planning] = [path("preemption", name), path("plan_preemption")];
  /** @type {import("./waiting.js").WaitingWork | null} */
  const waiting = await orNull(get(path("waiting"), { search: name, sort: "name", limit: 1000 }));
  const request = waiting?.requests?.find((one) => one.allocation_id === name);
  if (!request) return null;
  /** @type {{plan: Plan, at: number} | null} */
  let found = address === known.address ? known.found : null;
  if (!found) {
    const { application_id, usage, priority, requested_at } = request;
    const plan = await post(planning, { application_id, allocation_id: name, usage, priority, since: Math.floor(requested_at ?? 0) });
    found = { plan, at: Date.now() / 1000 };
    Object.assign(known, { address, found });
  }
  return { request, ...found };
}

/** @param {Planned} data */
function showDetail({ request, plan, at }) {
  const victims = [...plan.victims, ...plan.by_model];
  const again = () => {
    known.found = null;
    refresh();
  };
  return [
    h("p", nameLink("applications", request.application_id), " in ", queueLink(request.queue_path), ` requests ${amountsText(request.usage)}.`),
    h("div.tools", h("span.quiet", `Planned ${momentText(at)}; nothing is evicted.`), h("button", { type: "button", on: { click: again } }, "Plan again")),
    h("p", h("strong", OUTCOMES.get(plan.outcome) ?? plan.outcome), plan.due !== null && ` It may preempt from ${momentText(plan.due)} on.`),
    victims.length > 0 && h("ul.reasons", victims.map(victim)),
    victims.length > 0 && !plan.is_optimal && h("p.quiet", "The search was bounded: another set of victims may cost less."),
    plan.decision && reasons(plan.decision.violations),
    plan.missing.length > 0 && [h("h3", "What is missing"), h("ul.reasons", plan.missing.map((one) => h("li", { key: `${one.queue_path} ${one.resource}` }, queueLink(one.queue_path), `: ${withUnit(one.resource, one.amount)}`)))],
    others(plan.others),
  ];
}

/** @param {Victim} one */
function victim(one) {
  const use = (/** @type {string} */ verb, /** @type {Use} */ found) => h("div.quiet", { key: `${verb} ${found.queue_path} ${found.resource}` }, queueLink(found.queue_path), ` ${verb} ${amountText(found.resource, found.after)} of ${withUnit(found.resource, found.guaranteed)} guaranteed`);
  return h("li", { key: one.allocation_id },
    allocation(one),
    " in ",
    queueLink(one.queue_path),
    `: ${amountsText(one.usage)}`,
    one.priority !== 0 && `, priority ${one.priority}`,
    one.exceeds.map((found) => use("would keep", found)),
    one.entitled_by.map((found) => use("would have", found)),
  );
}

/** Describe what protects the other allocations, by reason. */
/** @param {Record<string, string>} found */
function others(found) {
  const line = (/** @type {string} */ law) => {
    const names = Object.keys(found).filter((name) => found[name] === law);
    const first = names.slice(0, LISTED).map((name, index) => [index > 0 && ", ", clipped(name, "name-link")]);
    return h("li", { key: law }, `${counted(names.length, "allocation")}: ${LAWS.get(law) ?? law}`, h("div.quiet", first, more(names.length - LISTED)));
  };
  const laws = [...new Set(Object.values(found))];
  return laws.length > 0 && [h("h3", "What protects the others"), h("ul.reasons", laws.map(line))];
}
