/**
 * The types of the responses, with the names of `openapi.json` where they have one.
 *
 * An amount is exact: a number if a number can hold it, otherwise a bigint.
 *
 * @typedef {number | bigint} Amount
 * @typedef {Record<string, Amount>} Amounts
 *
 * @typedef {{queue_path: string, is_leaf: boolean, is_managed: boolean, is_draining: boolean,
 *   max_resources: Amounts | null, max_applications: number, guaranteed: Amounts | null, usage: Amounts,
 *   share: number | null, running_applications: number, applications: number, pending: Amounts,
 *   pending_allocations: number, children: Queue[]}} Queue
 *
 * @typedef {{users: string[], groups: string[], max_resources: Amounts | null, max_applications: number,
 *   label: string}} ConfiguredLimit
 * @typedef {Queue & {headroom: Amounts | null, maximum: Amounts | null, limits: ConfiguredLimit[]}} QueueDetail
 *
 * @typedef {{kind: string, name: string, queue_path: string, limit_name: string, max_resources: Amounts | null,
 *   max_applications: number, usage: Amounts, running_applications: number}} EffectiveLimit
 * @typedef {{name: string, usage: Amounts, running_applications: number, limit: EffectiveLimit | null,
 *   resource: string | null, share: number, pending: Amounts, pending_allocations: number}} LimitUtilization
 *
 * @typedef {{kind: string, name: string, queue_path: string, limit_name: string, resource: string | null,
 *   limit: Amount, used: Amount, requested: Amount, shortfall: Amount, can_wait: boolean,
 *   rise: {at: number, limit: Amount | null} | null, text: string, holders?: Holder[]}} Violation
 * @typedef {{application_id: string, user: string, queue_path: string, amount: Amount}} Holder
 * @typedef {{allowed: boolean, can_wait: boolean, queue_path: string | null, text: string, evictions: string[],
 *   violations: Violation[], limits: EffectiveLimit[], headroom: Amounts | null}} Explanation
 *
 * @typedef {{queuename: string, resourceUsage: Amounts, runningApplications: string[], children: UsageNode[],
 *   maxApplications: number, maxResources: Amounts}} UsageNode
 *
 * @typedef {{application_id: string, user: {name: string, groups: string[]}, queue_path: string, state: string,
 *   group: string | null, usage: Amounts, allocations: number, pending: number, submitted_at: number | null}} Application
 *
 * @typedef {{number: number, last: number, times: number, first_at: number, last_at: number,
 *   asks: {application_id: string, allocation_id: string, usage: Amounts}[],
 *   decision: {violations: Violation[], can_wait: boolean}}} Denial
 *
 * @typedef {{name: string, usage: Amounts, cluster: Amounts | null, users: number, groups: number, queues: number,
 *   applications: number, allocations: number, nodes: number, has_history: boolean,
 *   has_service: boolean}} Partition
 *
 * @typedef {{name: string, is_leading: boolean, leader: string, address: string, term: number, change: number,
 *   sessions: number, connected: number, waiting: number, outage: string, age: number,
 *   commits: {count: number, seconds: number, median: number, p99: number}}} ServiceStatus
 *
 * @typedef {{partitions: string[], status: string, reason: string, configuration: {refused: string[], unapplied: string[],
 *   in_force: {source: string, at: number}}}} Health
 *
 * @typedef {{trees: {name: string, kind: string, mode: string, nodes: number}[],
 *   models: {model: string, is_suspended: boolean}[]}} Trees
 * @typedef {{name: string, parent: string, is_hard: boolean, borrowers: number, amounts: Record<string, Amount | null>}} TreeRow
 * @typedef {{name: string, kind: string, mode: string, nodes: number, borrowers: number, resources: string[],
 *   resource: string, rows: TreeRow[]}} ModelTree
 * @typedef {{name: string, is_hard: boolean, path: string[], children: number, borrowers: number,
 *   amounts: Record<string, Amounts>}} TreeNodeDetail
 * @typedef {{total: number, consumers: {consumer_id: string, group: string, node: string, request: Amounts,
 *   priority: number, unpreemptable: boolean}[]}} Borrowers
 *
 * @typedef {{partition: string, view: string, name: string, query: Record<string, string>}} Route
 * @typedef {import("./base/dom.js").Child} Child
 */

/**
 * A view, whose data are T, and the detail of an object in it, whose data are D.
 * @template T
 * @template [D=any]
 * @typedef {object} View
 * @property {string} title
 * @property {string} [topic] what the server has to push to the view; other views poll
 * @property {string} [model] the class of quota models, or the kind of trees, without which a partition lacks the view; or "Service"
 * @property {() => Promise<T>} load
 * @property {(data: T) => Child} show
 * @property {() => void} [shown] is called when the view is in the document
 * @property {Detail<D, T>} [detail]
 */

/**
 * The detail of an object. The data are null if there is no such object.
 * @template D
 * @template T
 * @typedef {object} Detail
 * @property {string} noun
 * @property {(name: string) => string} [missing] returns the text if there is no such object
 * @property {() => Promise<D | null>} load
 * @property {(data: D, view: T) => Child} show
 */

/**
 * A column of a table or tree with rows of a type.
 * @template T
 * @typedef {object} Column
 * @property {string} name the text of the head, and the label of each cell on a screen without heads
 * @property {(one: T, index: number) => Child} show returns the content of a cell, or what follows the name of a row of a tree
 * @property {string} [style] the classes of the head and the cells
 * @property {string} [width]
 * @property {string} [sort] the order by this column
 * @property {(one: T) => number} [rank] by which the page sorts rows, if the server does not
 * @property {string} [resource] whose amounts the column has
 * @property {(one: T) => Record<string, any>} [props] returns further attributes of a cell
 */
