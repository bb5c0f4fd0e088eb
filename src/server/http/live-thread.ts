/** A second thread answers `GET /health/live` on the server's port while the model's code holds the JS thread. */

const BEAT_MS = 250;

/** The message that starts the thread. */
export interface LiveStart {
  readonly port: number;
  /** Shared memory: the JS thread increments the number every `BEAT_MS`. */
  readonly beats: Int32Array;
}

export class LiveThread implements Disposable {
  readonly #thread = new Worker(new URL("./live-worker.ts", import.meta.url), { ref: false });
  readonly #beat: ReturnType<typeof setInterval>;

  /** @param port of this process */
  constructor(port: number) {
    const beats = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    this.#thread.postMessage({ port, beats } satisfies LiveStart);
    this.#beat = setInterval(() => Atomics.add(beats, 0, 1), BEAT_MS);
    this.#beat.unref();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#beat);
    this.#thread.terminate();
  }
}
