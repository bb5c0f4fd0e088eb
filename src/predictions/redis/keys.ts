/**
 * The keys of a queue in Redis. A node is a front of a replica, and receives messages on the channel with its name. A worker is a node that runs
 * predictions. A worker claims a prediction for the time of a lease, and renews the lease. After the lease, another worker may claim the prediction.
 *
 * The keys of a model's repository:
 *
 * - `p:ID`: a hash of a prediction: the fields of `RECORD_FIELDS`, and `webhook`. `ended` is the record of an ended prediction. If the outputs are large,
 *   `members` has them, of `large` bytes. An unfinished prediction also has `queue`, `entry` (of `work`), `bytes`, `deadline`, `fronts` (nodes whose clients
 *   wait), `watched` (by an event stream), `worker` (the last one that reported progress) and `eventBytes`. A large `body` is here, too
 * - `work:QUEUE`: a stream with an entry for each unfinished prediction of a queue: `request`, `created`, `deaths`, `body`. The workers are the
 *   consumers of its group `workers`, and a pending entry is a lease
 * - `totals:QUEUE`: a hash of numbers: unfinished `items`, their `bytes`, and predictions `ended` by workers
 * - `deadlines`: a sorted set of unfinished predictions
 * - `due`: a sorted set of undelivered webhooks of ended predictions, by the end of the lease of the node that sends the webhook. A member has the id and
 *   the creation time of the prediction
 * - `e:ID`: a stream of the outputs of a running prediction, and of parts of outputs, for event streams
 *
 * Unfinished predictions have no time to live, so that a Redis with the policy `volatile-ttl` evicts ended ones only. Times are milliseconds of Redis'
 * clock.
 */

/** Prefix of all keys, with the version of their layout. Servers with another layout use other keys. */
const PREFIX = "sconce:11:";

export class Keys {
  readonly deadlines: string;
  readonly due: string;
  readonly #base: string;
  readonly #name: string;

  /** @param repository repository of the model @param name name of the queue */
  constructor(repository: string, name: string) {
    this.#name = name;
    this.#base = `${PREFIX}{${repository}}:`;
    this.deadlines = `${this.#base}deadlines`;
    this.due = `${this.#base}due`;
  }

  /** Keys of a queue of the repository, by default this one. */
  work(name = this.#name): string {
    return `${this.#base}work:${name}`;
  }

  totals(name = this.#name): string {
    return `${this.#base}totals:${name}`;
  }

  prediction(id: string): string {
    return `${this.#base}p:${id}`;
  }

  events(id: string): string {
    return `${this.#base}e:${id}`;
  }
}
