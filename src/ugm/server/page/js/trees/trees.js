/**
 * The views of elastic groups and of quota trees: a tree grid of one resource. The server sorts, searches and pages.
 */

import { announce } from "../base/announcements.js";
import { get, orNull, path } from "../base/api.js";
import { gauge } from "../parts/bars.js";
import { h } from "../base/dom.js";
import { historySection, loadHistory } from "../parts/history.js";
import { amountsText, amountText, briefText, count, counted, exactText, resourceName, sortedNames } from "../base/format.js";
import { link, parse } from "../base/route.js";
import { remembered } from "../base/settings.js";
import { orderField } from "../parts/sorting.js";
import { cell, clipped, emptyNote, numberCell, resourceLabel, table } from "../parts/tables.js";
import { nameCell, TreeGrid } from "./treegrid.js";

/** @typedef {import("../types.js").ModelTree} ModelTree */
/** @typedef {import("../types.js").TreeRow} TreeRow */
/** @typedef {import("./treegrid.js").GridRow & TreeRow} Row */

/** The number of rows that are loaded at once, and how many of them are above the visible part. */
const WINDOW = 200;
const ABOVE = 60;
/** The largest number of nodes that the reader opens or closes; see the parameter `toggle` of the server. */
const MOST_TOGGLED = 50;
/** Consumers in a list. */
const LISTED = 20;
/** Milliseconds between two requests for the trees of a partition. */
const TREES_INTERVAL = 60_000;

/** The kinds of trees: their words, the amounts that limit the usage, and the measures with a column. */
const KINDS = {
  elastic: { title: "Elastic groups", noun: "group", limited: "maximum", limits: ["max", "runtime"], measures: ["min", "runtime", "request", "borrowed", "lent"] },
  quota: { title: "Quota trees", noun: "node", limited: "quota", limits: ["quota"], measures: ["borrowed", "lent"] },
};
const HEADINGS = { used: "Used", runtime: "Runtime", quota: "Quota", min: "Minimum", request: "Request", max: "Maximum", borrowed: "Borrowed", lent: "Lent" };

/** @type {{partition: string, at: number, found: import("../types.js").Trees}} */
let known = { partition: "", at: 0, found: { trees: [], models: [] } };

/**
 * Return the trees of a partition, which rarely change.
 *
 * @param {string} partition
 */
export async function treesOf(partition) {
  if (known.partition !== partition || Date.now() - known.at > TREES_INTERVAL) known = { partition, found: await get(path(partition, "trees")), at: Date.now() };
  return known.found;
}

/**
 * Create the view of one kind of tree.
 *
 * @param {"elastic" | "quota"} kind
 */
export function treeView(kind) {
  const words = KINDS[kind];
  const order = remembered(`${kind} order`, "name");
  /** @type {Set<string>} */
  const toggled = new Set();
  let [offset, loaded, announced] = [0, "", ""];
  const refresh = () => window.dispatchEvent(new Event("refresh"));

  /** @type {TreeGrid<Row>} */
  const grid = new TreeGrid({
    label: words.title,
    style: "amounts",
    cells,
    go: (key) => go(key, parse(location.hash).query),
    toggle: (row) => {
      if (!toggled.delete(row.key)) toggled.add(row.key);
      if (toggled.size > MOST_TOGGLED) toggled.delete([...toggled][0] ?? "");
      refresh();
    },
    sort: (by) => {
      order.set(by);
      refresh();
    },
    seen: (first, end) => {
      const isMissing = !grid.rows[first] || (end > 0 && !grid.rows[end - 1]);
      if (!isMissing || !grid.rows.length || offset === Math.max(0, first - ABOVE)) return;
      offset = Math.max(0, first - ABOVE);
      refresh();
    },
  });
  /** @type {ModelTree | null} */
  let shownTree = null;

  /** @param {import("../types.js").Route} route */
  async function load(route) {
    const { tree = "", resource, search = "" } = route.query;
    const trees = (await treesOf(route.partition)).trees.filter((one) => one.kind === kind);
    const name = trees.find((one) => one.name === tree)?.name ?? trees[0]?.name;
    if (!name) return null;
    const address = [route.partition, name, search].join("\n");
    if (address !== loaded) offset = 0;
    loaded = address;
    const query = { tree: name, resource, search, sort: order.get(), toggle: [...toggled], offset, limit: WINDOW };
    const [data, above] = await Promise.all([get(path(route.partition, "tree"), query), borrowers(route.partition, name, "")]);
    if (search !== announced && search) announce(`${counted(data.total, "row")} found`);
    announced = search;
    return { trees, data, from: query.offset, above };
  }

  /**
   * @param {string} partition
   * @param {string} tree
   * @param {string} node
   */
  async function borrowers(partition, tree, node) {
    return kind === "quota" ? get(path(partition, "tree", "borrowers"), { tree, node, limit: LISTED }) : { total: 0, consumers: [] };
  }

  /**
   * @param {import("../types.js").Route} route
   * @param {{trees: import("../types.js").Trees["trees"], data: ModelTree, from: number, above: import("../types.js").Borrowers} | null} found
   */
  function show(route, found) {
    if (!found) return emptyNote(`No quota model of this partition has ${words.title.toLowerCase()}.`);
    const { trees, data, from, above } = found;
    shownTree = data;
    grid.columns = [
      { name: words.noun === "group" ? "Group" : "Node", kind: "name", sort: "name" },
      { name: `Used of the ${words.limited}`, kind: "measure", sort: "share" },
      ...words.measures.map((measure) => /** @type {const} */ ({ name: heading(measure), kind: "number", sort: measure })),
    ];
    grid.sorted = order.get();
    grid.shown = route.name;
    grid.rows = Array.from({ length: data.total });
    data.rows.forEach((row, index) => (grid.rows[from + index] = { ...row, key: row.name, isParent: row.children > 0, isOpen: row.is_open }));
    const suspended = known.found.models.filter((one) => one.is_suspended).map((one) => one.model);
    return [
      suspended.length > 0 && h("p", { class: "error", key: "suspended" }, `Suspended after a failure, so that every request is denied: ${suspended.join(", ")}.`),
      data.mode && data.mode !== "normal" && h("p", { class: "error", key: "mode" }, `The manager of this tree is in mode ${data.mode}: every request is denied.`),
      h(
        "div",
        { class: "tools" },
        trees.length > 1 && chooser("Tree", "tree", data.name, trees.map((one) => one.name)),
        data.resources.length > 1 && chooser("Resource", "resource", data.resource, sortedNames(data.resources)),
        h("label", { class: "field" }, `Find a ${words.noun}`, h("input", { type: "search", id: "search", value: route.query.search ?? "", on: { input: search } })),
        orderField(grid, ["used", words.limits[0] ?? ""].map((measure) => [measure, heading(measure)])),
        h("span", { class: "quiet" }, data.resources.length === 1 && `${resourceName(data.resource)} of `, counted(data.nodes, words.noun)),
      ),
      data.total ? grid.describe() : emptyNote(`No ${words.noun} matches.`),
      kind === "quota" && data.total > 0 && held(route, above, "Consumers above their own node", "Every consumer is held by its own node."),
    ];
  }

  /** @param {string} measure */
  function heading(measure) {
    return HEADINGS[/** @type {keyof typeof HEADINGS} */ (measure)];
  }

  /** @param {Row} row */
  function cells(row) {
    const resource = shownTree?.resource ?? "";
    const { amounts } = row;
    return [
      nameCell(row, row.name, [row.is_hard && h("span", { class: "badge quiet" }, "hard"), row.borrowers > 0 && h("span", { class: "badge quiet", title: `holds ${counted(row.borrowers, "consumer")} of nodes below` }, `+${count(row.borrowers)}`)]),
      h("div", { role: "gridcell", class: "measure" }, usage(resource, amounts)),
      words.measures.map((measure) => {
        const amount = amounts[measure];
        const label = h("span", { class: "measure-name", "aria-hidden": "true" }, heading(measure));
        return h("div", { role: "gridcell", class: `number ${amount ? measure : "quiet"}`, title: exactText(resource, amount ?? 0) }, label, amount ? briefText(resource, amount) : "–");
      }),
    ];
  }

  /**
   * @param {string} resource
   * @param {Record<string, import("../types.js").Amount | null | undefined>} amounts
   */
  function usage(resource, amounts) {
    const used = amounts.used ?? 0;
    const missing = BigInt(amounts.request ?? used) - BigInt(used);
    const limit = words.limits.map((measure) => amounts[measure]).find((amount) => typeof amount !== "undefined" && amount !== null);
    return gauge(resource, used, limit ?? undefined, { guaranteed: amounts.min || undefined, pending: missing > 0n ? missing : 0 });
  }

  /**
   * @param {string} label
   * @param {string} name of the parameter in the address
   * @param {string} value
   * @param {string[]} values
   */
  function chooser(label, name, value, values) {
    const change = (/** @type {Event} */ event) => go("", { ...parse(location.hash).query, [name]: /** @type {HTMLSelectElement} */ (event.target).value });
    const options = values.map((one) => h("option", { key: one, value: one, selected: one === value }, name === "resource" ? resourceName(one) : one));
    return h("label", { class: "field" }, label, h("select", { on: { change }, value }, options));
  }

  /**
   * @param {string} name
   * @param {Record<string, string>} query
   */
  function go(name, query) {
    location.hash = link(parse(location.hash).partition, kind, name, query);
  }

  /** @type {number | undefined} */
  let waiting;

  /** @param {Event} event */
  function search(event) {
    const text = /** @type {HTMLInputElement} */ (event.target).value.trim();
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const { partition, query } = parse(location.hash);
      history.replaceState(null, "", link(partition, kind, "", { ...query, search: text }));
      window.dispatchEvent(new HashChangeEvent("hashchange"));
    }, 200);
  }

  /**
   * @param {import("../types.js").Route} route
   * @param {import("../types.js").Borrowers} found
   * @param {string} caption
   * @param {string} none
   */
  function held(route, found, caption, none) {
    if (!found.total) return emptyNote(none);
    const node = (/** @type {string} */ label, /** @type {string} */ name) => h("td", { "data-label": label }, h("a", { href: link(route.partition, kind, name, route.query), class: "name-link", title: name }, name));
    return table(
      found.total > found.consumers.length ? `${caption}: the first ${found.consumers.length} of ${count(found.total)}` : caption,
      ["Consumer", "Its node", "Held by", "Request", ["Priority", "number minor"]],
      found.consumers.map((one) =>
        h(
          "tr",
          { key: one.consumer_id },
          h("th", { scope: "row" }, clipped(one.consumer_id)),
          node("Its node", one.group),
          node("Held by", one.node),
          cell("Request", amountsText(one.request)),
          cell("Priority", [one.priority, one.unpreemptable && " (kept)"], { class: "number minor" }),
        ),
      ),
      "held stack",
    );
  }

  // The detail of a node

  /** @param {import("../types.js").Route} route */
  async function loadDetail(route) {
    const trees = (await treesOf(route.partition)).trees.filter((one) => one.kind === kind);
    const tree = trees.find((one) => one.name === route.query.tree)?.name ?? trees[0]?.name;
    if (!tree) return null;
    const node = await orNull(get(path(route.partition, "tree", "node"), { tree, node: route.name }));
    if (!node) return null;
    const [above, samples] = await Promise.all([borrowers(route.partition, tree, route.name), loadHistory(route.partition, { kind: "tree_node", name: route.name, tree })]);
    return { node, above, samples };
  }

  /**
   * @param {import("../types.js").Route} route
   * @param {{node: import("../types.js").TreeNodeDetail, above: import("../types.js").Borrowers, samples: import("../parts/history.js").Found} | null} data
   */
  function showDetail(route, data) {
    if (!data) return h("p", { class: "quiet" }, `There is no ${words.noun} ${route.name} now.`);
    const { node, above, samples } = data;
    const names = sortedNames([...new Set(Object.values(node.amounts).flatMap(Object.keys))]);
    const parents = node.path.slice(0, -1).map((name, index) => [index > 0 && " › ", h("a", { href: link(route.partition, kind, name, route.query), class: "name-link", title: name }, name)]);
    return [
      h("p", { class: "quiet" }, parents.length > 0 && ["In ", parents, ". "], node.children ? `${counted(node.children, words.noun)} directly below` : "Leaf", node.is_hard ? "; hard: nothing below borrows above it." : "."),
      table(
        "Resources",
        ["Resource", `Used of the ${words.limited}`, ...words.measures.map((measure) => /** @type {[string, string]} */ ([heading(measure), "number"]))],
        names.map((name) => line(name, Object.fromEntries(Object.entries(node.amounts).map(([measure, amounts]) => [measure, amounts[name]])))),
        "resources wide",
      ),
      historySection(samples),
      kind === "quota" && held(route, above, "Consumers above their own node, held or owned here", "Consumers of this node are held by it, and it holds none of others."),
    ];
  }

  /**
   * @param {string} name
   * @param {Record<string, import("../types.js").Amount | undefined>} amounts
   */
  function line(name, amounts) {
    return h(
      "tr",
      { key: name },
      h("th", { scope: "row" }, resourceLabel(name)),
      h("td", { class: "bars" }, usage(name, amounts)),
      words.measures.map((measure) => numberCell(heading(measure), amounts[measure] === undefined ? "–" : amountText(name, amounts[measure] ?? 0))),
    );
  }

  return { title: words.title, load, show, shown: () => grid.redraw(), detail: { load: loadDetail, show: showDetail, noun: words.noun === "group" ? "Elastic group" : "Node" } };
}
