/** A client that sends one small request after the other, each again while the server has no room for it; on a thread that attacks do not hold. */
import { comesTrue } from "./bounded.ts";
import type { GoodRequest } from "./good-client.ts";

declare const self: Worker;

let isOver = false;

/** The first message is the request and starts the client. The second stops it; the answer is the durations in milliseconds, ascending. */
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
    // The pause leaves the processor to the attacks.
    await Bun.sleep(5);
  }
  self.postMessage(times.sort((a, b) => a - b));
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
