/** Stores predictions in an SQLite database, on a thread. */
import { messageOf } from "../../base/errors.ts";
import { LargeText } from "../../base/large-text.ts";
import { CalledThread } from "../../machine/processes/called-thread.ts";
import { ModelVersion } from "../../package/model-version.ts";
import type { MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import { MemoryStore } from "../memory-store.ts";
import { type EndedRecord, type PredictionRecord, pendingRecord, recordOf } from "../record.ts";
import type { PredictionRequest } from "../request.ts";
import type { RetentionLimits } from "../retention.ts";
import type { Accepted, Claimed, Claimer, Store, StoreOutage } from "../store.ts";
import type { WebhookStore } from "../webhooks/webhook.ts";
import { unusable } from "./database-fault.ts";
import type { DatabaseCalls } from "./sqlite-worker.ts";
import { SqliteWriter } from "./sqlite-writer.ts";

export interface SqliteOptions {
  readonly path: string;
  readonly retention: RetentionLimits;
  /** `normal`: stored predictions survive a kill of the process. `full`: they also survive a power loss. */
  readonly sync?: "normal" | "full" | undefined;
  readonly memory?: MemoryAccount | undefined;
  /** Name of the server, stored with its requests. With --take-over two servers with different names use the file. */
  readonly server?: string | undefined;
  /** The wall clock in milliseconds since 1970, which measures the time between two processes. */
  readonly wallClock?: (() => number) | undefined;
}

export class SqliteStore implements Store {
  readonly webhooks: WebhookStore;
  readonly #path: string;
  readonly #server: string;
  readonly #wallClock: () => number;
  readonly #thread = new CalledThread<DatabaseCalls>(new URL("./sqlite-worker.ts", import.meta.url));
  readonly #writer: SqliteWriter;
  /** Outcomes of clients that waited and were answered. They are in no file. */
  readonly #answered: MemoryStore;

  /** Opens the database, which `checkDatabase` has checked. @throws SconceError `predictions_unusable` */
  static async open(options: SqliteOptions): Promise<SqliteStore> {
    const { path, sync = "normal", server = "", wallClock = Date.now, retention } = options;
    const store = new SqliteStore(options);
    try {
      const open = { path, sync, server, wallMs: wallClock(), ...retention };
      store.#writer.totals = await store.#query((thread) => thread.call("open", open));
      return store;
    } catch (error) {
      await store.close();
      throw error;
    }
  }

  private constructor({ path, retention, wallClock = Date.now, memory, server = "" }: SqliteOptions) {
    this.#path = path;
    this.#server = server;
    this.#wallClock = wallClock;
    this.#answered = new MemoryStore(retention, memory && { memory });
    const writer = new SqliteWriter({ path, wallClock, memory, thread: this.#thread });
    this.#writer = writer;
    this.webhooks = {
      remove: ({ id, createdAtMs }) => writer.add({ id, removedWebhook: createdAtMs }),
      deliver: async (deliverer, owners) => {
        for (const { webhook, ...key } of await this.#query((thread) => thread.call("webhooks", undefined)))
          if (owners(key.id.slice(0, 1))) deliverer.ended(key, JSON.parse(webhook));
      },
    };
  }

  get outage(): StoreOutage | undefined {
    return this.#writer.outage;
  }

  get retained(): { count: number; bytes: number } {
    const [{ totals }, answered] = [this.#writer, this.#answered.retained];
    return { count: totals.count + answered.count, bytes: totals.bytes + answered.bytes };
  }

  async accept(request: PredictionRequest): Promise<Accepted> {
    await this.#writer.create(request);
    return { createdAtMs: request.createdAtMs };
  }

  processing(id: string): void {
    this.#writer.add({ id, runningSinceMs: this.#wallClock() });
  }

  release(ids: readonly string[]): Promise<void> {
    for (const id of ids) this.#writer.add({ id, runningSinceMs: null });
    return Promise.resolve();
  }

  /** Only outcomes of stored requests go to the file: `LivePredictions.store` has the rule. */
  finish(record: EndedRecord, isStored: boolean): void {
    if (isStored) this.#writer.end(record);
    else this.#answered.finish(record);
  }

  async read(id: string): Promise<PredictionRecord | undefined> {
    await this.#writer.written(id);
    const known = this.#writer.find(id) ?? this.#answered.recall(id);
    if (known !== undefined) return known;
    const stored = await this.#query((thread) => thread.call("get", id));
    if (stored === undefined) return undefined;
    const { head, members, runningSinceMs } = stored;
    if (members === null) return { ...pendingRecord(requestOf(head)), startedAtMs: runningSinceMs ?? undefined };
    return recordOf(head, typeof members === "string" ? members : new LargeText([members]));
  }

  async *claim({ isTaken, signal }: Claimer): AsyncGenerator<Claimed> {
    for (const { row, owner, server } of await this.#query((thread) => thread.call("unfinished", undefined))) {
      if (!isTaken({ owner, isOwnServer: server === this.#server })) continue;
      const stored = await this.#query((thread) => thread.call("request", row));
      if (signal.aborted) return;
      // The prediction has ended meanwhile.
      if (stored === undefined) continue;
      const { head, body, leftMs, deaths } = stored;
      const request = requestOf(head);
      // On a full disk, the prediction runs all the same: its outcome stays in memory until there is room.
      this.#writer.add({ id: request.id, takenOver: deaths });
      yield {
        ...request,
        bytes: body.length,
        deadlineMs: performance.now() + leftMs,
        deaths,
        load: () => Promise.resolve({ ...request, body }),
      };
    }
  }

  written(id: string): Promise<void> {
    return this.#writer.written(id);
  }

  flush(): Promise<void> {
    return this.#writer.flush();
  }

  async close(): Promise<void> {
    await this.#writer.stop();
    await this.#thread.close();
  }

  async #query<T>(query: (thread: CalledThread<DatabaseCalls>) => Promise<T>): Promise<T> {
    try {
      return await query(this.#thread);
    } catch (error) {
      throw unusable(this.#path, messageOf(error), error);
    }
  }
}

/** A request without its body, from the JSON that `SqliteWriter.create` writes. */
function requestOf(head: string): Omit<PredictionRequest, "body"> {
  const { model, ...request }: Omit<PredictionRequest, "body" | "model"> & { model?: string } = JSON.parse(head);
  return { ...request, model: ModelVersion.of(model) };
}
