/**
 * The usage of one object over time: a plot with its present limit in the last hour, day or week. The text next to it has
 * the newest and the largest value, and that of a time which the reader enters; the CSV file has all values.
 *
 * @typedef {{kind: "queue" | "user" | "group" | "tree_node", name: string, tree?: string}} Subject
 * @typedef {{step: number, as_of: number, times: number[], usage: Record<string, (Amount | null)[]>, limits: Record<string, Amount>}} Samples
 * @typedef {{subject: Subject, samples: Samples | null}} Found
 */

import { getRecent, orNull, path } from "../base/api.js";
import { h, refresh } from "../base/dom.js";
import { amountText, clock, exactText, momentText, resourceName, shareOf, sortedNames } from "../base/format.js";
import { remembered } from "../base/route.js";
import { choice } from "./lists.js";

/** The ranges, and their length in seconds. */
const RANGES = /** @type {[[string, number], ...[string, number][]]} */ ([["hour", 3600], ["day", 86_400], ["week", 604_800]]);
/** The number of times that a range is loaded again in its length. */
const STEPS = 60;
/** The size of a drawing in its own units; it is stretched to its place. */
const WIDTH = 1000;
const HEIGHT = 200;
/** The largest limit, in multiples of the largest value, that determines the scale. */
const MOST_HEADROOM = 4;

const chosenRange = remembered("history range", "hour", refresh);
const chosenResource = remembered("history of", "");

/** The time whose value the reader has requested, as in a field: 2026-11-28T15:00; empty for none. */
let chosenTime = "";

/**
 * Load the usage of a subject. There is none without a store.
 * @param {Subject} subject
 * @returns {Promise<Found>}
 */
export async function loadHistory(subject) {
  const [range, seconds] = timeRange();
  const samples = await orNull(getRecent(seconds / STEPS, path("usage_history"), { ...subject, range }));
  return { subject, samples };
}

/** Return the name of the chosen range, and its length. */
function timeRange() {
  return RANGES.find(([name]) => name === chosenRange.get()) ?? RANGES[0];
}

/** Describe the section of a detail. */
/** @param {Found} found */
export function historySection({ subject, samples }) {
  const resources = sortedNames(Object.keys(samples?.usage ?? {}));
  const chosen = resources.find((one) => one === chosenResource.get()) ?? scarcest(samples, resources);
  const [range] = timeRange();
  const button = (/** @type {string} */ name) => h("button", { type: "button", key: name, "aria-pressed": String(name === range), on: { click: () => chosenRange.set(name) } }, `Last ${name}`);
  return h("section.history", { id: "history", "aria-labelledby": "history-heading" },
    h("div.tools",
      h("h3", { id: "history-heading" }, "History"),
      h("div.buttons", { role: "group", "aria-label": "Time range" }, RANGES.map(([name]) => button(name))),
      resources.length > 1 && choice("Of", resources.map((one) => [one, resourceName(one)]), chosen, chosenResource.set),
      samples && h("label.field", "At", h("input", { type: "datetime-local", value: chosenTime, on: { change: chooseTime } })),
      samples && h("a", { href: csvOf(samples), download: `${subject.name} ${range}.csv` }, "CSV"),
    ),
    samples && chosen ? plot(samples, chosen) : h("p.quiet", samples ? "No usage in this time range." : "The usage over time is known only for partitions with a store."),
  );
}

/** @param {Samples} samples @returns {string} the address of a file with all values, which are in base units */
function csvOf({ times, usage }) {
  const unit = (/** @type {string} */ name) => (name === "vcore" ? "millicores" : name === "memory" ? "bytes" : "units");
  const time = (/** @type {number} */ index) => new Date((times[index] ?? 0) * 1000).toISOString();
  const rows = Object.entries(usage).flatMap(([name, values]) => values.map((value, index) => [time(index), `"${name.replaceAll('"', '""')}"`, unit(name), value]));
  return `data:text/csv,${encodeURIComponent([["time", "resource", "unit", "usage"], ...rows].join("\n"))}`;
}

/** Show the value of a time, in the shortest range that contains it. */
/** @param {Event} event */
function chooseTime({ target }) {
  chosenTime = /** @type {HTMLInputElement} */ (target).value;
  const age = (Date.now() - Date.parse(chosenTime)) / 1000;
  const [range] = RANGES.find(([, seconds]) => age < seconds) ?? timeRange();
  chosenRange.set(range);
}

/** Describe the value of the time that the reader has entered. */
/** @param {Samples} samples @param {string} resource */
function valueThen({ times, usage }, resource) {
  const seconds = Date.parse(chosenTime) / 1000;
  const value = usage[resource]?.[times.filter((time) => time <= seconds).length - 1];
  const isKnown = value !== undefined && value !== null && seconds <= Date.now() / 1000;
  return h("p.readout", { key: "then" }, `${momentText(seconds)}: `, isKnown ? `${exactText(resource, value)} used` : "not known");
}

/** Return the resource with the largest used share of its limit now. */
/** @param {Samples | null} samples @param {string[]} resources */
function scarcest(samples, resources) {
  const share = (/** @type {string} */ name) => {
    const [used, limit] = [samples?.usage[name]?.at(-1), samples?.limits[name]];
    return used && limit ? shareOf(used, limit) : 0;
  };
  return resources.reduce((best, name) => (share(name) > share(best) ? name : best), resources[0] ?? "");
}

/** Describe the plot of one resource. A limit above the scale is left out, because at the upper edge it would look smaller. */
/** @param {Samples} samples @param {string} resource */
function plot(samples, resource) {
  const [end, values, limit] = [samples.as_of, samples.usage[resource] ?? [], samples.limits[resource]];
  const [range, length] = timeRange();
  const begin = end - length;
  const largest = values.reduce((/** @type {Amount} */ most, value) => (value !== null && value > most ? value : most), 0);
  const isAbove = limit !== undefined && Number(largest) > 0 && Number(limit) > MOST_HEADROOM * Number(largest);
  const most = (limit === undefined || isAbove ? Number(largest) : Math.max(Number(largest), Number(limit))) || 1;
  const x = (/** @type {number} */ time) => Math.round(((Math.max(time, begin) - begin) / (end - begin)) * WIDTH);
  const y = (/** @type {Amount} */ value) => Math.round(HEIGHT - 1 - (Number(value) / most) * (HEIGHT - 2));
  const steps = values.map((value, index) => ({ value, isFirst: (values[index - 1] ?? null) === null, from: x(samples.times[index] ?? end), to: x(samples.times[index + 1] ?? end) }));
  const known = steps.flatMap(({ value, ...step }) => (value === null ? [] : { ...step, top: y(value) }));
  const time = (/** @type {number} */ seconds) => (range === "hour" ? clock(seconds) : momentText(seconds));
  const newest = values.at(-1) ?? 0;
  return [
    h("div.axis", { "aria-hidden": "true" }, amountText(resource, Math.ceil(most))),
    h("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false" },
      h("path.area", { d: known.map(({ from, to, top }) => `M${from} ${HEIGHT}V${top}H${to}V${HEIGHT}`).join("") }),
      h("path.used", { d: known.map(({ isFirst, from, to, top }) => `${isFirst ? "M" : "L"}${from} ${top}H${to}`).join("") }),
      limit !== undefined && !isAbove && h("path.limit", { d: `M0 ${y(limit)}H${WIDTH}` }),
    ),
    h("div.axis", { "aria-hidden": "true" }, h("span", time(begin)), h("span", time(end))),
    h("p.readout", `${exactText(resource, newest)} in the newest step, at most ${exactText(resource, largest)}${limit === undefined ? "" : `; limit now ${exactText(resource, limit)}`}`),
    chosenTime && valueThen(samples, resource),
    h("ul.legend", h("li.used", "Used"), limit !== undefined && h("li.limit", "Limit now", isAbove && " (above the plot)")),
  ];
}
