/**
 * The usage of one object over time: a plot with its present limit in the last hour, day or week. The text next to it has
 * the newest and the largest value, and that of a time which the reader enters; the CSV file has all values.
 *
 * @typedef {{kind: "queue" | "user" | "group" | "tree_node", name: string, tree?: string}} Subject
 * @typedef {{step: number, as_of: number, times: number[], usage: Record<string, (Amount | null)[]>, limits: Record<string, Amount>}} Samples
 * @typedef {{subject: Subject, samples: Samples | null}} Found
 */

import { get, orNull, path } from "../base/api.js";
import { h, refresh } from "../base/dom.js";
import { amountText, clock, exactText, momentText, resourceName, shareOf, sortedNames } from "../base/format.js";
import { remembered } from "../base/settings.js";
import { choice } from "./lists.js";

/** The ranges, and their length in seconds. */
const RANGES = new Map([["hour", 3600], ["day", 86_400], ["week", 604_800]]);
/** The size of a drawing in its own units; it is stretched to its place. */
const WIDTH = 1000;
const HEIGHT = 200;
/** The largest limit, in multiples of the largest value, that determines the scale. */
const MOST_HEADROOM = 4;

const chosenRange = remembered("history range", "hour", refresh);
const chosenResource = remembered("history of", "");

/** The time whose value the reader has requested, as in a field: 2026-11-28T15:00; empty for none. */
let chosenTime = "";

/** The last answer, which is used until the next step. */
const known = { address: "", until: 0, /** @type {Samples | null} */ samples: null };

/**
 * Load the usage of a subject. There is none without a store.
 *
 * @param {Subject} subject
 * @returns {Promise<Found>}
 */
export async function loadHistory(subject) {
  const query = { ...subject, range: rangeName() };
  const address = JSON.stringify([path("usage_history"), query]);
  if (address !== known.address || Date.now() >= known.until) {
    const samples = await orNull(get(path("usage_history"), query));
    Object.assign(known, { address, samples, until: Date.now() + (samples?.step ?? 15) * 1000 });
  }
  return { subject, samples: known.samples };
}

function rangeName() {
  return RANGES.has(chosenRange.get()) ? chosenRange.get() : "hour";
}

/**
 * Describe the section of a detail.
 *
 * @param {Found} found
 */
export function historySection({ subject, samples }) {
  const resources = sortedNames(Object.keys(samples?.usage ?? {}));
  const chosen = resources.find((one) => one === chosenResource.get()) ?? scarcest(samples, resources);
  const button = (/** @type {string} */ name) => h("button", { type: "button", key: name, "aria-pressed": String(name === rangeName()), on: { click: () => chosenRange.set(name) } }, `Last ${name}`);
  const csv = `api/v1/${path("usage_history.csv")}?${new URLSearchParams({ ...subject, range: rangeName() })}`;
  return h(
    "section",
    { id: "history", class: "history", "aria-labelledby": "history-heading" },
    h(
      "div",
      { class: "tools" },
      h("h3", { id: "history-heading" }, "History"),
      h("div", { role: "group", "aria-label": "Time range", class: "buttons" }, [...RANGES.keys()].map(button)),
      resources.length > 1 && choice("Of", resources.map((one) => [one, resourceName(one)]), chosen, chosenResource.set),
      samples && h("label", { class: "field" }, "At", h("input", { type: "datetime-local", value: chosenTime, on: { change: chooseTime } })),
      samples && h("a", { href: csv, download: "" }, "CSV"),
    ),
    samples && chosen ? plot(samples, chosen) : h("p", { class: "quiet" }, samples ? "No usage in this time range." : "The usage over time is known only for partitions with a store."),
  );
}

/**
 * Show the value of a time, in the shortest range that contains it.
 *
 * @param {Event} event
 */
function chooseTime({ target }) {
  chosenTime = /** @type {HTMLInputElement} */ (target).value;
  const age = (Date.now() - Date.parse(chosenTime)) / 1000;
  const range = [...RANGES].find(([, seconds]) => age < seconds);
  chosenRange.set(range?.[0] ?? rangeName());
}

/**
 * Describe the value of the time that the reader has entered.
 *
 * @param {Samples} samples
 * @param {string} resource
 */
function valueThen({ times, usage }, resource) {
  const seconds = Date.parse(chosenTime) / 1000;
  const value = usage[resource]?.[times.filter((time) => time <= seconds).length - 1];
  const isKnown = value !== undefined && value !== null && seconds <= Date.now() / 1000;
  return h("p", { class: "readout", key: "then" }, `${momentText(seconds)}: `, isKnown ? `${exactText(resource, value)} used` : "not known");
}

/**
 * Return the resource with the largest used share of its limit now.
 *
 * @param {Samples | null} samples
 * @param {string[]} resources
 */
function scarcest(samples, resources) {
  const share = (/** @type {string} */ name) => {
    const [used, limit] = [samples?.usage[name]?.at(-1), samples?.limits[name]];
    return used && limit ? shareOf(used, limit) : 0;
  };
  return resources.reduce((best, name) => (share(name) > share(best) ? name : best), resources[0] ?? "");
}

/**
 * Describe the plot of one resource. A limit above the scale is left out, because at the upper edge it would look smaller.
 *
 * @param {Samples} samples
 * @param {string} resource
 */
function plot(samples, resource) {
  const [end, values, limit] = [samples.as_of, samples.usage[resource] ?? [], samples.limits[resource]];
  const begin = end - (RANGES.get(rangeName()) ?? 0);
  const largest = values.reduce((/** @type {Amount} */ most, value) => (value !== null && value > most ? value : most), 0);
  const isAbove = limit !== undefined && Number(largest) > 0 && Number(limit) > MOST_HEADROOM * Number(largest);
  const most = (limit === undefined || isAbove ? Number(largest) : Math.max(Number(largest), Number(limit))) || 1;
  const x = (/** @type {number} */ time) => Math.round(((Math.max(time, begin) - begin) / (end - begin)) * WIDTH);
  const y = (/** @type {Amount} */ value) => Math.round(HEIGHT - 1 - (Number(value) / most) * (HEIGHT - 2));
  const lines = parts(samples.times, values).map((part) => part.map(([time, value]) => `${x(time)} ${y(value)}`).join("L"));
  const areas = parts(samples.times, values).map((part, index) => `M${x(part[0]?.[0] ?? 0)} ${HEIGHT}L${lines[index]}L${x(part.at(-1)?.[0] ?? 0)} ${HEIGHT}Z`);
  const time = (/** @type {number} */ seconds) => (rangeName() === "hour" ? clock(seconds) : momentText(seconds));
  const newest = values.at(-1) ?? 0;
  return [
    h("div", { class: "axis", "aria-hidden": "true" }, amountText(resource, Math.ceil(most))),
    h(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false" },
      h("path", { class: "area", d: areas.join("") }),
      h("path", { class: "used", d: lines.map((line) => `M${line}h1`).join("") }),
      limit !== undefined && !isAbove && h("path", { class: "limit", d: `M0 ${y(limit)}H${WIDTH}` }),
    ),
    h("div", { class: "axis", "aria-hidden": "true" }, h("span", null, time(begin)), h("span", null, time(end))),
    h("p", { class: "readout" }, `${exactText(resource, newest)} in the newest step, at most ${exactText(resource, largest)}${limit === undefined ? "" : `; limit now ${exactText(resource, limit)}`}`),
    chosenTime && valueThen(samples, resource),
    h("ul", { class: "legend" }, h("li", { class: "used" }, "Used"), limit !== undefined && h("li", { class: "limit" }, "Limit now", isAbove && " (above the plot)")),
  ];
}

/**
 * Return the times and values between gaps of unknown values.
 *
 * @param {number[]} times
 * @param {(Amount | null)[]} values
 */
function parts(times, values) {
  /** @type {[number, Amount][][]} */
  const found = [];
  let isOpen = false;
  values.forEach((value, index) => {
    if (value !== null && !isOpen) found.push([]);
    if (value !== null) found.at(-1)?.push([times[index] ?? 0, value]);
    isOpen = value !== null;
  });
  return found;
}
