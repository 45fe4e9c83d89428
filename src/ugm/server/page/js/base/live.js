/**
 * Live changes of a partition, which the server pushes while the page is visible.
 *
 * The stream first sends the complete state, then the changes. Changes of queues contain their new values; those of users,
 * groups and trees only say that there is something new to load. Without a stream, the page polls.
 */

import { parseJson, path } from "./api.js";

/** Milliseconds without a message after which the connection counts as lost; the server sends one every 5 seconds. */
const SILENCE = 15_000;
/** Milliseconds until a stream that the server has refused is tried again. */
const RETRY = 60_000;

/** @typedef {{version: number, at: number, queues?: Record<string, Queue | null> | null}} Message */

class LiveStream {
  constructor() {
    /** @type {EventSource | null} */
    this.source = null;
    this.address = "";
    /** The time of the last message, on the clock of the browser, in milliseconds; 0 without a connection. */
    this.heardAt = 0;
    this.refusedAt = -Infinity;
    /** The queues by path; null until the state has arrived. @type {Map<string, Queue> | null} */
    this.queues = null;
    /** Called after a message that changes something, and when the connection is lost. */
    this.changed = () => {};
  }

  /** Return whether the page is told of every change. */
  get isConnected() {
    return this.heardAt > 0 && Date.now() - this.heardAt < SILENCE;
  }

  /**
   * Listen to a topic of the current partition, and to nothing else; an empty topic is none.
   *
   * @param {string} topic
   */
  listen(topic) {
    const address = topic && `api/v1/${path("stream")}?topic=${topic}`;
    if (address === this.address && (this.source || Date.now() - this.refusedAt < RETRY)) return;
    this.close();
    this.address = address;
    if (address) this.open();
  }

  open() {
    const source = (this.source = new EventSource(this.address));
    const on = (/** @type {string} */ event, /** @type {(message: Message) => void} */ apply) =>
      source.addEventListener(event, (found) => {
        if (source !== this.source) return;
        this.heardAt = Date.now();
        apply(parseJson(/** @type {MessageEvent} */ (found).data));
      });
    on("state", (message) => this.apply(message, new Map()));
    on("change", (message) => this.apply(message, this.queues));
    on("idle", () => {});
    on("outage", () => this.changed());
    source.addEventListener("error", () => this.lose(source));
  }

  /** @param {Message} message @param {Map<string, Queue> | null} queues the queues before the message */
  apply({ queues: changes }, queues) {
    this.queues = queues;
    if (changes === null) {
      // Too many changes for one message: the state has to be sent again.
      this.reopen();
      return;
    }
    for (const [path, queue] of Object.entries(changes ?? {})) {
      if (queue) queues?.set(path, queue);
      else queues?.delete(path);
    }
    this.changed();
  }

  reopen() {
    const { address } = this;
    this.close();
    this.address = address;
    this.open();
    this.changed();
  }

  /** @param {EventSource} source */
  lose(source) {
    if (source !== this.source) return;
    const wasConnected = this.heardAt > 0;
    this.heardAt = 0;
    this.queues = null;
    // The browser connects again by itself, unless the server has refused the stream.
    if (source.readyState === EventSource.CLOSED) {
      this.source = null;
      this.refusedAt = Date.now();
    }
    if (wasConnected) this.changed();
  }

  /** Notice that the server is silent, which the browser does not report. */
  check() {
    if (this.heardAt > 0 && !this.isConnected && this.source) this.reopen();
  }

  close() {
    this.source?.close();
    Object.assign(this, { source: null, address: "", heardAt: 0, refusedAt: -Infinity, queues: null });
  }

  /**
   * Return the tree of queues; null if the stream does not have it.
   *
   * @returns {Queue | null}
   */
  tree() {
    if (!this.isConnected || !this.queues?.has("root")) return null;
    /** @type {Map<string, Queue>} */
    const copies = new Map();
    for (const path of [...this.queues.keys()].sort()) {
      const copy = { .../** @type {Queue} */ (this.queues.get(path)), children: [] };
      copies.set(path, copy);
      const above = copies.get(path.slice(0, Math.max(0, path.lastIndexOf("."))));
      if (above) above.children.push(copy);
    }
    return copies.get("root") ?? null;
  }
}

/** The stream of the page. */
export const live = new LiveStream();
