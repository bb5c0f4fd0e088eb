/** Redirects `console` of a demo's code into the logs of that demo, and of no other. */
import { AsyncLocalStorage } from "node:async_hooks";
import { format } from "node:util";

interface Writer {
  readonly write: (text: string) => unknown;
  isFull: boolean;
}

const writers = new AsyncLocalStorage<Writer>();
const methods = ["log", "info", "warn", "error", "debug", "trace"] as const;
let isInstalled = false;

/**
 * Runs `task` with a `console` that calls `write` for each line. After `write` has returned false, lines are dropped
 * unformatted, so that an endless task stays cheap.
 */
export function withConsole<T>(write: (text: string) => unknown, task: () => T): T {
  install();
  return writers.run({ write, isFull: false }, task);
}

function install(): void {
  if (isInstalled) return;
  isInstalled = true;
  for (const method of methods) {
    const original = console[method].bind(console);
    console[method] = (...values: unknown[]) => {
      const writer = writers.getStore();
      if (writer === undefined) original(...values);
      else if (!writer.isFull) writer.isFull = writer.write(`${format(...values)}\n`) === false;
    };
  }
}
