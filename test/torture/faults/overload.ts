/** Ten times as many requests as a server can answer, by clients that leave after a few batch times. */
import { connect } from "node:net";
import type { Fault, Injection } from "../fault.ts";
import { TestedServer } from "../tested-server.ts";
import { predict } from "../traffic.ts";

const BATCH_ITEMS = 16;
const OFFERED = 10;
/** Seconds of load. Only answers in the second half count: in the first half the queue becomes long. */
const SECONDS = { short: 4, long: 20 };
/**
 * Smallest accepted number of answers in time, as a share of the capacity. The short form needs only a few, because
 * other programs slow it down; test/goodput.test.ts checks more with a simulated clock.
 */
const LEAST_GOODPUT = { short: 0.01, long: 0.8 };

interface Load {
  readonly batchMs: number;
  readonly deadlineMs: number;
}

const loads: readonly Load[] = [
  { batchMs: 320, deadlineMs: 1000 },
  { batchMs: 80, deadlineMs: 400 },
];

export const overload: Fault = {
  name: "overload",
  title: "a server that is offered ten times its capacity answers clients that leave after a few batch times",
  async inject(injection) {
    for (const load of injection.isLong ? loads : loads.slice(0, 1)) await offer(injection, load);
  },
};

async function offer({ tally, home, isLong, random }: Injection, { batchMs, deadlineMs }: Load): Promise<void> {
  await using server = await TestedServer.start({ home, store: "memory", args: ["--retain-age", "0"] });
  const input = { x: 1, sleepMs: batchMs / BATCH_ITEMS };
  await predict(server.url, [input]);
  await tally.inject(async () => {
    const perMs = BATCH_ITEMS / batchMs;
    const totalMs = 1000 * (isLong ? SECONDS.long : SECONDS.short);
    const beganMs = performance.now();
    const counted = { good: 0, fromMs: beganMs + totalMs / 2, toMs: beganMs + totalMs };
    const underWay = new Set<Promise<void>>();
    for (let atMs = 0; atMs < totalMs; atMs += -Math.log(1 - random()) / (OFFERED * perMs)) {
      const pauseMs = beganMs + atMs - performance.now();
      if (pauseMs > 1) await Bun.sleep(pauseMs);
      const asked = ask(server.url, input, deadlineMs).then((isGood) => {
        const nowMs = performance.now();
        if (isGood && nowMs >= counted.fromMs && nowMs < counted.toMs) counted.good += 1;
      });
      underWay.add(asked);
      void asked.finally(() => underWay.delete(asked));
    }
    await Promise.all(underWay);
    const goodput = counted.good / (perMs * (counted.toMs - counted.fromMs));
    tally.counts.checked += counted.good;
    tally.note(`goodput ${goodput.toFixed(2)}: batches of ${batchMs} ms, clients that leave after ${deadlineMs} ms`);
    if (goodput < (isLong ? LEAST_GOODPUT.long : LEAST_GOODPUT.short))
      tally.found(
        "stuck",
        `goodput ${goodput.toFixed(2)} with batches of ${batchMs} ms and clients that leave after ${deadlineMs} ms`,
      );
  });
}

/**
 * Sends a prediction over a new connection, since `fetch` has at most 256 connections. @returns whether it succeeded
 * while its client waited
 */
function ask(url: URL, input: object, deadlineMs: number): Promise<boolean> {
  const body = JSON.stringify([input]);
  const head = `POST /predictions HTTP/1.1\r\nHost: ${url.host}\r\nContent-Type: application/json\r\nPrefer: wait=60`;
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect({ host: url.hostname, port: Number(url.port) });
  const timer = setTimeout(() => socket.destroy(), deadlineMs);
  let answer = "";
  socket.on("connect", () => socket.write(`${head}\r\nContent-Length: ${body.length}\r\n\r\n${body}`));
  socket.on("data", (chunk) => {
    answer += chunk;
    if (answer.includes('"status":')) socket.destroy();
  });
  socket.on("error", () => {});
  socket.on("close", () => {
    clearTimeout(timer);
    resolve(answer.includes('"status":"success"'));
  });
  return promise;
}
