/**
 * Replaces one side of the socket between HTTP process and engine process: a `Front` records the reports about its
 * items, a `ScriptedEngine` does what the test says.
 */
import type { UnixSocketListener } from "bun";
import { float32, type Tensor, tensor } from "../../src/author/tensor.ts";
import type { SconceError } from "../../src/base/errors.ts";
import type { Item } from "../../src/engine/engine.ts";
import {
  type EngineInfo,
  FrameBlocks,
  FrameReader,
  frameKinds,
  IS_ALONE,
  KIND_MASK,
  Outbox,
} from "../../src/engine/remote/frame.ts";
import { RemoteEngine, type RemoteEngineOptions } from "../../src/engine/remote/remote-engine.ts";
import { RunningItems } from "../../src/engine/remote/running-items.ts";
import { ItemFrames, RowsFrames } from "../../src/engine/remote/tensor-frames.ts";
import type { Rows } from "../../src/engine/rows.ts";
import type { Runner } from "../../src/engine/runner.ts";
import { openShared } from "../../src/machine/processes/shared-memory.ts";

export const info = { devices: ["cpu"], torch: "2.0.0", pid: process.pid };
/** Tensors of a model whose items are single numbers. */
export const one = { inputs: { x: float32() }, outputs: { y: float32() } };

/** The HTTP process's side of the socket, which records the engine's reports by the index of the item. */
export class Front {
  readonly engine: RemoteEngine<Item>;
  readonly dispatched: number[] = [];
  /** Reported events, in order. */
  readonly events: string[] = [];
  /** Milliseconds between the start of each batch and its report. */
  readonly agoMs: number[] = [];
  readonly #lanes: object[] = [];
  readonly #items = new Map<object, Item[]>();
  readonly rows = new Map<number, Rows>();
  readonly errors = new Map<number, SconceError>();
  #waiting: { isMet: () => boolean; resolve: () => void }[] = [];

  constructor(options: RemoteEngineOptions = one) {
    this.engine = new RemoteEngine<Item>(options);
    this.engine.listener = {
      dispatched: (items, agoMs = 0) => {
        this.dispatched.push(...items.map(({ index }) => index));
        this.agoMs.push(agoMs);
        this.events.push(`dispatched ${items.map(({ index }) => index)}`);
        this.#look();
      },
      part: ({ index }) => void this.events.push(`part ${index}`),
      finished: ({ index }, rows) => this.#end(this.rows, index, rows),
      failed: ({ index }, error) => this.#end(this.errors, index, error),
    };
  }

  /** Submits an item for each number; the number is also the item's index. */
  submit(lane: object, ...values: readonly number[]): void {
    for (const value of values) this.submitOne(lane, value, { x: tensor(Float32Array.of(value), []) });
  }

  /** @param lane stands for a prediction */
  submitOne(lane: object, index: number, tensors: Readonly<Record<string, Tensor>>): void {
    if (!this.#lanes.includes(lane)) this.#lanes.push(lane);
    const item: Item = { lane: this.#lanes.indexOf(lane), index };
    this.#items.set(lane, [...(this.#items.get(lane) ?? []), item]);
    this.engine.submit(item, tensors);
  }

  cancel(lane: object): void {
    this.engine.cancel(this.#items.get(lane) ?? []);
  }

  /** Resolves once a report of the engine has made the condition true. */
  until(isMet: () => boolean): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push({ isMet, resolve });
    this.#look();
    return promise;
  }

  untilEnded(count: number): Promise<void> {
    return this.until(() => this.rows.size + this.errors.size >= count);
  }

  /** Index and output of each succeeded item. */
  get values(): [number, number][] {
    return [...this.rows].map(([index, { y }]) => [index, Number(y?.data[0])]);
  }

  #end<T>(ends: Map<number, T>, index: number, end: T): void {
    if (this.rows.has(index) || this.errors.has(index)) throw new Error(`item ${index} ended twice`);
    ends.set(index, end);
    this.events.push(`ended ${index}`);
    this.#look();
  }

  #look(): void {
    const met = this.#waiting.filter(({ isMet }) => isMet());
    this.#waiting = this.#waiting.filter((waiting) => !met.includes(waiting));
    for (const { resolve } of met) resolve();
  }
}

/** A runner that doubles numbers. With `hold`, a batch does not end until the test calls `end`. */
export class DoublingRunner implements Runner {
  readonly batches: number[][] = [];
  readonly #ends: (() => void)[] = [];
  readonly #isHeld: boolean;

  constructor({ hold = false }: { readonly hold?: boolean } = {}) {
    this.#isHeld = hold;
  }

  async run(items: readonly (readonly Tensor[])[]): Promise<readonly Tensor[]> {
    const values = items.map(([x]) => Number(x?.data[0]));
    this.batches.push(values);
    if (this.#isHeld) await new Promise<void>((resolve) => this.#ends.push(resolve));
    if (values.includes(-1)) throw new Error("-1 can't be doubled");
    return [
      tensor(
        Float32Array.from(values, (value) => 2 * value),
        [values.length],
      ),
    ];
  }

  /** Ends the oldest running batch. */
  end(): void {
    this.#ends.shift()?.();
  }

  settle(): void {}
  async setThreads(): Promise<void> {}
  async dispose(): Promise<void> {
    for (const end of this.#ends) end();
  }
}

/** The engine process's side of the socket, controlled by the test. Items are single numbers. */
export class ScriptedEngine implements Disposable {
  /** Items that the engine has received since its start. */
  readonly submitted: { readonly value: number; readonly number: number; readonly isAlone: boolean }[] = [];
  cancels = 0;
  readonly #blocks = new FrameBlocks();
  readonly #listener: UnixSocketListener<undefined>;
  #outbox: Outbox | undefined;
  #running: RunningItems | undefined;
  #waiting: (() => void) | undefined;

  constructor(path: string, hello: Partial<EngineInfo> = {}) {
    const items = new ItemFrames(one.inputs);
    const reader = new FrameReader((memory, at) => {
      const [kind = 0, number = 0] = [memory.words[at / 4 + 1], memory.words[at / 4 + 2]];
      if ((kind & KIND_MASK) === frameKinds.cancel) this.cancels += 1;
      if ((kind & KIND_MASK) === frameKinds.share) {
        this.#running = new RunningItems(openShared(number, memory.words[at / 4 + 3] ?? 0));
      }
      if ((kind & KIND_MASK) === frameKinds.submit) {
        const value = Number(items.read(memory, at).tensors[0]?.data[0]);
        this.submitted.push({ value, number, isAlone: (kind & IS_ALONE) !== 0 });
      }
      this.#waiting?.();
    });
    this.#listener = Bun.listen({
      unix: path,
      socket: {
        open: (socket) => {
          this.#outbox = new Outbox(socket);
          const content = { ...info, maxBatchSize: 4, instances: 1, ...hello };
          this.#outbox.add(this.#blocks.json(frameKinds.hello, content));
          this.#outbox.flush();
        },
        data: (_, chunk) => reader.push(chunk),
      },
    });
  }

  async untilSubmitted(count: number): Promise<void> {
    while (this.submitted.length < count) await this.#next();
  }

  async untilCancelled(): Promise<void> {
    while (this.cancels === 0) await this.#next();
  }

  /**
   * Reports that a batch with these items was dispatched. @param options.isAlone whether the item must run alone,
   * because it may have ended an engine process
   */
  dispatch(values: readonly number[], { isAlone = false } = {}): void {
    const numbers = values.map((value) => this.#numberOf(value));
    this.#outbox?.add(
      this.#blocks.words(frameKinds.dispatched | (isAlone ? IS_ALONE : 0), [numbers.length, 0, ...numbers]),
    );
    this.#outbox?.flush();
  }

  /** Flags these items as running, and announces no batch. */
  run(values: readonly number[]): void {
    for (const value of values) this.#running?.add(this.#numberOf(value));
  }

  /** Whether the shared memory flags one of these items as running. */
  areRunning(numbers: readonly number[]): boolean {
    return numbers.some((number) => this.#running?.has(number));
  }

  /** Reports the outputs of these items: twice each number. */
  finish(values: readonly number[]): void {
    const outbox = this.#outbox;
    if (outbox === undefined) return;
    const outputs = [
      tensor(
        Float32Array.from(values, (value) => 2 * value),
        [values.length],
      ),
    ];
    const numbers = values.map((value) => this.#numberOf(value));
    for (const number of numbers) this.#running?.delete(number);
    const rows = { numbers, places: undefined, outputs, observation: undefined };
    new RowsFrames(one.outputs).add(outbox, this.#blocks, rows);
    outbox.flush();
  }

  /** Closes the connection, as the end of an engine process does. */
  [Symbol.dispose](): void {
    this.#listener.stop(true);
  }

  #numberOf(value: number): number {
    return this.submitted.findLast((item) => item.value === value)?.number ?? -1;
  }

  #next(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }
}
