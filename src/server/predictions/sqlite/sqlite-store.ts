/** Keeps predictions in a SQLite database that outlives this process. The database is on a thread of its own: see sqlite-worker.ts. */

import { Gate } from "../../../base/collections/gate.ts";
import { OpenMap } from "../../../base/collections/open-map.ts";
import { messageOf, SconceError } from "../../../base/errors.ts";
import { log } from "../../../base/log.ts";
import type { FileLock } from "../../../machine/files/lock.ts";
import type { MemoryAccount } from "../../memory/memory-account.ts";
import { hashOf } from "../ids.ts";
import { MemoryStore } from "../memory-store.ts";
import type { EndedRecord, PredictionRecord } from "../record.ts";
import type { KeptRequest, LeftRequest, PredictionStore, RetentionLimits } from "../store.ts";
import { originOf } from "../stored-origin.ts";
import { databaseFault } from "./database-fault.ts";
import { lockDatabase } from "./database-lock.ts";
import { KeptFiles, MAX_INLINE_LENGTH } from "./kept-files.ts";
import { unusable } from "./prediction-schema.ts";
import { SqliteLink } from "./sqlite-link.ts";
import type { OpenMessage } from "./sqlite-messages.ts";
import { SqliteWebhooks } from "./sqlite-webhooks.ts";
import { SqliteWriter, unwritable } from "./sqlite-writer.ts";
import { kindOf, recordOf } from "./stored-record.ts";

/** Of ended predictions that are answered without asking the database. */
const RECENT_BYTES = 32 * 1024 * 1024;
/** Interval between looks for room on a full disk. */
const FULL_MS = 1000;

export interface SqliteOptions {
  readonly path: string;
  readonly retention: RetentionLimits;
  /** `normal` survives the end of a process, however it ends; `full` also a loss of power. */
  readonly sync?: "normal" | "full" | undefined;
  /** `main` has the file to itself but for members: other processes of the same server, which open it after it. */
  readonly role?: "main" | "member" | undefined;
  readonly memory?: MemoryAccount | undefined;
  /** Milliseconds since 1970: tells how long there was no process. */
  readonly wallClock?: (() => number) | undefined;
  /** Starts the database's thread. */
  readonly newWorker?: (() => Worker) | undefined;
}

/** A prediction that this process has created or taken over, and that has not ended. */
interface Live {
  begunAtMs: number | undefined;
  /** False while its body is being written to a file. */
  isQueued: boolean;
}

export class SqliteStore implements PredictionStore {
  readonly #path: string;
  #isClosed = false;
  isGone = false;
  readonly #wallClock: () => number;
  readonly #link: SqliteLink;
  readonly #files: KeptFiles;
  readonly #lock: FileLock | undefined;
  readonly #writer: SqliteWriter;
  readonly webhooks: SqliteWebhooks;
  /** Answers without the database. */
  readonly #recent: MemoryStore;
  readonly #live = new OpenMap<string, Live>(hashOf);
  /** Records that are being read: many may ask for a large one at the same time. */
  readonly #reading = new OpenMap<string, Promise<PredictionRecord | undefined>>(hashOf);
  /** Large outcomes one after the other: each is in memory twice meanwhile. */
  readonly #readings = new Gate(1);

  /** @throws SconceError `predictions_unusable` */
  static async open(options: SqliteOptions): Promise<SqliteStore> {
    const lock = options.role === "member" ? undefined : lockDatabase(options.path);
    try {
      const store = new SqliteStore(options, lock);
      store.#writer.totals = await store.#link.open();
      return store;
    } catch (error) {
      lock?.release();
      throw error instanceof SconceError ? error : unusable(options.path, messageOf(error), error);
    }
  }

  private constructor(options: SqliteOptions, lock: FileLock | undefined) {
    const { path, retention, sync = "normal", role = "main", wallClock = Date.now } = options;
    let isMain = role === "main";
    const openMessage = (): OpenMessage => {
      const message = { type: "open", path, sync, isMain, wallMs: wallClock(), ...retention } as const;
      // A later thread of this process finds files that are being written.
      isMain = false;
      return message;
    };
    this.#path = path;
    this.#wallClock = wallClock;
    this.#lock = lock;
    this.#link = new SqliteLink(openMessage, options.newWorker);
    this.#link.onTended = ({ totals, isGone, isLogDamaged = false }) => {
      if (isLogDamaged)
        log.error(`The log ${path}-wal was damaged: predictions that it had are lost, and their ids are not found`);
      if (isGone && !this.isGone)
        log.error(`The predictions in ${path} were deleted or replaced: the server accepts no others; restart it`);
      this.isGone = isGone;
      this.#writer.totals = totals;
    };
    this.webhooks = new SqliteWebhooks(path, this.#link);
    this.#files = new KeptFiles(path, sync === "full");
    this.#recent = new MemoryStore(
      { ...retention, maxBytes: Math.min(retention.maxBytes, RECENT_BYTES) },
      options.memory && { memory: options.memory },
    );
    const onRefused = (id: string) => this.#recent.forget(id);
    const { memory } = options;
    this.#writer = new SqliteWriter({
      path,
      retention,
      wallClock,
      memory,
      link: this.#link,
      files: this.#files,
      onRefused,
    });
  }

  get retained(): { count: number; bytes: number } {
    return this.#writer.retained;
  }

  async create(request: KeptRequest): Promise<void> {
    const { id, body } = request;
    const live: Live = { begunAtMs: undefined, isQueued: false };
    this.#live.set(id, live);
    let file: string | undefined;
    try {
      if (body.length > MAX_INLINE_LENGTH) file = await this.#files.write(id, [body]);
      if (this.#live.get(id) === live) {
        live.isQueued = true;
        await this.#writer.create({ request, file, begunAtMs: live.begunAtMs });
      }
      // It has ended meanwhile: until its outcome is kept, its body is what a next process begins it again from.
      if (file !== undefined && this.#live.get(id) !== live) await this.#writer.flush();
    } catch (error) {
      this.#live.delete(id);
      throw error instanceof SconceError ? error : unwritable(databaseFault(error), error);
    } finally {
      if (file !== undefined && this.#live.get(id) !== live) await this.#files.remove(file);
    }
  }

  begun(id: string): void {
    const live = this.#live.get(id);
    if (live === undefined) return;
    live.begunAtMs = this.#wallClock();
    if (live.isQueued) this.#writer.begun(id, live.begunAtMs);
  }

  interrupted(id: string): void {
    const live = this.#live.get(id);
    if (live === undefined) return;
    live.begunAtMs = undefined;
    if (live.isQueued) this.#writer.begun(id, undefined);
  }

  finish(record: EndedRecord): void {
    const bytes = this.#recent.keep(record);
    if (bytes === undefined) return;
    this.#writer.end(record, bytes, this.#live.delete(record.id));
  }

  async get(id: string): Promise<PredictionRecord | undefined> {
    // Recent ones are forgotten oldest first: what was told since the oldest of them needs no search.
    const known = this.#recent.recall(id) ?? this.#writer.find(id, this.#recent.oldestMs);
    if (known !== undefined) {
      await this.#writer.written(id);
      return known;
    }
    let reading = this.#reading.get(id);
    if (reading === undefined) {
      reading = this.#read(() => this.#recordOf(id)).finally(() => this.#reading.delete(id));
      this.#reading.set(id, reading);
    }
    return reading;
  }

  async #recordOf(id: string): Promise<PredictionRecord | undefined> {
    const stored = await this.#link.get(id);
    return stored && this.#readings.run(this, () => recordOf(stored, this.#files));
  }

  async *left(owners: (owner: string) => boolean, onFull?: () => void): AsyncGenerator<LeftRequest> {
    const found = await this.#read(() => this.#link.owners());
    const chosen = [...found.owners].filter(owners).join("");
    let after = 0;
    while (chosen !== "") {
      const taken = await this.#read(() => this.#link.take({ owners: chosen, after, upTo: found.upTo }));
      if (taken === undefined || this.#isClosed) return;
      if (taken === "full") {
        onFull?.();
        await Bun.sleep(FULL_MS);
        if (this.#isClosed) return;
        continue;
      }
      const { row, file, kind, ...request } = taken;
      after = row;
      const body = file === null ? request.body : await this.#read(() => this.#files.read(file));
      if (body === undefined) {
        log.warn(`The body of prediction ${request.id} is gone from ${this.#files.folder}: it is not begun again.`);
        this.#writer.drop(request.id);
        continue;
      }
      this.#live.set(request.id, { begunAtMs: undefined, isQueued: true });
      yield {
        ...request,
        kind: kindOf(kind),
        body,
        origin: originOf(request.origin),
        digest: request.digest || undefined,
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
    this.#isClosed = true;
    await this.#writer.stop();
    await this.webhooks.stop();
    try {
      await this.#link.close();
    } finally {
      this.#lock?.release();
    }
  }

  async #read<T>(read: () => Promise<T>): Promise<T> {
    try {
      return await read();
    } catch (error) {
      throw unusable(this.#path, messageOf(error), error);
    }
  }
}
