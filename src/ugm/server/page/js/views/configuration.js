/**
 * The view of the configuration: the one in force, and who changed it, when, and how.
 *
 * @typedef {{at: number, source: string, client: string, role: string, outcome: string, problems: string[],
 *   differences: Record<string, string[]>, left_out: number}} Attempt
 * @typedef {{text: string, attempts: Attempt[], health: Health}} ConfigurationData
 */

import { get } from "../base/api.js";
import { h } from "../base/dom.js";
import { ago, count, momentText } from "../base/format.js";
import { moment } from "../parts/lists.js";

/** The largest number of lines of the configuration that are shown. */
const MOST_LINES = 2000;
/** The sources and roles of changes as text. A change that a program made before the start has only its author. */
const SOURCES = new Map([["file", "the file, "], ["upload", "an upload, "]]);
/** @type {Map<string, (time: string) => string>} */
const SINCE = new Map([
  ["start", (time) => `Already in force at the start of the server, ${time}`],
  ["elsewhere", (time) => `Changed elsewhere, not through this server, which noticed it at ${time}`],
  ["file", (time) => `In force since ${time}, from the file`],
  ["upload", (time) => `In force since ${time}, from an upload`],
]);
const ROLES = new Map([["watch", "the file watcher"], ["signal", "a signal"], ["program", "the program"]]);

/** @type {View<ConfigurationData>} */
export const configuration = {
  title: "Configuration",
  async load() {
    // The server notices changes that were made elsewhere when it reads the configuration.
    const text = await get("config");
    const [{ attempts }, health] = await Promise.all([get("config/changes"), get("health")]);
    return { text, attempts, health };
  },
  show,
};

/** @param {ConfigurationData} data */
function show({ text, attempts, health }) {
  const { source, at } = health.configuration.in_force;
  const lines = text.split("\n");
  const since = SINCE.get(source)?.(momentText(at));
  return [
    h("p", `${since}.`),
    h("h3", "Changes"),
    attempts.length ? h("ol.attempts", attempts.map(attempt)) : h("p.quiet", "None since the start of the server."),
    h("h3", { id: "in-force" }, "The configuration in force"),
    h("pre.yaml", { tabindex: "0", role: "region", "aria-labelledby": "in-force" }, lines.slice(0, MOST_LINES).join("\n")),
    lines.length > MOST_LINES && h("p.quiet", `The first ${count(MOST_LINES)} of ${count(lines.length)} lines. `, h("a", { href: "api/v1/config" }, "All of it")),
  ];
}

/** @param {Attempt} one */
function attempt(one) {
  const author = one.role === "operator" ? `an operator at ${one.client}` : ROLES.get(one.role) ?? one.role;
  const change = one.source === "elsewhere" ? "changed elsewhere, and noticed then. " : `${SOURCES.get(one.source) ?? ""}by ${author}. `;
  const changed = Object.entries(one.differences);
  return h("li", { key: `${one.at} ${one.outcome}` },
    h("p", moment(one.at, ago(one.at)), `: ${change}`, one.outcome === "ok" ? h("span.badge.applied", "applied") : h("span.badge", "refused")),
    one.problems.length > 0 && h("ul.reasons", one.problems.map((problem) => h("li", problem))),
    changed.map(([name, lines]) => difference(name, lines, changed.length > 1)),
    one.left_out > 0 && h("p.quiet", `${count(one.left_out)} more lines are not shown.`),
  );
}

/** @param {string} partition @param {string[]} lines @param {boolean} isNamed */
function difference(partition, lines, isNamed) {
  return h("div", { key: partition },
    isNamed && h("h4", `Partition ${partition}`),
    lines.length ? h("ul.difference", lines.map((line) => h("li", { class: { "+": "added", "-": "removed" }[line[0] ?? ""] ?? null }, line))) : h("p.quiet", "No differences."),
  );
}
