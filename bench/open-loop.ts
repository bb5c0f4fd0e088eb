/**
 * open-loop.ts URL BODIES: posts the lines of a file at the rate that it is asked for, one JSON line at a time, whether or not answers
 * come; answers with what came of it as offered.ts reads it. Latencies count from when a request was to be sent: where a slow answer
 * holds others up, their waiting counts, too.
 */
import type { Socket } from "bun";
import { now } from "./arrival-clock.ts";
import { poissonArrivals, wholeNumbers } from "./arrivals.ts";
import { type OfferedAnswer, type OfferedRequest, offeredRequestSchema } from "./offered.ts";
import { percentile } from "./turns.ts";

/** More requests than these wait for one of them to be answered; the waiting counts. */
const MOST_CONNECTIONS = 1000;
/** Where clients leave, which ends their connections: so many that none has to wait. */
const MOST_LEAVING_CONNECTIONS = 12_000;
const FIRST_CONNECTIONS = 64;
/** What requests are given that are under way when the last one was sent. */
const LAST_ANSWERS_MS = 30_000;
const START_MS = 50;
const HEAD_END = Buffer.from("\r\n\r\n");

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
let answered: (request: Request, outcome: number | "lost" | "left") => void = () => {};

/** A connection and the request that it carries: HTTP/1.1 as far as the servers of this benchmark speak it, for a fraction of `fetch`'s work. */
class Lane {
  #socket: Socket | undefined;
  #request: Request | undefined;
  #received: Buffer = Buffer.alloc(0);
  /** Of the request, what the socket has not taken yet. */
  #unsent: Uint8Array = Buffer.alloc(0);
  #hasLeft = false;

  async open(): Promise<this> {
    this.#socket = await Bun.connect({
      hostname,
      port: Number(port),
      socket: {
        data: (_, chunk) => this.#take(chunk),
        drain: () => this.#write(),
        close: () => this.#lost(),
        error: () => this.#lost(),
      },
    });
    return this;
  }

  send(request: Request): void {
    this.#request = request;
    this.#unsent = request.bytes;
    this.#write();
    if (request.leavesAt === Infinity) return;
    setTimeout(() => this.#leave(request), Math.max(0, request.leavesAt - now()));
  }

  /** Takes a request that waits, or waits for one. */
  next(): void {
    const request = waiting.shift();
    if (request === undefined) idle.push(this);
    else this.send(request);
  }

  #leave(request: Request): void {
    if (this.#request !== request) return;
    this.#hasLeft = true;
    this.#socket?.terminate();
  }

  #write(): void {
    if (this.#unsent.length > 0) this.#unsent = this.#unsent.subarray(this.#socket?.write(this.#unsent) ?? 0);
  }

  #take(chunk: Buffer): void {
    this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
    const head = this.#received.indexOf(HEAD_END);
    if (head < 0) return;
    const text = this.#received.toString("latin1", 0, head);
    const length = /\r\ncontent-length: *(\d+)/i.exec(text)?.[1];
    if (length === undefined) throw new Error(`expected an answer with Content-Length, received ${text}`);
    const end = head + HEAD_END.length + Number(length);
    if (this.#received.length < end) return;
    this.#received = Buffer.from(this.#received.subarray(end));
    this.#settle(Number(text.slice(9, 12)));
    this.next();
  }

  #lost(): void {
    if (this.#socket === undefined) return;
    this.#socket = undefined;
    lanes -= 1;
    const index = idle.indexOf(this);
    if (index >= 0) idle.splice(index, 1);
    this.#settle(this.#hasLeft ? "left" : "lost");
  }

  #settle(outcome: number | "lost" | "left"): void {
    const request = this.#request;
    this.#request = undefined;
    if (request !== undefined) answered(request, outcome);
  }
}

async function widen(): Promise<void> {
  lanes += 1;
  try {
    (await new Lane().open()).next();
  } catch {
    lanes -= 1;
  }
}

function offer(request: Request): void {
  const lane = idle.pop();
  if (lane === undefined) waiting.push(request);
  else lane.send(request);
  if (lane === undefined && lanes < mostLanes) void widen();
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
    answered = ({ dueAt }, outcome) => {
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
        const bytes = requests[sent % requests.length] ?? Buffer.alloc(0);
        offer({ bytes, dueAt, leavesAt: dueAt + patienceMs });
      }
    };
    settle();
    clock.postMessage(moments);
  });
  answered = () => {};
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

await Promise.all(Array.from({ length: FIRST_CONNECTIONS }, widen));
for await (const line of console) {
  console.log(JSON.stringify(await run(offeredRequestSchema.parse(JSON.parse(line)))));
}
