/** Sends signed webhook messages. A slow receiver does not delay messages to other receivers. */

import { Gate } from "../../base/collections/gate.ts";
import { messageOf } from "../../base/errors.ts";
import type { WebhookResult } from "../../base/labels.ts";
import { boundedBytes, chunksOf } from "../../machine/network/bounded-body.ts";
import type { GuardedRequests } from "../../machine/network/guarded-requests.ts";
import { HELD_PER_OUTPUT_BYTE, type MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import { signatures } from "./webhook.ts";

export interface WebhookMessage {
  /** Equal in every attempt to send the message. */
  readonly id: string;
  readonly type: string;
  readonly occurredAtMs: number;
  /** JSON text. */
  readonly data: string;
}

/** Creates a message just before it is sent; undefined if the prediction is kept no longer. */
type CreateMessage = () => Promise<WebhookMessage | undefined>;

/** The result of an attempt. After `failed`, the message is sent again, not before `afterMs` milliseconds have passed. */
export interface Delivery {
  readonly result: WebhookResult;
  readonly why: string;
  readonly afterMs?: number;
}

export interface SenderOptions {
  readonly requests: GuardedRequests;
  readonly secrets: readonly string[];
  readonly userAgent: string;
  readonly memory: MemoryAccount;
  /** Time limit of an attempt in milliseconds. Default: `TIMEOUT_MS`. */
  readonly timeoutMs?: number | undefined;
}

const TIMEOUT_MS = 15_000;
/** Maximum messages that are sent to one host at the same time. */
const MAX_OF_HOST = 4;
/**
 * Maximum messages in flight to hosts that answered the last message. Other hosts have as many slots, so that silent
 * hosts cannot take the slots of hosts that answer.
 */
const MAX_AT_ONCE = 64;
/** Maximum hosts in memory, unless more are in use. The least recently used host is dropped first. */
const MAX_HOSTS = 10_000;
/** Maximum bytes of an answer to read, so that its connection can be used again. */
const MAX_ANSWER_BYTES = 16 * 1024;
/** Longest pause that a receiver may ask for by Retry-After. */
const MAX_RETRY_AFTER_MS = 3_600_000;

interface Host {
  readonly gate: Gate;
  /** Whether a whole answer to the last message came in time. */
  isResponsive: boolean;
}

export class WebhookSender {
  readonly #options: SenderOptions;
  readonly #responsive = new Gate(MAX_AT_ONCE);
  readonly #others = new Gate(MAX_AT_ONCE);
  readonly #hosts = new Map<string, Host>();
  readonly #stopping = new AbortController();

  constructor(options: SenderOptions) {
    this.#options = options;
  }

  /** Waits for a free slot of the host, then sends a message. */
  send(url: URL, message: CreateMessage): Promise<Delivery> {
    const host = this.#hostOf(url);
    return host.gate.run(this, () =>
      (host.isResponsive ? this.#responsive : this.#others).run(host, () => this.#post(url, host, message)),
    );
  }

  /** Aborts all messages. */
  stop(): void {
    this.#stopping.abort();
  }

  #hostOf({ host: name }: URL): Host {
    const host = this.#hosts.get(name) ?? { gate: new Gate(MAX_OF_HOST), isResponsive: false };
    this.#hosts.delete(name);
    this.#hosts.set(name, host);
    const [oldest] = this.#hosts;
    if (this.#hosts.size <= MAX_HOSTS || oldest === undefined) return host;
    this.#hosts.delete(oldest[0]);
    // With a second gate, the host would get more messages at the same time.
    if (oldest[1].gate.isInUse) this.#hosts.set(...oldest);
    return host;
  }

  async #post(url: URL, host: Host, message: CreateMessage): Promise<Delivery> {
    const { requests, secrets, userAgent, memory, timeoutMs = TIMEOUT_MS } = this.#options;
    try {
      this.#stopping.signal.throwIfAborted();
      const created = await message();
      if (created === undefined) return { result: "given_up", why: "the prediction is kept no longer" };
      const { id, type, occurredAtMs, data } = created;
      using charge = memory.take("answers", HELD_PER_OUTPUT_BYTE * data.length);
      if (charge === undefined) return { result: "failed", why: "there is no memory for the message" };
      const body = `{"type":"${type}","timestamp":"${new Date(occurredAtMs).toISOString()}","data":${data}}`;
      const seconds = Math.floor(Date.now() / 1000);
      const response = await requests.send(url, {
        method: "POST",
        signal: AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(timeoutMs)]),
        headers: {
          "Content-Type": "application/json",
          "User-Agent": userAgent,
          "webhook-id": id,
          "webhook-timestamp": String(seconds),
          "webhook-signature": signatures(secrets, { id, seconds, body }),
        },
        body,
      });
      // The status alone decides about the delivery.
      host.isResponsive = await boundedBytes(chunksOf(response), MAX_ANSWER_BYTES).then(
        () => true,
        () => false,
      );
      const why = `it answered ${response.status}`;
      if (response.ok) return { result: "told", why };
      // The receiver wants no more messages.
      if (response.status === 410) return { result: "given_up", why };
      return { result: "failed", why, afterMs: retryAfterMs(response.headers.get("retry-after")) };
    } catch (error) {
      host.isResponsive = false;
      return { result: "failed", why: messageOf(error) };
    }
  }
}

/** Pause that a receiver asks for, in milliseconds. @param header value of Retry-After, in seconds or as a date */
function retryAfterMs(header: string | null): number {
  if (header === null) return 0;
  const afterMs = /^\d+$/.test(header) ? 1000 * Number(header) : Date.parse(header) - Date.now();
  return Math.min(Math.max(0, afterMs || 0), MAX_RETRY_AFTER_MS);
}
