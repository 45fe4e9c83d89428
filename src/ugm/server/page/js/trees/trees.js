/**
 * The views of elastic groups and of quota trees: a tree grid of one resource.
 */

import { get, getRecent, orNull, path } from "../base/api.js";
import { h } from "../base/dom.js";
import { amountsText, briefText, count, counted, exactText, limitShare, resourceName, sortedNames } from "../base/format.js";
import { link, route } from "../base/route.js";
import { shownNames } from "../parts/columns.js";
import { historySection, loadHistory } from "../parts/history.js";
import { gauge } from "../parts/limits.js";
import { addressChoice, addressField, clipped, emptyNote, list, nameLink, resourceTable, table, undeclared } from "../parts/lists.js";
import { TreeGrid } from "./treegrid.js";

/** @typedef {import("./treegrid.js").GridRow & TreeRow} Row */

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

/** Return the nodes without a parent, each with the nodes below it. */
/** @param {TreeRow[]} rows */
function rootsOf(rows) {
  const nodes = new Map(rows.map((row) => [row.name, { ...row, key: row.name, children: /** @type {object[]} */ ([]) }]));
  for (const node of nodes.values()) nodes.get(node.parent)?.children.push(node);
  return [...nodes.values()].filter(({ parent }) => !nodes.has(parent));
}

/** Return the rank of rows in the order of an amount. */
/** @param {string} measure @returns {(row: Row) => number} */
function amountOf(measure) {
  return ({ amounts }) => Number(amounts[measure] ?? 0);
}

/**
 * Create the view of one kind of tree.
 * @param {"elastic" | "quota"} kind
 * @returns {View<any>}
 */
export function treeView(kind) {
  const words = KINDS[kind];
  /** @type {TreeGrid<Row>} */
  const grid = new TreeGrid({ view: kind, label: words.title });
  grid.orders = ["used", words.limits[0] ?? ""].map((sort) => ({ sort, name: HEADINGS[sort] ?? "", rank: amountOf(sort) }));

  async function load() {
    const { name, names, models } = await chosenTree();
    if (!name) return null;
    const [data, above] = await Promise.all([get(path("tree"), { tree: name, resource: route.query.resource }), loadBorrowers(name, "")]);
    const suspended = models.filter((one) => one.is_suspended).map((one) => one.model);
    return { names, suspended, data, above };
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

  /** @param {{names: string[], suspended: string[], data: ModelTree, above: Borrowers} | null} found */
  function show(found) {
    if (!found) return emptyNote(undeclared(words.title.toLowerCase(), words.example));
    const { names, suspended, data, above } = found;
    const { resource } = data;
    grid.columns = [
      { name: words.noun === "group" ? "Group" : "Node", style: "name", sort: "name", show: badges },
      { name: `Used of the ${words.limited}`, style: "measure", sort: "share", rank: share, show: ({ amounts }) => usage(resource, amounts) },
      ...words.measures.map((measure) => /** @type {Column<Row>} */ ({
        name: HEADINGS[measure] ?? "",
        style: "number",
        sort: measure,
        rank: amountOf(measure),
        show: ({ amounts: { [measure]: amount } }) => (amount ? briefText(resource, amount) : "–"),
        props: ({ amounts: { [measure]: amount } }) => ({ class: `number ${amount ? measure : "quiet"}`, title: exactText(resource, amount ?? 0) }),
      })),
    ];
    grid.fill(rootsOf(data.rows), data.nodes);
    const total = grid.rows.length;
    const tools = [
      names.length > 1 && addressChoice("tree", "Tree", names.map((one) => [one, one]), data.name),
      data.resources.length > 1 && addressChoice("resource", "Resource", sortedNames(data.resources).map((one) => [one, resourceName(one)]), data.resource),
      addressField("search", `Find a ${words.noun}`),
      grid.orderField(),
    ];
    const note = [data.resources.length === 1 && `${resourceName(data.resource)} of `, counted(data.nodes, words.noun)];
    return [
      suspended.length > 0 && h("p.error", { key: "suspended" }, `Suspended after a failure, so that every request is denied: ${suspended.join(", ")}.`),
      data.mode && data.mode !== "normal" && h("p.error", { key: "mode" }, `The manager of this tree is in mode ${data.mode}: every request is denied.`),
      list(tools, { noun: words.noun, note, total, rows: () => grid.describe(), text: counted(total, "row"), pages: null }),
      kind === "quota" && total > 0 && held(above, "Consumers above their own node", "Every consumer is held by its own node."),
    ];
  }

  /** @param {Row} row */
  function badges({ is_hard, borrowers }) {
    return [is_hard && h("span.badge.quiet", "hard"), borrowers > 0 && h("span.badge.quiet", { title: `holds ${counted(borrowers, "consumer")} of nodes below` }, `+${count(borrowers)}`)];
  }

  /** @param {Record<string, Amount | null | undefined>} amounts */
  function limitOf(amounts) {
    return words.limits.map((measure) => amounts[measure]).find((amount) => amount !== undefined && amount !== null) ?? undefined;
  }

  /** @param {Row} row */
  function share({ amounts }) {
    const limit = limitOf(amounts);
    return limit === undefined ? 0 : limitShare(amounts.used ?? 0, limit);
  }

  /** @param {string} resource @param {Record<string, Amount | null | undefined>} amounts */
  function usage(resource, amounts) {
    const used = amounts.used ?? 0;
    const missing = BigInt(amounts.request ?? used) - BigInt(used);
    return gauge(resource, used, limitOf(amounts), { guaranteed: amounts.min || undefined, pending: missing > 0n ? missing : 0 });
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
