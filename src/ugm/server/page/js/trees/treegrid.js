/**
 * A tree grid with only the visible rows in the document.
 *
 * All rows have the same height, and their number determines their position. Rows outside of the visible part are removed,
 * except the one with the keyboard focus. Arrow keys move, open and close, as in any tree.
 *
 * @typedef {{key: string, name: string, children: any[]}} GridNode a node, whose key contains its name, with those below
 * @typedef {GridNode & {level: number, position: number, siblings: number, isParent: boolean, isOpen: boolean}} GridRow
 */

import { draw, h, redraw } from "../base/dom.js";
import { current, link, route } from "../base/route.js";
import { columnHead, Order } from "../parts/lists.js";

/** The number of rows that are drawn above and below the visible part. */
const MARGIN = 8;
/** The largest number of nodes that are all open at first. */
const MOST_OPEN = 60;

/** @template {GridRow} R */
export class TreeGrid {
  /** @type {R[]} */
  rows = [];
  /** @type {Column<R>[]} */
  columns = [];
  /** @type {{name: string, sort: string, rank: (one: R) => number}[]} orders without a column */
  orders = [];
  /** @type {Map<string, boolean>} the rows that the reader has opened or closed, by key */
  opened = new Map();
  /** The key of the row with the keyboard focus. */
  current = "";
  /** @type {HTMLElement | null} */
  place = null;

  /** @param {{view: string, label: string}} options */
  constructor(options) {
    this.options = options;
    this.order = new Order(options.view, "name", redraw);
  }

  /**
   * Show a tree, or the nodes in it whose key contains the search of the address, and those above them.
   * @param {GridNode[]} roots @param {number} count of all nodes
   */
  fill(roots, count) {
    this.rows = this.rowsOf(roots, 1, (route.query.search ?? "").toLowerCase(), count <= MOST_OPEN);
  }

  /**
   * Return the visible rows of nodes and of all below them. Nodes above one that is found are visible and open.
   * @param {GridNode[]} nodes @param {number} level @param {string} search
   * @param {boolean} areOpen whether all nodes are open at first
   * @returns {R[]}
   */
  rowsOf(nodes, level, search, areOpen) {
    /** @type {(one: GridNode) => boolean} */
    const isVisible = ({ key, children }) => key.toLowerCase().includes(search) || children.some(isVisible);
    const visible = nodes.filter(isVisible);
    this.order.sort(visible, /** @type {any[]} */ ([...this.columns, ...this.orders]), ({ key }) => key);
    return visible.flatMap((one, index) => {
      const isParent = one.children.length > 0;
      const isOpen = isParent && (search !== "" || (this.opened.get(one.key) ?? (areOpen || level === 1)));
      const row = /** @type {R} */ ({ ...one, level, position: index + 1, siblings: visible.length, isParent, isOpen });
      return [row, ...(isOpen ? this.rowsOf(one.children, level + 1, search, areOpen) : [])];
    });
  }

  /** Open or close a row. */
  /** @param {R} row */
  toggle(row) {
    this.opened.set(row.key, !row.isOpen);
    redraw();
  }

  /** Describe the choice of an order. */
  orderField() {
    return this.order.field([...this.columns, ...this.orders]);
  }

  /** Describe the grid and the element that scrolls it. */
  describe() {
    return h("div.tree", { id: "tree", on: { scroll: () => this.redraw() } }, this.grid());
  }

  /** Draw the visible rows again, when the layout is known or has changed. */
  redraw() {
    this.place = document.getElementById("tree");
    if (!this.place) return;
    draw(this.place, this.grid());
  }

  grid() {
    if (!this.rows.some((row) => row.key === this.current)) this.current = this.rows[0]?.key ?? "";
    const [measures = 0, numbers = 0] = ["measure", "number"].map((style) => this.columns.filter((one) => one.style === style).length);
    return h("div.grid",
      {
        role: "treegrid",
        "aria-label": this.options.label,
        "aria-rowcount": this.rows.length + 1,
        vars: { columns: measures, numbers },
        on: { keydown: (/** @type {KeyboardEvent} */ event) => this.key(event) },
      },
      h("div.row.head", { role: "row", "aria-rowindex": 1 }, this.columns.map((one) => columnHead("div", { role: "columnheader", class: one.style }, one, this.order))),
      h("div.rows", { role: "rowgroup", vars: { count: this.rows.length } }, this.numbers().map((number) => this.line(number))),
    );
  }

  /** @param {number} number */
  line(number) {
    const row = this.rows[number];
    if (!row) return null;
    return h("div.row",
      {
        role: "row",
        "aria-rowindex": number + 2,
        key: row.key,
        "data-path": row.key,
        tabindex: row.key === this.current ? "0" : "-1",
        "aria-level": row.level,
        "aria-posinset": row.position,
        "aria-setsize": row.siblings,
        "aria-expanded": row.isParent ? String(row.isOpen) : null,
        "aria-selected": String(row.key === route.name),
        vars: { number, level: row.level - 1 },
        on: { click: (/** @type {MouseEvent} */ event) => this.click(event, row), focus: () => this.focus(row) },
      },
      this.columns.map((column) => this.cell(row, column)),
    );
  }

  /** @param {R} row @param {Column<R>} column */
  cell(row, { name, style, show, props }) {
    if (style !== "name") return h("div", { role: "gridcell", class: style, ...props?.(row) }, h("span.measure-name", { "aria-hidden": "true", title: name }, name), show(row, 0));
    const twist = row.isParent && (row.isOpen ? "▾" : "▸");
    return h("div.name", { role: "rowheader" }, h("span.twist", { "aria-hidden": "true" }, twist), h("span.label", { title: row.key }, row.name), show(row, 0));
  }

  /** Return the numbers of the visible rows and of some around them. */
  span() {
    const height = rowHeight(this.place);
    const first = Math.max(0, Math.floor((this.place?.scrollTop ?? 0) / height) - MARGIN);
    return { first, end: Math.min(this.rows.length, first + Math.ceil((this.place?.clientHeight ?? 800) / height) + 2 * MARGIN) };
  }

  /** Return the numbers of the rows to draw. */
  numbers() {
    const { first, end } = this.span();
    const numbers = Array.from({ length: Math.max(0, end - first) }, (_, index) => first + index);
    const kept = this.rows.findIndex((row) => row.key === this.current);
    if (kept >= 0 && kept < first) numbers.unshift(kept);
    if (kept >= end) numbers.push(kept);
    return numbers;
  }

  // Input

  /** @param {MouseEvent} event @param {R} row */
  click(event, row) {
    const isTwist = /** @type {HTMLElement} */ (event.target).classList.contains("twist");
    this.current = row.key;
    if (isTwist && row.isParent) this.toggle(row);
    else this.open(row);
  }

  /** @param {R} row whose detail is opened */
  open(row) {
    location.hash = link(this.options.view, row.key, current().query);
  }

  /** @param {R} row */
  focus(row) {
    if (row.key === this.current) return;
    this.current = row.key;
    this.redraw();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const at = this.rows.findIndex((row) => row.key === this.current);
    const row = this.rows[at];
    // A button in the header uses its keys itself.
    if (event.altKey || event.ctrlKey || event.metaKey || !this.place || !row || event.target instanceof HTMLButtonElement) return;
    const page = Math.max(1, Math.floor(this.place.clientHeight / rowHeight(this.place)) - 2);
    /** @type {Record<string, () => void>} */
    const moves = {
      ArrowDown: () => this.move(at + 1),
      ArrowUp: () => this.move(at - 1),
      Home: () => this.move(0),
      End: () => this.move(this.rows.length - 1),
      PageDown: () => this.move(at + page),
      PageUp: () => this.move(at - page),
      ArrowRight: () => (row.isOpen ? this.move(at + 1) : row.isParent && this.toggle(row)),
      ArrowLeft: () => (row.isOpen ? this.toggle(row) : this.move(this.parentOf(at))),
      Enter: () => this.open(row),
      " ": () => this.open(row),
    };
    const moved = moves[event.key];
    if (!moved) return;
    event.preventDefault();
    moved();
  }

  /** @param {number} at */
  parentOf(at) {
    const level = this.rows[at]?.level ?? 1;
    while (at > 0 && (this.rows[at]?.level ?? level) >= level) at--;
    return at;
  }

  /** Move the keyboard focus to a row, and scroll to it. */
  /** @param {number} to */
  move(to) {
    const place = this.place;
    const number = Math.min(this.rows.length - 1, Math.max(0, to));
    if (!place || number < 0) return;
    this.current = this.rows[number]?.key ?? "";
    const [height, head] = [rowHeight(place), place.querySelector(".head")?.getBoundingClientRect().height ?? 0];
    const top = number * height;
    if (top < place.scrollTop) place.scrollTop = top;
    else if (top + height > place.scrollTop + place.clientHeight - head) place.scrollTop = top + height - place.clientHeight + head;
    this.redraw();
    /** @type {HTMLElement | null} */ (place.querySelector('.rows > [tabindex="0"]'))?.focus({ preventScroll: true });
  }
}

/** Return the height of a row, exactly: that of one row is rounded, which adds up over 10,000 rows. */
/** @param {Element | null} place */
function rowHeight(place) {
  const drawn = /** @type {HTMLElement | null | undefined} */ (place?.querySelector(".rows"));
  const count = Number(drawn?.style.getPropertyValue("--count"));
  return (count && drawn && drawn.getBoundingClientRect().height / count) || 28;
}
