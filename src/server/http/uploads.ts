/** Bodies on their way: one that comes too slowly gives way where another has no room. */
import { type InRing, Ring } from "../../base/collections/ring.ts";
import type { Charge } from "../memory/charge.ts";
import { ProblemError } from "./problem.ts";

/** Slowest rate of a body that is never given up, over all of its time but the first seconds. */
const MIN_BYTES_PER_SECOND = 32 * 1024;
const GRACE_MS = 5000;

export class Upload implements InRing<Upload> {
  ring: InRing<Upload>["ring"] = undefined;
  before: Upload | undefined = undefined;
  after: Upload | undefined = undefined;
  /** That have come; of a body that is read as a whole, those announced. */
  bytes: number;
  readonly charge: Charge;
  readonly beganAtMs: number;
  #refusal: ProblemError | undefined;
  /** Ends the part that is being read. */
  #refuse: ((refusal: ProblemError) => void) | undefined;

  constructor(charge: Charge, { bytes, beganAtMs }: { readonly bytes: number; readonly beganAtMs: number }) {
    this.charge = charge;
    this.bytes = bytes;
    this.beganAtMs = beganAtMs;
  }

  /** A part of the body. @throws ProblemError 408 as soon as it is dropped */
  part<T>(reading: Promise<T>): Promise<T> {
    // Promise.race() costs a small request some five microseconds.
    return new Promise((resolve, reject) => {
      reading.then(resolve, reject);
      if (this.#refusal === undefined) this.#refuse = reject;
      else reject(this.#refusal);
    });
  }

  drop(): void {
    this.charge[Symbol.dispose]();
    const detail = `the body came at less than ${MIN_BYTES_PER_SECOND / 1024} kB/s while others waited for memory`;
    // What still comes of it is not worth reading past.
    const headers = { Connection: "close" };
    this.#refusal = new ProblemError({ status: 408, code: "body_too_slow", detail, headers });
    this.#refuse?.(this.#refusal);
  }
}

export class Uploads {
  readonly #now: () => number;
  /** In the order in which they began. */
  readonly #uploads = new Ring<Upload>();

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** @param bytes that are taken for come: 0 where each part is told of */
  async during<T>(charge: Charge, bytes: number, read: (upload: Upload) => Promise<T>): Promise<T> {
    const upload = new Upload(charge, { bytes, beganAtMs: this.#now() });
    this.#uploads.add(upload);
    try {
      return await read(upload);
    } finally {
      this.#uploads.delete(upload);
    }
  }

  /** Takes memory for a body; where there is no room, those that come too slowly give theirs back, the oldest first. */
  taken<T>(take: () => T): T {
    let result = take();
    if (result || this.#uploads.size === 0) return result;
    for (const upload of [...this.#uploads]) {
      if (result) return result;
      if (!this.#isTooSlow(upload)) continue;
      this.#uploads.delete(upload);
      upload.drop();
      result = take();
    }
    return result;
  }

  #isTooSlow({ bytes, beganAtMs }: Upload): boolean {
    return this.#now() - beganAtMs > GRACE_MS + (1000 * bytes) / MIN_BYTES_PER_SECOND;
  }
}
