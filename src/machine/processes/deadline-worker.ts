/**
 * The thread that ends the process at a deadline, unless the JS thread cancels or replaces it in time. Author's code
 * may block the JS thread.
 */
import { dlopen, FFIType } from "bun:ffi";
import { writeSync } from "node:fs";
import type { DeadlineMessage } from "./deadline-thread.ts";

declare const self: Worker;

const timers = new Map<number, ReturnType<typeof setTimeout>>();

self.onmessage = ({ data: { number, deadline } }: MessageEvent<DeadlineMessage>) => {
  clearTimeout(timers.get(number));
  timers.delete(number);
  if (deadline === undefined) return;
  const { afterMs, graceMs, line } = deadline;
  const last = () =>
    timers.set(
      number,
      setTimeout(() => end(line), graceMs),
    );
  timers.set(number, setTimeout(last, afterMs));
};

function end(line: string): void {
  writeSync(process.stderr.fd, `${line}\n`);
  // Calls C's `_exit`, because `process.exit` in a worker ends only the worker.
  dlopen("libc.so.6", { _exit: { args: [FFIType.int], returns: FFIType.void } }).symbols._exit(1);
}
