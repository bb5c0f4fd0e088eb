/** Stores predictions in an SQLite database, on a thread. */

import { Gate } from "../../base/collections/gate.ts";
import { OpenMap } from "../../base/collections/open-map.ts";
import { messageOf, SconceError } from "../../base/errors.ts";
import { hashOf } from "../../base/id-hash.ts";
import { log } from "../../base/log.ts";
import type { FileLock } from "../../machine/files/lock.ts";
import type { MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import { LargeText } from "../large-text.ts";
import { MemoryStore } from "../memory-store.ts";
import { ModelVersion } from "../model-version.ts";
import { type EndedRecord, kindOf, type PredictionRecord } from "../record.ts";
import { recordOf } from "../record-fields.ts";
import { originOf, type PredictionRequest, storedBody } from "../request.ts";
import type { RetentionLimits } from "../retention.ts";
import type { Accepted, Claimed, Claimer, RequestSource, Store, StoreHindrance, StoreRole } from "../store.ts";
import { webhookText } from "../webhooks/webhook.ts";
import { databaseFault, unusable, unwritable } from "./database-fault.ts";
import { lockDatabase } from "./database-lock.ts";
import { DatabaseThread } from "./database-thread.ts";
import type { DatabaseOptions } from "./prediction-database.ts";
import type { StoredRecord } from "./rows.ts";
import { SqliteWebhooks } from "./sqlite-webhooks.ts";
import { SqliteWriter } from "./sqlite-writer.ts";
import { MAX_INLINE_LENGTH, ValueFiles } from "./value-files.ts";

/** Maximum bytes of recent outcomes of the database that memory also keeps, so that reading them needs no query. */
const RECENT_BYTES = 32 * 1024 * 1024;
/** Milliseconds between attempts to take over a request while the disk is full. */
const FULL_MS = 1000;

export interface SqliteOptions {
  readonly path: string;
  readonly retention: RetentionLimits;
  /** `normal`: stored predictions survive a kill of the process. `full`: they also survive a power loss. */
  readonly sync?: "normal" | "full" | undefined;
  readonly role?: StoreRole | undefined;
  /** Ends the wait for the lock of the server that --take-over replaces. */
  readonly signal?: AbortSignal | undefined;
  readonly memory?: MemoryAccount | undefined;
  /** Name of the server, stored with its requests. With --take-over two servers with different names use the file. */
  readonly server?: string | undefined;
  /** The wall clock in milliseconds since 1970, which measures the time between two processes. */
  readonly wallClock?: (() => number) | undefined;
  readonly newWorker?: (() => Worker) | undefined;
}

/** An unfinished prediction of this process. */
interface Live {
  begunAtMs: number | undefined;
}

export class SqliteStore implements Store {
  readonly webhooks: SqliteWebhooks;
  #isDetached = false;
  readonly #path: string;
  readonly #server: string;
  readonly #wallClock: () => number;
  readonly #thread: DatabaseThread;
  readonly #files: ValueFiles;
  readonly #lock: FileLock | undefined;
  readonly #writer: SqliteWriter;
  readonly #recent: MemoryStore;
  /** Outcomes of clients that waited and were answered. They are in no file. */
  readonly #answered: MemoryStore;
  readonly #live = new OpenMap<string, Live>(hashOf);
  /** Queries in progress by id. Concurrent readers of an id share a query. */
  readonly #reading = new OpenMap<string, Promise<PredictionRecord | undefined>>(hashOf);
  /** Limits the reading of large outcomes to one at a time, because reading takes twice their memory. */
  readonly #readings = new Gate(1);

  /** Opens the database, and creates it if it is missing. @throws SconceError `predictions_unusable` */
  static async open(options: SqliteOptions): Promise<SqliteStore> {
    const { path, role, signal } = options;
    const lock = role === "member" ? undefined : await lockDatabase(path, { waits: role === "heir", signal });
    try {
      const store = new SqliteStore(options, lock);
      const { aside, ...totals } = await store.#thread.open();
      if (aside !== undefined)
        log.error(
          `The predictions in ${path} cannot be used: ${aside.reason}. They are in ${aside.path} now, and the server begins anew`,
        );
      store.#writer.totals = totals;
      return store;
    } catch (error) {
      lock?.release();
      throw error instanceof SconceError ? error : unusable(path, messageOf(error), error);
    }
  }

  private constructor(options: SqliteOptions, lock: FileLock | undefined) {
    const { path, retention, sync = "normal", role = "main", wallClock = Date.now, memory } = options;
    const { server = "" } = options;
    this.#server = server;
    let isMain = role === "main";
    const databaseOptions = (): DatabaseOptions => {
      const each = { path, sync, isMain, server, wallMs: wallClock(), ...retention };
      // Only the first thread removes files without a row. A later thread would remove files that are being written.
      isMain = false;
      return each;
    };
    this.#path = path;
    this.#wallClock = wallClock;
    this.#lock = lock;
    this.#thread = new DatabaseThread(databaseOptions, options.newWorker);
    this.#thread.onTended = ({ totals, isDetached }) => {
      if (isDetached && !this.#isDetached)
        log.error(`The predictions in ${path} were deleted or replaced: the server accepts no others; restart it`);
      this.#isDetached = isDetached;
      this.#writer.totals = totals;
    };
    this.#files = new ValueFiles(path, sync === "full");
    const maxBytes = Math.min(retention.maxBytes, RECENT_BYTES);
    this.#recent = new MemoryStore({ ...retention, maxBytes }, memory && { memory });
    this.#answered = new MemoryStore(retention, memory && { memory });
    this.#writer = new SqliteWriter({
      path,
      retention,
      wallClock,
      memory,
      thread: this.#thread,
      files: this.#files,
      onRefused: (id) => this.#recent.evict(id),
    });
    const webhooks = () => this.#read(() => this.#thread.call("webhooks", undefined));
    this.webhooks = new SqliteWebhooks(this.#writer, webhooks);
  }

  get hindrance(): StoreHindrance | undefined {
    if (this.#isDetached) return "store";
    return this.#writer.isUnwritable ? "disk" : undefined;
  }

  get retained(): { count: number; bytes: number } {
    const [{ count, bytes }, answered] = [this.#writer.retained, this.#answered.retained];
    return { count: count + answered.count, bytes: bytes + answered.bytes };
  }

  async accept(request: PredictionRequest): Promise<Accepted> {
    const { id, webhook, createdAtMs } = request;
    await Promise.all([this.#create(request), webhook && this.webhooks.add(id, webhookText(webhook))]);
    return { createdAtMs };
  }

  async #create(request: PredictionRequest): Promise<void> {
    const { id } = request;
    const body = storedBody(request);
    const live: Live = { begunAtMs: undefined };
    this.#live.set(id, live);
    let file: string | undefined;
    try {
      if (body.length > MAX_INLINE_LENGTH) file = await this.#files.write(id, [body]);
      if (this.#live.get(id) === live) await this.#writer.create({ request, body, file }, live.begunAtMs);
      // The prediction has ended meanwhile. Its body stays until its outcome is written, in case the process is killed.
      if (file !== undefined && this.#live.get(id) !== live) await this.#writer.written(id);
    } catch (error) {
      this.#live.delete(id);
      throw error instanceof SconceError ? error : unwritable(databaseFault(error), error);
    } finally {
      if (file !== undefined && this.#live.get(id) !== live) await this.#files.remove(file);
    }
  }

  begun(id: string): void {
    this.#setBegun(id, this.#wallClock());
  }

  release(ids: readonly string[]): Promise<void> {
    for (const id of ids) if (this.#live.get(id)?.begunAtMs !== undefined) this.#setBegun(id, undefined);
    return Promise.resolve();
  }

  finish(record: EndedRecord): void {
    if (!this.#live.delete(record.id)) {
      if (this.#stored(record.id) === undefined) this.#answered.keep(record);
      return;
    }
    const bytes = this.#recent.keep(record);
    if (bytes !== undefined) this.#writer.end(record, bytes);
  }

  async read(id: string): Promise<PredictionRecord | undefined> {
    const known = this.#stored(id);
    if (known !== undefined) {
      await this.#writer.written(id);
      return known;
    }
    const answered = this.#answered.recall(id);
    if (answered !== undefined) return answered;
    let reading = this.#reading.get(id);
    if (reading === undefined) {
      reading = this.#read(() => this.#query(id)).finally(() => this.#reading.delete(id));
      this.#reading.set(id, reading);
    }
    return reading;
  }

  async sources(): Promise<readonly RequestSource[]> {
    return (await this.#sources()).sources;
  }

  async *claim({ isTaken, full, signal }: Claimer): AsyncGenerator<Claimed> {
    const { sources, upTo } = await this.#sources();
    const chosen = sources
      .filter(isTaken)
      .map(({ text }) => text)
      .join("");
    let after = 0;
    while (chosen !== "") {
      const stored = await this.#read(() => this.#thread.call("takeOver", { sources: chosen, after, upTo }));
      if (stored === undefined || signal.aborted) return;
      if (stored === "full") {
        full();
        await Bun.sleep(FULL_MS);
        if (signal.aborted) return;
        continue;
      }
      const { row, file, kind, origin, digest, model, leftMs, body, ...request } = stored;
      after = row;
      const facts = { ...request, kind: kindOf(kind), digest: digest || undefined, model: ModelVersion.of(model) };
      this.#live.set(request.id, { begunAtMs: undefined });
      yield {
        ...facts,
        bytes: body.length,
        deadlineMs: performance.now() + leftMs,
        load: async () => {
          const whole = file === null ? body : await this.#read(() => this.#files.read(file));
          if (whole === undefined)
            log.error(`The body of prediction ${request.id} is gone from ${this.#files.folder}: it fails`);
          return whole === undefined ? undefined : { ...facts, body: whole, origin: originOf(origin) };
        },
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
    try {
      await this.#thread.close();
    } finally {
      this.#lock?.release();
    }
  }

  async #sources() {
    const { sources, upTo } = await this.#read(() => this.#thread.call("sources", undefined));
    const known = sources.map(({ owner, server }) => ({
      owner,
      isOwnServer: server === this.#server,
      text: `${owner} ${server},`,
    }));
    return { sources: known, upTo };
  }

  /** An outcome that memory still has and the database has, or will have. */
  #stored(id: string): EndedRecord | undefined {
    return this.#recent.recall(id) ?? this.#writer.find(id);
  }

  #setBegun(id: string, atMs: number | undefined): void {
    const live = this.#live.get(id);
    if (live === undefined) return;
    live.begunAtMs = atMs;
    this.#writer.begun(id, atMs);
  }

  async #query(id: string): Promise<PredictionRecord | undefined> {
    const stored = await this.#thread.call("get", id);
    return stored && this.#readings.run(this, () => readRecord(stored, this.#files));
  }

  async #read<T>(read: () => Promise<T>): Promise<T> {
    try {
      return await read();
    } catch (error) {
      throw unusable(this.#path, messageOf(error), error);
    }
  }
}

/**
 * Converts a row to a record.
 * @returns undefined if the row's file has been evicted meanwhile
 */
async function readRecord(stored: StoredRecord, files: ValueFiles): Promise<PredictionRecord | undefined> {
  const { file, fileMembersBytes } = stored;
  if (file === null) return recordOf(stored);
  const content = await files.read(file);
  if (content === undefined) return undefined;
  const logs = new TextDecoder("utf-8", { ignoreBOM: true }).decode(content.subarray(fileMembersBytes));
  return recordOf({ ...stored, members: new LargeText([content.subarray(0, fileMembersBytes)]), logs });
}
