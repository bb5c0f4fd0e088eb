/** A client that sends one small request after another while a server is under attack. */
import { within } from "./bounded.ts";

export interface GoodRequest {
  /** URL of the route, with its path. */
  readonly url: string;
  readonly body: string;
  /** Number of first requests without a time in the result. Default: 0. */
  readonly uncounted?: number;
}

/**
 * Runs the client until `others` settles. @returns milliseconds of each request, ascending @throws Error for an
 * answer without outputs
 */
export async function timesOfGoodClient(request: GoodRequest, others: Promise<unknown>): Promise<number[]> {
  const worker = new Worker(new URL("./good-client-worker.ts", import.meta.url));
  const { promise, resolve, reject } = Promise.withResolvers<number[]>();
  worker.onmessage = ({ data }: MessageEvent<number[]>) => resolve(data);
  worker.onerror = ({ message }) => reject(new Error(message));
  promise.catch(() => {});
  try {
    worker.postMessage(request);
    await within(others, "the end of the attacks");
    worker.postMessage(undefined);
    return await within(promise, "the end of a good client");
  } finally {
    worker.terminate();
  }
}
