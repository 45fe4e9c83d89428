/**
 * Polling: when to load the data again.
 *
 * The page polls, so the server keeps no state for it: identical requests of many pages share an answer, and a hidden tab
 * costs nothing. The interval grows with the duration of the answers, so the page takes at most a small part of the
 * server's time, however much data there is.
 */

/** The shortest and the longest interval, in milliseconds. */
const MIN_INTERVAL = 2000;
const MAX_INTERVAL = 30000;
/** The interval, in durations of the last answer. */
const DURATIONS = 15;

export class Poller {
  /** @param {() => Promise<void>} load loads and shows the data; it may fail */
  constructor(load) {
    this.load = load;
    this.paused = false;
    /** Milliseconds between the last answer and the next request. */
    this.interval = MIN_INTERVAL;
    /** @type {number | undefined} */
    this.timer = undefined;
    /** The number of the newest poll; older ones schedule nothing. */
    this.number = 0;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.stop() : this.poll()));
  }

  /** Load the data now, and schedule the next poll. */
  async poll() {
    this.stop();
    const number = ++this.number;
    const began = performance.now();
    try {
      await this.load();
    } finally {
      if (number === this.number) this.schedule(performance.now() - began);
    }
  }

  /** @param {boolean} paused */
  setPaused(paused) {
    this.paused = paused;
    if (paused) this.stop();
    else this.poll();
  }

  stop() {
    clearTimeout(this.timer);
  }

  /** @param {number} duration of the last answer, in milliseconds */
  schedule(duration) {
    if (this.paused || document.hidden) return;
    this.interval = Math.min(MAX_INTERVAL, Math.max(MIN_INTERVAL, duration * DURATIONS));
    this.timer = setTimeout(() => this.poll(), this.interval);
  }
}
