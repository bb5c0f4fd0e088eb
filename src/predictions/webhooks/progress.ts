/**
 * Sends webhook messages about a running prediction. A pause follows each message, so that several changes share one.
 */
import type { Text } from "../large-text.ts";
import type { LivePrediction } from "../live.ts";
import { outputsOf } from "../outcome-list.ts";
import type { Kind, PredictionRecord } from "../record.ts";
import { SentOutputs } from "../sent-outputs.ts";
import type { WebhookEvent } from "./webhook.ts";
import { type Delivery, MAX_DATA_LENGTH, TRUNCATED } from "./webhook-sender.ts";

/** Pause in milliseconds after each message. */
const PAUSE_MS = 500;
/** Above this many characters of outputs in a message, further outputs go into the next message. */
const MAX_OUTPUTS_LENGTH = 2 ** 18;

export interface ProgressOptions {
  readonly wanted: readonly WebhookEvent[];
  readonly json: (record: PredictionRecord) => string;
  /** Reads an ended prediction; undefined if the store has evicted it. */
  readonly read: (id: string) => Promise<PredictionRecord | undefined>;
  /** Sends a message. @param data creates its JSON just before it is sent; undefined cancels the message */
  readonly send: (event: WebhookEvent, data: () => Promise<string | undefined>) => Promise<Delivery | undefined>;
}

export class Progress {
  readonly #options: ProgressOptions;
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

  constructor(live: LivePrediction, options: ProgressOptions) {
    this.#options = options;
    this.#live = live;
    this.#id = live.id;
    this.#kind = live.kind;
    this.#wanted = options.wanted;
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
    const sent = await this.#options.send(event, event === "output" ? this.#outputs : this.#state);
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

  readonly #state = async (): Promise<string | undefined> => this.#live && this.#options.json(this.#live.record);

  /** JSON with the unsent outputs that fit into one message; undefined if all are sent. */
  readonly #outputs = async (): Promise<string | undefined> => {
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
  };

  async #lastOutputs(): Promise<readonly (Text | undefined)[]> {
    const record = await this.#options.read(this.#id);
    return record?.outcome === undefined ? [] : outputsOf(record.outcome, MAX_DATA_LENGTH);
  }
}
