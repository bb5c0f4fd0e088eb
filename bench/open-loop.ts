/**
 * open-loop.ts URL BODIES: posts the lines of a file at the rate that it is asked for, one JSON line at a time, whether or not answers
 * come; answers with what came of it as offered.ts reads it. Latencies count from when a request was to be sent: where a slow answer
 * holds others up, their waiting counts, too.
 */
import { now } from "./arrival-clock.ts";
import { poissonArrivals } from "./arrivals.ts";
import { type Answer, Connection } from "./connection.ts";
import { type OfferedAnswer, type OfferedRequest, offeredRequestSchema } from "./offered.ts";
import { percentile } from "./percentile.ts";
import { wholeNumbers } from "./random.ts";

/** More requests than these wait for one of them to be answered; the waiting counts. */
const MOST_CONNECTIONS = 1000;
/** Where clients leave, which ends their connections: so many that none has to wait. */
const MOST_LEAVING_CONNECTIONS = 12_000;
const FIRST_CONNECTIONS = 64;
/** What requests are given that are under way when the last one was sent. */
const LAST_ANSWERS_MS = 30_000;
const START_MS = 50;

interface Request {
  readonly bytes: Uint8Array;
  readonly dueAt: number;
  readonly leavesAt: number;
}

const [url = "", bodies = ""] = process.argv.slice(2);
const { hostname, port, pathname, host } = new URL(url);
const requests = (await Bun.file(bodies).text())
  .trim()
  .split("\n")
  .map((body) => {
    const length = Buffer.byteLength(body);
    const head = [`POST ${pathname} HTTP/1.1`, `Host: ${host}`, "Content-Type: application/json", "Prefer: wait"];
    return Buffer.from(`${head.join("\r\n")}\r\nContent-Length: ${length}\r\n\r\n${body}`);
  });
const clock = new Worker(new URL("arrival-clock.ts", import.meta.url));
const random = wholeNumbers();
const idle: Lane[] = [];
const waiting: Request[] = [];
let lanes = 0;
let mostLanes = MOST_CONNECTIONS;
let answered: (request: Request, answer: Answer | "lost" | "left") => void = () => {};

/** One connection and the request that it carries. */
class Lane {
  #connection: Connection | undefined;
  #request: Request | undefined;
  #hasLeft = false;

  async open(): Promise<this> {
    this.#connection = await Connection.open(
      { hostname, port: Number(port) },
      { answer: (answer) => this.#done(answer), lost: () => this.#lost() },
    );
    return this;
  }

  send(request: Request): void {
    this.#request = request;
    this.#connection?.send(request.bytes);
    if (request.leavesAt === Infinity) return;
    setTimeout(() => this.#leave(request), Math.max(0, request.leavesAt - now()));
  }

  #leave(request: Request): void {
    if (this.#request !== request) return;
    this.#hasLeft = true;
    this.#connection?.close();
  }

  #done(answer: Answer): void {
    const request = this.#request;
    this.#request = undefined;
    if (request !== undefined) answered(request, answer);
    this.#next();
  }

  #next(): void {
    const next = waiting.shift();
    if (next === undefined) idle.push(this);
    else this.send(next);
  }

  #lost(): void {
    if (this.#connection === undefined) return;
    this.#connection = undefined;
    lanes -= 1;
    const index = idle.indexOf(this);
    if (index >= 0) idle.splice(index, 1);
    if (this.#request !== undefined) answered(this.#request, this.#hasLeft ? "left" : "lost");
    this.#request = undefined;
  }
}

async function widen(): Promise<void> {
  lanes += 1;
  try {
    const lane = await new Lane().open();
    const request = waiting.shift();
    if (request === undefined) idle.push(lane);
    else lane.send(request);
  } catch {
    lanes -= 1;
  }
}

function offer(request: Request): void {
  const lane = idle.pop();
  if (lane !== undefined) {
    lane.send(request);
    return;
  }
  waiting.push(request);
  if (lanes < mostLanes) void widen();
}

async function run({ perSecond, seconds, patienceMs = Infinity }: OfferedRequest): Promise<OfferedAnswer> {
  mostLanes = patienceMs === Infinity ? MOST_CONNECTIONS : MOST_LEAVING_CONNECTIONS;
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
    answered = ({ dueAt }, answer) => {
      const time = now();
      if (answer === "lost") lost += 1;
      else if (answer === "left") left += 1;
      else if (answer.status === 200) {
        latencies.push(time - dueAt);
        if (time < begin + seconds * 1000) inTime += 1;
      } else refusals.push(time - dueAt);
      settle();
    };
    clock.onmessage = ({ data: come }: MessageEvent<number>) => {
      for (; sent < come; sent += 1) {
        const dueAt = moments[sent] ?? 0;
        lateness.push(now() - dueAt);
        const bytes = requests[sent % requests.length] ?? Buffer.alloc(0);
        offer({ bytes, dueAt, leavesAt: dueAt + patienceMs });
      }
    };
    settle();
    clock.postMessage(moments);
  });
  answered = () => {};
  return {
    offered: moments.length,
    failed: {
      refused: refusals.length,
      lost,
      left,
      unanswered: moments.length - latencies.length - refusals.length - lost - left,
    },
    perSecond: inTime / seconds,
    p50Ms: percentile(latencies, 0.5),
    p99Ms: percentile(latencies, 0.99),
    refusedP50Ms: percentile(refusals, 0.5),
    refusedP99Ms: percentile(refusals, 0.99),
    lateP99Ms: percentile(lateness, 0.99),
    connections: lanes,
  };
}

await Promise.all(Array.from({ length: FIRST_CONNECTIONS }, widen));
for await (const line of console) {
  console.log(JSON.stringify(await run(offeredRequestSchema.parse(JSON.parse(line)))));
}
process.exit();
