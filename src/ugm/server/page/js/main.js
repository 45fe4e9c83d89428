/**
 * The page: what is looked at, asked for again and again, and drawn.
 */

import * as applications from "./applications.js";
import { get, path, Refused } from "./api.js";
import * as ask from "./ask.js";
import * as denials from "./denials.js";
import { draw, h } from "./dom.js";
import { clock } from "./format.js";
import * as holders from "./holders.js";
import { Pace } from "./pace.js";
import * as queue from "./queue.js";
import * as queues from "./queues.js";
import { link, parse } from "./route.js";
import { standings } from "./standings.js";
import { summary } from "./summary.js";
import { announce } from "./told.js";

/** @type {Record<string, {title: string, load: (route: any) => Promise<any>, show: (route: any, told: any) => any, shown?: () => void}>} */
const VIEWS = { queues, users: standings("users"), groups: standings("groups"), applications, denials, ask };
/** @type {Record<string, {load: (route: any) => Promise<any>, show: (route: any, told: any, view: any) => any, noun: string}>} */
const DETAILS = {
  queues: { load: queue.load, show: queue.show, noun: "Queue" },
  users: { load: holders.loadUser, show: holders.showUser, noun: "User" },
  groups: { load: holders.loadGroup, show: holders.showGroup, noun: "Group" },
  applications: { load: applications.loadDetail, show: applications.showDetail, noun: "Application" },
};

const state = {
  /** @type {string[]} */
  partitions: [],
  route: parse(location.hash),
  /** What was answered last, and for which address. */
  /** @type {{address: string, view: any, detail: any, partition: import("./types.js").Partition} | null} */
  told: null,
  at: 0,
  /** How many turns were begun. */
  turns: 0,
  /** What went wrong, if the last turn did. */
  error: "",
  /** Whether the reader has just gone somewhere, and the focus follows. */
  isArriving: false,
  /** The address of the link that opened the detail. */
  opener: "",
};

/** Figures that are renewed at least every so many seconds are called live. */
const LIVE = 5;
/** Seconds that an answer may take until it is called late. */
const GRACE = 5;

const pace = new Pace(turn);

/** Ask, and draw what was answered. */
async function turn() {
  const address = location.hash;
  const number = ++state.turns;
  try {
    if (!state.partitions.length) state.partitions = (await get("health")).partitions;
    if (!settle()) return;
    const { route } = state;
    const view = /** @type {(typeof VIEWS)[string]} */ (VIEWS[route.view]);
    const [partition, told, detail] = await Promise.all([
      get(path(route.partition)),
      view.load(route),
      route.name ? DETAILS[route.view]?.load(route) : undefined,
    ]);
    // Somebody went elsewhere, or asked again, meanwhile.
    if (number !== state.turns) return;
    if (state.error) announce("The server responds again.");
    Object.assign(state, { told: { address, view: told, detail, partition }, at: Date.now() / 1000, error: "" });
  } catch (error) {
    if (number !== state.turns) return;
    const message = error instanceof Refused ? error.message : "the server does not respond";
    if (!state.error) announce(`${message}; trying again.`);
    state.error = message;
  }
  render();
}

/** Make sure that the address names something; return whether it did. */
function settle() {
  const { route } = state;
  const partition = state.partitions.includes(route.partition) ? route.partition : state.partitions[0] ?? "";
  if (partition === route.partition && VIEWS[route.view]) return true;
  history.replaceState(null, "", link(partition, VIEWS[route.view] ? route.view : "queues"));
  arrive(false);
  return false;
}

/** @param {boolean} [byReader] */
function arrive(byReader = true) {
  const before = state.route;
  state.route = parse(location.hash);
  state.isArriving = byReader && (before.view !== state.route.view || before.name !== state.route.name);
  if (state.route.name && !before.name) state.opener = location.hash;
  pace.now();
}

// Drawing

function render() {
  const top = /** @type {HTMLElement} */ (document.getElementById("top"));
  const place = /** @type {HTMLElement} */ (document.getElementById("view"));
  draw(top, header());
  const isThere = state.told?.address === location.hash;
  draw(place, state.error && alarm(), isThere && content());
  if (!isThere) return;
  const view = VIEWS[state.route.view];
  view?.shown?.();
  document.title = [state.route.name, view?.title, state.route.partition, "ugm"].filter(Boolean).join(" - ");
  if (state.isArriving) follow();
  state.isArriving = false;
}

/** Let the focus follow the reader: into a detail that was opened, back to where one was closed. */
function follow() {
  const opener = state.opener && document.querySelector(`#view a[href="${CSS.escape(state.opener)}"]`);
  const back = state.route.view === "queues" ? document.querySelector('.rows > [tabindex="0"]') : opener;
  const heading = document.querySelector(state.route.name ? "#detail-heading" : "#heading");
  const found = !state.route.name && state.opener ? back ?? heading : heading;
  /** @type {HTMLElement | null} */ (found)?.focus();
  if (!state.route.name) state.opener = "";
}

function header() {
  const { route, partitions, told } = state;
  return [
    h(
      "div",
      { class: "bar-top" },
      h("h1", null, h("a", { href: link(route.partition, "queues") }, "ugm")),
      partitions.length > 1 ? chooser() : h("span", { class: "partition" }, route.partition),
      h("nav", { "aria-label": "Views" }, h("ul", null, Object.entries(VIEWS).map(([name, view]) => tab(name, view.title)))),
      live(),
    ),
    told && summary(told.partition),
  ];
}

function chooser() {
  /** @param {Event} event */
  const change = (event) => {
    location.hash = link(/** @type {HTMLSelectElement} */ (event.target).value, parse(location.hash).view);
  };
  const options = state.partitions.map((name) => h("option", { value: name, selected: name === state.route.partition }, name));
  return h("label", { class: "partition" }, h("span", { class: "unseen" }, "Partition"), h("select", { on: { change }, value: state.route.partition }, options));
}

/**
 * @param {string} name
 * @param {string} title
 */
function tab(name, title) {
  const isHere = state.route.view === name;
  return h("li", null, h("a", { href: link(state.route.partition, name), "aria-current": isHere ? "page" : null }, title));
}

function live() {
  const pause = () => {
    pace.pause(!pace.paused);
    render();
  };
  return h(
    "div",
    { class: "live" },
    h("span", { class: state.error || isLate() ? "late" : "quiet" }, freshness()),
    h("button", { type: "button", "aria-pressed": String(pace.paused), on: { click: pause } }, "Pause"),
  );
}

/** Whether an answer is overdue. */
function isLate() {
  return !pace.paused && Date.now() / 1000 - state.at > pace.interval / 1000 + GRACE;
}

/** Say of when the figures are, and call them live only if they are. */
function freshness() {
  const at = state.at ? `as of ${clock(state.at)}` : "no figures yet";
  if (pace.paused) return `paused, ${at}`;
  if (state.error) return `not connected, ${at}`;
  if (isLate()) return `waiting for the server, ${at}`;
  const seconds = Math.round(pace.interval / 1000);
  return seconds > LIVE ? `${at}, every ${seconds} s` : `live, ${clock(state.at)}`;
}

function alarm() {
  return h("p", { class: "error", key: "alarm" }, `${state.error}. The figures are of ${state.at ? clock(state.at) : "no time yet"}; trying again.`);
}

function content() {
  const { route, told } = state;
  const view = VIEWS[route.view];
  const detail = route.name ? DETAILS[route.view] : undefined;
  return [
    h("section", { class: "list-side", key: route.view, "aria-labelledby": "heading" }, h("h2", { id: "heading", tabindex: "-1" }, view?.title), view?.show(route, told?.view)),
    detail &&
      h(
        "section",
        { class: "detail-side", key: `${route.view}/${route.name}`, "aria-labelledby": "detail-heading" },
        h(
          "div",
          { class: "detail-top" },
          h("h2", { id: "detail-heading", class: "long-name", title: route.name, tabindex: "-1" }, h("span", { class: "quiet" }, `${detail.noun} `), route.name),
          h("a", { class: "close", href: link(route.partition, route.view, "", route.query) }, "Close"),
        ),
        detail.show(route, told?.detail, told?.view),
      ),
  ];
}

document.getElementById("skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("content")?.focus();
});
/** Close the detail on Escape, unless it does something else where the focus is. */
function escape(/** @type {KeyboardEvent} */ event) {
  const { partition, view, name, query } = state.route;
  const isTyping = event.target instanceof HTMLInputElement && event.target.value !== "";
  if (event.key === "Escape" && name && !isTyping && !event.defaultPrevented) location.hash = link(partition, view, "", query);
}

/** Keep what is said about the age of the figures true while nothing is answered. */
function age() {
  const top = document.getElementById("top");
  if (top && !document.hidden && state.told) draw(top, header());
}

window.addEventListener("keydown", escape);
setInterval(age, 1000);
window.addEventListener("hashchange", () => arrive());
window.addEventListener("again", () => pace.now());
window.addEventListener("redraw", render);
window.addEventListener("resize", () => VIEWS[state.route.view]?.shown?.());
pace.now();
