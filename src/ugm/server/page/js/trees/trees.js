/**
 * The views of elastic groups and of quota trees: a tree grid of one resource. The server sorts, searches and pages.
 */

import { get, getRecent, orNull, path } from "../base/api.js";
import { h, refresh } from "../base/dom.js";
import { amountsText, briefText, count, counted, exactText, resourceName, sortedNames } from "../base/format.js";
import { link, route } from "../base/route.js";
import { shownNames } from "../parts/columns.js";
import { historySection, loadHistory } from "../parts/history.js";
import { gauge } from "../parts/limits.js";
import { addressChoice, addressField, clipped, emptyNote, list, nameLink, Order, resourceTable, table, undeclared } from "../parts/lists.js";
import { TreeGrid } from "./treegrid.js";

/** @typedef {import("./treegrid.js").GridRow & TreeRow} Row */

/** The number of rows that are loaded at once, and how many of them are above the visible part. */
const WINDOW = 200;
const ABOVE = 60;
/** The largest number of nodes that the reader opens or closes; see the parameter `toggle` of the server. */
const MOST_TOGGLED = 50;
/** Consumers in a list. */
const LISTED = 20;
/** Seconds between two requests for the trees of a partition. */
const TREES_INTERVAL = 60;

/** The kinds of trees: their words, the amounts that limit the usage, and the measures with a column. */
const KINDS = {
  elastic: { title: "Elastic groups", noun: "group", detail: "Elastic group", limited: "maximum", limits: ["max", "runtime"], measures: ["min", "runtime", "request", "borrowed", "lent"], example: "elastic: {groups: [{name: vision, max: {vcore: 8}}], groupby: [{source: user}]}" },
  quota: { title: "Quota trees", noun: "node", detail: "Node", limited: "quota", limits: ["quota"], measures: ["borrowed", "lent"], example: "quotatrees: [{tree: {kind: QuotaTree, …}}]" },
};
/** @type {Record<string, string>} */
const HEADINGS = { used: "Used", runtime: "Runtime", quota: "Quota", min: "Minimum", request: "Request", max: "Maximum", borrowed: "Borrowed", lent: "Lent" };

/** @returns {Promise<Trees>} the trees of the partition, which rarely change */
export function loadTrees() {
  return getRecent(TREES_INTERVAL, path("trees"));
}

/**
 * Create the view of one kind of tree.
 * @param {"elastic" | "quota"} kind
 * @returns {View<any>}
 */
export function treeView(kind) {
  const words = KINDS[kind];
  const order = new Order(kind, "name", refresh);
  /** @type {Set<string>} */
  const toggled = new Set();
  let [offset, loaded] = [0, ""];

  /** @type {TreeGrid<Row>} */
  const grid = new TreeGrid({ view: kind, label: words.title, order, toggle, seen });

  /** @param {Row} row */
  function toggle(row) {
    if (!toggled.delete(row.key)) toggled.add(row.key);
    if (toggled.size > MOST_TOGGLED) toggled.delete([...toggled][0] ?? "");
    refresh();
  }

  /** Load the rows that are visible. */
  /** @param {number} first @param {number} end */
  function seen(first, end) {
    const isMissing = grid.rows.length > 0 && (!grid.rows[first] || !grid.rows[end - 1]);
    const wanted = Math.max(0, first - ABOVE);
    if (!isMissing || offset === wanted) return;
    offset = wanted;
    refresh();
  }

  async function load() {
    const { resource, search = "" } = route.query;
    const { name, names, models } = await chosenTree();
    if (!name) return null;
    const address = [route.partition, name, search].join("\n");
    if (address !== loaded) offset = 0;
    loaded = address;
    const query = { tree: name, resource, search, sort: order.sorted, toggle: [...toggled], offset, limit: WINDOW };
    const [data, above] = await Promise.all([get(path("tree"), query), loadBorrowers(name, "")]);
    const suspended = models.filter((one) => one.is_suspended).map((one) => one.model);
    return { names, suspended, data, from: query.offset, above };
  }

  /** Return the name of the shown tree, those of all trees of the kind, and the models. */
  async function chosenTree() {
    const { trees, models } = await loadTrees();
    const names = trees.filter((one) => one.kind === kind).map((one) => one.name);
    return { name: names.find((one) => one === route.query.tree) ?? names[0], names, models };
  }

  /** @param {string} tree @param {string} node */
  async function loadBorrowers(tree, node) {
    return kind === "quota" ? get(path("tree", "borrowers"), { tree, node, limit: LISTED }) : { total: 0, consumers: [] };
  }

  /** @param {{names: string[], suspended: string[], data: ModelTree, from: number, above: Borrowers} | null} found */
  function show(found) {
    if (!found) return emptyNote(undeclared(words.title.toLowerCase(), words.example));
    const { names, suspended, data, from, above } = found;
    const { resource } = data;
    grid.columns = [
      { name: words.noun === "group" ? "Group" : "Node", style: "name", sort: "name", show: badges },
      { name: `Used of the ${words.limited}`, style: "measure", sort: "share", show: ({ amounts }) => usage(resource, amounts) },
      ...words.measures.map((measure) => /** @type {Column<Row>} */ ({
        name: HEADINGS[measure] ?? "",
        style: "number",
        sort: measure,
        show: ({ amounts: { [measure]: amount } }) => (amount ? briefText(resource, amount) : "–"),
        props: ({ amounts: { [measure]: amount } }) => ({ class: `number ${amount ? measure : "quiet"}`, title: exactText(resource, amount ?? 0) }),
      })),
    ];
    grid.rows = Array.from({ length: data.total });
    data.rows.forEach((row, index) => (grid.rows[from + index] = { ...row, key: row.name, isParent: row.children > 0, isOpen: row.is_open }));
    const tools = [
      names.length > 1 && addressChoice("tree", "Tree", names.map((one) => [one, one]), data.name),
      data.resources.length > 1 && addressChoice("resource", "Resource", sortedNames(data.resources).map((one) => [one, resourceName(one)]), data.resource),
      addressField("search", `Find a ${words.noun}`),
      order.field([...grid.columns, ...["used", words.limits[0] ?? ""].map((sort) => ({ sort, name: HEADINGS[sort] ?? "" }))]),
    ];
    const note = [data.resources.length === 1 && `${resourceName(data.resource)} of `, counted(data.nodes, words.noun)];
    return [
      suspended.length > 0 && h("p.error", { key: "suspended" }, `Suspended after a failure, so that every request is denied: ${suspended.join(", ")}.`),
      data.mode && data.mode !== "normal" && h("p.error", { key: "mode" }, `The manager of this tree is in mode ${data.mode}: every request is denied.`),
      list(tools, { noun: words.noun, note, total: data.total, rows: () => grid.describe(), text: counted(data.total, "row"), pages: null }),
      kind === "quota" && data.total > 0 && held(above, "Consumers above their own node", "Every consumer is held by its own node."),
    ];
  }

  /** @param {Row} row */
  function badges({ is_hard, borrowers }) {
    return [is_hard && h("span.badge.quiet", "hard"), borrowers > 0 && h("span.badge.quiet", { title: `holds ${counted(borrowers, "consumer")} of nodes below` }, `+${count(borrowers)}`)];
  }

  /** @param {string} resource @param {Record<string, Amount | null | undefined>} amounts */
  function usage(resource, amounts) {
    const used = amounts.used ?? 0;
    const missing = BigInt(amounts.request ?? used) - BigInt(used);
    const limit = words.limits.map((measure) => amounts[measure]).find((amount) => amount !== undefined && amount !== null);
    return gauge(resource, used, limit ?? undefined, { guaranteed: amounts.min || undefined, pending: missing > 0n ? missing : 0 });
  }

  /** @param {string} name */
  function nodeLink(name) {
    return nameLink(kind, name, { href: link(kind, name, route.query) });
  }

  /** @param {Borrowers} found @param {string} caption @param {string} none */
  function held({ total, consumers }, caption, none) {
    if (!total) return emptyNote(none);
    return table(total > consumers.length ? `${caption}: the first ${consumers.length} of ${count(total)}` : caption, consumers, [
      { name: "Consumer", show: (one) => clipped(one.consumer_id) },
      { name: "Its node", show: ({ group }) => nodeLink(group) },
      { name: "Held by", show: ({ node }) => nodeLink(node) },
      { name: "Request", show: ({ request }) => amountsText(request) },
      { name: "Priority", style: "number minor", show: ({ priority, unpreemptable }) => [priority, unpreemptable && " (kept)"] },
    ], { style: "held stack", key: (one) => one.consumer_id });
  }

  // The detail of a node

  async function loadDetail() {
    const { name } = route;
    const { name: tree } = await chosenTree();
    const node = tree && (await orNull(get(path("tree", "node"), { tree, node: name })));
    if (!tree || !node) return null;
    const [above, samples] = await Promise.all([loadBorrowers(tree, name), loadHistory({ kind: "tree_node", name, tree })]);
    return { node, above, samples };
  }

  /** @param {{node: TreeNodeDetail, above: Borrowers, samples: import("../parts/history.js").Found}} data */
  function showDetail({ node, above, samples }) {
    const names = shownNames(Object.values(node.amounts));
    const parents = node.path.slice(0, -1).map((name, index) => [index > 0 && " › ", nodeLink(name)]);
    const amountsOf = (/** @type {string} */ name) => Object.fromEntries(Object.entries(node.amounts).map(([measure, amounts]) => [measure, amounts[name]]));
    return [
      h("p.quiet", parents.length > 0 && ["In ", parents, ". "], node.children ? `${counted(node.children, words.noun)} directly below` : "Leaf", node.is_hard ? "; hard: nothing below borrows above it." : "."),
      resourceTable(names, { name: `Used of the ${words.limited}`, show: (name) => usage(name, amountsOf(name)) }, words.measures.map((measure) => [HEADINGS[measure] ?? "", node.amounts[measure]]), "wide"),
      historySection(samples),
      kind === "quota" && held(above, "Consumers above their own node, held or owned here", "Consumers of this node are held by it, and it holds none of others."),
    ];
  }

  return { title: words.title, topic: "trees", model: kind, load, show, shown: () => grid.redraw(), detail: { noun: words.detail, load: loadDetail, show: showDetail } };
}
