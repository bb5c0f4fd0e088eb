/** Checks large bodies on worker threads. Parsing 60 MB of numbers would block the event loop for a second. */

import { type ErrorCode, type Fault, messageOf, SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { availableCores } from "../../machine/control-groups.ts";
import type { Charge } from "../memory/charge.ts";
import { MemoryAccount } from "../memory/memory-account.ts";
import { type DecodedBody, type Take, valueBytes } from "./body.ts";
import type { InputDecoder } from "./input-decoder.ts";
import { LazyInputs } from "./input-list.ts";
import type { ListScan } from "./json-text.ts";
import { checkParts, type SplitBody, splitBody } from "./large-body.ts";
import { inTurn } from "./loop-turns.ts";

/** The file with the model's bundled code, from which a worker thread gets the schema of inputs. */
export interface BundleSource {
  readonly path: string;
  readonly digest: string;
}

export interface CheckRequest {
  readonly bundle: BundleSource;
  readonly chunks: readonly Uint8Array<ArrayBuffer>[];
  readonly maxInputs: number;
}

/** A SconceError as data for `postMessage`. */
interface Refusal {
  readonly code: ErrorCode;
  readonly message: string;
  readonly faults: readonly Fault[] | undefined;
}

/** The answer of a thread. `refusal` is a fault of the body; `error` is any other reason why the check failed. */
export interface CheckAnswer {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly scan?: ListScan | undefined;
  /** Memory of the parsed values of the costliest part. */
  readonly mostBytes?: number | undefined;
  readonly refusal?: Refusal | undefined;
  readonly error?: string | undefined;
}

interface LargeBodiesOptions {
  readonly memory?: MemoryAccount;
  readonly maxThreads?: number;
  /** Maximum time of a check in milliseconds. A body has three seconds more per megabyte. */
  readonly timeoutMs?: number;
}

/** Memory of a check in bytes per byte of the body. Measured: 11 for one-digit numbers, 29 if zod validates every number. */
const CHECK_BYTES_PER_BYTE = { plain: 11, costly: 30 };

interface Task {
  readonly request: CheckRequest;
  readonly bytes: number;
  readonly answer: PromiseWithResolvers<CheckAnswer>;
}

interface Running {
  readonly task: Task;
  readonly charge: Charge;
  readonly timer: Timer;
}

export class LargeBodies {
  readonly #bundle: BundleSource;
  readonly #decoder: InputDecoder;
  readonly #memory: MemoryAccount;
  readonly #maxThreads: number;
  readonly #timeoutMs: number;
  readonly #running = new Map<Worker, Running>();
  readonly #idle: Worker[] = [];
  readonly #queue = new Set<Task>();

  constructor(bundle: BundleSource, decoder: InputDecoder, options: LargeBodiesOptions = {}) {
    this.#bundle = bundle;
    this.#decoder = decoder;
    this.#memory = options.memory ?? new MemoryAccount();
    this.#maxThreads = options.maxThreads ?? Math.min(4, Math.max(2, availableCores()));
    this.#timeoutMs = options.timeoutMs ?? 30_000;
  }

  /**
   * Checks a body on a worker thread. If the check itself fails, this thread checks the body, in many turns of the event loop.
   * @param chunks their memory is transferred to the thread
   * @param take counts the memory of the inputs that are decoded together
   * @throws SconceError `body_invalid` or `inputs_invalid`, also if the check takes too long; the error of `take`
   */
  async read(chunks: readonly Uint8Array<ArrayBuffer>[], maxInputs: number, take: Take): Promise<DecodedBody> {
    const { bytes, scan, mostBytes, refusal, error } = await this.#check(chunks, maxInputs);
    if (refusal !== undefined) throw new SconceError(refusal.code, refusal.message, { faults: refusal.faults ?? [] });
    if (error !== undefined) log.debug(`The main thread checks a large body: ${error}`);
    const body = scan === undefined ? splitBody(bytes, this.#decoder, maxInputs) : { bytes, scan };
    take(valueBytes({ bytes: mostBytes ?? (await this.#checkHere(body)) }, bytes.length));
    return { inputs: new LazyInputs(body, this.#decoder), body: bytes };
  }

  async #checkHere(body: SplitBody): Promise<number> {
    const checking = checkParts(body, this.#decoder);
    for (;;) {
      const step = await inTurn(() => checking.next());
      if (step.done) return step.value;
    }
  }

  [Symbol.dispose](): void {
    const tasks = [...Array.from(this.#running.values(), ({ task }) => task), ...this.#queue];
    this.#queue.clear();
    for (const worker of [...this.#running.keys(), ...this.#idle]) this.#end(worker);
    for (const { answer } of tasks) answer.reject(new Error("a body was not read: the server is stopping"));
  }

  #check(chunks: readonly Uint8Array<ArrayBuffer>[], maxInputs: number): Promise<CheckAnswer> {
    const request: CheckRequest = { bundle: this.#bundle, chunks, maxInputs };
    const bytes = chunks.reduce((sum, { length }) => sum + length, 0);
    const answer = Promise.withResolvers<CheckAnswer>();
    this.#queue.add({ request, bytes, answer });
    this.#startNext();
    return answer.promise;
  }

  /** Starts the next check if a thread is free and the memory suffices. If no check runs, one starts in any case. */
  #startNext(): void {
    const [task] = this.#queue;
    if (task === undefined || (this.#idle.length === 0 && this.#running.size >= this.#maxThreads)) return;
    const checkBytes = CHECK_BYTES_PER_BYTE[this.#decoder.hasCostlyLists ? "costly" : "plain"] * task.bytes;
    if (this.#running.size > 0 && !this.#memory.hasRoom("bodies", checkBytes)) return;
    this.#queue.delete(task);
    const charge = this.#memory.add("bodies", checkBytes);
    const worker = this.#idle.pop() ?? this.#start();
    const timeoutMs = this.#timeoutMs + (3 * task.bytes) / 1000;
    const timer = setTimeout(() => this.#timeOut(worker, timeoutMs), timeoutMs);
    this.#running.set(worker, { task, charge, timer });
    worker.postMessage(
      task.request,
      task.request.chunks.map(({ buffer }) => buffer),
    );
  }

  #start(): Worker {
    const worker = new Worker(new URL("./large-body-worker.ts", import.meta.url), { ref: false });
    worker.onmessage = ({ data }: MessageEvent<CheckAnswer>) => {
      const task = this.#release(worker);
      if (task === undefined) return;
      this.#idle.push(worker);
      task.answer.resolve(data);
      this.#startNext();
    };
    worker.onerror = (event) => this.#fail(worker, new Error(`a body was not read: ${messageOf(event.message)}`));
    return worker;
  }

  #timeOut(worker: Worker, timeoutMs: number): void {
    const detail = `the inputs could not be checked within ${Math.ceil(timeoutMs / 1000)} s; send them in smaller requests`;
    this.#fail(worker, new SconceError("inputs_invalid", detail, { faults: [{ pointer: "", detail }] }));
  }

  #fail(worker: Worker, reason: Error): void {
    const task = this.#release(worker);
    this.#end(worker);
    task?.answer.reject(reason);
    this.#startNext();
  }

  #release(worker: Worker): Task | undefined {
    const running = this.#running.get(worker);
    clearTimeout(running?.timer);
    running?.charge[Symbol.dispose]();
    this.#running.delete(worker);
    return running?.task;
  }

  #end(worker: Worker): void {
    this.#release(worker);
    const at = this.#idle.indexOf(worker);
    if (at >= 0) this.#idle.splice(at, 1);
    worker.terminate();
  }
}
