/**
 * The thread of a good client, which attacks do not block. The client sends one small request after another, and
 * repeats a request that the server refuses with 429.
 */
import { comesTrue } from "./bounded.ts";
import type { GoodRequest } from "./good-client.ts";

declare const self: Worker;

let isOver = false;

/**
 * The first message has the request, and starts the client. The second message stops it. The answer is the
 * milliseconds of each request, ascending.
 */
self.onmessage = async ({ data }: MessageEvent<GoodRequest | undefined>) => {
  if (data === undefined) {
    isOver = true;
    return;
  }
  const times: number[] = [];
  while (!isOver || times.length === 0) {
    const began = performance.now();
    if (!(await comesTrue(() => isAnswered(data)))) throw new Error("a good request was never taken");
    times.push(performance.now() - began);
    // The pause leaves processor time for the attacks.
    await Bun.sleep(5);
  }
  self.postMessage(times.slice(data.uncounted ?? 0).sort((a, b) => a - b));
};

async function isAnswered({ url, body }: GoodRequest): Promise<boolean> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "Content-Type": "application/json", Prefer: "wait=60" },
    body,
  });
  const text = await response.text();
  if (response.status === 429) return false;
  if (text.includes('"status":"success"')) return true;
  throw new Error(`a good request was answered with ${response.status}: ${text.slice(0, 300)}`);
}
