/** Starts a second thread that answers `GET /health/live` on the server's port while the model's code blocks the main thread. */

/** Milliseconds between increments of the counter that shows that the main thread runs. */
const BEAT_MS = 250;

/** The message that starts the second thread. */
export interface LiveStart {
  readonly port: number;
  /** A counter in shared memory. The main thread increments it every `BEAT_MS` milliseconds while nothing blocks it. */
  readonly beats: Int32Array;
}

export class LiveThread implements Disposable {
  readonly #thread = new Worker(new URL("./live-worker.ts", import.meta.url), { ref: false });
  readonly #beat: ReturnType<typeof setInterval>;

  /** Starts the thread. This process must listen on `port` already. */
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
