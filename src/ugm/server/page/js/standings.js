/**
 * The views of users and of groups: those closest to a limit first, a page at a time. The server sorts and searches.
 */

import { get, path } from "./api.js";
import { bar, level } from "./bars.js";
import { h } from "./dom.js";
import { amountText, count, counted, percent, resourceName, sortedNames, withUnit } from "./format.js";
import { queueLink } from "./limits.js";
import { link, parse } from "./route.js";
import { announce } from "./told.js";

/** Lines of a page. */
const PAGE = 50;

/**
 * Make the view of users or of groups.
 *
 * @param {"users" | "groups"} view
 */
export function standings(view) {
  const noun = view.slice(0, -1);
  let heard = "";

  /** @param {import("./types.js").Route} route */
  async function load(route) {
    const { find = "" } = route.query;
    const told = await get(path(route.partition, "standing", view), { find, skip: (pageOf(route) - 1) * PAGE, most: PAGE });
    if (find !== heard && find) announce(`${counted(told.total, noun)} found`);
    heard = find;
    return told;
  }

  /**
   * @param {import("./types.js").Route} route
   * @param {{total: number, standings: import("./types.js").Standing[]}} told
   */
  function show(route, told) {
    const resources = sortedNames([...new Set(["vcore", "memory", ...told.standings.flatMap((one) => Object.keys(one.usage))])]).slice(0, 3);
    return [
      h(
        "div",
        { class: "tools" },
        h("label", { class: "field" }, `Find a ${noun}`, h("input", { type: "search", id: "find", value: route.query.find ?? "", on: { input: find } })),
        h("span", { class: "quiet" }, `${counted(told.total, noun)}${route.query.find ? " found" : ""}, the closest to a limit first`),
      ),
      told.standings.length ? table(route, told.standings, resources) : h("p", { class: "quiet empty" }, route.query.find ? `No ${noun} has this in the name.` : `Nothing runs for any ${noun} now.`),
      pages(route, told.total),
    ];
  }

  /**
   * @param {import("./types.js").Route} route
   * @param {import("./types.js").Standing[]} found
   * @param {string[]} resources
   */
  function table(route, found, resources) {
    return h(
      "div",
      { class: "scroll", tabindex: "0", role: "group", "aria-label": `${view}, the closest to a limit first` },
      h(
        "table",
        { class: "list standing" },
        h("caption", { class: "unseen" }, `${view}, the closest to a limit first`),
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            h("th", { scope: "col" }, noun === "user" ? "User" : "Group"),
            h("th", { scope: "col" }, "Nearest limit"),
            resources.map((name) => h("th", { scope: "col", class: "number" }, resourceName(name))),
            h("th", { scope: "col", class: "number" }, "Applications"),
          ),
        ),
        h("tbody", null, found.map((one) => line(route, one, resources))),
      ),
    );
  }

  /**
   * @param {import("./types.js").Route} route
   * @param {import("./types.js").Standing} one
   * @param {string[]} resources
   */
  function line(route, one, resources) {
    const isShown = route.name === one.name;
    return h(
      "tr",
      { key: one.name, class: isShown ? "shown" : null },
      h("th", { scope: "row" }, h("a", { href: link(route.partition, view, one.name, route.query), "aria-current": isShown ? "true" : null }, one.name)),
      h("td", { class: "bars" }, nearest(route.partition, one)),
      resources.map((name) => h("td", { class: "number" }, amountText(name, one.usage[name] ?? 0))),
      h("td", { class: "number" }, count(one.running_applications)),
    );
  }

  return { title: noun === "user" ? "Users" : "Groups", load, show };
}

/**
 * @param {string} partition
 * @param {import("./types.js").Standing} one
 */
function nearest(partition, one) {
  const { limit, resource, share } = one;
  if (!limit) return h("span", { class: "quiet" }, "no limit");
  const used = resource === null ? limit.running_applications : limit.usage[resource] ?? 0;
  const most = resource === null ? limit.max_applications : limit.max_resources?.[resource] ?? 0;
  const name = resource ?? "applications";
  return [
    h(
      "div",
      { class: "figures" },
      h("span", { class: "amount" }, amountText(name, used)),
      h("span", { class: "of" }, ` of ${withUnit(name, most)} in `, queueLink(partition, limit.queue_path)),
      h("span", { class: `share ${level(share)}` }, percent(share)),
    ),
    bar(share),
  ];
}

/** @param {import("./types.js").Route} route */
function pageOf(route) {
  return Math.max(1, Number.parseInt(route.query.page ?? "1", 10) || 1);
}

/**
 * @param {import("./types.js").Route} route
 * @param {number} total
 */
function pages(route, total) {
  const [page, most] = [pageOf(route), Math.ceil(total / PAGE)];
  if (most <= 1 && page === 1) return null;
  const to = (/** @type {number} */ number, /** @type {string} */ text, /** @type {boolean} */ can) =>
    can ? h("a", { href: link(route.partition, route.view, route.name, { ...route.query, page: number }) }, text) : h("span", { class: "quiet" }, text);
  return h(
    "nav",
    { class: "pages", "aria-label": "Pages" },
    to(page - 1, "Previous", page > 1),
    h("span", null, `${count(page)} of ${count(most)}`),
    to(page + 1, "Next", page < most),
  );
}

/** @type {number | undefined} */
let waiting;

/** @param {Event} event */
function find(event) {
  const text = /** @type {HTMLInputElement} */ (event.target).value.trim();
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    const { partition, view } = parse(location.hash);
    history.replaceState(null, "", link(partition, view, "", { find: text }));
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  }, 200);
}
