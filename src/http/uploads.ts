/** Uploads: bodies on their way. A small body counts only while much memory is held. When memory is full, the server drops slow uploads. */
import type { Charge } from "../pipeline/memory/charge.ts";
import { ProblemError } from "./problem.ts";

/** When memory is full, the server drops uploads slower than this average rate. Each upload has five extra seconds. */
const MIN_BYTES_PER_SECOND = 32 * 1024;
const GRACE_MS = 5000;

export class Upload {
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
   * @param format the compression of the body
   * @throws ProblemError 408 as soon as the server drops the upload for its slowness, 400 for an incomplete body
   */
  untilDropped<T>(reading: Promise<T>, format?: string): Promise<T> {
    // Promise.race() would take five microseconds more.
    return new Promise((resolve, reject) => {
      reading.then(resolve, (cause: unknown) => reject(incompleteBody(cause, format)));
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

/** The uploads to one process, of all its routes and models. */
export class Uploads {
  readonly #now: () => number;
  /** Bodies that are being received, the oldest first. */
  readonly #uploads = new Set<Upload>();

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Begins an upload. Until end() is called, the upload may be dropped if it is slow. @param bytes initial count of received bytes */
  begin(charge: Charge, bytes: number): Upload {
    const upload = new Upload(charge, { bytes, beganAtMs: this.#now() });
    this.#uploads.add(upload);
    return upload;
  }

  end(upload: Upload): void {
    this.#uploads.delete(upload);
  }

  /** Calls `take`, which reserves memory. While the result is falsy, drops the oldest slow upload and calls `take` again. */
  withRoom<T>(take: () => T): T {
    let result = take();
    while (!result && this.#dropSlow()) result = take();
    return result;
  }

  /** Drops the oldest slow upload. @returns whether an upload was slow */
  #dropSlow(): boolean {
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

/** The error for a body whose reading failed. @param format the compression of the body */
export function incompleteBody(cause: unknown, format?: string): ProblemError {
  if (format === undefined) {
    const detail = "the body ended before the length that was announced for it";
    return new ProblemError({ code: "body_incomplete", detail }, { cause });
  }
  const detail = `the body cannot be read as ${format}, which its Content-Encoding announces, or it ended too early`;
  return new ProblemError({ code: "body_unreadable", detail }, { cause });
}
