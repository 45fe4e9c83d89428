/**
 * Plots of values over time, and the small ones in rows of tables.
 *
 * A plot repeats values that the page also shows as text, so the drawing itself is hidden from screen readers.
 *
 * @typedef {import("./types.js").Amount | null} Value
 * @typedef {{name: string, style: "used" | "limit" | "guaranteed" | "minimum" | "runtime" | "pending", values: Value[]}} Series
 * @typedef {{begin: number, end: number, most: number}} Scale times in seconds since 1970, and the largest value
 */

import { h } from "./dom.js";

/** The size of a drawing in its own units; it is stretched to its place. */
const WIDTH = 1000;
const HEIGHT = 200;
/** The steps between two samples after which a line is interrupted. */
const GAP = 2.5;
/** The largest limit, in multiples of the largest value, that determines the scale. */
const MOST_HEADROOM = 4;

/**
 * Return the scale of series: that of the values, and of limits that are not much larger.
 *
 * @param {Series[]} series
 * @param {number} begin
 * @param {number} end
 * @returns {Scale}
 */
export function scaleOf(series, begin, end) {
  const largest = (/** @type {Series[]} */ some) => Math.max(0, ...some.flatMap(({ values }) => values.map(Number)));
  const values = largest(series.filter(({ style }) => style === "used" || style === "pending"));
  const all = largest(series);
  return { begin, end, most: (values > 0 && all > MOST_HEADROOM * values ? values * MOST_HEADROOM : all) || 1 };
}

/**
 * Return whether all values of a series are above the scale, so that it has no line.
 *
 * @param {Series} series
 * @param {Scale} scale
 */
export function isAbove({ values }, scale) {
  const known = values.filter((value) => value !== null);
  return known.length > 0 && known.every((value) => exceeds(value, scale));
}

/**
 * @param {Value} value
 * @param {Scale} scale
 */
function exceeds(value, scale) {
  return Number(value) > scale.most;
}

/**
 * Describe the lines of series. A value above the scale is left out, because at the upper edge it would look smaller.
 *
 * @param {number[]} times
 * @param {Series[]} series
 * @param {Scale} scale
 * @param {number} step the seconds between two samples
 * @param {number | undefined} cursor the time of a vertical line
 */
export function drawing(times, series, scale, step, cursor) {
  const found = series.map(({ style, values }) => {
    const points = pointsOf(times, values.map((value) => (exceeds(value, scale) ? null : value)), scale);
    return [style === "used" && path("area", area(points, step, scale)), path(style, line(points, step, scale))];
  });
  const at = cursor === undefined ? null : x(cursor, scale);
  return h(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false" },
    found,
    at !== null && h("line", { class: "cursor", x1: at, x2: at, y1: 0, y2: HEIGHT }),
  );
}

/**
 * Describe the plot in a row of a table: the values, and the limit if it is near.
 *
 * @param {[number, import("./types.js").Amount][]} points
 * @param {import("./types.js").Amount | null | undefined} limit
 * @param {{begin: number, end: number, step: number}} span
 */
export function sparkline(points, limit, { begin, end, step }) {
  const values = points.map(([, value]) => value);
  const series = /** @type {Series[]} */ ([{ name: "", style: "used", values }, { name: "", style: "limit", values: values.map(() => limit ?? null) }]);
  return drawing(points.map(([time]) => time), series, scaleOf(series, begin, end), step, undefined);
}

/**
 * @param {string} style
 * @param {string} d
 */
function path(style, d) {
  return h("path", { class: style, d });
}

/**
 * @param {number} time
 * @param {Scale} scale
 */
function x(time, { begin, end }) {
  return rounded(((time - begin) / (end - begin)) * WIDTH);
}

/** @param {number} number */
function rounded(number) {
  return Math.round(number * 10) / 10;
}

/**
 * @param {number[]} times
 * @param {Value[]} values
 * @param {Scale} scale
 * @returns {{time: number, y: number}[]}
 */
function pointsOf(times, values, scale) {
  return times.flatMap((time, index) => {
    const value = values[index];
    return value === null || value === undefined || time < scale.begin ? [] : [{ time, y: rounded(HEIGHT - (Number(value) / scale.most) * (HEIGHT - 2) - 1) }];
  });
}

/**
 * Return the parts of a line between gaps.
 *
 * @param {{time: number, y: number}[]} points
 * @param {number} step
 */
function parts(points, step) {
  /** @type {{time: number, y: number}[][]} */
  const found = [];
  let last = -Infinity;
  for (const point of points) {
    if (point.time - last > GAP * step) found.push([]);
    found.at(-1)?.push(point);
    last = point.time;
  }
  return found;
}

/**
 * @param {{time: number, y: number}[]} points
 * @param {number} step
 * @param {Scale} scale
 */
function line(points, step, scale) {
  return parts(points, step)
    .map((part) => `M${part.map(({ time, y }) => `${x(time, scale)} ${y}`).join("L")}${part.length === 1 ? "h4" : ""}`)
    .join("");
}

/**
 * @param {{time: number, y: number}[]} points
 * @param {number} step
 * @param {Scale} scale
 */
function area(points, step, scale) {
  const ends = (/** @type {{time: number, y: number}[]} */ part) => [part[0]?.time ?? 0, part.at(-1)?.time ?? 0].map((time) => x(time, scale));
  return parts(points, step)
    .map((part) => `M${ends(part)[0]} ${HEIGHT}L${part.map(({ time, y }) => `${x(time, scale)} ${y}`).join("L")}L${ends(part)[1]} ${HEIGHT}Z`)
    .join("");
}
