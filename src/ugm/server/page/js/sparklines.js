/**
 * The usage of the last hour in the rows of a table.
 *
 * Sparklines are loaded apart from the rows: only for rows that are drawn, and only the samples that are new.
 */

import { get, path } from "./api.js";
import { h } from "./dom.js";
import { amountText, resourceName } from "./format.js";
import { sparkline } from "./plot.js";

/** Milliseconds between two samples of the server, and the distance of points, in seconds. */
const INTERVAL = 15_000;
const STEP = 60;
/** Seconds that are shown. */
const SPAN = 3600;
/** The number of names in a request; see the server. */
const MOST_NAMES = 100;
/** Milliseconds to wait for further rows, for example while the reader scrolls. */
const DELAY = 150;

/** @typedef {{points: Map<number, import("./types.js").Amount>, limit: import("./types.js").Amount | null, newest: number, at: number}} Line */

export class Sparklines {
  /** @param {"queue" | "user" | "group" | "tree_node"} kind */
  constructor(kind) {
    this.kind = kind;
    this.address = "";
    /** @type {Map<string, Line>} */
    this.lines = new Map();
    /** @type {number | undefined} */
    this.timer = undefined;
    this.isLoading = false;
    /** @type {() => void} */
    this.drawn = () => {};
    /** The time of the last answer of the server, in seconds since 1970. */
    this.end = 0;
    this.query = { partition: "", resource: "", tree: "" };
    /** @type {Set<string>} */
    this.wanted = new Set();
  }

  /**
   * Choose what is shown; samples of anything else are forgotten.
   *
   * @param {{partition: string, resource: string, tree?: string}} query
   * @param {() => void} drawn is called after samples were loaded
   */
  choose({ partition, resource, tree = "" }, drawn) {
    this.drawn = drawn;
    const address = JSON.stringify([partition, resource, tree]);
    if (address !== this.address) this.lines.clear();
    Object.assign(this, { address, query: { partition, resource, tree } });
    this.wanted.clear();
  }

  /**
   * Describe the plot of a row, and load it if it is missing or outdated.
   *
   * @param {string} name
   */
  cell(name) {
    const line = this.lines.get(name);
    if (!line || line.at + INTERVAL <= Date.now()) this.want(name);
    if (!line?.points.size) return h("div", { class: "spark" });
    const points = [...line.points].sort((one, other) => one[0] - other[0]);
    const { resource } = this.query;
    const values = points.map(([, value]) => Number(value));
    const text = `${resourceName(resource)} in the last hour: from ${amountText(resource, Math.min(...values))} to ${amountText(resource, Math.max(...values))}`;
    return h("div", { class: "spark", title: text }, h("span", { class: "unseen" }, text), sparkline(points, line.limit, { begin: this.end - SPAN, end: this.end, step: STEP }));
  }

  /** @param {string} name */
  want(name) {
    this.wanted.add(name);
    if (this.timer === undefined && !this.isLoading) this.timer = setTimeout(() => this.load(), DELAY);
  }

  async load() {
    this.timer = undefined;
    const names = [...this.wanted].slice(0, MOST_NAMES);
    const { address, query } = this;
    if (!names.length || document.hidden) return;
    this.isLoading = true;
    try {
      // Names with the same newest sample are asked together; new ones start from the beginning.
      const known = names.map((name) => this.lines.get(name)?.newest ?? 0);
      const after = Math.min(...known);
      const { partition, resource, tree } = query;
      const data = await get(path(partition, "sparklines"), { kind: this.kind, names, resource, tree: tree || undefined, measure: "usage", range: "hour", points: SPAN / STEP, after: after || undefined });
      if (address !== this.address) return;
      for (const name of names) this.add(name, data);
      this.end = data.as_of;
    } catch {
      // The rows report the error.
      for (const name of names) this.lines.set(name, { ...(this.lines.get(name) ?? { points: new Map(), limit: null, newest: 0 }), at: Date.now() });
    } finally {
      this.isLoading = false;
      for (const name of names) this.wanted.delete(name);
    }
    if (address === this.address) this.drawn();
  }

  /**
   * Add new points. A later sample replaces that of the same minute, which was not complete.
   *
   * @param {string} name
   * @param {{times: number[], values: Record<string, import("./types.js").Amount[]>, limits: Record<string, import("./types.js").Amount | null>, as_of: number, newest: number}} data
   */
  add(name, data) {
    const points = this.lines.get(name)?.points ?? new Map();
    const values = data.values[name] ?? [];
    data.times.forEach((time, index) => {
      for (const one of points.keys()) if (Math.floor(one / STEP) === Math.floor(time / STEP)) points.delete(one);
      points.set(time, values[index] ?? 0);
    });
    for (const time of points.keys()) if (time < data.as_of - SPAN) points.delete(time);
    this.lines.set(name, { points, limit: data.limits[name] ?? null, newest: data.newest, at: Date.now() });
  }
}
