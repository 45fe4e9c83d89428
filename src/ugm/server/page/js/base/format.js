/**
 * The format of numbers: 2.5 cores, 4Gi, 1,024.
 *
 * Amounts are exact integers of any size, in thousandths of a core and in bytes. Digits are truncated, never rounded up:
 * 99.99 of 100 is not shown as 100.
 *
 * @typedef {(resource: string, amount: Amount) => string} AmountFormat
 */

/** The suffixes of bytes, and those of counts that are too long to write out, with their multiples; the largest first. */
const UNITS = ["Ei", "Pi", "Ti", "Gi", "Mi", "Ki"].map((suffix, index) => /** @type {const} */ ([suffix, 1024n ** BigInt(6 - index)]));
const COUNTS = ["E", "P", "T", "G", "M"].map((suffix, index) => /** @type {const} */ ([suffix, 1000n ** BigInt(6 - index)]));
/** Display names of resources. */
const NAMES = new Map([["vcore", "Cores"], ["memory", "Memory"], ["requests", "Requests"]]);
/** The seconds of a day. */
const DAY = 86_400;
const NATURAL = new Intl.Collator("en", { numeric: true });
const GROUPED = new Intl.NumberFormat("en");
/** Decimal numbers that are given as text, whole, and with four digits or all of those before the point. */
const DECIMAL = truncated({});
const BRIEF = truncated({ maximumSignificantDigits: 4, maximumFractionDigits: 0, roundingPriority: "morePrecision" });
const MOMENT = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const DATE = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** @param {object} options @returns {{format: (number: string) => string}} */
function truncated(options) {
  return /** @type {any} */ (new Intl.NumberFormat("en", /** @type {any} */ ({ roundingMode: "trunc", ...options })));
}

/** Format an amount of a resource without the name of its unit. */
/** @param {string} resource @param {Amount} amount */
export function amountText(resource, amount, format = DECIMAL) {
  const exact = BigInt(amount);
  if (resource === "vcore") return format.format(`${exact}E-3`);
  const [suffix, unit] = (isBytes(resource) ? UNITS : COUNTS).find(([, least]) => exact >= least || -exact >= least) ?? ["", 1n];
  return format.format(`${(exact * 100n) / unit}E-2`) + suffix;
}

/** Format an amount with at most four digits, and those before the point, for a narrow column. */
/** @type {AmountFormat} */
export const briefText = (resource, amount) => amountText(resource, amount, BRIEF);

/** Return whether a resource is counted in bytes: memory, and resources with names like storage. */
/** @param {string} resource */
function isBytes(resource) {
  return resource === "memory" || /(^|[-./_])(storage|hugepages|memory|bytes)([-./_]|$)/i.test(resource);
}

/** Compare names in natural order: team2 before team10. */
/** @param {string} one @param {string} other */
export function byName(one, other) {
  return NATURAL.compare(one, other) || (one < other ? -1 : Number(one > other));
}

/** Format an amount with its unit. */
/** @type {AmountFormat} */
export const withUnit = (resource, amount) => {
  const text = amountText(resource, amount);
  if (resource === "vcore") return text === "1" ? "1 core" : `${text} cores`;
  return resource === "memory" ? text : `${text} ${resource}`;
};

/** Return an amount without its fraction. */
/** @param {Amount | string} amount an integer, or a fraction such as 7/2 */
export function whole(amount) {
  if (typeof amount !== "string") return BigInt(amount);
  const [above = "0", below = "1"] = amount.split("/");
  return BigInt(above) / BigInt(below);
}

/** Format an amount times seconds in hours, without its unit. */
/** @param {string} resource @param {Amount | string} amount */
export function hoursText(resource, amount) {
  const isCount = resource !== "vcore" && !isBytes(resource);
  // Hours of a few devices have decimals.
  const hundredths = whole(amount) / 36n;
  return isCount && hundredths < 100_000n ? String(Number(hundredths) / 100) : amountText(resource, hundredths / 100n);
}

/** Return the unit of the hours of a resource: core hours. */
/** @param {string} resource */
export function hourUnit(resource) {
  return `${resource === "vcore" ? "core" : resourceName(resource)} hours`;
}

/** Format an amount in its base unit, with all digits. */
/** @type {AmountFormat} */
export const exactText = (resource, amount) => {
  if (resource === "vcore") return withUnit(resource, amount);
  const unit = resource === "memory" ? "bytes" : isBytes(resource) ? `bytes of ${resource}` : resource;
  return `${GROUPED.format(BigInt(amount))} ${unit}`;
};

/** Format several amounts in one line. */
/** @param {Amounts | null} amounts */
export function amountsText(amounts) {
  const found = sortedNames(Object.keys(amounts ?? {})).map((name) => /** @type {const} */ ([name, amounts?.[name] ?? 0]));
  return found.map(([name, amount]) => (Number(amount) === 0 ? `no ${resourceName(name).toLowerCase()}` : withUnit(name, amount))).join(", ") || "nothing";
}

/** Return the display name of a resource; null is the number of applications. */
/** @param {string | null} resource */
export function resourceName(resource) {
  return resource === null ? "Applications" : NAMES.get(resource) ?? resource;
}

/** Sort names of resources: cores, memory, then the others by name, each with its variants. */
/** @param {string[]} names */
export function sortedNames(names) {
  const rank = (/** @type {string} */ name) => (name === "vcore" ? 0 : name === "memory" ? 1 : 2);
  const family = (/** @type {string} */ name) => name.split(":", 1)[0] ?? name;
  return [...names].sort((one, other) => rank(family(one)) - rank(family(other)) || byName(family(one), family(other)) || byName(one, other));
}

/** Return the names of all resources of some amounts, sorted. */
/** @param {readonly (Amounts | null | undefined)[]} amounts */
export function namesOf(amounts) {
  return sortedNames([...new Set(amounts.flatMap((one) => Object.keys(one ?? {})))]);
}

/** Return the used share of a limit; a limit of 0 counts as used up. */
/** @param {Amount} used @param {Amount} limit */
export function shareOf(used, limit) {
  return Number(limit) > 0 ? Number(used) / Number(limit) : 1 + Number(used);
}

/** Return the used share of a limit; a limit of 0 only counts if something is used. */
/** @param {Amount} used @param {Amount} limit */
export function limitShare(used, limit) {
  return Number(limit) || Number(used) ? shareOf(used, limit) : 0;
}

/** @param {number} share */
export function percent(share) {
  if (share > 0 && share < 0.01) return "<1%";
  return `${GROUPED.format(Math.floor(share * 100 + 1e-9))}%`;
}

/** @param {number} number */
export function count(number) {
  return GROUPED.format(number);
}

/** @param {number} number @param {string} noun */
export function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** Format a duration: <1 ms, 40 ms, 2.5 s, 3 min, 47 h, 2 d. */
/** @param {number} seconds */
export function duration(seconds) {
  if (seconds < 0.001) return "<1 ms";
  if (seconds < 1) return `${Math.floor(seconds * 1000)} ms`;
  if (seconds < 60) return `${Math.floor(seconds * 10) / 10} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 2 * DAY ? `${Math.floor(seconds / 3600)} h` : `${count(Math.floor(seconds / DAY))} d`;
}

/** Format a time with its date: Mon 23 Nov, 14:05, or 23 Nov 2031, 14:05 in another year. */
/** @param {number} seconds since 1970 */
export function momentText(seconds) {
  const date = new Date(seconds * 1000);
  return (date.getFullYear() === new Date().getFullYear() ? MOMENT : DATE).format(date);
}

/** @param {number} seconds since 1970 */
export function clock(seconds) {
  return CLOCK.format(new Date(seconds * 1000));
}

/** @param {number} seconds since 1970 @param {number} [now] in milliseconds */
export function ago(seconds, now = Date.now()) {
  const passed = Math.max(0, Math.floor(now / 1000 - seconds));
  if (passed < 5) return "just now";
  return `${duration(passed)} ago`;
}
