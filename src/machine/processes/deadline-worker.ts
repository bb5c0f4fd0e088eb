/** The thread that ends the process when the other one, which the author's code may hold, does not call a deadline off. */
import { dlopen, FFIType } from "bun:ffi";
import { writeSync } from "node:fs";
import type { Told } from "./deadline-thread.ts";

declare const self: Worker;

const timers = new Map<number, ReturnType<typeof setTimeout>>();

self.onmessage = ({ data: { number, deadline } }: MessageEvent<Told>) => {
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
  // `process.exit` would end this thread alone.
  dlopen("libc.so.6", { _exit: { args: [FFIType.int], returns: FFIType.void } }).symbols._exit(1);
}
