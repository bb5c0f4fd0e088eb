/** One demo prediction: outputs, demo outputs, and the logs that led to them. */
import { PredictionRecord, type RecordOptions } from "./record.ts";

export interface DemoPredictionOptions extends RecordOptions {
  /** What is written beyond it is left out of the logs. */
  readonly maxLogBytes: number;
}

const CUT = "\n[the logs are longer than this server keeps]\n";

export class DemoPrediction extends PredictionRecord {
  readonly #maxLogBytes: number;
  #logs = "";
  #isCut = false;
  #succeeded = 0;

  constructor(options: DemoPredictionOptions) {
    super(options);
    this.#maxLogBytes = options.maxLogBytes;
  }

  /** What the demo wrote so far. */
  get logs(): string {
    return this.#logs;
  }

  override get itemsSucceeded(): number {
    return this.#succeeded;
  }

  override get resultBytes(): number {
    return super.resultBytes + this.#logs.length;
  }

  started(): void {
    this.startedAtMs ??= Date.now();
  }

  /** Whether what is written is kept: not once there is too much of it, or the prediction has ended. */
  get takesLogs(): boolean {
    return !this.isOver && !this.#isCut;
  }

  /** Adds to the logs; answers whether they take more. */
  write(text: string): boolean {
    if (!this.takesLogs) return false;
    const room = this.#maxLogBytes - this.#logs.length;
    this.#isCut = text.length > room;
    this.#logs += this.#isCut ? copyOf(text.slice(0, room)) + CUT : text;
    return !this.#isCut;
  }

  /** @param outputs and @param demoOutputs JSON texts, one for each input */
  succeed(outputs: readonly string[], demoOutputs: readonly string[]): void {
    if (this.isOver) return;
    this.#succeeded = this.count;
    this.finish({
      status: "success",
      members: `"outputs":[${outputs.join(",")}],"demo_outputs":[${demoOutputs.join(",")}]`,
    });
  }

  protected override failure(message: string): string {
    return `"error_message":${JSON.stringify(message)}`;
  }

  protected override release(): void {}
}

/** A part of a text holds on to the whole of it, which may be a gigabyte; a copy does not. */
function copyOf(text: string): string {
  return Buffer.from(text).toString();
}
