/**
 * The interface of stores of predictions: memory, an SQLite database, or a Redis queue that several servers share.
 *
 * A store accepts requests, gives unfinished requests to processes that claim them, and keeps the first outcome of each.
 * Without `shared`, the process that accepts a request also runs it, and `claim` finds requests of dead processes only.
 * Then a prediction begins before its request is accepted, and a request whose client waits for the outcome is accepted
 * only if the wait ends first.
 */
import type { LivePrediction } from "./live.ts";
import type { Observed } from "./observed.ts";
import type { EndedRecord, Kind, PredictionRecord } from "./record.ts";
import type { PredictionRequest } from "./request.ts";
import type { Watched } from "./watched.ts";
import type { WebhookStore } from "./webhooks/webhook.ts";

export interface Store {
  /** Set if any process may run a request, whichever process has accepted it. */
  readonly shared?: SharedStore | undefined;
  /** Undefined if webhooks are not stored. */
  readonly webhooks?: WebhookStore;
  /** Number of retained predictions, and bytes of their results. */
  readonly retained: { readonly count: number; readonly bytes: number };
  /** Why the store accepts nothing now; undefined if it works. */
  readonly outage?: StoreOutage | undefined;
  /**
   * Stores a request and its webhook. When this resolves, the request survives a kill of the process.
   * @throws SconceError `predictions_unwritable` or `queue_unavailable`
   */
  accept(request: PredictionRequest): Promise<Accepted | Full>;
  /**
   * Claims unfinished requests, oldest first. They belong to this process until `finish`, `release`, or
   * `claimer.lost`. Ends when no request is left; a shared store ends only when `claimer.signal` aborts.
   */
  claim(claimer: Claimer): AsyncIterable<Claimed>;
  /** Records that the model's code runs for a stored request. If the process dies meanwhile, a death is counted. */
  processing(id: string): void;
  /** Gives unfinished requests of this process back. Another process may claim them, and no death is counted. */
  release(ids: readonly string[]): Promise<void>;
  /**
   * Stores an outcome; the first one of an id stands.
   * @param isStored whether the store has the request. Otherwise the outcome stays in memory only: its client has
   * waited and got it.
   */
  finish(record: EndedRecord, isStored: boolean): void;
  /**
   * Resolves when the outcome is stored, or storing it has failed. Clients must not see it before: after a kill, the
   * request runs again, perhaps with another outcome.
   */
  written(id: string): Promise<void>;
  /** Reads an ended prediction, or an unfinished one whose request is stored. Shows no outcome before it is written. */
  read(id: string): Promise<PredictionRecord | undefined>;
  /** Resolves when all earlier changes are written. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

/** The file was deleted or replaced; writing fails; the queue cannot be reached; its memory is full. */
export type StoreOutage = "store" | "disk" | "queue" | "full";

export interface Accepted {
  /** Milliseconds since 1970 on the clock of the store. */
  readonly createdAtMs: number;
}

/** The limit that refuses a request, and the number of unfinished inputs. A known id gives the limit `queue`. */
export interface Full {
  readonly limit: "queue" | "bytes";
  readonly items: number;
}

/**
 * The functions of a queue that several servers share. Clients read their predictions from the queue, never from the
 * process that runs them.
 */
export interface SharedStore {
  readonly facts: QueueFacts;
  /** Estimated milliseconds until a process claims a new request; 0 if it is unknown. */
  readonly waitMs: number;
  /** Follows a prediction for a client. The caller disposes the object. */
  follow(id: string): Followed;
  /** Ends a prediction as canceled, unless it has ended. @returns undefined for an unknown id, or the other kind */
  cancel(kind: Kind, id: string): Promise<PredictionRecord | undefined>;
  /** Cancels a prediction whose id no client has. Tries until `expiresMs` of `performance.now()`. */
  abandon(id: string, expiresMs: number): void;
  /** Reports the progress, logs, outputs and parts of a claimed prediction to the clients that follow it. */
  report(live: LivePrediction): void;
  /** Resolves when the queue answers, or after two seconds. */
  ready(): Promise<void>;
  /**
   * Leaves the processes that claim requests. Then waits, at most `maxMs` milliseconds, for predictions that clients of
   * this process follow and that other processes may still end.
   */
  leave(maxMs: number): Promise<void>;
}

/** Figures of a queue, for all its servers. */
export interface QueueFacts {
  /** Number of inputs of unfinished predictions. */
  readonly items: number;
  /** Number of unfinished predictions without a claim (`waiting`), and with a claim (`taken`). */
  readonly waiting: number;
  readonly taken: number;
  /** Milliseconds since the creation of the oldest prediction that no process has claimed; 0 without such a prediction. */
  readonly ageMs: number;
  /** Number of processes that claim requests. */
  readonly workers: number;
}

/** A prediction that any process may run, as a client of this process follows it. */
export interface Followed extends Observed, Watched {
  /** Reads the record. The queue then notifies this process of the end. */
  read(): Promise<PredictionRecord | undefined>;
  /** Reads the record and the outputs so far, and later ones as they come. */
  readOutputs(): Promise<void>;
}

/** The process that claims requests. */
export interface Claimer {
  /** Aborts when the process stops claiming. */
  readonly signal: AbortSignal;
  /** Whether the process runs requests, or could run one now. */
  readonly isActive: boolean;
  /** Whether to claim requests of this source, whose processes have ended. A shared queue goes by its leases instead. */
  isTaken(source: RequestSource): boolean;
  /**
   * Resolves with the number of requests that the process can take, as soon as it can take one; with 0 when it stops.
   * Only a shared queue calls it: requests of dead processes run even if the process is full.
   */
  room(): Promise<number>;
  /** Called when another process has ended a claimed request, or the queue has given it to another process. This process drops it. */
  lost(id: string): void;
  /** Called when requests wait that no process claims. */
  wanted(): void;
}

/** An unfinished request that belongs to this process now. */
export interface Claimed extends Omit<PredictionRequest, "body"> {
  /** Size of the body in bytes. */
  readonly bytes: number;
  /** Time limit, in milliseconds of `performance.now()`. It also counts the time without a running server. */
  readonly deadlineMs: number;
  /** Number of processes that died while the request ran. */
  readonly deaths: number;
  /**
   * Loads the whole request; undefined if the store has lost its body. Rejects if another process may be able to load
   * it.
   */
  load(): Promise<PredictionRequest | undefined>;
}

/** Where unfinished requests come from. */
export interface RequestSource {
  /** First character of the ids, which stands for the front that accepted the requests. */
  readonly owner: string;
  /** Whether this server accepted the requests. Another server with the same store may still run its requests. */
  readonly isOwnServer: boolean;
}
