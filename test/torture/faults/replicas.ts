/**
 * Replicas that share a queue, under load: a replica is killed, paused beyond its lease or cut off, or Redis
 * restarts.
 */
import { readFileSync } from "node:fs";
import { tempDir } from "../../helpers/fixture.ts";
import { hasRedis, startRedis, type TestRedis } from "../../helpers/redis.ts";
import { comesTrue, SOON_MS, until } from "../bounded.ts";
import { CuttableSocket } from "../cuttable-socket.ts";
import type { Fault } from "../fault.ts";
import { Flatness } from "../flatness.ts";
import { holdingsOf } from "../system.ts";
import { TestedServer } from "../tested-server.ts";
import { create, Traffic } from "../traffic.ts";

const REPLICAS = 3;
const LEASE_S = 1;
/**
 * Seconds for which ended predictions are retained: far longer than the test needs to read them, even on a busy
 * machine.
 */
const RETAIN_S = 60;
/**
 * Maximum number of predictions that clients have not read; then the clients pause. They read at least 8 per second
 * even while one replica is paused, so all within RETAIN_S.
 */
const MAX_UNREAD = { short: 30, long: 3 * RETAIN_S };
const LONG_MS = 20 * 60_000;
const LOOK_MS = 1000;
const PROGRESS_MS = 60_000;
/** Milliseconds within which all keys of ended predictions must disappear from Redis. */
const GONE_MS = 150_000;
/** Bytes that Redis may use without predictions, beyond a new Redis: scripts and connection buffers. */
const MAX_LEFT_BYTES = 4 * 2 ** 20;
/** Milliseconds between the answer to a cancellation and the check that the prediction still has this answer. */
const CANCELLED_MS = 3000;
/**
 * Milliseconds for which a replica is paused or cut off: so long that its lease ends and another replica claims its
 * predictions.
 */
const AWAY_MS = 2500;
/** The `x` of the model's example. Each replica runs it at its start, so it does not count. */
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
    const emptyBytes = await usedMemory(redis);
    const all = await Promise.all(
      Array.from({ length: REPLICAS }, async (_, i): Promise<Replica> => {
        const path = folder.join(`${i}.sock`);
        const socket = opened.use(new CuttableSocket(path, redis.url.slice("redis://".length)));
        const args = ["--queue", `redis://${path}`, "--queue-lease", `${LEASE_S}`, "--retain-age", `${RETAIN_S}`];
        const options = { home, args: [...args], store: "memory", env: { TORTURE_RUNS: runs } };
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
      isReadAgain: true,
      maxUnread: isLong ? MAX_UNREAD.long : MAX_UNREAD.short,
      lastLines,
    });
    let isOver = false;
    const sending = traffic.run(Number.POSITIVE_INFINITY);
    const cancelled: Cancelled[] = [];
    const cancelling = cancelSome(() => isOver, any, cancelled);
    const verifyCancelled = async (ageMs: number) => {
      while ((cancelled[0]?.answeredMs ?? Number.POSITIVE_INFINITY) <= performance.now() - ageMs) {
        const { at, text } = cancelled.shift() ?? { at: "", text: "" };
        const now = await readText(() => new URL(at, any()?.server.url));
        tally.counts.checked += 1;
        if (now !== text)
          tally.found("wrong", `${at} had the record ${text} after its cancellation, and now has ${now}`);
      }
    };
    const ofRedis = new Flatness("Redis", { ratio: 1.5, bytes: 16 * 2 ** 20 });
    const ofReplica = new Flatness("a replica that is never killed", { ratio: 1.25, bytes: 32 * 2 ** 20 });
    const beganMs = performance.now();
    const looking = (async () => {
      for (let saidMs = beganMs; !isOver; await Bun.sleep(LOOK_MS)) {
        await traffic.verifySome();
        ofRedis.add(await usedMemory(redis));
        ofReplica.add(holdingsOf(all[0]?.server.children("front")[0] ?? 0).residentBytes);
        if (performance.now() - saidMs < PROGRESS_MS) continue;
        saidMs = performance.now();
        const { injected, checked, lost, wrong, stuck } = tally.counts;
        const minutes = Math.round((saidMs - beganMs) / 60_000);
        const found = `${lost} lost, ${wrong} wrong, ${stuck} stuck`;
        console.log(
          `${minutes} min: ${injected} faults, ${checked} checked, ${found}; ${ofRedis.now}, ${ofReplica.now}`,
        );
      }
    })();
    const lookingAtCancelled = (async () => {
      for (; !isOver; await Bun.sleep(LOOK_MS)) await verifyCancelled(CANCELLED_MS);
    })();
    const events = eventsFor(redis);
    const names = Object.keys(events);
    do {
      for (const name of names.toSorted(() => random() - 0.5)) {
        // The first replica is never killed, since its memory is sampled during the whole run.
        const replica = name === "kill" ? all[1 + Math.floor(random() * (REPLICAS - 1))] : any();
        if (replica === undefined) continue;
        await tally.inject(async () => {
          const before = traffic.done;
          await events[name]?.(replica);
          await until(
            () => traffic.done >= before + 20,
            () => `predictions after ${name}\n${traffic.underWay}\n${lastLines()}`,
          );
          await until(
            async () => (await replica.server.readiness()) === 200,
            `the replica after ${name}\n${lastLines()}`,
          );
        });
      }
    } while (performance.now() - beganMs < (isLong ? LONG_MS : 0));
    isOver = true;
    traffic.stop();
    await Promise.all([sending, cancelling, looking, lookingAtCancelled]);
    await traffic.verify();
    await verifyCancelled(0);
    if (isLong) for (const flatness of [ofRedis, ofReplica]) flatness.judge(tally);
    const counts = new Map<string, number>();
    for (const x of readFileSync(runs, "utf8").trim().split("\n")) counts.set(x, (counts.get(x) ?? 0) + 1);
    for (const [x, count] of counts)
      if (x !== WARM_UP && count > 2) tally.found("wrong", `${x} was run ${count} times`);
    const twice = [...counts].filter(([x, count]) => x !== WARM_UP && count > 1).length;
    tally.note(`${names.join(", ")}: ${counts.size} inputs, ${twice} of them run twice`);
    const left = () => leftIn(redis);
    if (!(await comesTrue(async () => (await left()).length === 0, GONE_MS)))
      tally.found("leaked", (await left()).join("\n"));
    const leftBytes = (await usedMemory(redis)) - emptyBytes;
    tally.note(`${(leftBytes / 2 ** 20).toFixed(1)} MiB more in Redis than before, with all ended`);
    if (isLong && leftBytes > MAX_LEFT_BYTES) tally.found("leaked", `${leftBytes} bytes in Redis`);
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

interface Cancelled {
  /** Path of the canceled prediction. */
  readonly at: string;
  /** Body of the answer to the cancellation. */
  readonly text: string;
  readonly answeredMs: number;
}

/** Creates predictions, and cancels each at a random replica, until the run is over. */
async function cancelSome(isOver: () => boolean, any: () => Replica | undefined, cancelled: Cancelled[]) {
  for (let x = -1; !isOver(); x--) {
    try {
      const at = await create(any()?.server.url ?? new URL("http://nowhere"), [{ x, sleepMs: 5 }]);
      const url = new URL(`${at}/cancel`, any()?.server.url);
      const response = await fetch(url, { method: "POST", signal: AbortSignal.timeout(10_000) });
      if (response.ok) cancelled.push({ at, text: await response.text(), answeredMs: performance.now() });
    } catch {
      // The chosen replica is dead, paused or cut off.
    }
    await Bun.sleep(50);
  }
}

/** Reads a record from whichever replica answers. */
async function readText(url: () => URL): Promise<string> {
  const untilMs = performance.now() + SOON_MS;
  let text = "no answer";
  while (performance.now() < untilMs) {
    try {
      const response = await fetch(url(), { signal: AbortSignal.timeout(10_000) });
      text = await response.text();
      if (response.status !== 503) return text;
    } catch {
      // The chosen replica is dead, paused or cut off.
    }
    await Bun.sleep(20);
  }
  return text;
}

async function usedMemory({ client }: TestRedis): Promise<number> {
  return Number(/^used_memory:(\d+)/m.exec(await client.info("memory"))?.[1]);
}

/** Keys that Redis still has although the retention of the last prediction is over. */
async function leftIn({ client }: TestRedis): Promise<string[]> {
  const keys = await client.keys("*");
  const left = await Promise.all(
    keys.map(async (key) => {
      if (key.includes(":work:")) return (await client.xlen(key)) === 0 ? [] : [`${key} has entries`];
      if (!key.includes(":totals:")) return [key];
      const [items, bytes] = await client.hmget(key, "items", "bytes");
      return items === "0" && bytes === "0" ? [] : [`${key} has ${items} items, ${bytes} bytes`];
    }),
  );
  return left.flat();
}
