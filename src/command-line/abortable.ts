/** Work of a command that Ctrl-C ends in order. */
import { SconceError } from "../errors.ts";

/** @param what the message of the error, with code `canceled`, that the signal is aborted with at SIGINT or SIGTERM */
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
