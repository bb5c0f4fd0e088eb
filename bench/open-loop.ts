/**
 * open-loop.ts URL BODIES: posts the lines of a file at the rate that it is asked for, one JSON line at a time, whether or not answers
 * come; answers with what came of it as offered.ts reads it. Latencies count from when a request was to be sent: where a slow answer
 * holds others up, their waiting counts, too.
 */
import { now } from "./arrival-clock.ts";
import { poissonArrivals, wholeNumbers } from "./arrivals.ts";
import { type OfferedAnswer, type OfferedRequest, offeredRequestSchema } from "./offered.ts";
import { percentile } from "./turns.ts";

/** What requests are given that are under way when the last one was sent. */
const LAST_ANSWERS_MS = 30_000;
const START_MS = 50;

const [url = "", bodies = ""] = process.argv.slice(2);
const requests = (await Bun.file(bodies).text())
  .trim()
  .split("\n")
  .map((body) => Buffer.from(body));
const headers = { "Content-Type": "application/json", Prefer: "wait" };
const clock = new Worker(new URL("arrival-clock.ts", import.meta.url));
const random = wholeNumbers();

/** What came of a request, whose client leaves at some time: a status; or its connection ended. */
async function outcomeOf(body: Buffer<ArrayBuffer>, leavesAt: number): Promise<number | "lost" | "left"> {
  const signal = leavesAt === Infinity ? null : AbortSignal.timeout(Math.max(0, leavesAt - now()));
  try {
    const response = await fetch(url, { method: "POST", headers, body, signal });
    await response.arrayBuffer();
    return response.status;
  } catch {
    return signal?.aborted ? "left" : "lost";
  }
}

async function run({ perSecond, seconds, patienceMs = Infinity }: OfferedRequest): Promise<OfferedAnswer> {
  const arrivals = poissonArrivals({ perSecond, seconds, random: () => random() / 2 ** 32 });
  const begin = now() + START_MS;
  const moments = Float64Array.from(arrivals, (time) => begin + time);
  const latencies: number[] = [];
  const refusals: number[] = [];
  const lateness: number[] = [];
  let [sent, lost, left, inTime] = [0, 0, 0, 0];
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, START_MS + seconds * 1000 + LAST_ANSWERS_MS);
    const settle = () => {
      if (latencies.length + refusals.length + lost + left < moments.length) return;
      clearTimeout(timer);
      resolve();
    };
    const offer = async (body: Buffer<ArrayBuffer>, dueAt: number) => {
      const outcome = await outcomeOf(body, dueAt + patienceMs);
      const time = now();
      if (outcome === "lost") lost += 1;
      else if (outcome === "left") left += 1;
      else if (outcome === 200) {
        latencies.push(time - dueAt);
        if (time < begin + seconds * 1000) inTime += 1;
      } else refusals.push(time - dueAt);
      settle();
    };
    clock.onmessage = ({ data: come }: MessageEvent<number>) => {
      for (; sent < come; sent += 1) {
        const dueAt = moments[sent] ?? 0;
        lateness.push(now() - dueAt);
        void offer(requests[sent % requests.length] ?? Buffer.alloc(0), dueAt);
      }
    };
    settle();
    clock.postMessage(moments);
  });
  const unanswered = moments.length - latencies.length - refusals.length - lost - left;
  return {
    offered: moments.length,
    failed: { refused: refusals.length, lost, left, unanswered },
    perSecond: inTime / seconds,
    p50Ms: percentile(latencies, 0.5),
    p99Ms: percentile(latencies, 0.99),
    refusedP99Ms: percentile(refusals, 0.99),
    lateP99Ms: percentile(lateness, 0.99),
  };
}

for await (const line of console) {
  console.log(JSON.stringify(await run(offeredRequestSchema.parse(JSON.parse(line)))));
}
