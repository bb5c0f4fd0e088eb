/** Replicas that share a queue: killed, paused beyond their lease, cut off from Redis, or with a Redis that is started again, under load. */
import { readFileSync } from "node:fs";
import { hasRedis, startRedis, type TestRedis } from "../../helpers/redis.ts";
import { tempDir } from "../../helpers/temp-dir.ts";
import { comesTrue, until } from "../bounded.ts";
import { CuttableSocket } from "../cuttable-socket.ts";
import type { Fault } from "../fault.ts";
import { TestedServer } from "../tested-server.ts";
import { create, Traffic } from "../traffic.ts";

const REPLICAS = 3;
const LEASE_S = 1;
const RETAIN_S = 10;
const LONG_MS = 20 * 60_000;
/** Longer than the lease and than a third one takes over. */
const AWAY_MS = 2500;
/** The example, which each replica runs at its start. */
const WARM_UP = "1";

interface Replica {
  readonly server: TestedServer;
  readonly socket: CuttableSocket;
}

export const replicas: Fault = {
  name: "replicas",
  title:
    "of three replicas that are killed, paused and cut off from each other, every accepted prediction ends once with its own outputs",
  ...(hasRedis ? {} : { lacking: "redis-server is not here" }),
  async inject({ tally, home, random, isLong }) {
    await using opened = new AsyncDisposableStack();
    const folder = opened.use(await tempDir());
    const redis = opened.use(await startRedis("--appendonly", "yes"));
    const runs = folder.join("runs");
    const all = await Promise.all(
      Array.from({ length: REPLICAS }, async (_, i): Promise<Replica> => {
        const path = folder.join(`${i}.sock`);
        const socket = opened.use(new CuttableSocket(path, redis.url.slice("redis://".length)));
        const args = ["--queue", `redis://${path}`, "--queue-lease", `${LEASE_S}`, "--retain-age", `${RETAIN_S}`];
        const options = { home, args: [...args, "--no-isolate"], store: "memory", env: { TORTURE_RUNS: runs } };
        return { server: opened.use(await TestedServer.start(options)), socket };
      }),
    );
    const any = () => all[Math.floor(random() * REPLICAS)] ?? all[0];
    const lastLines = () => all.map(({ server }) => server.lastLines).join("\n");
    const traffic = new Traffic({
      get url() {
        return any()?.server.url ?? new URL("http://nowhere");
      },
      tally,
      random,
      isGivenUp: (message) => message.startsWith("Given up: "),
      lastLines,
    });
    let isOver = false;
    const sending = traffic.run(Number.POSITIVE_INFINITY);
    const cancelling = cancelSome(() => isOver, any);
    const events = eventsFor(redis);
    const untilMs = performance.now() + (isLong ? LONG_MS : 0);
    const order = Object.keys(events).toSorted(() => random() - 0.5);
    do {
      for (const name of order) {
        const replica = any();
        if (replica === undefined) continue;
        await tally.inject(async () => {
          const before = traffic.done;
          await events[name]?.(replica);
          await until(() => traffic.done >= before + 20, `predictions after ${name}\n${lastLines()}`);
          await until(
            async () => (await replica.server.readiness()) === 200,
            `the replica after ${name}\n${lastLines()}`,
          );
        });
      }
    } while (performance.now() < untilMs);
    isOver = true;
    traffic.stop();
    await sending;
    await traffic.verify();
    for (const [at, text] of await cancelling) {
      const now = await readText(new URL(at, any()?.server.url));
      if (now !== text) tally.found("wrong", `${at} was cancelled as ${text}, and is ${now}`);
    }
    const counts = new Map<string, number>();
    for (const x of readFileSync(runs, "utf8").trim().split("\n")) counts.set(x, (counts.get(x) ?? 0) + 1);
    for (const [x, count] of counts)
      if (x !== WARM_UP && count > 2) tally.found("wrong", `${x} was run ${count} times`);
    const twice = [...counts].filter(([x, count]) => x !== WARM_UP && count > 1).length;
    tally.note(`${order.join(", ")}: ${counts.size} inputs, ${twice} of them run twice`);
    const isClean = async () => (await leftIn(redis)).length === 0;
    if (!(await comesTrue(isClean))) tally.found("leaked", (await leftIn(redis)).join("\n"));
  },
};

function eventsFor(redis: TestRedis): Readonly<Record<string, (replica: Replica) => Promise<void>>> {
  return {
    kill: async ({ server }) => {
      await server.kill();
      await server.started();
    },
    pause: async ({ server }) => {
      server.signal("SIGSTOP");
      await Bun.sleep(AWAY_MS);
      server.signal("SIGCONT");
    },
    cut: async ({ socket }) => {
      socket.cut();
      await Bun.sleep(AWAY_MS);
      socket.heal();
    },
    "restart of Redis": async () => {
      await redis.stop();
      await Bun.sleep(200);
      await redis.start();
    },
  };
}

/** Cancels one after the other at any replica. @returns what each was answered with, by its path */
async function cancelSome(isOver: () => boolean, any: () => Replica | undefined): Promise<Map<string, string>> {
  const cancelled = new Map<string, string>();
  for (let x = -1; !isOver(); x--) {
    try {
      const at = await create(any()?.server.url ?? new URL("http://nowhere"), [{ x, sleepMs: 5 }]);
      const url = new URL(`${at}/cancel`, any()?.server.url);
      const response = await fetch(url, { method: "POST", signal: AbortSignal.timeout(10_000) });
      if (response.ok) cancelled.set(at, await response.text());
    } catch {
      // A replica that is away.
    }
    await Bun.sleep(50);
  }
  return cancelled;
}

async function readText(url: URL): Promise<string> {
  for (;;) {
    const response = await fetch(url);
    if (response.status !== 503) return response.text();
  }
}

/** What should not be in Redis once everything has ended, and the last end was long ago. */
async function leftIn({ client }: TestRedis): Promise<string[]> {
  const keys = await client.keys("*");
  const left = await Promise.all(
    keys.map(async (key) => {
      if (key.endsWith(":work")) return (await client.xlen(key)) === 0 ? [] : [`${key} has entries`];
      if (!key.endsWith(":totals")) return [key].filter(() => !key.includes(":mail:"));
      const [items, bytes] = await client.hmget(key, "items", "bytes");
      return items === "0" && bytes === "0" ? [] : [`${key} has ${items} items, ${bytes} bytes`];
    }),
  );
  return left.flat();
}
