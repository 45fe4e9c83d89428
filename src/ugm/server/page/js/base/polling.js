/**
 * Polling: when to load the data again, with and without a stream that tells of changes.
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
/** The same after a change that the server has pushed, and the shortest interval then. */
const PUSHED_DURATIONS = 4;
const MIN_PUSHED_INTERVAL = 500;

export class Poller {
  /** @param {() => Promise<void>} load loads and shows the data; it may fail */
  constructor(load) {
    this.load = load;
    this.paused = false;
    /** Milliseconds between the last answer and the next request. */
    this.interval = MIN_INTERVAL;
    /** @type {number | undefined} */
    this.timer = undefined;
    /** Whether the server tells of changes. */
    this.isPushed = () => false;
    /** Whether there was a change since the last poll began. */
    this.hasChanged = false;
    /** When the last poll ended, and its duration, in milliseconds; -1 during a poll. */
    this.endedAt = 0;
    this.duration = 0;
    /** The number of the newest poll; older ones schedule nothing. */
    this.number = 0;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.stop() : this.poll()));
  }

  /** Load the data now, and schedule the next poll. */
  async poll() {
    this.stop();
    const number = ++this.number;
    const began = performance.now();
    this.hasChanged = false;
    this.endedAt = -1;
    try {
      await this.load();
    } finally {
      if (number === this.number) this.schedule(performance.now() - began);
    }
  }

  /** Load the data soon, because the server has told of a change. */
  changed() {
    this.hasChanged = true;
    if (this.endedAt >= 0) this.schedule(this.duration, performance.now() - this.endedAt);
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

  /**
   * @param {number} duration of the last answer, in milliseconds
   * @param {number} [passed] the milliseconds since then
   */
  schedule(duration, passed = 0) {
    if (!passed) Object.assign(this, { endedAt: performance.now(), duration });
    if (this.paused || document.hidden) return;
    this.stop();
    const [least, factor] = this.isPushed() ? [MIN_PUSHED_INTERVAL, PUSHED_DURATIONS] : [MIN_INTERVAL, DURATIONS];
    this.interval = Math.min(MAX_INTERVAL, Math.max(least, duration * factor));
    const wait = this.isPushed() && !this.hasChanged ? MAX_INTERVAL : this.interval;
    this.timer = setTimeout(() => this.poll(), Math.max(0, wait - passed));
  }
}
