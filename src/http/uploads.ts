/** Bodies that are being received. When memory is full, slow uploads are dropped in favour of others. */
import { type InRing, Ring } from "../base/collections/ring.ts";
import { SconceError } from "../base/errors.ts";
import type { Charge } from "../pipeline/memory/charge.ts";
import type { MemoryAccount } from "../pipeline/memory/memory-account.ts";
import { ProblemError } from "./problem.ts";

/** When memory is full, the server drops uploads slower than this average rate. Each upload has five extra seconds. */
const MIN_BYTES_PER_SECOND = 32 * 1024;
const GRACE_MS = 5000;

export class Upload implements InRing<Upload> {
  ring: InRing<Upload>["ring"] = undefined;
  before: Upload | undefined = undefined;
  after: Upload | undefined = undefined;
  /** Bytes received so far. For a body that is read in one call, its Content-Length. */
  bytes: number;
  readonly charge: Charge;
  readonly beganAtMs: number;
  #refusal: ProblemError | undefined;
  #reject: ((refusal: ProblemError) => void) | undefined;

  constructor(charge: Charge, { bytes, beganAtMs }: { readonly bytes: number; readonly beganAtMs: number }) {
    this.charge = charge;
    this.bytes = bytes;
    this.beganAtMs = beganAtMs;
  }

  /**
   * Awaits `reading`, a read of the body.
   * @throws ProblemError 408 as soon as the server drops the upload for its slowness, 400 for an incomplete body
   */
  untilDropped<T>(reading: Promise<T>): Promise<T> {
    // Promise.race() would take five microseconds more.
    return new Promise((resolve, reject) => {
      reading.then(resolve, (cause: unknown) => reject(incomplete(cause)));
      if (this.#refusal === undefined) this.#reject = reject;
      else reject(this.#refusal);
    });
  }

  drop(): void {
    this.charge[Symbol.dispose]();
    const detail = `the body came at less than ${MIN_BYTES_PER_SECOND / 1024} kB/s while others waited for memory`;
    // Closes the connection, so that the client sends no more of the body.
    const headers = { Connection: "close" };
    this.#refusal = new ProblemError({ code: "body_too_slow", detail, headers });
    this.#reject?.(this.#refusal);
  }
}

/** Interval in milliseconds of the look at refusals in other processes. */
const LOOK_MS = 500;

/** The uploads to one process, of all its routes and models. */
export class Uploads implements Disposable {
  readonly #memory: MemoryAccount;
  readonly #now: () => number;
  /** Bodies that are being received, the oldest first. */
  readonly #uploads = new Ring<Upload>();
  #seenRefusals: number;
  #timer: Timer | undefined;

  constructor(memory: MemoryAccount, now: () => number = () => performance.now()) {
    this.#memory = memory;
    this.#now = now;
    this.#seenRefusals = memory.refusals;
  }

  /** Begins an upload. Until end() is called, the upload may be dropped if it is slow. @param bytes initial count of received bytes */
  begin(charge: Charge, bytes: number): Upload {
    const upload = new Upload(charge, { bytes, beganAtMs: this.#now() });
    this.#uploads.add(upload);
    if (this.#memory.isShared) this.#timer ??= setInterval(() => this.#look(), LOOK_MS);
    return upload;
  }

  end(upload: Upload): void {
    this.#uploads.delete(upload);
  }

  /** Calls `take`, which reserves memory. While the result is falsy, drops the oldest slow upload and calls `take` again. */
  withRoom<T>(take: () => T): T {
    let result = take();
    while (!result && this.#dropSlow()) result = take();
    if (!result) this.#memory.refused();
    return result;
  }

  /** Drops a slow upload for each body that another process has refused since the last call. */
  relieveOthers(): void {
    const { refusals } = this.#memory;
    for (let count = refusals - this.#seenRefusals; count > 0 && this.#dropSlow(); count--);
    this.#seenRefusals = refusals;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    this.relieveOthers();
    if (this.#uploads.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Drops the oldest upload that is too slow. @returns whether there was one */
  #dropSlow(): boolean {
    if (this.#uploads.size === 0) return false;
    for (const upload of this.#uploads) {
      if (!this.#isTooSlow(upload)) continue;
      this.#uploads.delete(upload);
      upload.drop();
      return true;
    }
    return false;
  }

  #isTooSlow({ bytes, beganAtMs }: Upload): boolean {
    return this.#now() - beganAtMs > GRACE_MS + (1000 * bytes) / MIN_BYTES_PER_SECOND;
  }
}

/** Converts an error of reading the body: ProblemError 400 unless the error already has a code for the client. */
function incomplete(cause: unknown): unknown {
  if (cause instanceof ProblemError || cause instanceof SconceError) return cause;
  const detail = "the body ended before the length that was announced for it";
  return new ProblemError({ code: "body_incomplete", detail }, { cause });
}
