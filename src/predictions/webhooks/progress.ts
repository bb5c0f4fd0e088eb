/**
 * Sends webhook messages about a running prediction. A pause follows each message, so that several changes share one.
 */
import { newId } from "../ids.ts";
import type { Text } from "../large-text.ts";
import type { LivePrediction } from "../live.ts";
import type { PredictionMetrics } from "../metrics.ts";
import { outputsOf } from "../outcome-list.ts";
import type { Kind, PredictionRecord } from "../record.ts";
import { SentOutputs } from "../sent-outputs.ts";
import type { Webhook, WebhookEvent } from "./webhook.ts";
import { type Delivery, MAX_DATA_LENGTH, TRUNCATED, type WebhookSender } from "./webhook-sender.ts";

/** Pause in milliseconds after each message. */
const PAUSE_MS = 500;
/** Above this many characters of outputs in a message, further outputs go into the next message. */
const MAX_OUTPUTS_LENGTH = 2 ** 18;

export interface ProgressOptions {
  readonly sender: Pick<WebhookSender, "send">;
  readonly json: (record: PredictionRecord) => string;
  readonly metrics: Pick<PredictionMetrics, "webhook">;
  /** Reads an ended prediction; undefined if the store has evicted it. */
  readonly read: (id: string) => Promise<PredictionRecord | undefined>;
}

export class Progress {
  readonly #options: ProgressOptions;
  readonly #receiver: URL;
  readonly #id: string;
  readonly #kind: Kind;
  /** Undefined after the prediction's end, so that garbage collection can free it while its last outputs wait. */
  #live: LivePrediction | undefined;
  readonly #sent = new SentOutputs();
  #wanted: readonly WebhookEvent[];
  #hasStarted = false;
  #logLength = 0;
  #sending: Promise<unknown> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(live: LivePrediction, { url, events }: Webhook, options: ProgressOptions) {
    this.#options = options;
    this.#receiver = new URL(url);
    this.#live = live;
    this.#id = live.id;
    this.#kind = live.kind;
    this.#wanted = events;
    live.watch(this.#changed);
  }

  /** Ends the messages about the running prediction: sends the remaining outputs, until a message fails. */
  async ended(): Promise<void> {
    this.#live = undefined;
    clearTimeout(this.#timer);
    await this.#sending;
    while (this.#wanted.includes("output")) if ((await this.#send("output"))?.result !== "delivered") return;
  }

  readonly #changed = (): void => {
    if (this.#sending !== undefined || this.#timer !== undefined || this.#live?.isOver !== false) return;
    const event = this.#next(this.#live);
    if (event === undefined) return;
    this.#sending = this.#send(event).finally(() => {
      this.#sending = undefined;
      if (this.#live === undefined) return;
      this.#timer = setTimeout(() => {
        this.#timer = undefined;
        this.#changed();
      }, PAUSE_MS);
    });
  };

  async #send(event: WebhookEvent): Promise<Delivery | undefined> {
    const { sender, json, metrics } = this.#options;
    const sent = await sender.send(this.#receiver, async () => {
      const data = event === "output" ? await this.#outputs() : this.#live && json(this.#live.record);
      if (data === undefined) return undefined;
      return { id: `msg_${newId("")}`, type: `${this.#kind}.${event}`, occurredAtMs: Date.now(), data };
    });
    if (sent !== undefined) metrics.webhook(sent.result === "delivered" ? "told" : "given_up");
    if (sent?.result === "unsubscribed") this.#wanted = [];
    return sent;
  }

  #next({ record, outputs }: LivePrediction): WebhookEvent | undefined {
    const { startedAtMs, logs } = record;
    const isStartNew = startedAtMs !== undefined && !this.#hasStarted;
    const isLogNew = logs.length > this.#logLength;
    this.#logLength = logs.length;
    if (isStartNew) this.#hasStarted = true;
    if (isStartNew && this.#wanted.includes("start")) return "start";
    if (isLogNew && this.#wanted.includes("log")) return "log";
    const isOutputNew = this.#wanted.includes("output") && this.#sent.next(outputs) !== undefined;
    return isOutputNew ? "output" : undefined;
  }

  /** JSON with the unsent outputs that fit into one message; undefined if all are sent. */
  async #outputs(): Promise<string | undefined> {
    const outputs = this.#live?.outputs ?? (await this.#lastOutputs());
    const texts: string[] = [];
    let length = 0;
    for (let index = this.#sent.next(outputs); index !== undefined; index = this.#sent.next(outputs)) {
      if (length > MAX_OUTPUTS_LENGTH) break;
      this.#sent.add(index);
      const text = outputs[index] ?? "";
      texts.push(`{"index":${index},${text.length > MAX_DATA_LENGTH ? TRUNCATED : `"output":${text}`}}`);
      length += text.length;
    }
    return texts.length === 0 ? undefined : `{"${this.#kind}_id":"${this.#id}","outputs":[${texts.join(",")}]}`;
  }

  async #lastOutputs(): Promise<readonly (Text | undefined)[]> {
    const record = await this.#options.read(this.#id);
    return record?.outcome === undefined ? [] : outputsOf(record.outcome, MAX_DATA_LENGTH);
  }
}
