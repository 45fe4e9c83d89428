/**
 * The form "May I?": the decision on a hypothetical request, with the violated limits and the holders of the missing
 * resources. It changes nothing.
 */

import { ApiError, path, post } from "../base/api.js";
import { announce, h, redraw } from "../base/dom.js";
import { amountsText } from "../base/format.js";
import { chain, reasons, requested } from "../parts/limits.js";
import { queueLink } from "../parts/lists.js";

/** The fields: their names, labels, examples and further attributes. */
const FIELDS = /** @type {[string, string, string, object][]} */ ([
  ["user", "User", "sue", { required: true }],
  ["groups", "Groups, if any", "physics, chemistry", {}],
  ["queue", "Queue, if the rules do not choose it", "root.research", {}],
  ["vcore", "Cores", "2.5 or 500m", { inputmode: "text" }],
  ["memory", "Memory", "4Gi", {}],
  ["others", "Other resources", "nvidia.com/gpu=1", {}],
  ["hours", "Promised hours, for budgets", "1.5", { type: "number", min: "0.001", step: "any" }],
]);

/** @type {{explanation: Explanation & {placement: any} | null, error: string, user: string}} */
const answer = { explanation: null, error: "", user: "" };

/** @type {View<null>} */
export const check = {
  title: "May I?",
  load: async () => null,
  show: () => [
    h("p", "Check whether one more allocation would be granted now. A check changes nothing."),
    h("form.check-form", { id: "check", on: { submit } }, FIELDS.map(field), h("div.submit", h("button", { type: "submit" }, "Ask"))),
    h("section", { id: "answer", "aria-label": "Answer" }, result()),
  ],
};

/** @param {FIELDS[number]} description */
function field([name, label, example, more]) {
  const input = h("input", { name, autocomplete: "off", spellcheck: "false", autocapitalize: "none", "aria-describedby": `${name}-example`, ...more });
  return h("label.field", label, input, h("span.quiet", { id: `${name}-example` }, `for example ${example}`));
}

/** @param {SubmitEvent} event */
async function submit(event) {
  event.preventDefault();
  const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
  const text = (/** @type {string} */ name) => String(form.get(name) ?? "").trim();
  try {
    const usage = amounts(text);
    const groups = text("groups").split(/[\s,]+/).filter(Boolean);
    const promise = text("hours") && { duration: Math.ceil(Number(text("hours")) * 3600) };
    const explanation = await post(path("explain"), { user: text("user"), groups, queue: text("queue"), usage, ...promise });
    Object.assign(answer, { explanation, error: "", user: text("user") });
    announce(headline(explanation));
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const where = error instanceof ApiError ? "The server refused the request: " : "";
    Object.assign(answer, { explanation: null, error: `${where}${error.message}` });
    announce(answer.error);
  }
  redraw();
}

/** Return the requested amounts; the server parses the quantities. */
/** @param {(name: string) => string} text returns the text of a field */
function amounts(text) {
  /** @type {Record<string, string>} */
  const usage = Object.create(null);
  if (text("vcore")) usage.vcore = thousandths(text("vcore"));
  if (text("memory")) usage.memory = text("memory");
  for (const part of text("others").split(/[\s,]+/).filter(Boolean)) {
    const [name, quantity, ...rest] = part.split("=");
    if (!name || !quantity || rest.length) throw new Error(`expected NAME=QUANTITY, found ${part}`);
    usage[name] = quantity;
  }
  return usage;
}

/** Convert 2.5 to the quantity 2500m. */
/** @param {string} cores */
function thousandths(cores) {
  const found = /^([0-9]+)\.([0-9]{1,3})$/.exec(cores);
  return found ? `${BigInt(`${found[1]}${(found[2] ?? "").padEnd(3, "0")}`)}m` : cores;
}

/** @param {Explanation} explanation */
function headline(explanation) {
  if (explanation.allowed) return "Yes.";
  if (!explanation.queue_path) return "No: no placement rule finds a queue.";
  return explanation.can_wait ? "No, not now: waiting can help." : "No: waiting cannot help.";
}

function result() {
  if (answer.error) return h("p.error", answer.error);
  const { explanation } = answer;
  if (!explanation) return null;
  return [
    h("h3", { class: explanation.allowed ? "yes" : "no" }, headline(explanation)),
    explanation.queue_path ? h("p", answer.user, " in ", queueLink(explanation.queue_path)) : h("pre", explanation.text),
    reasons(explanation.violations),
    explanation.evictions.length > 0 && h("p", `It would evict ${explanation.evictions.join(", ")}.`),
    explanation.queue_path && chain("Every limit that applies there", explanation.limits, requested(explanation.violations)),
    explanation.headroom && h("p", "At most ", h("strong", amountsText(explanation.headroom)), " would be granted now."),
  ];
}
