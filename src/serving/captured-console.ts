/** Lets `console` write into the logs of the demo prediction that calls it, and of no other. */
import { AsyncLocalStorage } from "node:async_hooks";
import { format } from "node:util";

const writers = new AsyncLocalStorage<(text: string) => void>();
const methods = ["log", "info", "warn", "error", "debug", "trace"] as const;
let isInstalled = false;

/** Runs `task`; what it and all that it awaits write to `console` goes to `write`, a line a call. */
export function withConsole<T>(write: (text: string) => void, task: () => T): T {
  install();
  return writers.run(write, task);
}

function install(): void {
  if (isInstalled) return;
  isInstalled = true;
  for (const method of methods) {
    const original = console[method].bind(console);
    console[method] = (...values: unknown[]) => {
      const write = writers.getStore();
      if (write === undefined) original(...values);
      else write(`${format(...values)}\n`);
    };
  }
}
