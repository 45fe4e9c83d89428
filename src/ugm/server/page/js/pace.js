/**
 * When to ask again.
 *
 * The page asks instead of being told: whoever asks for the same at the same time is given the same answer, a tab that
 * nobody looks at costs nothing, and the server keeps nothing for a page that is open. It rests for fifteen times as long
 * as the answers took, so that it takes at most a small part of the server's time, however much there is to tell.
 */

const LEAST = 2000;
const MOST = 30000;
const REST = 15;

export class Pace {
  /** @param {() => Promise<void>} turn what is done each time; it may fail */
  constructor(turn) {
    this.turn = turn;
    this.paused = false;
    /** Milliseconds between the last answer and the next question. */
    this.interval = LEAST;
    /** @type {number | undefined} */
    this.timer = undefined;
    /** Which turn is the newest; one that was overtaken sets no timer. */
    this.number = 0;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.stop() : this.now()));
  }

  /** Take a turn at once, and go on from there. */
  async now() {
    this.stop();
    const number = ++this.number;
    const began = performance.now();
    try {
      await this.turn();
    } finally {
      if (number === this.number) this.rest(performance.now() - began);
    }
  }

  /** @param {boolean} paused */
  pause(paused) {
    this.paused = paused;
    if (paused) this.stop();
    else this.now();
  }

  stop() {
    clearTimeout(this.timer);
  }

  /** @param {number} took in milliseconds */
  rest(took) {
    if (this.paused || document.hidden) return;
    this.interval = Math.min(MOST, Math.max(LEAST, took * REST));
    this.timer = setTimeout(() => this.now(), this.interval);
  }
}
