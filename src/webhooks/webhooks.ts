/** Tells receivers how predictions go and end: the end for certain, as long as the prediction can be read; what comes before it once, or not at all. */
import { oneLine, SconceError } from "../errors.ts";
import { LogFields, log } from "../log.ts";
import { logLimit } from "../log-limit.ts";
import type { Metrics } from "../metrics.ts";
import { urlLabel } from "../model/url-label.ts";
import type { LivePrediction } from "../predictions/live.ts";
import { hasEnded, type PredictionRecord } from "../predictions/record.ts";
import { Progress } from "./progress.ts";
import { type Webhook, webhookOf, webhookText } from "./webhook.ts";
import type { WebhookMessage, WebhookSender } from "./webhook-sender.ts";
import type { WebhookStore } from "./webhook-store.ts";

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
}

/** Ends that are not told; beyond them new predictions with webhooks are refused. */
const MAX_WAITING = 100_000;
/** Before the second try; doubled before each one after it. */
const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 300_000;
/** Larger outcomes are left out of messages: the receiver reads them. */
const MAX_MEMBERS_LENGTH = 2 ** 20;

export class Webhooks {
  readonly #options: WebhooksOptions;
  /** When the predictions ended whose end is not told, in that order. */
  readonly #waiting = new Map<string, number>();
  readonly #progress = new Map<string, Progress>();
  #isStopped = false;
  #settled: (() => void) | undefined;

  constructor(options: WebhooksOptions) {
    this.#options = options;
  }

  /** Ends that are not told. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** How long the oldest of them has waited, in milliseconds. */
  get oldestMs(): number {
    const [endedMs] = this.#waiting.values();
    return endedMs === undefined ? 0 : performance.now() - endedMs;
  }

  /** @throws SconceError `webhook_refused`, `queue_full` */
  admit({ url }: Webhook): void {
    try {
      this.#options.check(new URL(url).hostname);
    } catch (error) {
      throw new SconceError("webhook_refused", error instanceof SconceError ? error.message : "", { cause: error });
    }
    if (this.#waiting.size < MAX_WAITING) return;
    throw new SconceError("queue_full", `${MAX_WAITING} webhooks wait to be told; try again later`);
  }

  /** @throws SconceError `predictions_unwritable` */
  async keep(id: string, webhook: Webhook): Promise<void> {
    await this.#options.store?.keep(id, webhookText(webhook));
  }

  forget(id: string): void {
    this.#options.store?.forget(id);
  }

  /** Goes on with what earlier processes with these owners have not told. */
  async resume(owners: (owner: string) => boolean, liveOf: (id: string) => LivePrediction | undefined): Promise<void> {
    for (const { id, webhook: text } of (await this.#options.store?.left(owners)) ?? []) {
      const webhook = webhookOf(text);
      const live = liveOf(id);
      if (live === undefined) this.ended(id, webhook);
      else {
        live.webhook = webhook;
        this.watch(live, webhook);
      }
    }
  }

  /** Tells what happens before its end. */
  watch(live: LivePrediction, webhook: Webhook): void {
    const wanted = webhook.events.filter((event) => event !== "completed");
    if (wanted.length === 0) return;
    const url = new URL(webhook.url);
    const progress = new Progress(live.record, wanted, async (event, number) => {
      const { record } = live;
      const message = { id: `msg_${live.id}_${number}`, type: `${live.kind}.${event}`, occurredAtMs: Date.now() };
      const sent = await this.#options.sender.send(url, async () =>
        live.isOver ? undefined : { ...message, data: this.#options.json(record) },
      );
      if (sent !== undefined) this.#options.metrics.webhook(sent.result === "told" ? "told" : "given_up");
    });
    this.#progress.set(live.id, progress);
    live.watch(() => progress.changed());
  }

  /** Tells the end of a prediction that can be read from now on. Never throws. */
  ended(id: string, webhook: Webhook): void {
    this.#waiting.set(id, performance.now());
    void this.#complete(id, webhook).finally(() => {
      this.#waiting.delete(id);
      if (this.#waiting.size === 0) this.#settled?.();
    });
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

  async #complete(id: string, { url, events }: Webhook): Promise<void> {
    const { sender, metrics } = this.#options;
    await this.#progress.get(id)?.ended();
    this.#progress.delete(id);
    const receiver = new URL(url);
    for (let failures = 0; events.includes("completed"); failures++) {
      const sent = await sender.send(receiver, () => this.#ending(id));
      if (this.#isStopped) return;
      if (sent?.result === "told") {
        metrics.webhook("told");
        break;
      }
      if (sent?.result !== "failed") {
        metrics.webhook("given_up");
        warn(id, "given_up", receiver, sent === undefined ? "the prediction is kept no longer" : "it answered 410");
        break;
      }
      metrics.webhook("failed");
      warn(id, "failed", receiver, sent.why);
      const delayMs = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** failures) * (0.75 + Math.random() / 2);
      await sleep(Math.max(delayMs, sent.afterMs));
    }
    this.forget(id);
  }

  /** Undefined where the prediction can be read no longer, or not now. */
  async #ending(id: string): Promise<WebhookMessage | undefined> {
    const record = await this.#options.read(id);
    if (record === undefined || !hasEnded(record)) return undefined;
    const { kind, outcome, finishedAtMs } = record;
    const isLarge = outcome.members.length > MAX_MEMBERS_LENGTH;
    const shown = isLarge ? { ...record, outcome: { ...outcome, members: '"truncated":true' } } : record;
    return {
      id: `msg_${id}`,
      type: `${kind}.completed`,
      occurredAtMs: finishedAtMs,
      data: this.#options.json(shown),
    };
  }
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
