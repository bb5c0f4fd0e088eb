/** The thread that ends the process when the author's code holds the other one for too long. */
import { dlopen, FFIType } from "bun:ffi";
import { writeSync } from "node:fs";
import type { Limited } from "./time-limit.ts";

declare const self: Worker;

const timers = new Map<number, ReturnType<typeof setTimeout>>();

self.onmessage = ({ data: { call, late } }: MessageEvent<Limited>) => {
  clearTimeout(timers.get(call));
  timers.delete(call);
  if (late !== undefined)
    timers.set(
      call,
      setTimeout(() => end(late.line), late.afterMs),
    );
};

function end(line: string): void {
  writeSync(process.stderr.fd, `${line}\n`);
  // `process.exit` would end this thread alone.
  dlopen("libc.so.6", { _exit: { args: [FFIType.int], returns: FFIType.void } }).symbols._exit(1);
}
