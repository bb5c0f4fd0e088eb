/** Starts a second thread that answers `GET /health/live` on the server's port while the model's code blocks the main thread. */

/** Milliseconds between signs of life of the main thread. */
const BEAT_MS = 250;

/** The message that starts the second thread. */
export interface LiveStart {
  readonly port: number;
  /** Shared memory. The main thread increments the number every `BEAT_MS` milliseconds while nothing blocks it. */
  readonly beats: Int32Array;
}

export class LiveThread implements Disposable {
  readonly #thread = new Worker(new URL("./live-worker.ts", import.meta.url), { ref: false });
  readonly #beat: ReturnType<typeof setInterval>;

  /** @param port a port on which this process listens */
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
