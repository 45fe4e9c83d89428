/**
 * The queue tree as rows: the visible ones in their order, with the limits of each.
 */

import { byName, shareOf } from "../base/format.js";

/**
 * @typedef {{amount: import("../types.js").Amount, setBy: string}} Ceiling
 * @typedef {import("./treegrid.js").GridRow & {queue: import("../types.js").Queue, name: string,
 *   ceilings: Map<string, Ceiling>}} Row
 * @typedef {{isOpen: (queue: import("../types.js").Queue, level: number) => boolean, search: string,
 *   sort: string}} Choice the order: `name`, `share`, `applications`, `pending`, or `of` with a resource
 * @typedef {{queue: import("../types.js").Queue, ceilings: Map<string, Ceiling>}} Found
 */

/**
 * Return the visible rows from the top.
 *
 * @param {import("../types.js").Queue} root
 * @param {Choice} choice
 * @returns {Row[]}
 */
export function visible(root, choice) {
  /** @type {Row[]} */
  const rows = [];
  const kept = choice.search ? matching(root, choice.search.toLowerCase()) : null;
  add(rows, [root], 1, new Map(), { ...choice, kept });
  return rows;
}

/**
 * @param {Row[]} rows
 * @param {import("../types.js").Queue[]} queues
 * @param {number} level
 * @param {Map<string, Ceiling>} above
 * @param {Choice & {kept: Set<string> | null}} choice
 */
function add(rows, queues, level, above, choice) {
  const shown = choice.kept ? queues.filter((queue) => choice.kept?.has(queue.queue_path)) : queues;
  const found = shown.map((queue) => ({ queue, ceilings: lowered(above, queue) })).sort((one, other) => byName(one.queue.queue_path, other.queue.queue_path));
  // Sorting is stable.
  const sorted = choice.sort === "name" ? found : found.sort((one, other) => rank(other, choice.sort) - rank(one, choice.sort));
  sorted.forEach(({ queue, ceilings }, index) => {
    const isParent = queue.children.length > 0;
    const isOpen = isParent && (choice.kept !== null || choice.isOpen(queue, level));
    const name = queue.queue_path.slice(queue.queue_path.lastIndexOf(".") + 1);
    rows.push({ key: queue.queue_path, queue, name, level, position: index + 1, siblings: sorted.length, isParent, isOpen, ceilings });
    if (isOpen) add(rows, queue.children, level + 1, ceilings, choice);
  });
}

/**
 * Return the number by which queues are sorted, the largest first.
 *
 * @param {Found} found
 * @param {string} sort
 */
function rank(found, sort) {
  const { queue } = found;
  if (sort === "share") return fullness(found);
  if (sort === "applications") return queue.running_applications;
  return sort === "pending" ? queue.pending_allocations : Number(queue.usage[sort.slice(3)] ?? 0);
}

/**
 * Return the largest used share of anything that limits a queue: its own maximum, or one above it; -1 without a limit.
 *
 * @param {Found} row
 */
function fullness({ queue, ceilings }) {
  const shares = [...ceilings].map(([name, { amount }]) => shareOfLimit(queue.usage[name] ?? 0, amount));
  if (queue.max_applications) shares.push(queue.running_applications / queue.max_applications);
  return Math.max(-1, ...shares);
}

/**
 * @param {import("../types.js").Amount} used
 * @param {import("../types.js").Amount} limit
 */
function shareOfLimit(used, limit) {
  // A limit of 0 only counts if something is used.
  return Number(limit) || Number(used) ? shareOf(used, limit) : 0;
}

/**
 * Return the lowest limits of a queue and the queues above it, with the queue that sets each.
 *
 * @param {Map<string, Ceiling>} above
 * @param {import("../types.js").Queue} queue
 */
function lowered(above, queue) {
  const own = Object.entries(queue.max_resources ?? {}).filter(
    ([name, amount]) => amount <= (above.get(name)?.amount ?? amount),
  );
  if (!own.length) return above;
  const found = new Map(above);
  for (const [name, amount] of own) found.set(name, { amount, setBy: queue.queue_path });
  return found;
}

/**
 * Return the paths that contain a text, and the paths of the queues above them.
 *
 * @param {import("../types.js").Queue} root
 * @param {string} text
 */
function matching(root, text) {
  /** @type {Set<string>} */
  const kept = new Set([root.queue_path]);
  for (const queue of every(root)) {
    if (!queue.queue_path.includes(text)) continue;
    for (let path = queue.queue_path; path && !kept.has(path); path = path.slice(0, Math.max(0, path.lastIndexOf(".")))) {
      kept.add(path);
    }
  }
  return kept;
}

/**
 * Yield a queue and all queues below it.
 *
 * @param {import("../types.js").Queue} queue
 * @returns {Generator<import("../types.js").Queue>}
 */
export function* every(queue) {
  yield queue;
  for (const child of queue.children) yield* every(child);
}

/**
 * Return the queues from the root down to a path.
 *
 * @param {import("../types.js").Queue} root
 * @param {string} path
 */
export function downTo(root, path) {
  const found = [root];
  for (;;) {
    const last = /** @type {import("../types.js").Queue} */ (found.at(-1));
    const next = last.children.find((child) => path === child.queue_path || path.startsWith(`${child.queue_path}.`));
    if (!next) return found;
    found.push(next);
  }
}
