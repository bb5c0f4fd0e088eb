/** A client that sends one small request after the other, each again while the server has no room for it; on a thread that attacks do not hold. */
import { comesTrue } from "./bounded.ts";

declare const self: Worker;

let isOver = false;

/** The first message is the server's address and starts the client. The second stops it; the answer is the durations in milliseconds, ascending. */
self.onmessage = async ({ data }: MessageEvent<string | undefined>) => {
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

async function isAnswered(url: string): Promise<boolean> {
  const response = await fetch(new URL("/predictions", url), {
    method: "POST",
    headers: { "Content-Type": "application/json", Prefer: "wait=60" },
    body: "[{}]",
  });
  const text = await response.text();
  if (response.status === 429) return false;
  if (text.includes('"status":"success"')) return true;
  throw new Error(`a good request was answered with ${response.status}: ${text.slice(0, 300)}`);
}
