/**
 * The usage of one object over time: a plot with its limits in the last hour, day or week, and the exact values.
 *
 * @typedef {{kind: "queue" | "user" | "group" | "tree_node", name: string, tree?: string}} Subject
 * @typedef {{kind: string, name: string, range: string, step: number, as_of: number, times: number[],
 *   amounts: Record<string, Record<string, import("./plot.js").Value[]>>,
 *   counts: Record<string, import("./plot.js").Value[]>}} UsageHistory
 * @typedef {{partition: string, subject: Subject, samples: UsageHistory | null}} Found
 */

import { get, orNull, path } from "./api.js";
import { draw, h } from "./dom.js";
import { amountText, clock, count, exactText, momentText, resourceName, shareOf, sortedNames } from "./format.js";
import { drawing, isAbove, scaleOf } from "./plot.js";
import { remembered } from "./settings.js";
import { table } from "./tables.js";

/** The ranges, and their length in seconds. */
const RANGES = /** @type {const} */ ({ hour: 3600, day: 86_400, week: 604_800 });
/** The measures of a resource, in the order of the table; the names are those of the server. */
const MEASURES = /** @type {const} */ ({ usage: ["Used", "used"], pending: ["Pending", "pending"], limit: ["Limit", "limit"], guaranteed: ["Guaranteed", "guaranteed"], minimum: ["Minimum", "minimum"], runtime: ["Runtime", "runtime"] });
/** The counts that are plotted, and their limits. */
const COUNTS = /** @type {const} */ ({ running_applications: ["Running applications", "application_limit"], pending_allocations: ["Pending allocations", ""], denials: ["Denials", ""] });
/** Samples that Page Up and Page Down skip. */
const JUMP = 20;

const chosenRange = remembered("history range", "hour");
const chosenMeasure = remembered("history of", "");

/** The last answer, which is used until the next sample. */
const known = { address: "", until: 0, /** @type {UsageHistory | null} */ samples: null };
/** The sample at the pointer, -1 for the newest, and whether the table is open. */
const reading = { cursor: -1, isOpen: false, address: "" };

/**
 * Load the samples of a subject.
 *
 * @param {string} partition
 * @param {Subject} subject
 * @returns {Promise<Found>}
 */
export async function loadHistory(partition, subject) {
  const query = { ...subject, range: rangeName() };
  const address = JSON.stringify([partition, query]);
  if (address !== known.address || Date.now() >= known.until) {
    const samples = await orNull(get(path(partition, "usage_history"), query));
    Object.assign(known, { address, samples, until: Date.now() + (samples?.step ?? 15) * 1000 });
  }
  return { partition, subject, samples: known.samples };
}

/** @returns {keyof typeof RANGES} */
function rangeName() {
  const name = chosenRange.get();
  return Object.hasOwn(RANGES, name) ? /** @type {keyof typeof RANGES} */ (name) : "hour";
}

/**
 * Describe the section of a detail.
 *
 * @param {Found} found
 */
export function historySection(found) {
  const address = JSON.stringify([found.partition, found.subject, rangeName()]);
  if (reading.address !== address) Object.assign(reading, { address, cursor: -1 });
  return h("section", { id: "history", class: "history", "aria-labelledby": "history-heading" }, content(found));
}

/** @param {Found} found */
function content(found) {
  const { samples } = found;
  const measures = samples ? measuresOf(samples) : [];
  const chosen = measures.find((one) => one === chosenMeasure.get()) ?? scarcest(samples, measures);
  const redraw = () => draw(/** @type {HTMLElement} */ (document.getElementById("history")), content(found));
  return [
    h(
      "div",
      { class: "tools" },
      h("h3", { id: "history-heading" }, "History"),
      h("div", { role: "group", "aria-label": "Time range", class: "buttons" }, Object.keys(RANGES).map((name) => rangeButton(name))),
      measures.length > 1 && measureField(measures, chosen, redraw),
      samples && h("a", { href: csvAddress(found), download: "" }, "CSV"),
    ),
    samples?.times.length && chosen ? plotOf(samples, chosen, redraw) : h("p", { class: "quiet" }, "No samples of this time range yet."),
  ];
}

/** @param {string} name */
function rangeButton(name) {
  const click = () => {
    chosenRange.set(name);
    window.dispatchEvent(new Event("refresh"));
  };
  return h("button", { type: "button", key: name, "aria-pressed": String(name === rangeName()), on: { click } }, `Last ${name}`);
}

/**
 * @param {string[]} measures
 * @param {string} chosen
 * @param {() => void} redraw
 */
function measureField(measures, chosen, redraw) {
  const change = (/** @type {Event} */ event) => {
    chosenMeasure.set(/** @type {HTMLSelectElement} */ (event.target).value);
    redraw();
  };
  return h("label", { class: "field" }, "Of", h("select", { on: { change }, value: chosen }, measures.map((one) => h("option", { key: one, value: one, selected: one === chosen }, measureName(one)))));
}

/** @param {Found} found */
function csvAddress({ partition, subject }) {
  const query = new URLSearchParams({ ...subject, range: rangeName() });
  return `api/v1/${path(partition, "usage_history.csv")}?${query}`;
}

/**
 * Return the resources and counts that can be plotted. A count has its name in parentheses, which no resource has.
 *
 * @param {UsageHistory} samples
 */
function measuresOf(samples) {
  const resources = new Set(Object.values(samples.amounts).flatMap((by) => Object.keys(by)));
  return [...sortedNames([...resources]), ...Object.keys(COUNTS).filter((name) => samples.counts[name]).map((name) => `(${name})`)];
}

/** @param {string} measure */
function countOf(measure) {
  const name = /^\((.*)\)$/.exec(measure)?.[1] ?? "";
  return Object.hasOwn(COUNTS, name) ? /** @type {keyof typeof COUNTS} */ (name) : null;
}

/** @param {string} measure */
function measureName(measure) {
  const counted = countOf(measure);
  return counted ? COUNTS[counted][0] : resourceName(measure);
}

/**
 * Return the resource with the largest used share of its limit now.
 *
 * @param {UsageHistory | null} samples
 * @param {string[]} measures
 */
function scarcest(samples, measures) {
  const share = (/** @type {string} */ name) => {
    const [used, limit] = ["usage", "limit"].map((measure) => samples?.amounts[measure]?.[name]?.at(-1) ?? null);
    return used && limit ? shareOf(used, limit) : 0;
  };
  return measures.reduce((best, name) => (share(name) > share(best) ? name : best), measures[0] ?? "");
}

/**
 * @param {UsageHistory} samples
 * @param {string} measure
 * @returns {import("./plot.js").Series[]}
 */
function seriesOf(samples, measure) {
  const counted = countOf(measure);
  if (counted) {
    const [name, limit] = COUNTS[counted];
    const most = limit && samples.counts[limit];
    return [{ name, style: "used", values: samples.counts[counted] ?? [] }, ...(most ? [{ name: "Limit", style: /** @type {const} */ ("limit"), values: most }] : [])];
  }
  return Object.entries(MEASURES).flatMap(([key, [name, style]]) => {
    const values = samples.amounts[key]?.[measure];
    return values ? [{ name, style, values }] : [];
  });
}

/**
 * @param {UsageHistory} samples
 * @param {string} measure
 * @param {() => void} redraw
 */
function plotOf(samples, measure, redraw) {
  const { times, step } = samples;
  const range = rangeName();
  const series = seriesOf(samples, measure);
  const scale = scaleOf(series, samples.as_of - RANGES[range], samples.as_of);
  const cursor = Math.min(reading.cursor, times.length - 1);
  const at = cursor < 0 ? times.length - 1 : cursor;
  const text = (/** @type {import("./plot.js").Value | undefined} */ value) => (value === null || value === undefined ? "none" : countOf(measure) ? count(Number(value)) : exactText(measure, value));
  const readout = `${timeText(times[at] ?? 0)}: ${series.map(({ name, values }) => `${name.toLowerCase()} ${text(values[at])}`).join("; ")}`;
  const move = (/** @type {number} */ to) => {
    reading.cursor = Math.min(times.length - 1, Math.max(0, to));
    redraw();
  };
  const top = countOf(measure) ? count(Math.ceil(scale.most)) : amountText(measure, Math.ceil(scale.most));
  return [
    h(
      "div",
      {
        class: "plot",
        role: "slider",
        tabindex: "0",
        "aria-label": `${measureName(measure)}, last ${range}`,
        "aria-valuemin": 0,
        "aria-valuemax": times.length - 1,
        "aria-valuenow": at,
        "aria-valuetext": readout,
        on: {
          pointermove: (/** @type {PointerEvent} */ event) => move(nearest(times, timeAt(event, scale))),
          pointerleave: () => {
            reading.cursor = -1;
            redraw();
          },
          keydown: (/** @type {KeyboardEvent} */ event) => moveByKey(event, at, times.length, move),
        },
      },
      drawing(times, series, scale, step, cursor < 0 ? undefined : times[cursor]),
      h("span", { class: "axis top", "aria-hidden": "true" }, top),
      h("span", { class: "axis begin", "aria-hidden": "true" }, timeText(scale.begin)),
      h("span", { class: "axis end", "aria-hidden": "true" }, timeText(scale.end)),
    ),
    h("p", { class: "readout", "aria-hidden": "true" }, readout),
    h("ul", { class: "legend" }, series.map((one) => h("li", { key: one.name, class: one.style }, one.name, isAbove(one, scale) && " (above the plot)"))),
    h(
      "details",
      { open: reading.isOpen, on: { toggle: (/** @type {Event} */ event) => toggle(event, redraw) } },
      h("summary", null, "Values as a table"),
      reading.isOpen && valueTable(times, series, text),
    ),
  ];
}

/**
 * @param {Event} event
 * @param {() => void} redraw
 */
function toggle(event, redraw) {
  const { open } = /** @type {HTMLDetailsElement} */ (event.target);
  if (open === reading.isOpen) return;
  reading.isOpen = open;
  redraw();
}

/**
 * @param {number[]} times
 * @param {import("./plot.js").Series[]} series
 * @param {(value: import("./plot.js").Value | undefined) => string} text
 */
function valueTable(times, series, text) {
  const rows = times.map((time, index) => h("tr", { key: time }, h("th", { scope: "row" }, timeText(time)), series.map(({ values }) => h("td", { class: "number" }, text(values[index])))));
  return h("div", { class: "values" }, table("Values, the newest first", ["Time", ...series.map(({ name }) => /** @type {[string, string]} */ ([name, "number"]))], rows.reverse()));
}

/** @param {number} seconds since 1970 */
function timeText(seconds) {
  return rangeName() === "hour" ? clock(seconds) : momentText(seconds);
}

/**
 * Return the time at the pointer.
 *
 * @param {PointerEvent} event
 * @param {import("./plot.js").Scale} scale
 */
function timeAt(event, { begin, end }) {
  const place = /** @type {HTMLElement} */ (event.currentTarget).getBoundingClientRect();
  return begin + ((event.clientX - place.left) / place.width) * (end - begin);
}

/**
 * @param {number[]} times
 * @param {number} time
 */
function nearest(times, time) {
  return times.reduce((best, one, index) => (Math.abs(one - time) < Math.abs((times[best] ?? 0) - time) ? index : best), 0);
}

/**
 * Move the cursor with the keyboard.
 *
 * @param {KeyboardEvent} event
 * @param {number} at
 * @param {number} length
 * @param {(to: number) => void} move
 */
function moveByKey(event, at, length, move) {
  const to = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, PageUp: at + JUMP, PageDown: at - JUMP, Home: 0, End: length - 1 }[event.key];
  if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  move(to);
}
