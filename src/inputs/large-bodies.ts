/** Checks large bodies on a thread of their own: parsing 60 MB of numbers takes a second, in which nobody else would be answered. */
import { type ErrorCode, type Fault, messageOf, SconceError } from "../errors.ts";
import { log } from "../log.ts";
import type { DecodedBody } from "./bodies.ts";
import { type InputDecoder, utf8 } from "./input-decoder.ts";
import { ReadyInputs } from "./input-list.ts";
import { LateInputs } from "./late-inputs.ts";
import type { ListScan } from "./list-scan.ts";

/** What the thread needs to know the schema of an input: the model's code. */
export interface BundleSource {
  readonly path: string;
  readonly digest: string;
}

export interface CheckRequest {
  readonly id: number;
  readonly bundle: BundleSource;
  readonly chunks: readonly Uint8Array<ArrayBuffer>[];
  readonly maxInputs: number;
}

/** What a SconceError is between two threads. */
interface Refusal {
  readonly code: ErrorCode;
  readonly message: string;
  readonly faults: readonly Fault[] | undefined;
}

/** `error`: it could not be checked, for a reason that is not the body's. */
export interface CheckAnswer {
  readonly id: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly scan?: ListScan | undefined;
  readonly refusal?: Refusal | undefined;
  readonly error?: string | undefined;
}

interface Waiting {
  resolve(answer: CheckAnswer): void;
  reject(error: unknown): void;
}

export class LargeBodies {
  readonly #bundle: BundleSource;
  readonly #decoder: InputDecoder;
  readonly #waiting = new Map<number, Waiting>();
  #worker: Worker | undefined;
  #nextId = 0;

  constructor(bundle: BundleSource, decoder: InputDecoder) {
    this.#bundle = bundle;
    this.#decoder = decoder;
  }

  /**
   * @param chunks of a body, in memory of their own, which is given away
   * @throws SconceError `body_invalid` or `inputs_invalid`
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
    this.#worker?.terminate();
    this.#lose("the server is stopping");
  }

  #check(chunks: readonly Uint8Array<ArrayBuffer>[], maxInputs: number): Promise<CheckAnswer> {
    this.#worker ??= this.#start();
    const id = this.#nextId++;
    const { promise, resolve, reject } = Promise.withResolvers<CheckAnswer>();
    this.#waiting.set(id, { resolve, reject });
    const request: CheckRequest = { id, bundle: this.#bundle, chunks, maxInputs };
    this.#worker.postMessage(
      request,
      chunks.map(({ buffer }) => buffer),
    );
    return promise;
  }

  #start(): Worker {
    const worker = new Worker(new URL("./large-body-worker.ts", import.meta.url), { ref: false });
    worker.onmessage = ({ data }: MessageEvent<CheckAnswer>) => {
      const waiting = this.#waiting.get(data.id);
      this.#waiting.delete(data.id);
      waiting?.resolve(data);
    };
    worker.onerror = (event) => this.#lose(messageOf(event.message));
    return worker;
  }

  /** The next body gets a new thread. */
  #lose(reason: string): void {
    this.#worker = undefined;
    for (const { reject } of this.#waiting.values()) reject(new Error(`a body was not read: ${reason}`));
    this.#waiting.clear();
  }
}
