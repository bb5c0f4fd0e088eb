/**
 * Malformed requests over raw connections: damaged lines, headers, lengths, chunks and forms; pipelined, truncated
 * and reset.
 */
import { connect } from "node:net";
import { within } from "../bounded.ts";
import type { Fault, Injection } from "../fault.ts";
import { type Delivery, MalformedRequests } from "../malformed-requests.ts";
import { MemoryMeter } from "../memory-meter.ts";
import { TestedServer } from "../tested-server.ts";
import { predict } from "../traffic.ts";

/** Number of connections. MALFORMED_CASES changes the number of the long form, which takes several minutes. */
const CASES = { short: 2000, long: Number(process.env.MALFORMED_CASES ?? 200_000) };
const AT_ONCE = 32;
/** Number of connections between two good requests. */
const ROUND = 500;
/** The growth of memory counts from this round on: earlier rounds run code for the first time. */
const WARM_ROUNDS = 2;
const ALLOWANCE = 96 * 2 ** 20;
const expected = new Set([
  100, 101, 200, 204, 206, 302, 304, 400, 403, 404, 405, 406, 408, 411, 413, 414, 415, 416, 417, 422, 429, 431, 501,
  505,
]);

export const malformed: Fault = {
  name: "malformed",
  title:
    "malformed requests are refused, served or closed, the server continues, and answers a good client beside them",
  async inject(injection) {
    const { tally, home, isLong, random } = injection;
    await using server = await TestedServer.start({ home, store: "memory", args: ["--retain-age", "5"] });
    const requests = new MalformedRequests(random);
    const pids = server.processes();
    const meter = new MemoryMeter(pids);
    // Stops the regular samples, which slow the server down. `takePeak` samples between the rounds.
    meter[Symbol.dispose]();
    const statuses = new Map<string, number>();
    const rounds = Math.ceil((isLong ? CASES.long : CASES.short) / ROUND);
    let warm = 0;
    for (let round = 0; round < rounds; round++) {
      await tally.inject(async () => {
        await withstand(injection, server, { requests, statuses });
        const { outputs } = await predict(server.url, [{ x: round }]).catch((cause) => {
          throw new Error(`a good request failed in round ${round}:\n${server.lastLines}`, { cause });
        });
        if (outputs?.[0]?.y !== 3 * round)
          tally.found("wrong", `beside malformed requests: ${JSON.stringify(outputs)}`);
        tally.counts.checked += 1;
      });
      if (round === WARM_ROUNDS) warm = meter.takePeak();
      if (String(server.processes()) !== String(pids)) {
        throw new Error(`a process of the server ended:\n${server.lastLines}`);
      }
    }
    const grown = meter.takePeak() - warm;
    tally.note(
      `${rounds * ROUND} connections: ${[...statuses]
        .sort()
        .map(([status, count]) => `${status} ${count}`)
        .join(", ")}`,
    );
    tally.note(`memory grew by ${(grown / 2 ** 20).toFixed(0)} MiB beyond ${(warm / 2 ** 20).toFixed(0)} MiB`);
    if (grown > ALLOWANCE) tally.found("leaked", `${(grown / 2 ** 20).toFixed(0)} MiB of memory`);
  },
};

interface Round {
  readonly requests: MalformedRequests;
  readonly statuses: Map<string, number>;
}

async function withstand({ tally }: Injection, server: TestedServer, { requests, statuses }: Round): Promise<void> {
  let begun = 0;
  const client = async () => {
    while (begun++ < ROUND) {
      const delivery = requests.next();
      const answer = await within(exchange(server.url, delivery), "the end of a connection").catch((error) => {
        tally.found("stuck", `${error}: ${shown(delivery)}`);
        return "";
      });
      const found = [...answer.matchAll(/(?:^|\r\n\r\n|[^\r\n]\r?\n?)HTTP\/1\.1 (\d{3}) /g)].map(
        (match) => match[1] ?? "",
      );
      for (const status of found.length === 0 ? ["closed"] : found) {
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        if (status !== "closed" && !expected.has(Number(status))) {
          tally.found("wrong", `an answer with ${status}: ${shown(delivery)}\n${answer.slice(0, 400)}`);
        }
      }
      if (answer !== "" && found.length === 0) tally.found("wrong", `no HTTP: ${answer.slice(0, 200)}`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, client));
}

/** Sends a request. @returns everything that the server sends until it closes the connection; "" after a reset */
function exchange(url: URL, { pieces, isReset }: Delivery): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  let received = "";
  const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true }, async () => {
    for (const piece of pieces) {
      socket.write(piece);
      if (pieces.length > 1) await new Promise((next) => setImmediate(next));
    }
    if (isReset) socket.resetAndDestroy();
    else socket.end();
  });
  socket.on("data", (chunk) => {
    received += chunk.toString("latin1");
  });
  socket.on("error", () => {});
  socket.on("close", () => resolve(received));
  return promise;
}

function shown({ pieces, isReset }: Delivery): string {
  const parts = pieces.map((piece) => JSON.stringify(piece.toString("latin1").slice(0, 1500)));
  return `${parts.join(" + ")}${isReset ? ", reset" : ""}`;
}
