/**
 * A thread that says when each of a list of moments has come. It sleeps in between and has nothing else to do, so that it is late by
 * a tenth of a millisecond: a timer of the event loop is by a half, and turning in circles until then would take a core from what is measured.
 */
import { performance } from "node:perf_hooks";

declare const self: Worker;

/** What the thread is sent: moments in order, on the clock of `now()`. Told back: how many have come. */
export type Moments = Float64Array;

/** Milliseconds that mean the same in every thread. */
export function now(): number {
  return performance.timeOrigin + performance.now();
}

if (!Bun.isMainThread) {
  const never = new Int32Array(new SharedArrayBuffer(4));
  self.onmessage = ({ data: moments }: MessageEvent<Moments>) => {
    let come = 0;
    while (come < moments.length) {
      const left = (moments[come] ?? 0) - now();
      if (left > 0) Atomics.wait(never, 0, 0, left);
      const time = now();
      const before = come;
      while (come < moments.length && (moments[come] ?? 0) <= time) come += 1;
      if (come > before) postMessage(come);
    }
  };
}
