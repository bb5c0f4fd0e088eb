/** Lets Ctrl-C abort a command's work in an orderly way. */
import { SconceError } from "../../base/errors.ts";

/** @param what message of the `canceled` error, with which SIGINT or SIGTERM aborts the signal */
export async function abortable<T>(what: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const abort = () => controller.abort(new SconceError("canceled", what));
  const signals = ["SIGINT", "SIGTERM"] as const;
  for (const signal of signals) process.once(signal, abort);
  try {
    return await work(controller.signal);
  } finally {
    for (const signal of signals) process.off(signal, abort);
  }
}
