/**
 * The page: it polls the data of the current route, and draws them.
 */

import * as alerts from "./views/alerts.js";
import * as applications from "./views/applications.js";
import { get, path, ApiError } from "./base/api.js";
import * as budgets from "./views/budgets.js";
import * as check from "./views/check.js";
import * as configuration from "./views/configuration.js";
import * as denials from "./views/denials.js";
import { draw, h } from "./base/dom.js";
import { clock, counted } from "./base/format.js";
import * as nodes from "./views/nodes.js";
import { live } from "./base/live.js";
import * as owner from "./trees/owner.js";
import { Poller } from "./base/polling.js";
import * as preemption from "./views/preemption.js";
import * as queue from "./trees/queue.js";
import * as queues from "./trees/queues.js";
import { link, parse } from "./base/route.js";
import * as service from "./views/service.js";
import * as shares from "./views/shares.js";
import { utilizationView } from "./views/utilization.js";
import { summary } from "./parts/summary.js";
import { treesOf, treeView } from "./trees/trees.js";
import * as waiting from "./views/waiting.js";
import { announce } from "./base/announcements.js";

const TREES = { elastic: treeView("elastic"), quota: treeView("quota") };
/** @type {Map<string, {title: string, load: (route: any) => Promise<any>, show: (route: any, data: any) => any, shown?: () => void}>} */
const VIEWS = new Map(Object.entries({ queues, users: utilizationView("users"), groups: utilizationView("groups"), ...TREES, budgets, shares, applications, waiting, preemption, denials, alerts, check, nodes, configuration, service }));
/** @type {Map<string, {load: (route: any) => Promise<any>, show: (route: any, data: any, view: any) => any, noun: string}>} */
const DETAILS = new Map(Object.entries({
  queues: { load: queue.load, show: queue.show, noun: "Queue" },
  users: { load: owner.loadUser, show: owner.showUser, noun: "User" },
  groups: { load: owner.loadGroup, show: owner.showGroup, noun: "Group" },
  elastic: TREES.elastic.detail,
  quota: TREES.quota.detail,
  applications: { load: applications.loadDetail, show: applications.showDetail, noun: "Application" },
  preemption: { load: preemption.loadDetail, show: preemption.showDetail, noun: "Request" },
}));

/** The views of quota models, which a partition may lack. */
const OPTIONAL = new Set([...Object.keys(TREES), "budgets", "shares"]);
/** The classes of quota models with a view of their own. */
const MODELS = new Map([["Budgets", "budgets"], ["FairShares", "shares"]]);

const state = {
  /** @type {import("./types.js").Health | null} */
  health: null,
  route: parse(location.hash),
  /** The data of the last poll, and their address. */
  /** @type {{address: string, view: any, detail: any, kinds: string[], partition: import("./types.js").Partition | null} | null} */
  data: null,
  /** When the data were loaded, in seconds since 1970. */
  at: 0,
  /** When the summary was loaded, and of which partition. */
  summary: { at: 0, partition: "" },
  /** The number of polls so far. */
  polls: 0,
  /** The error of the last poll, or empty. */
  error: "",
  /** Whether the reader has just opened another view or detail, so that the focus moves. */
  hasNavigated: false,
  /** The address of the link that opened the detail. */
  opener: "",
  /** Whether the menu of views is open, which only narrow windows have. */
  isMenuOpen: false,
};

/** The topics of the stream, by view; other views poll. What runs or waits changes with the usage or requests of a user. */
const TOPICS = new Map(Object.entries({
  ...{ queues: "queues", users: "users", groups: "groups", elastic: "trees", quota: "trees" },
  ...Object.fromEntries(["budgets", "shares", "applications", "waiting", "preemption", "alerts"].map((view) => [view, "users"])),
}));
/** The seconds for which a view without a stream keeps the summary. */
const SUMMARY = 10;
/** The longest interval, in seconds, at which the figures count as live. */
const LIVE = 5;
/** The seconds after which an answer counts as late. */
const GRACE = 5;

const poller = new Poller(load);
poller.isPushed = () => live.isConnected;
live.changed = () => poller.changed();

/** Load the data of the current route, and draw them. */
async function load() {
  const address = location.hash;
  const number = ++state.polls;
  try {
    if (!state.health) state.health = await loadHealth();
    if (!correctRoute()) return;
    const { route } = state;
    live.listen(route.partition, poller.paused || document.hidden ? "" : TOPICS.get(route.view) ?? "");
    const view = VIEWS.get(route.view);
    const now = Date.now() / 1000;
    const keepsSummary = !live.isConnected && state.data && state.summary.partition === route.partition && now - state.summary.at < SUMMARY;
    const [health, partition, kinds, data, detail] = await Promise.all([
      keepsSummary ? state.health : loadHealth(),
      keepsSummary ? state.data?.partition ?? null : loadPartition(route),
      loadKinds(route.partition),
      view?.load(route),
      route.name ? DETAILS.get(route.view)?.load(route) : undefined,
    ]);
    // The reader has navigated, or a newer poll has begun.
    if (number !== state.polls) return;
    if (!keepsSummary) state.summary = { at: now, partition: route.partition };
    if (state.error) announce("The server responds again.");
    else if (health.reason && !state.health.reason) announce("The configuration file was refused.");
    Object.assign(state, { health, data: { address, view: data, detail, kinds, partition }, at: Date.now() / 1000, error: "" });
  } catch (error) {
    if (number !== state.polls) return;
    const message = error instanceof ApiError ? error.message : "The server does not respond";
    if (!state.error) announce(`${message}; trying again.`);
    state.error = message;
  }
  render();
}

/**
 * Load the summary of the partition. While no process leads a service, only its status is available.
 *
 * @param {import("./types.js").Route} route
 * @returns {Promise<import("./types.js").Partition | null>}
 */
async function loadPartition(route) {
  const found = get(path(route.partition));
  return route.view === "service" ? found.catch(() => null) : found;
}

/** @returns {Promise<import("./types.js").Health>} */
function loadHealth() {
  return get("health");
}

/**
 * Load the views of the quota models of the partition: their kinds of trees, budgets and fair shares.
 *
 * @param {string} partition
 */
async function loadKinds(partition) {
  try {
    const { trees, models } = await treesOf(partition);
    return [...trees.map((tree) => tree.kind), ...models.map(({ model }) => MODELS.get(model) ?? "")];
  } catch {
    // Other requests report the error.
    return [];
  }
}

/** Replace an address that does not exist; return whether it exists. */
function correctRoute() {
  const { route } = state;
  const partitions = state.health?.partitions ?? [];
  const partition = partitions.includes(route.partition) ? route.partition : partitions[0] ?? "";
  if (partition === route.partition && VIEWS.has(route.view)) return true;
  history.replaceState(null, "", link(partition, VIEWS.has(route.view) ? route.view : "queues"));
  navigate(false);
  return false;
}

/** @param {boolean} [byReader] */
function navigate(byReader = true) {
  const before = state.route;
  state.route = parse(location.hash);
  state.hasNavigated = byReader && (before.view !== state.route.view || before.name !== state.route.name);
  if (state.route.name && !before.name) state.opener = location.hash;
  state.isMenuOpen = false;
  poller.poll();
}

// Drawing

function render() {
  const top = /** @type {HTMLElement} */ (document.getElementById("top"));
  const place = /** @type {HTMLElement} */ (document.getElementById("view"));
  draw(top, header());
  const isThere = state.data?.address === location.hash;
  draw(place, state.error && alarm(), state.health?.reason && banner(state.health), isThere && content());
  if (!isThere) return;
  const view = VIEWS.get(state.route.view);
  view?.shown?.();
  document.title = [state.route.name, view?.title, state.route.partition, "ugm"].filter(Boolean).join(" - ");
  if (state.hasNavigated) moveFocus();
  state.hasNavigated = false;
}

/** Move the focus into a detail that was opened, or back to the link of one that was closed. */
function moveFocus() {
  const opener = state.opener && document.querySelector(`#view a[href="${CSS.escape(state.opener)}"]`);
  const back = ["queues", ...Object.keys(TREES)].includes(state.route.view) ? document.querySelector('.rows > [tabindex="0"]') : opener;
  const heading = document.querySelector(state.route.name ? "#detail-heading" : "#heading");
  const found = !state.route.name && state.opener ? back ?? heading : heading;
  /** @type {HTMLElement | null} */ (found)?.focus();
  if (!state.route.name) state.opener = "";
}

function header() {
  const { route, data } = state;
  const partitions = state.health?.partitions ?? [];
  const isThere = (/** @type {string} */ name) => name === route.view || (OPTIONAL.has(name) ? data?.kinds.includes(name) : name !== "service" || data?.partition?.has_service);
  const views = [...VIEWS].filter(([name]) => isThere(name));
  return [
    h(
      "div",
      { class: "bar-top" },
      h("h1", null, h("a", { href: link(route.partition, "queues") }, "ugm")),
      partitions.length > 1 ? chooser(partitions) : h("span", { class: "partition" }, route.partition),
      h("nav", { "aria-label": "Views" }, menuButton(), h("ul", null, views.map(([name, view]) => tab(name, view.title)))),
      liveStatus(),
    ),
    data?.partition && summary(data.partition),
  ];
}

/** @param {string[]} partitions */
function chooser(partitions) {
  /** @param {Event} event */
  const change = (event) => {
    location.hash = link(/** @type {HTMLSelectElement} */ (event.target).value, parse(location.hash).view);
  };
  const options = partitions.map((name) => h("option", { value: name, selected: name === state.route.partition }, name));
  return h("label", { class: "partition" }, h("span", { class: "unseen" }, "Partition"), h("select", { on: { change }, value: state.route.partition }, options));
}

/** The button that shows the views in a narrow window; it has the title of the current view. */
function menuButton() {
  const click = () => setMenu(!state.isMenuOpen);
  return h("button", { type: "button", class: "menu", "aria-expanded": String(state.isMenuOpen), on: { click } }, h("span", { class: "unseen" }, "View: "), VIEWS.get(state.route.view)?.title);
}

/** @param {boolean} isOpen */
function setMenu(isOpen) {
  state.isMenuOpen = isOpen;
  render();
}

/**
 * @param {string} name
 * @param {string} title
 */
function tab(name, title) {
  const isHere = state.route.view === name;
  return h("li", null, h("a", { href: link(state.route.partition, name), "aria-current": isHere ? "page" : null }, title));
}

function liveStatus() {
  const pause = () => {
    poller.setPaused(!poller.paused);
    if (poller.paused) live.close();
    render();
  };
  return h(
    "div",
    { class: "live" },
    h("span", { class: state.error || isLate() ? "late" : "quiet" }, freshness()),
    h("button", { type: "button", "aria-pressed": String(poller.paused), on: { click: pause } }, "Pause"),
  );
}

/** Return whether an answer is overdue. */
function isLate() {
  return !poller.paused && !live.isConnected && Date.now() / 1000 - state.at > poller.interval / 1000 + GRACE;
}

/** Return the age of the figures as text; they are called live only if they are. */
function freshness() {
  const at = state.at ? `as of ${clock(state.at)}` : "no figures yet";
  if (poller.paused) return `paused, ${at}`;
  if (state.error) return `not connected, ${at}`;
  if (isLate()) return `waiting for the server, ${at}`;
  const seconds = Math.round(poller.interval / 1000);
  if (live.isConnected && seconds <= LIVE) return `live, ${clock(Math.max(state.at, live.heardAt / 1000))}`;
  return seconds > LIVE ? `${at}, every ${seconds} s` : `live, ${clock(state.at)}`;
}

function alarm() {
  return h("p", { class: "error", key: "alarm" }, `${state.error}. The figures are of ${state.at ? clock(state.at) : "no time yet"}; trying again.`);
}

/** @param {import("./types.js").Health} health */
function banner({ configuration }) {
  if (!configuration.refused.length) return h("p", { class: "error", key: "banner" }, `The configuration file is not in force. It was changed while the server was down (${counted(configuration.unapplied.length, "difference")}): ${configuration.unapplied[0]}`);
  const [first, ...others] = configuration.refused;
  const since = configuration.in_force.source === "start" ? "that of the start" : `that of ${clock(configuration.in_force.at)}`;
  return h("p", { class: "error", key: "banner" }, `The configuration file has problems, so ${since} is still in force: ${first}`, others.length > 0 && ` (and ${counted(others.length, "other problem")})`);
}

function content() {
  const { route, data } = state;
  const view = VIEWS.get(route.view);
  const detail = route.name ? DETAILS.get(route.view) : undefined;
  return [
    h("section", { class: "list-side", key: route.view, "aria-labelledby": "heading" }, h("h2", { id: "heading", tabindex: "-1" }, view?.title), view?.show(route, data?.view)),
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
        detail.show(route, data?.detail, data?.view),
      ),
  ];
}

document.getElementById("skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("content")?.focus();
});
/** Close the menu or the detail on Escape, unless the focused element uses the key. */
function escape(/** @type {KeyboardEvent} */ event) {
  const { partition, view, name, query } = state.route;
  const isTyping = event.target instanceof HTMLInputElement && event.target.value !== "";
  if (event.key !== "Escape" || isTyping || event.defaultPrevented) return;
  if (state.isMenuOpen) closeMenu();
  else if (name) location.hash = link(partition, view, "", query);
}

function closeMenu() {
  setMenu(false);
  /** @type {HTMLElement | null} */ (document.querySelector(".menu"))?.focus();
}

/** Update the age of the figures while there is no answer. */
function updateAge() {
  live.check();
  const top = document.getElementById("top");
  if (top && !document.hidden && state.data) draw(top, header());
}

document.addEventListener("visibilitychange", () => document.hidden && live.close());
window.addEventListener("keydown", escape);
setInterval(updateAge, 1000);
window.addEventListener("hashchange", () => navigate());
window.addEventListener("refresh", () => poller.poll());
window.addEventListener("redraw", render);
window.addEventListener("resize", () => VIEWS.get(state.route.view)?.shown?.());
poller.poll();
