/** Sends one message to one receiver, signed, and says what became of it. */

import { Gate } from "../../base/collections/gate.ts";
import { messageOf } from "../../base/errors.ts";
import { boundedBytes, chunksOf } from "../../machine/network/bounded-body.ts";
import type { GuardedRequests } from "../../machine/network/guarded-requests.ts";
import { HELD_PER_OUTPUT_BYTE, type MemoryAccount } from "../memory/memory-account.ts";
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
/** Messages that go to one host at the same time. */
const MAX_OF_HOST = 4;
/** To all hosts that answered the last message, that were sent none, and that did not answer: however many never answer, they hold up themselves alone. */
const MAX_OF_ALL = { answers: 64, isNew: 64, isSilent: 32 };
/** Hosts of which that is known; one that is not sent to is forgotten first. */
const MAX_HOSTS = 10_000;
/** Of an answer, so that its connection can be used again. */
const MAX_ANSWER_BYTES = 16 * 1024;
const MAX_RETRY_AFTER_MS = 3_600_000;

interface Host {
  readonly gate: Gate;
  /** Messages that wait or are on their way. */
  users: number;
  manner: keyof typeof MAX_OF_ALL;
}

export class WebhookSender {
  readonly #requests: GuardedRequests;
  readonly #secrets: readonly string[];
  readonly #userAgent: string;
  readonly #memory: MemoryAccount;
  readonly #timeoutMs: number;
  readonly #all = {
    answers: new Gate(MAX_OF_ALL.answers),
    isNew: new Gate(MAX_OF_ALL.isNew),
    isSilent: new Gate(MAX_OF_ALL.isSilent),
  };
  readonly #hosts = new Map<string, Host>();
  readonly #stopping = new AbortController();

  constructor(options: {
    readonly requests: GuardedRequests;
    readonly secrets: readonly string[];
    readonly userAgent: string;
    readonly memory: MemoryAccount;
    readonly timeoutMs?: number | undefined;
  }) {
    this.#requests = options.requests;
    this.#secrets = options.secrets;
    this.#userAgent = options.userAgent;
    this.#memory = options.memory;
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
  }

  /** @param message is asked for once it is its turn; undefined where there is nothing to say any more */
  async send(url: URL, message: () => Promise<WebhookMessage | undefined>): Promise<Sent | undefined> {
    const host = this.#hostOf(url);
    host.users += 1;
    try {
      return await host.gate.run(this, () =>
        this.#all[host.manner].run(host, async () =>
          this.#stopping.signal.aborted ? undefined : this.#post(url, host, message),
        ),
      );
    } finally {
      host.users -= 1;
    }
  }

  /** Breaks off what is on its way. */
  stop(): void {
    this.#stopping.abort();
  }

  #hostOf({ host: name }: URL): Host {
    const host = this.#hosts.get(name) ?? { gate: new Gate(MAX_OF_HOST), users: 0, manner: "isNew" };
    this.#hosts.delete(name);
    this.#hosts.set(name, host);
    const [oldest] = this.#hosts;
    if (this.#hosts.size > MAX_HOSTS && oldest?.[1].users === 0) this.#hosts.delete(oldest[0]);
    return host;
  }

  async #post(url: URL, host: Host, message: () => Promise<WebhookMessage | undefined>): Promise<Sent | undefined> {
    try {
      const told = await message();
      if (told === undefined) return undefined;
      const { id, type, occurredAtMs, data } = told;
      using charge = this.#memory.take("answers", HELD_PER_OUTPUT_BYTE * data.length);
      if (charge === undefined) return { result: "failed", why: "there is no memory for the message", afterMs: 0 };
      const body = `{"type":"${type}","timestamp":"${new Date(occurredAtMs).toISOString()}","data":${data}}`;
      const seconds = Math.floor(Date.now() / 1000);
      const sending = this.#requests.send(url, {
        method: "POST",
        signal: AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(this.#timeoutMs)]),
        headers: {
          "Content-Type": "application/json",
          "User-Agent": this.#userAgent,
          "webhook-id": id,
          "webhook-timestamp": String(seconds),
          "webhook-signature": signatures(this.#secrets, { id, seconds, body }),
        },
        body,
      });
      const response = await sending.catch((error: unknown) => {
        host.manner = "isSilent";
        throw error;
      });
      // What it says beside its status does not matter, nor whether it says all of it in time.
      const isHeard = await boundedBytes(chunksOf(response), MAX_ANSWER_BYTES).then(
        () => true,
        () => false,
      );
      host.manner = isHeard ? "answers" : "isSilent";
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
