/** What is told of a prediction before its end: one message at a time with what is new by then, and not too many. */
import type { Text } from "../predictions/large-text.ts";
import type { LivePrediction } from "../predictions/live.ts";
import { outputsOf } from "../predictions/outcome-list.ts";
import type { Kind, PredictionRecord } from "../predictions/record.ts";
import { SentOutputs } from "../predictions/sent-outputs.ts";
import type { WebhookEvent } from "./webhook.ts";
import { MAX_DATA_LENGTH, type Sent, TRUNCATED } from "./webhook-sender.ts";

const PAUSE_MS = 500;
/** Outputs of one message, in characters: more come with the next. */
const MAX_OUTPUTS_LENGTH = 2 ** 18;

export interface ProgressOptions {
  readonly wanted: readonly WebhookEvent[];
  /** A record as clients read it. */
  readonly json: (record: PredictionRecord) => string;
  /** Reads it once it has ended; undefined where it is kept no longer. */
  readonly read: (id: string) => Promise<PredictionRecord | undefined>;
  /** @param data as JSON, asked for when it is the message's turn; undefined where there is nothing to say any more */
  readonly tell: (event: WebhookEvent, data: () => Promise<string | undefined>) => Promise<Sent | undefined>;
}

export class Progress {
  readonly #options: ProgressOptions;
  readonly #id: string;
  readonly #kind: Kind;
  /** Until it has ended: the store may forget its outcome while this waits to tell the last outputs. */
  #live: LivePrediction | undefined;
  readonly #sent = new SentOutputs();
  #wanted: readonly WebhookEvent[];
  #hasStarted = false;
  #logLength = 0;
  #telling: Promise<unknown> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(live: LivePrediction, options: ProgressOptions) {
    this.#options = options;
    this.#live = live;
    this.#id = live.id;
    this.#kind = live.kind;
    this.#wanted = options.wanted;
    live.watch(this.#changed);
  }

  /** Tells the outputs that came last. Resolves when nothing more is told. */
  async ended(): Promise<void> {
    this.#live = undefined;
    clearTimeout(this.#timer);
    await this.#telling;
    while (this.#wanted.includes("output")) if ((await this.#tell("output"))?.result !== "told") return;
  }

  readonly #changed = (): void => {
    if (this.#telling !== undefined || this.#timer !== undefined || this.#live?.isOver !== false) return;
    const event = this.#next(this.#live);
    if (event === undefined) return;
    this.#telling = this.#tell(event).finally(() => {
      this.#telling = undefined;
      if (this.#live === undefined) return;
      this.#timer = setTimeout(() => {
        this.#timer = undefined;
        this.#changed();
      }, PAUSE_MS);
    });
  };

  async #tell(event: WebhookEvent): Promise<Sent | undefined> {
    const sent = await this.#options.tell(event, event === "output" ? this.#outputs : this.#state);
    if (sent?.result === "gone") this.#wanted = [];
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

  /** All that came since the last ones, or what fits into a message. */
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
