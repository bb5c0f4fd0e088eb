/** The way to the thread that has the database: numbered messages, and a new thread after one that died. */
import { OpenMap, spread } from "../../../base/collections/open-map.ts";
import { messageOf, SconceError } from "../../../base/errors.ts";
import type { KeptWebhook } from "../../webhooks/webhook-store.ts";
import type {
  Answer,
  KeepWebhooksMessage,
  Numbered,
  OpenMessage,
  Owners,
  StoredRecord,
  StoredRequest,
  StoreMessage,
  TakeMessage,
  Tended,
  Totals,
  WriteMessage,
  Written,
} from "./sqlite-messages.ts";

interface Asked {
  resolve(answer: Answer): void;
  reject(error: unknown): void;
}

/** What it rejects with is an Error whose message is a part of a sentence: why there is no answer. */
export class SqliteLink {
  readonly #openMessage: () => OpenMessage;
  readonly #newWorker: () => Worker;
  #asked = new OpenMap<number, Asked>(spread);
  #worker: Worker | undefined;
  #opened: Promise<Totals> | undefined;
  #nextNumber = 0;
  /** Told what is left when outcomes have expired. */
  onTended: (tended: Tended) => void = () => {};

  /** @param openMessage is asked for again for every thread, as the time is part of it */
  constructor(openMessage: () => OpenMessage, newWorker: () => Worker = sqliteWorker) {
    this.#openMessage = openMessage;
    this.#newWorker = newWorker;
  }

  /** @throws SconceError `predictions_unusable` */
  open(): Promise<Totals> {
    this.#opened ??= this.#start();
    return this.#opened;
  }

  /** Commits all or nothing. */
  async write(message: Omit<WriteMessage, "type">): Promise<Written> {
    return present((await this.#ask({ type: "write", ...message })).written);
  }

  async get(id: string): Promise<StoredRecord | undefined> {
    return (await this.#ask({ type: "get", id })).record;
  }

  async owners(): Promise<Owners> {
    return present((await this.#ask({ type: "owners" })).owners);
  }

  /** @returns undefined where there is no more; "full" while the disk has no room for the death of a request */
  async take(message: Omit<TakeMessage, "type">): Promise<StoredRequest | "full" | undefined> {
    const { taken, isFull = false } = await this.#ask({ type: "take", ...message });
    return isFull ? "full" : taken;
  }

  async keepWebhooks(message: Omit<KeepWebhooksMessage, "type">): Promise<void> {
    await this.#ask({ type: "keepWebhooks", ...message });
  }

  async webhooks(): Promise<readonly KeptWebhook[]> {
    return present((await this.#ask({ type: "webhooks" })).webhooks);
  }

  /** Closes the database, and ends the thread whether that succeeded or not. */
  async close(): Promise<void> {
    const worker = this.#worker;
    if (worker === undefined) return;
    try {
      await this.#post(worker, { type: "close" });
    } finally {
      this.#lose(worker, "it is closed");
      worker.terminate();
    }
  }

  async #ask(message: StoreMessage): Promise<Answer> {
    await this.open();
    const worker = this.#worker;
    if (worker === undefined) throw new Error("its thread ended");
    const answer = await this.#post(worker, message);
    if (answer.fault !== undefined) throw new Error(answer.fault);
    return answer;
  }

  async #start(): Promise<Totals> {
    const worker = this.#newWorker();
    this.#worker = worker;
    worker.onmessage = ({ data }: MessageEvent<Answer | Tended>) => {
      if (data.number === undefined) return this.onTended(data);
      const asked = this.#asked.get(data.number);
      this.#asked.delete(data.number);
      asked?.resolve(data);
    };
    worker.onerror = (event) => this.#lose(worker, `its thread failed: ${messageOf(event.message)}`);
    worker.addEventListener("close", () => this.#lose(worker, "its thread ended"));
    const { totals, fault } = await this.#post(worker, this.#openMessage());
    if (fault === undefined) return present(totals);
    this.#lose(worker, fault);
    worker.terminate();
    throw new SconceError("predictions_unusable", fault);
  }

  #post(worker: Worker, message: StoreMessage): Promise<Answer> {
    const number = this.#nextNumber++;
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    this.#asked.set(number, { resolve, reject });
    const numbered: Numbered = { ...message, number };
    worker.postMessage(numbered);
    return promise;
  }

  /** The next message gets a new thread. */
  #lose(worker: Worker, reason: string): void {
    if (worker !== this.#worker) return;
    this.#worker = undefined;
    this.#opened = undefined;
    const asked = this.#asked;
    this.#asked = new OpenMap(spread);
    for (const { reject } of asked) reject(new Error(reason));
  }
}

function sqliteWorker(): Worker {
  return new Worker(new URL("./sqlite-worker.ts", import.meta.url));
}

function present<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("its thread gave no answer");
  return value;
}
