/** A version of the model that runs copies of other versions' predictions, to compare outputs (a shadow). */
import { codedError, oneLine } from "../../base/errors.ts";
import type { ShadowResult } from "../../base/labels.ts";
import { LogFields, log } from "../../base/log.ts";
import type { Engine } from "../../engine/engine.ts";
import { isRounding } from "../flow/difference.ts";
import type { ItemFlow } from "../flow/item-flow.ts";
import type { ItemPipeline } from "../flow/item-pipeline.ts";
import { wholeText } from "../flow/output-encoder.ts";
import { predictAll } from "../flow/predict-all.ts";
import { type Bodies, HELD_PER_BYTE } from "../inputs/bodies.ts";
import { toArray } from "../inputs/input-list.ts";
import type { Charge } from "../memory/charge.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import type { LivePrediction } from "./live.ts";
import { listIn } from "./outcome-list.ts";
import type { EndedRecord } from "./record.ts";
import { type AcceptedRequest, storedBody } from "./store.ts";

export interface ShadowOptions {
  /** Name of the shadow for log lines. */
  readonly name: string;
  readonly engine: Pick<Engine<never>, "maxBatchSize" | "instances">;
  readonly flow: ItemFlow;
  readonly pipeline: Pick<ItemPipeline, "encoder">;
  readonly bodies: Bodies;
  readonly memory: MemoryAccount;
  readonly metrics: { shadowed(result: ShadowResult): void };
  readonly isLoaded: () => boolean;
  readonly maxInputs: number;
  readonly timeoutMs: number;
}

interface Copy {
  readonly live: LivePrediction;
  readonly record: EndedRecord;
  readonly body: AcceptedRequest["body"];
  readonly charge: Charge;
}

/** Maximum characters of outputs to compare, because a comparison of more would block the event loop. */
const MAX_LENGTH = 2 ** 20;
/** Maximum inputs of unfinished copies: MAX_BATCHES batches per engine instance, but at least MIN_INPUTS. */
const MAX_BATCHES = 2;
const MIN_INPUTS = 8;
/** Maximum differences and failures in the log. Metrics count all. */
const MAX_LINES = 10;

export class Shadow implements Disposable {
  readonly #options: ShadowOptions;
  readonly #copies: Copy[] = [];
  /** Number of inputs of unfinished copies. */
  #inputs = 0;
  #lines = 0;
  #willBegin = false;
  readonly #running = new Set<AbortController>();
  #isOver = false;

  constructor(options: ShadowOptions) {
    this.#options = options;
  }

  /** Queues a copy of a prediction that has succeeded, or counts it as dropped. Never throws. */
  ended(live: LivePrediction, record: EndedRecord, body: AcceptedRequest["body"]): void {
    const { engine, memory, metrics, isLoaded } = this.#options;
    const maxInputs = Math.max(MIN_INPUTS, MAX_BATCHES * engine.maxBatchSize * engine.instances);
    const hasTurn = this.#inputs === 0 || this.#inputs + live.count <= maxInputs;
    const canRun = hasTurn && isLoaded() && record.outcome.members.length <= MAX_LENGTH;
    const charge = canRun ? memory.take("bodies", HELD_PER_BYTE * live.bytes) : undefined;
    if (charge === undefined) {
      metrics.shadowed("dropped");
      return;
    }
    this.#inputs += live.count;
    this.#copies.push({ live, record, body, charge });
    this.#beginLater();
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    for (const running of this.#running) running.abort();
  }

  /** Starts one copy in each turn of the event loop, so that answers to clients come first. */
  #beginLater(): void {
    if (this.#willBegin) return;
    this.#willBegin = true;
    setTimeout(() => {
      this.#willBegin = false;
      const copy = this.#copies.shift();
      if (copy === undefined || this.#isOver) return;
      void this.#run(copy);
      this.#beginLater();
    }, 0);
  }

  async #run(copy: Copy): Promise<void> {
    const { metrics, name } = this.#options;
    using _ = copy.charge;
    const running = new AbortController();
    this.#running.add(running);
    const timer = setTimeout(() => running.abort(), this.#options.timeoutMs);
    try {
      const difference = await this.#difference(copy, running.signal);
      metrics.shadowed(difference === undefined ? "equal" : "different");
      if (difference !== undefined) this.#log(copy, `${name} gives another output: ${difference}`);
    } catch (error) {
      if (this.#isOver) return;
      metrics.shadowed("failed");
      this.#log(copy, `${name} failed: ${oneLine(codedError(error).message, 1000)}`);
    } finally {
      clearTimeout(timer);
      this.#running.delete(running);
      this.#inputs -= copy.live.count;
    }
  }

  /**
   * Runs the copy.
   * @returns place and values of the first difference; undefined if all outputs are equal
   */
  async #difference({ live, record, body }: Copy, signal: AbortSignal): Promise<string | undefined> {
    const { flow, pipeline, bodies, maxInputs } = this.#options;
    const { encoder } = pipeline;
    const stored = storedBody(body);
    // Passes a copy: decoding transfers the bytes to a thread, but a store may still have to write them.
    const { inputs } = await bodies.decode(typeof stored === "string" ? stored : [stored.slice()], maxInputs, () => {});
    const texts: string[] = [];
    await predictAll(flow, toArray(inputs), {
      signal,
      isDeprioritised: true,
      onOutput: (index, output) => {
        texts[index] = wholeText(encoder.encode(output));
      },
    });
    const expected = listIn(record.outcome.members, "outputs") ?? [];
    const hasBytes = (live.origin?.byteFields ?? []).length > 0;
    for (const [index, text] of expected.entries()) {
      if (text === texts[index]) continue;
      const value = JSON.parse(text);
      const difference = differenceAt(hasBytes ? encoder.withLists(value) : value, JSON.parse(texts[index] ?? "null"));
      if (difference !== undefined) return `output ${index}${difference}`;
    }
    return undefined;
  }

  #log({ live }: Copy, text: string): void {
    this.#lines += 1;
    if (this.#lines > MAX_LINES) return;
    const last = this.#lines === MAX_LINES ? ". From now on only /metrics counts such predictions" : "";
    const fields = new LogFields({ prediction_id: live.id, model: live.model?.name });
    log.warn(`prediction ${live.id}: the shadow ${text}${last}`, fields);
  }
}

/**
 * The first difference of two JSON values. Numbers with fractions may differ by rounding, in a list relative to its
 * largest number.
 * @param largest largest absolute value of the list that contains the numbers
 * @returns a JSON pointer and the difference; undefined for equal values
 */
export function differenceAt(
  expected: unknown,
  given: unknown,
  largest = Math.abs(Number(expected)),
): string | undefined {
  if (expected === given) return undefined;
  if (typeof expected === "number" && typeof given === "number") {
    const mustBeEqual = Number.isInteger(expected) && Number.isInteger(given);
    const isClose = !mustBeEqual && isRounding(Math.abs(expected - given), largest);
    return isClose ? undefined : `: ${given} in place of ${expected}`;
  }
  if (!isTree(expected) || !isTree(given) || Array.isArray(expected) !== Array.isArray(given))
    return " has another value";
  const names = Object.keys(expected);
  if (names.length !== Object.keys(given).length) return " has other members";
  const ofList = Array.isArray(expected) ? largestOf(expected) : undefined;
  for (const name of names) {
    if (!Object.hasOwn(given, name)) return " has other members";
    const difference = differenceAt(expected[name], given[name], ofList);
    if (difference !== undefined) return `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}${difference}`;
  }
  return undefined;
}

function isTree(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

function largestOf(list: readonly unknown[]): number {
  return list.reduce<number>((most, each) => (typeof each === "number" ? Math.max(most, Math.abs(each)) : most), 0);
}
