/**
 * The queue tree as rows: the visible ones in their order, with the limits of each.
 */

import { byName, limitShare } from "../base/format.js";

/**
 * @typedef {{amount: Amount, setBy: string}} Ceiling a limit, and the queue that sets it
 * @typedef {{queue: Queue, ceilings: Map<string, Ceiling>}} Limited
 * @typedef {import("./treegrid.js").GridRow & Limited & {name: string}} Row
 * @typedef {{isOpen: (queue: Queue, level: number) => boolean, search: string, sort: string}} Choice the order: `name`, `share`,
 *   `applications`, `pending`, or `of` with a resource
 */

/**
 * Yield a queue and all queues below it, each with the lowest limits of itself and the queues above it.
 *
 * @param {Queue} queue
 * @param {Map<string, Ceiling>} [above]
 * @returns {Generator<Limited>}
 */
export function* every(queue, above = new Map()) {
  const ceilings = lowered(above, queue);
  yield { queue, ceilings };
  for (const child of queue.children) yield* every(child, ceilings);
}

/**
 * @param {Map<string, Ceiling>} above
 * @param {Queue} queue
 */
function lowered(above, queue) {
  const own = Object.entries(queue.max_resources ?? {}).filter(([name, amount]) => amount <= (above.get(name)?.amount ?? amount));
  return own.length ? new Map([...above, ...own.map(([name, amount]) => /** @type {const} */ ([name, { amount, setBy: queue.queue_path }]))]) : above;
}

/**
 * Return the visible rows from the top.
 *
 * @param {Queue} root
 * @param {Choice} choice
 * @returns {Row[]}
 */
export function visible(root, choice) {
  return rowsOf([root], 1, new Map(), choice, choice.search ? matching(root, choice.search.toLowerCase()) : null);
}

/**
 * @param {Queue[]} queues
 * @param {number} level
 * @param {Map<string, Ceiling>} above
 * @param {Choice} choice
 * @param {Set<string> | null} kept the paths of the only visible queues; null for no restriction
 * @returns {Row[]}
 */
function rowsOf(queues, level, above, choice, kept) {
  const shown = queues.filter((queue) => kept?.has(queue.queue_path) ?? true).map((queue) => ({ queue, ceilings: lowered(above, queue) }));
  shown.sort((one, other) => rank(other, choice.sort) - rank(one, choice.sort) || byName(one.queue.queue_path, other.queue.queue_path));
  return shown.flatMap(({ queue, ceilings }, index) => {
    const isParent = queue.children.length > 0;
    const isOpen = isParent && (kept !== null || choice.isOpen(queue, level));
    const name = queue.queue_path.slice(queue.queue_path.lastIndexOf(".") + 1);
    const row = { key: queue.queue_path, queue, name, level, position: index + 1, siblings: shown.length, isParent, isOpen, ceilings };
    return isOpen ? [row, ...rowsOf(queue.children, level + 1, ceilings, choice, kept)] : [row];
  });
}

/**
 * Return the number by which queues are sorted, the largest first.
 *
 * @param {Limited} found
 * @param {string} sort
 */
function rank({ queue, ceilings }, sort) {
  if (sort === "name") return 0;
  if (sort === "applications") return queue.running_applications;
  if (sort === "pending") return queue.pending_allocations;
  if (sort !== "share") return Number(queue.usage[sort.slice(3)] ?? 0);
  // The largest used share of anything that limits a queue: its own maximum, or one above it; -1 without a limit.
  const shares = [...ceilings].map(([name, { amount }]) => limitShare(queue.usage[name] ?? 0, amount));
  return Math.max(-1, queue.max_applications ? queue.running_applications / queue.max_applications : -1, ...shares);
}

/**
 * Return the paths that contain a text, and the paths of the queues above them.
 *
 * @param {Queue} root
 * @param {string} text
 */
function matching(root, text) {
  const kept = new Set([root.queue_path]);
  for (const { queue } of every(root)) {
    if (queue.queue_path.includes(text)) queue.queue_path.split(".").forEach((_, index, parts) => kept.add(parts.slice(0, index + 1).join(".")));
  }
  return kept;
}
