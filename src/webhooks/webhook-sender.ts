/** Sends one message to one receiver, signed, and says what became of it. */
import { messageOf } from "../errors.ts";
import type { GuardedRequests } from "../fetching/guarded-requests.ts";
import { HELD_PER_OUTPUT_BYTE, type MemoryAccount } from "../memory/memory-account.ts";
import { boundedBytes, chunksOf } from "../registry/bounded-body.ts";
import { Gate } from "../serving/gate.ts";
import { signatures } from "./signature.ts";

/** Of what a message says: what is longer is left out, and the receiver reads it. */
export const MAX_DATA_LENGTH = 2 ** 20;
/** In its place. */
export const TRUNCATED = '"truncated":true';

export interface WebhookMessage {
  /** The same at every try. */
  readonly id: string;
  readonly type: string;
  readonly occurredAtMs: number;
  /** JSON. */
  readonly data: string;
}

/** `gone`: the receiver wants no more messages. */
export type Sent =
  | { readonly result: "told" | "gone" }
  | { readonly result: "failed"; readonly why: string; readonly afterMs: number };

const TIMEOUT_MS = 15_000;
/** Messages that go to one host at the same time, and to all: a receiver that never answers holds no others. */
const MAX_OF_HOST = 4;
const MAX_OF_ALL = 128;
/** Of an answer, so that its connection can be used again. */
const MAX_ANSWER_BYTES = 16 * 1024;
const MAX_RETRY_AFTER_MS = 3_600_000;

export class WebhookSender {
  readonly #requests: GuardedRequests;
  readonly #secrets: readonly string[];
  readonly #userAgent: string;
  readonly #memory: MemoryAccount;
  readonly #all = new Gate(MAX_OF_ALL);
  readonly #hosts = new Map<string, { readonly gate: Gate; users: number }>();
  readonly #stopping = new AbortController();

  constructor(options: {
    readonly requests: GuardedRequests;
    readonly secrets: readonly string[];
    readonly userAgent: string;
    readonly memory: MemoryAccount;
  }) {
    this.#requests = options.requests;
    this.#secrets = options.secrets;
    this.#userAgent = options.userAgent;
    this.#memory = options.memory;
  }

  /** @param message is asked for once it is its turn; undefined where there is nothing to say any more */
  async send(url: URL, message: () => Promise<WebhookMessage | undefined>): Promise<Sent | undefined> {
    const host = this.#hosts.get(url.host) ?? { gate: new Gate(MAX_OF_HOST), users: 0 };
    this.#hosts.set(url.host, host);
    host.users += 1;
    try {
      return await host.gate.run(this, () =>
        this.#all.run(host, async () => (this.#stopping.signal.aborted ? undefined : this.#post(url, message))),
      );
    } finally {
      host.users -= 1;
      if (host.users === 0) this.#hosts.delete(url.host);
    }
  }

  /** Breaks off what is on its way. */
  stop(): void {
    this.#stopping.abort();
  }

  async #post(url: URL, message: () => Promise<WebhookMessage | undefined>): Promise<Sent | undefined> {
    try {
      const told = await message();
      if (told === undefined) return undefined;
      const { id, type, occurredAtMs, data } = told;
      using charge = this.#memory.take("answers", HELD_PER_OUTPUT_BYTE * data.length);
      if (charge === undefined) return { result: "failed", why: "there is no memory for the message", afterMs: 0 };
      const body = `{"type":"${type}","timestamp":"${new Date(occurredAtMs).toISOString()}","data":${data}}`;
      const seconds = Math.floor(Date.now() / 1000);
      const response = await this.#requests.send(url, {
        method: "POST",
        signal: AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(TIMEOUT_MS)]),
        headers: {
          "Content-Type": "application/json",
          "User-Agent": this.#userAgent,
          "webhook-id": id,
          "webhook-timestamp": String(seconds),
          "webhook-signature": signatures(this.#secrets, { id, seconds, body }),
        },
        body,
      });
      // What it says beside its status does not matter, nor whether it says all of it.
      await boundedBytes(chunksOf(response), MAX_ANSWER_BYTES).catch(() => {});
      if (response.ok) return { result: "told" };
      if (response.status === 410) return { result: "gone" };
      const afterMs = retryAfterMs(response.headers.get("retry-after"));
      return { result: "failed", why: `it answered ${response.status}`, afterMs };
    } catch (error) {
      return { result: "failed", why: messageOf(error), afterMs: 0 };
    }
  }
}

/** Seconds or a date. */
function retryAfterMs(header: string | null): number {
  if (header === null) return 0;
  const afterMs = /^\d+$/.test(header) ? 1000 * Number(header) : Date.parse(header) - Date.now();
  return Math.min(Math.max(0, afterMs || 0), MAX_RETRY_AFTER_MS);
}
