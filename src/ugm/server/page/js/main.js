/**
 * The page: it loads the data of the current route, and draws them.
 */

import { ApiError, get, getRecent, path } from "./base/api.js";
import { announce, draw, h } from "./base/dom.js";
import { clock, counted, resourceName } from "./base/format.js";
import { live, Poller } from "./base/live.js";
import { current, follow, link, route } from "./base/route.js";
import { Columns, variantsButton } from "./parts/columns.js";
import { gauge } from "./parts/limits.js";
import { choice } from "./parts/lists.js";
import { queues } from "./trees/queues.js";
import { loadTrees, treeView } from "./trees/trees.js";
import { alerts } from "./views/alerts.js";
import { applications } from "./views/applications.js";
import { budgets } from "./views/budgets.js";
import { check } from "./views/check.js";
import { configuration } from "./views/configuration.js";
import { denials } from "./views/denials.js";
import { nodes } from "./views/nodes.js";
import { groups, users } from "./views/owners.js";
import { preemption } from "./views/preemption.js";
import { service } from "./views/service.js";
import { shares } from "./views/shares.js";
import { waiting } from "./views/waiting.js";

/** @type {Map<string, View<any>>} */
const VIEWS = new Map(
  Object.entries({
    ...{ queues, users, groups },
    elastic: treeView("elastic"),
    quota: treeView("quota"),
    ...{ budgets, shares, applications, waiting, preemption, denials, alerts, check, nodes, configuration, service },
  }),
);

const state = {
  /** @type {Health | null} */
  health: null,
  /** The data of the last poll, and their address. */
  /** @type {{address: string, view: any, detail: any, models: string[], partition: Partition | null} | null} */
  data: null,
  /** When the data were loaded, in seconds since 1970. */
  at: 0,
  /** The error of the last poll, or empty. */
  error: "",
  /** Whether the reader has just opened another view or detail, so that the focus moves. */
  hasNavigated: false,
  /** The address of the link that opened the detail. */
  opener: "",
  /** Whether the menu of views is open, which only narrow windows have. */
  isMenuOpen: false,
};

/** The resources in the summary; the detail of the root has all of them. */
const summaryColumns = new Columns(6);
/** The seconds for which a view without a stream keeps the summary. */
const SUMMARY = 10;
/** The longest interval, in seconds, at which the figures count as live. */
const LIVE = 5;
/** The seconds after which an answer counts as late. */
const GRACE = 5;

const poller = new Poller(load, () => state.data && drawHeader());

/** Load the data of the current route, and draw them. */
async function load() {
  const address = location.hash;
  const number = poller.number;
  try {
    state.health ??= /** @type {Health} */ (await get("health"));
    if (!correctRoute(state.health.partitions)) return;
    const view = VIEWS.get(route.view);
    live.listen(poller.paused || document.hidden ? "" : view?.topic ?? "");
    const age = live.isConnected ? 0 : SUMMARY;
    const [health, partition, models, data, detail] = await Promise.all([
      getRecent(age, "health"),
      loadPartition(age),
      loadModels(),
      view?.load(),
      route.name ? view?.detail?.load() : undefined,
    ]);
    // The reader has navigated, or a newer poll has begun.
    if (number !== poller.number) return;
    if (state.error) announce("The server responds again.");
    else if (health.reason && !state.health.reason) announce(health.status === "critical" ? health.reason : "The configuration file was refused.");
    if (partition?.has_service) models.push("Service");
    Object.assign(state, { health, data: { address, view: data, detail, models, partition }, at: Date.now() / 1000, error: "" });
  } catch (error) {
    if (number !== poller.number) return;
    const message = error instanceof ApiError ? error.message : "The server does not respond";
    if (!state.error) announce(`${message}; trying again.`);
    state.error = message;
  }
  render();
}

/** Load the summary of the partition. While no process leads a service, only its status is available. */
/** @param {number} age */
async function loadPartition(age) {
  const found = getRecent(age, path());
  return route.view === "service" ? found.catch(() => null) : found;
}

/** Load the kinds of trees and the classes of quota models that the partition has; other requests report an error. */
async function loadModels() {
  const { trees, models } = await loadTrees().catch(() => ({ trees: [], models: [] }));
  return [...trees.map(({ kind }) => kind), ...models.map(({ model }) => model)];
}

/** Replace an address that does not exist; return whether it exists. */
/** @param {string[]} partitions */
function correctRoute(partitions) {
  const partition = partitions.includes(route.partition) ? route.partition : partitions[0] ?? "";
  if (partition === route.partition && VIEWS.has(route.view)) return true;
  history.replaceState(null, "", link(VIEWS.has(route.view) ? route.view : "queues", "", {}, partition));
  navigate(false);
  return false;
}

/** @param {boolean} [byReader] */
function navigate(byReader = true) {
  const before = route;
  follow();
  state.hasNavigated = byReader && (before.view !== route.view || before.name !== route.name);
  if (route.name && !before.name) state.opener = location.hash;
  state.isMenuOpen = false;
  poller.poll();
}

// Drawing

function render() {
  drawHeader();
  const isThere = state.data?.address === location.hash;
  const alarm = `${state.error}. The figures are of ${state.at ? clock(state.at) : "no time yet"}; trying again.`;
  draw(element("view"), state.error && h("p.error", { key: "alarm" }, alarm), state.health?.reason && banner(state.health), isThere && content());
  if (!isThere) return;
  const view = VIEWS.get(route.view);
  view?.shown?.();
  document.title = [route.name, view?.title, route.partition, "ugm"].filter(Boolean).join(" - ");
  if (state.hasNavigated) moveFocus();
  state.hasNavigated = false;
}

/** @param {string} id of a part of the document that is always there */
function element(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/** Move the focus into a detail that was opened, or back to the link of one that was closed. */
function moveFocus() {
  const opener = state.opener && document.querySelector(`#view a[href="${CSS.escape(state.opener)}"]`);
  const back = document.querySelector('.rows > [tabindex="0"]') ?? opener;
  const heading = document.querySelector(route.name ? "#detail-heading" : "#heading");
  const found = !route.name && state.opener ? back ?? heading : heading;
  /** @type {HTMLElement | null} */ (found)?.focus();
  if (!route.name) state.opener = "";
}

function drawHeader() {
  const { data, health } = state;
  const partitions = health?.partitions ?? [];
  const open = (/** @type {string} */ partition) => {
    location.hash = link(current().view, "", {}, partition);
  };
  const views = [...VIEWS].filter(([name, { model }]) => name === route.view || !model || data?.models.includes(model));
  draw(element("top"),
    h("div.bar-top",
      h("h1", h("a", { href: link("queues") }, "ugm")),
      partitions.length > 1 ? choice(h("span.unseen", "Partition"), partitions.map((name) => [name, name]), route.partition, open, null, "partition") : h("span.partition", route.partition),
      h("nav", { "aria-label": "Views" }, menuButton(), h("ul", views.map(([name, { title }]) => h("li", h("a", { href: link(name), "aria-current": route.view === name ? "page" : null }, title))))),
      liveStatus(),
    ),
    data?.partition && summary(data.partition),
  );
}

/** A partition in one line: the used part of the cluster, and the number of its objects. */
/** @param {Partition} partition */
function summary(partition) {
  const { names } = summaryColumns.choose([{ usage: partition.usage, limits: partition.cluster }]);
  const counts = /** @type {const} */ (["application", "user", "group", "queue"]).map((noun) => counted(partition[`${noun}s`], noun));
  return h("dl.summary",
    names.map((name) => h("div", h("dt", { title: resourceName(name) }, resourceName(name), variantsButton(name)), h("dd", gauge(name, partition.usage[name] ?? 0, partition.cluster?.[name])))),
    h("div.counts.quiet", h("dt.unseen", "Counts"), h("dd", counts.join(" · "))),
  );
}

/** The button that shows the views in a narrow window; it has the title of the current view. */
function menuButton() {
  const click = () => {
    state.isMenuOpen = !state.isMenuOpen;
    render();
  };
  return h("button.menu", { type: "button", "aria-expanded": String(state.isMenuOpen), on: { click } }, h("span.unseen", "View: "), VIEWS.get(route.view)?.title, h("span", { "aria-hidden": "true" }, state.isMenuOpen ? " ▴" : " ▾"));
}

function liveStatus() {
  const pause = () => {
    poller.paused = !poller.paused;
    if (poller.paused) live.listen("");
    else poller.poll();
    render();
  };
  const button = h("button", { type: "button", "aria-pressed": String(poller.paused), on: { click: pause } }, "Pause");
  return h("div.live", h("span", { class: state.error || isLate() ? "late" : "quiet" }, freshness()), button);
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
  if (seconds > LIVE) return `${at}, every ${seconds} s`;
  return `live, ${clock(live.isConnected ? Math.max(state.at, live.heardAt / 1000) : state.at)}`;
}

/** @param {Health} health */
function banner({ status, reason, configuration }) {
  if (status === "critical") return h("p.error", { key: "banner" }, reason);
  if (!configuration.refused.length) return h("p.error", { key: "banner" }, `The configuration file is not in force. It was changed while the server was down (${counted(configuration.unapplied.length, "difference")}): ${configuration.unapplied[0]}`);
  const [first, ...others] = configuration.refused;
  const { source, at } = configuration.in_force;
  const since = new Map([["start", "that of the start"], ["elsewhere", "one from elsewhere"]]).get(source) ?? `that of ${clock(at)}`;
  return h("p.error", { key: "banner" }, `The configuration file has problems, so ${since} is still in force: ${first}`, others.length > 0 && ` (and ${counted(others.length, "other problem")})`);
}

function content() {
  const { data } = state;
  const view = VIEWS.get(route.view);
  const detail = route.name ? view?.detail : undefined;
  return [
    h("section.list-side", { key: route.view, "aria-labelledby": "heading" }, h("h2", { id: "heading", tabindex: "-1" }, view?.title), view?.show(data?.view)),
    detail &&
      h("section.detail-side", { key: `${route.view}/${route.name}`, "aria-labelledby": "detail-heading" },
        h("div.detail-top",
          h("h2.long-name", { id: "detail-heading", title: route.name, tabindex: "-1" }, h("span.quiet", `${detail.noun} `), route.name),
          h("a", { href: link(route.view, "", route.query) }, "Close"),
        ),
        data?.detail === null ? h("p.quiet", detail.missing?.(route.name) ?? `There is no ${detail.noun.toLowerCase()} ${route.name} now.`) : detail.show(data?.detail, data?.view),
      ),
  ];
}

/** Close the menu or the detail on Escape, unless the focused element uses the key. */
/** @param {KeyboardEvent} event */
function escape(event) {
  const isTyping = event.target instanceof HTMLInputElement && event.target.value !== "";
  if (event.key !== "Escape" || isTyping || event.defaultPrevented) return;
  if (state.isMenuOpen) {
    const menu = /** @type {HTMLElement | null} */ (document.querySelector(".menu"));
    menu?.click();
    menu?.focus();
  } else if (route.name) location.hash = link(route.view, "", route.query);
}

element("skip").addEventListener("click", (event) => {
  event.preventDefault();
  element("content").focus();
});
document.addEventListener("visibilitychange", () => (document.hidden ? live.listen("") : poller.paused || poller.poll()));
window.addEventListener("keydown", escape);
window.addEventListener("hashchange", () => navigate());
window.addEventListener("refresh", () => poller.poll());
window.addEventListener("redraw", render);
window.addEventListener("resize", () => VIEWS.get(route.view)?.shown?.());
poller.poll();
