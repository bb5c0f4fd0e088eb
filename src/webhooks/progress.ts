/** What is told of a prediction before its end: one message at a time with its newest state, and not too many. */
import type { PredictionRecord } from "../predictions/record.ts";
import type { WebhookEvent } from "./webhook.ts";

const PAUSE_MS = 500;

type Tell = (event: WebhookEvent, number: number) => Promise<void>;

export class Progress {
  readonly #record: Readonly<PredictionRecord>;
  readonly #wanted: readonly WebhookEvent[];
  readonly #tell: Tell;
  /** Told so far. */
  #number = 0;
  #hasStarted = false;
  #logLength = 0;
  #telling: Promise<void> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** @param record is that of a live prediction: it changes */
  constructor(record: Readonly<PredictionRecord>, wanted: readonly WebhookEvent[], tell: Tell) {
    this.#record = record;
    this.#wanted = wanted;
    this.#tell = tell;
  }

  readonly changed = (): void => {
    if (this.#telling !== undefined || this.#timer !== undefined || this.#record.outcome !== undefined) return;
    const event = this.#next();
    if (event === undefined) return;
    this.#telling = this.#tell(event, this.#number++).finally(() => {
      this.#telling = undefined;
      if (this.#record.outcome !== undefined) return;
      this.#timer = setTimeout(() => {
        this.#timer = undefined;
        this.changed();
      }, PAUSE_MS);
    });
  };

  /** Resolves when nothing more is told. */
  async ended(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#telling;
  }

  #next(): WebhookEvent | undefined {
    const { startedAtMs, logs } = this.#record;
    const isLogNew = logs.length > this.#logLength;
    this.#logLength = logs.length;
    if (startedAtMs !== undefined && !this.#hasStarted) {
      this.#hasStarted = true;
      if (this.#wanted.includes("start")) return "start";
    }
    return isLogNew && this.#wanted.includes("log") ? "log" : undefined;
  }
}
