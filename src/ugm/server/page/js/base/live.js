/**
 * When to load the data again: soon after a change that the server pushes, or else by polling.
 *
 * A stream first sends the complete state, then the changes. Changes of queues contain their new values; those of users,
 * groups and trees only say that there is something new to load.
 *
 * Without a stream, the page polls, so the server keeps no state for it: identical requests of many pages share an answer.
 * The interval grows with the duration of the answers, so the page takes at most a small part of the server's time, however
 * much data there is. A hidden tab costs nothing.
 */

import { parseJson, path } from "./api.js";

/** Milliseconds without a message after which the connection counts as lost; the server sends one every 5 seconds. */
const SILENCE = 15_000;
/** Milliseconds until a stream that the server has refused is tried again. */
const RETRY = 60_000;
/** The longest interval between two polls, in milliseconds. */
const MAX_INTERVAL = 30_000;
/** The shortest interval, and the interval in durations of the last answer: without a stream, and after a pushed change. */
const POLLING = { least: 2000, durations: 15 };
const PUSHED = { least: 500, durations: 4 };
/** Milliseconds between two looks at the clock. */
const TICK = 500;

class LiveStream {
  /** @type {EventSource | undefined} */
  source;
  address = "";
  /** The time of the last message, on the clock of the browser, in milliseconds; 0 without a connection. */
  heardAt = 0;
  /** The queues by path; null until the state has arrived. */
  /** @type {Map<string, Queue> | null} */
  queues = null;
  /** Called after a message that changes something, and when the connection is lost. */
  changed = () => {};

  /** Return whether the page is told of every change. */
  get isConnected() {
    return Date.now() - this.heardAt < SILENCE;
  }

  /** Listen to a topic of the current partition, and to nothing else; an empty topic is none. */
  /** @param {string} topic */
  listen(topic) {
    const address = topic && `api/v1/${path("stream")}?topic=${topic}`;
    if (address !== this.address) this.open(address);
  }

  /** @param {string} [address] empty for none */
  open(address = this.address) {
    this.source?.close();
    Object.assign(this, { address, source: undefined, heardAt: 0, queues: null });
    if (!address) return;
    const source = (this.source = new EventSource(address));
    for (const event of ["state", "change", "idle", "outage"]) source.addEventListener(event, ({ data }) => this.hear(event, parseJson(data)));
    source.addEventListener("error", () => this.lose(source));
  }

  /** @param {string} event @param {{queues?: Record<string, Queue | null> | null}} message */
  hear(event, { queues: changes }) {
    this.heardAt = Date.now();
    if (event === "idle") return;
    if (event === "state") this.queues = new Map();
    // Too many changes for one message: the state has to be sent again.
    if (changes === null) this.open();
    for (const [path, queue] of Object.entries(changes ?? {})) {
      if (queue) this.queues?.set(path, queue);
      else this.queues?.delete(path);
    }
    this.changed();
  }

  /** @param {EventSource} source */
  lose(source) {
    const wasConnected = this.heardAt > 0;
    Object.assign(this, { heardAt: 0, queues: null });
    // The browser connects again by itself, unless the server has refused the stream.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => source === this.source && this.open(), RETRY);
    if (wasConnected) this.changed();
  }

  /** Notice that the server is silent, which the browser does not report. */
  check() {
    if (!this.heardAt || this.isConnected) return;
    this.open();
    this.changed();
  }

  /** Return the tree of queues; null if the stream does not have it. */
  /** @returns {Queue | null} */
  tree() {
    if (!this.isConnected || !this.queues?.has("root")) return null;
    /** @type {Map<string, Queue>} */
    const copies = new Map();
    for (const path of [...this.queues.keys()].sort()) {
      const copy = { .../** @type {Queue} */ (this.queues.get(path)), children: [] };
      copies.set(path, copy);
      copies.get(path.slice(0, Math.max(0, path.lastIndexOf("."))))?.children.push(copy);
    }
    return copies.get("root") ?? null;
  }
}

/** The stream of the page. */
export const live = new LiveStream();

export class Poller {
  paused = false;
  /** Whether there was a change since the last poll began. */
  hasChanged = false;
  /** When the last poll ended, infinite during a poll, and its duration, in milliseconds. */
  endedAt = Infinity;
  duration = 0;
  /** The number of the newest poll; the end of an older one changes nothing. */
  number = 0;

  /** @param {() => Promise<void>} load loads and shows the data @param {() => void} ticked is called while the tab is visible */
  constructor(load, ticked) {
    this.load = load;
    live.changed = () => {
      this.hasChanged = true;
      this.check();
    };
    setInterval(() => {
      live.check();
      this.check();
      if (!document.hidden) ticked();
    }, TICK);
  }

  /** Return the milliseconds between the last answer and the next request, if there is something to load. */
  get interval() {
    const { least, durations } = live.isConnected ? PUSHED : POLLING;
    return Math.min(MAX_INTERVAL, Math.max(least, this.duration * durations));
  }

  /** Load the data if it is time. */
  check() {
    const wait = live.isConnected && !this.hasChanged ? MAX_INTERVAL : this.interval;
    if (!this.paused && !document.hidden && performance.now() - this.endedAt >= wait) this.poll();
  }

  /** Load the data now. */
  async poll() {
    const number = ++this.number;
    const began = performance.now();
    Object.assign(this, { hasChanged: false, endedAt: Infinity });
    try {
      await this.load();
    } finally {
      const ended = performance.now();
      if (number === this.number) Object.assign(this, { endedAt: ended, duration: ended - began });
    }
  }
}
