/** Tells receivers how predictions go and end: the end for certain, as long as the prediction can be read; what comes before it once, or not at all. */

import { urlLabel } from "../../author/url-label.ts";
import { oneLine, SconceError } from "../../base/errors.ts";
import { LogFields, log } from "../../base/log.ts";
import { logLimit } from "../../base/log-limit.ts";
import type { Charge } from "../memory/charge.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { newId } from "../predictions/ids.ts";
import type { LivePrediction } from "../predictions/live.ts";
import { hasEnded, type PredictionRecord } from "../predictions/record.ts";
import { Progress } from "./progress.ts";
import { type Webhook, webhookOf, webhookText } from "./webhook.ts";
import { MAX_DATA_LENGTH, TRUNCATED, type WebhookMessage, type WebhookSender } from "./webhook-sender.ts";
import type { WebhookKey, WebhookStore } from "./webhook-store.ts";

export interface WebhooksOptions {
  readonly sender: WebhookSender;
  /** Undefined where nothing is kept over restarts. */
  readonly store: WebhookStore | undefined;
  /** Reads a prediction that has ended; undefined where it is kept no longer. */
  readonly read: (id: string) => Promise<PredictionRecord | undefined>;
  /** A record as clients read it. */
  readonly json: (record: PredictionRecord) => string;
  /** @throws SconceError for the host of a URL that must not be connected to */
  readonly check: (hostname: string) => void;
  readonly metrics: Pick<Metrics, "webhook">;
  readonly memory: MemoryAccount;
}

/** Ends that are not told; beyond them, or this part of the memory, new predictions with webhooks are refused. */
const MAX_WAITING = { count: 100_000, ofMemory: 1 / 16 };
/** Of each, beside its URL. */
const WAITING_BYTES = 2000;
/** Before the second try; doubled before each one after it. */
const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 300_000;
/** Why an end is told no more, where its receiver is not the reason. */
const EXPIRED = "the prediction is kept no longer";

/** An end that is not told. */
interface Waiting extends WebhookKey {
  readonly webhook: Webhook;
  readonly sinceMs: number;
}

export class Webhooks {
  readonly #options: WebhooksOptions;
  /** In the order in which their predictions ended. */
  readonly #waiting = new Map<string, Waiting>();
  readonly #charge: Charge;
  readonly #progress = new Map<string, Progress>();
  #isStopped = false;
  #settled: (() => void) | undefined;

  constructor(options: WebhooksOptions) {
    this.#options = options;
    // With what is kept while nothing is done: a request that has to be alone need not wait until all are told.
    this.#charge = options.memory.add("results", 0);
  }

  /** Ends that are not told. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** How long the oldest of them has waited, in milliseconds. */
  get oldestMs(): number {
    const [oldest] = this.#waiting.values();
    return oldest === undefined ? 0 : performance.now() - oldest.sinceMs;
  }

  /** Of which predictions. */
  get predictions(): readonly WebhookKey[] {
    return [...this.#waiting.values()];
  }

  /** Whether more may wait. */
  get hasRoom(): boolean {
    const { store, memory } = this.#options;
    const isFull = Math.max(this.waiting, store?.count ?? 0) >= MAX_WAITING.count;
    return !isFull && this.#charge.bytes <= MAX_WAITING.ofMemory * memory.maxBytes;
  }

  /** @throws SconceError `webhook_refused`, `queue_full` */
  admit({ url }: Webhook): void {
    try {
      this.#options.check(new URL(url).hostname);
    } catch (error) {
      throw new SconceError("webhook_refused", error instanceof SconceError ? error.message : "", { cause: error });
    }
    if (!this.hasRoom) throw new SconceError("queue_full", "too many webhooks wait to be told; try again later");
  }

  /** @throws SconceError `predictions_unwritable` */
  async keep(id: string, webhook: Webhook): Promise<void> {
    await this.#options.store?.keep(id, webhookText(webhook));
  }

  forget(of: WebhookKey): void {
    this.#options.store?.forget(of);
  }

  /** Goes on with what earlier processes with these owners have not told. */
  async resume(owners: (owner: string) => boolean, liveOf: (id: string) => LivePrediction | undefined): Promise<void> {
    for (const { id, webhook: text } of (await this.#options.store?.left(owners)) ?? []) {
      const webhook = webhookOf(text);
      const live = liveOf(id);
      if (live === undefined) this.ended({ id, createdAtMs: undefined }, webhook);
      else {
        live.webhook = webhook;
        this.watch(live, webhook);
      }
    }
  }

  /** Tells what happens before its end. */
  watch(live: LivePrediction, { url, events }: Webhook): void {
    const wanted = events.filter((event) => event !== "completed");
    if (wanted.length === 0) return;
    const { id, kind } = live;
    const { json, read, sender, metrics } = this.#options;
    const receiver = new URL(url);
    const progress = new Progress(live, {
      wanted,
      json,
      read,
      tell: async (event, dataOf) => {
        const sent = await sender.send(receiver, async () => {
          const data = await dataOf();
          if (data === undefined) return undefined;
          return { id: `msg_${newId("")}`, type: `${kind}.${event}`, occurredAtMs: Date.now(), data };
        });
        if (sent !== undefined) metrics.webhook(sent.result === "told" ? "told" : "given_up");
        return sent;
      },
    });
    this.#progress.set(id, progress);
    // Where it ends elsewhere, nothing is told here.
    live.onceOver(() => this.#progress.delete(id));
  }

  /** Tells the end of a prediction that can be read from now on. Never throws. */
  ended({ id, createdAtMs }: WebhookKey, webhook: Webhook): void {
    const before = this.#waiting.get(id);
    if (before !== undefined && (createdAtMs === undefined || createdAtMs === before.createdAtMs)) return;
    this.giveUp(id);
    const bytes = WAITING_BYTES + webhook.url.length;
    const waiting: Waiting = { id, createdAtMs, webhook, sinceMs: performance.now() };
    this.#charge.grow(bytes);
    this.#waiting.set(id, waiting);
    void this.#complete(waiting).finally(() => {
      this.#charge.grow(-bytes);
      if (this.#isWaiting(waiting)) this.#waiting.delete(id);
      if (this.#waiting.size === 0) this.#settled?.();
    });
  }

  /** The id is taken again: its receiver must be told nothing of the new prediction, and the one before can be read no longer. */
  giveUp(id: string): void {
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return;
    this.#waiting.delete(id);
    this.#givenUp(waiting, EXPIRED);
    this.forget(waiting);
  }

  /** Resolves when all ends are told, or after about `maxMs`. */
  settled(maxMs: number): Promise<void> {
    if (this.#waiting.size === 0 || maxMs === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, maxMs);
      this.#settled = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** What is not told stays in the store for the next process. */
  stop(): void {
    this.#isStopped = true;
    this.#options.sender.stop();
  }

  async #complete(waiting: Waiting): Promise<void> {
    const { sender, metrics } = this.#options;
    const { id, webhook } = waiting;
    await this.#progress.get(id)?.ended();
    if (!this.#isWaiting(waiting)) return;
    const receiver = new URL(webhook.url);
    for (let failures = 0; webhook.events.includes("completed"); failures++) {
      const sent = await sender.send(receiver, () => this.#ending(waiting));
      if (this.#isStopped || !this.#isWaiting(waiting)) return;
      if (sent?.result === "told") {
        metrics.webhook("told");
        break;
      }
      if (sent?.result !== "failed") {
        this.#givenUp(waiting, sent === undefined ? EXPIRED : "it answered 410");
        break;
      }
      metrics.webhook("failed");
      warn(id, "failed", receiver, sent.why);
      const delayMs = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** failures) * (0.75 + Math.random() / 2);
      await sleep(Math.max(delayMs, sent.afterMs));
    }
    this.forget(waiting);
  }

  /** False once it was given up: another prediction may have its id. */
  #isWaiting(waiting: Waiting): boolean {
    return this.#waiting.get(waiting.id) === waiting;
  }

  #givenUp({ id, webhook }: Waiting, why: string): void {
    this.#options.metrics.webhook("given_up");
    warn(id, "given_up", new URL(webhook.url), why);
  }

  /** Undefined where the prediction can be read no longer. */
  async #ending(waiting: Waiting): Promise<WebhookMessage | undefined> {
    const { id, createdAtMs } = waiting;
    const record = await this.#options.read(id);
    if (record === undefined || !this.#isWaiting(waiting)) return undefined;
    if (createdAtMs !== undefined && record.createdAtMs !== createdAtMs) return undefined;
    if (!hasEnded(record)) throw new Error("it has not ended");
    const { kind, outcome, finishedAtMs } = record;
    const isLarge = outcome.members.length > MAX_DATA_LENGTH;
    const shown = isLarge ? { ...record, outcome: { ...outcome, members: TRUNCATED } } : record;
    return {
      id: `msg_${id}`,
      type: `${kind}.completed`,
      occurredAtMs: finishedAtMs,
      data: this.#options.json(shown),
    };
  }
}

/** @throws SconceError `webhook_refused`, `queue_full` */
export function admitWebhook(webhooks: Webhooks | undefined, webhook: Webhook): void {
  if (webhooks === undefined) {
    const message = "this server tells nobody of predictions: it has no --webhook-secret to sign messages with";
    throw new SconceError("webhook_refused", message);
  }
  webhooks.admit(webhook);
}

const results = { failed: "tried again", given_up: "given up" } as const;

function warn(id: string, result: keyof typeof results, url: URL, why: string): void {
  logLimit.write(`webhook_${result}`, (...more) =>
    log.warn(
      `A webhook at ${urlLabel(url)} is ${results[result]}: ${oneLine(why)}`,
      ...more,
      new LogFields({ prediction_id: id }),
    ),
  );
}

/** The process ends without waiting for it. */
function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms).unref());
}
