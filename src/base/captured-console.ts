/** Writes the `console` output of the author's code into the logs of the demo prediction that it runs for. */
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
 * Runs `task`. Its calls of `console.log`, `warn` and the like, also after an `await`, go to `write` as text. After
 * `write` returns false, later calls are dropped without formatting.
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
