/** Checks large bodies on threads of their own: parsing 60 MB of numbers takes a second, in which nobody else would be answered. */
import { availableParallelism } from "node:os";
import { type ErrorCode, type Fault, messageOf, SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { threadTimeMs } from "../../machine/processes/thread-time.ts";
import type { Charge } from "../memory/charge.ts";
import { MemoryAccount } from "../memory/memory-account.ts";
import type { DecodedBody } from "./bodies.ts";
import { type InputDecoder, utf8 } from "./input-decoder.ts";
import { LateInputs, ReadyInputs } from "./input-list.ts";
import type { ListScan } from "./json-text.ts";

/** What the thread needs to know the schema of an input: the model's code. */
export interface BundleSource {
  readonly path: string;
  readonly digest: string;
}

export interface CheckRequest {
  readonly bundle: BundleSource;
  readonly chunks: readonly Uint8Array<ArrayBuffer>[];
  readonly maxInputs: number;
  /** Lists and objects that an input may have within. */
  readonly maxNested: number;
}

/** What a SconceError is between two threads. */
interface Refusal {
  readonly code: ErrorCode;
  readonly message: string;
  readonly faults: readonly Fault[] | undefined;
}

/** `error`: it could not be checked, for a reason that is not the body's. */
export interface CheckAnswer {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly scan?: ListScan | undefined;
  readonly refusal?: Refusal | undefined;
  readonly error?: string | undefined;
}

/** What a thread says first: its name, where threads have one. */
export interface Hello {
  readonly thread: string | undefined;
}

interface LargeBodiesOptions {
  /** Counts what threads take; by default there is no limit. */
  readonly memory?: MemoryAccount;
  /** Threads at most. */
  readonly maxThreads?: number;
  /** How much time of a processor a body may take, beside a second for each megabyte. */
  readonly timeoutMs?: number;
}

/** A thread that gets a tenth of a processor or less, or waits for something, is not waited for any longer. */
const MAX_SHARES = 10;

/** Bytes that a thread takes for a byte of a body while it checks it: measured 11 for a list of numbers of one digit, 29 where zod looks at each. */
const CHECKED_PER_BYTE = { plain: 11, costly: 30 };

/** Lists and objects that an input may have within however little memory there is: a few megabytes. */
const MIN_NESTED = 10_000;

/** A body that waits for a thread, or is with one. */
interface Task {
  readonly request: CheckRequest;
  readonly bytes: number;
  readonly answer: PromiseWithResolvers<CheckAnswer>;
}

/** A body with a thread. */
interface Busy {
  readonly task: Task;
  readonly charge: Charge;
  timer: Timer;
  /** What the thread had had of the processors when it began. */
  hadMs: number;
  /** When it was given the body. */
  readonly since: number;
}

export class LargeBodies {
  readonly #bundle: BundleSource;
  readonly #decoder: InputDecoder;
  readonly #memory: MemoryAccount;
  readonly #maxThreads: number;
  readonly #timeoutMs: number;
  /** One body at a time is with a thread: one that is slow holds up nobody who is not waiting for all of them. */
  readonly #busy = new Map<Worker, Busy>();
  readonly #idle: Worker[] = [];
  readonly #threads = new WeakMap<Worker, string | undefined>();
  readonly #waiting = new Set<Task>();

  constructor(bundle: BundleSource, decoder: InputDecoder, options: LargeBodiesOptions = {}) {
    this.#bundle = bundle;
    this.#decoder = decoder;
    this.#memory = options.memory ?? new MemoryAccount();
    this.#maxThreads = options.maxThreads ?? Math.min(4, Math.max(2, availableParallelism()));
    this.#timeoutMs = options.timeoutMs ?? 10_000;
  }

  /**
   * @param chunks of a body, in memory of their own, which is given away
   * @throws SconceError `body_invalid` or `inputs_invalid`, also for a body that takes too long
   */
  async read(chunks: readonly Uint8Array<ArrayBuffer>[], maxInputs: number): Promise<DecodedBody> {
    const { bytes, scan, refusal, error } = await this.#check(chunks, maxInputs);
    if (refusal !== undefined) throw new SconceError(refusal.code, refusal.message, { faults: refusal.faults ?? [] });
    if (error !== undefined) log.debug(`A large body is read on the main thread: ${error}`);
    const inputs =
      scan === undefined
        ? new ReadyInputs(this.#decoder.body(utf8(bytes), maxInputs))
        : new LateInputs(bytes, scan, this.#decoder);
    return { inputs, body: bytes };
  }

  [Symbol.dispose](): void {
    const tasks = [...Array.from(this.#busy.values(), ({ task }) => task), ...this.#waiting];
    this.#waiting.clear();
    for (const worker of [...this.#busy.keys(), ...this.#idle]) this.#end(worker);
    for (const { answer } of tasks) answer.reject(new Error("a body was not read: the server is stopping"));
  }

  #check(chunks: readonly Uint8Array<ArrayBuffer>[], maxInputs: number): Promise<CheckAnswer> {
    const maxNested = Math.max(MIN_NESTED, Math.floor(this.#memory.maxBytes / 2 / this.#decoder.nestedBytes));
    const request: CheckRequest = { bundle: this.#bundle, chunks, maxInputs, maxNested };
    const bytes = chunks.reduce((sum, { length }) => sum + length, 0);
    const answer = Promise.withResolvers<CheckAnswer>();
    this.#waiting.add({ request, bytes, answer });
    this.#next();
    return answer.promise;
  }

  /** Gives the body that has waited the longest to a thread that is idle, or to a new one; only one at a time where memory is scarce. */
  #next(): void {
    const [task] = this.#waiting;
    if (task === undefined || (this.#idle.length === 0 && this.#busy.size >= this.#maxThreads)) return;
    const takenBytes = CHECKED_PER_BYTE[this.#decoder.hasCostlyLists ? "costly" : "plain"] * task.bytes;
    if (this.#busy.size > 0 && !this.#memory.hasRoom("bodies", takenBytes)) return;
    this.#waiting.delete(task);
    const charge = this.#memory.add("bodies", takenBytes);
    const worker = this.#idle.pop() ?? this.#start();
    const timeoutMs = this.#timeoutMs + task.bytes / 1000;
    const hadMs = threadTimeMs(this.#threads.get(worker)) ?? 0;
    const since = performance.now();
    const timer = setTimeout(() => this.#look(worker, timeoutMs), timeoutMs);
    this.#busy.set(worker, { task, charge, timer, hadMs, since });
    worker.postMessage(
      task.request,
      task.request.chunks.map(({ buffer }) => buffer),
    );
  }

  #start(): Worker {
    const worker = new Worker(new URL("./large-body-worker.ts", import.meta.url), { ref: false });
    worker.onmessage = ({ data }: MessageEvent<CheckAnswer | Hello>) => {
      if ("thread" in data) {
        this.#threads.set(worker, data.thread);
        const begun = this.#busy.get(worker);
        // To start takes time, too.
        if (begun !== undefined) begun.hadMs = threadTimeMs(data.thread) ?? 0;
        return;
      }
      const task = this.#taken(worker);
      if (task === undefined) return;
      this.#idle.push(worker);
      task.answer.resolve(data);
      this.#next();
    };
    // The next body gets a new thread.
    worker.onerror = (event) => this.#lose(worker, new Error(`a body was not read: ${messageOf(event.message)}`));
    return worker;
  }

  /** Whether a thread had as much time as its body may take, or waits for it as the machine is busy. */
  #look(worker: Worker, timeoutMs: number): void {
    const busy = this.#busy.get(worker);
    if (busy === undefined) return;
    // On a busy machine it may not have started yet.
    const nowMs = this.#threads.has(worker) ? threadTimeMs(this.#threads.get(worker)) : busy.hadMs;
    const leftMs = nowMs === undefined ? 0 : timeoutMs - (nowMs - busy.hadMs);
    if (leftMs <= 0 || performance.now() - busy.since >= MAX_SHARES * timeoutMs) this.#tookTooLong(worker, timeoutMs);
    else busy.timer = setTimeout(() => this.#look(worker, timeoutMs), Math.max(leftMs, 100));
  }

  #tookTooLong(worker: Worker, timeoutMs: number): void {
    const detail = `the inputs could not be checked within ${Math.ceil(timeoutMs / 1000)} s; send them in smaller requests`;
    this.#lose(worker, new SconceError("inputs_invalid", detail, { faults: [{ pointer: "", detail }] }));
  }

  #lose(worker: Worker, reason: Error): void {
    const task = this.#taken(worker);
    this.#end(worker);
    task?.answer.reject(reason);
    this.#next();
  }

  /** Takes a body from its thread. */
  #taken(worker: Worker): Task | undefined {
    const busy = this.#busy.get(worker);
    clearTimeout(busy?.timer);
    busy?.charge[Symbol.dispose]();
    this.#busy.delete(worker);
    return busy?.task;
  }

  #end(worker: Worker): void {
    this.#taken(worker);
    const at = this.#idle.indexOf(worker);
    if (at >= 0) this.#idle.splice(at, 1);
    worker.terminate();
  }
}
