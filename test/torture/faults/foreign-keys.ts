/** Another program writes to the keys of the queue in Redis. */
import { KEY_PREFIX } from "../../../src/server/queue/script-prelude.ts";
import { hasRedis, startRedis } from "../../helpers/redis.ts";
import { until } from "../bounded.ts";
import type { Fault } from "../fault.ts";
import { TestedServer } from "../tested-server.ts";
import { create, predict, statusOf } from "../traffic.ts";

const BASE = `${KEY_PREFIX}{shared}:`;
/** Keys that every queue has, without their common beginning. */
const KEYS = ["work", "soon", "kept", "totals", "signs"] as const;
const ROUNDS = { short: 1, long: 20 };

export const foreignKeys: Fault = {
  name: "foreign-keys",
  title: "replicas name the keys that another program overwrites, remove the foreign values and go on",
  ...(hasRedis ? {} : { lacking: "redis-server is not here" }),
  async inject({ tally, home, isLong }) {
    await using redis = await startRedis();
    const args = ["--queue", redis.url, "--queue-name", "shared", "--no-isolate"];
    await using first = await TestedServer.start({ home, args, store: "memory" });
    await using second = await TestedServer.start({ home, args, store: "memory" });
    const replicas = [first, second];
    const lastLines = () => replicas.map((replica) => replica.lastLines).join("\n");

    /** Overwrites one key. The log of a replica must name it, and predictions must succeed afterwards. */
    async function overwrite(key: string): Promise<void> {
      const seen = replicas.map(({ lines }) => lines.length);
      await redis.client.set(BASE + key, "foreign");
      const isNamed = () =>
        replicas.some(({ lines }, i) =>
          lines.slice(seen[i]).some((line) => line.includes(`${BASE}${key} was a string`)),
        );
      await until(isNamed, () => `the key ${key} to be named\n${lastLines()}`);
      for (const { url } of replicas) {
        await until(
          async () => (await predict(url, [{ x: 5 }]).catch(() => undefined))?.outputs?.[0]?.y === 15,
          () => `predictions after ${key} was overwritten\n${lastLines()}`,
        );
      }
    }

    async function overwriteRecord(): Promise<void> {
      const at = await create(first.url, [{ x: 1 }]);
      await until(async () => (await statusOf(first.url, at)) === "success", `the end of ${at}`);
      const id = at.slice(at.lastIndexOf("/") + 1);
      await redis.client.hset(`${BASE}p:${id.slice(1, 5)}`, id, "foreign");
      for (const { url } of replicas) {
        const { status } = await fetch(new URL(at, url));
        if (status !== 404) tally.found("wrong", `${at} with a foreign record is answered with ${status}`);
      }
      tally.counts.checked += replicas.length;
    }

    for (let round = 0; round < (isLong ? ROUNDS.long : ROUNDS.short); round++) {
      for (const key of KEYS) await tally.inject(() => overwrite(key));
      await tally.inject(overwriteRecord);
    }
  },
};
