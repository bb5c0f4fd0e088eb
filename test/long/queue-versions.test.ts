/**
 * Replicas of two builds of a model with one Redis. They have separate queues unless a name joins them, and replace
 * each other under load without losing predictions.
 */
import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { ServeConfig } from "../../src/server/config.ts";
import type { PredictionBody } from "../helpers/client.ts";
import { fixture, tempDir } from "../helpers/fixture.ts";
import { nextTurn } from "../helpers/loop-turns.ts";
import { writeModel } from "../helpers/model-text.ts";
import { hasRedis, startRedis } from "../helpers/redis.ts";
import { until } from "../helpers/running.ts";
import { modelFolder, storeWith, type TestServer } from "../helpers/server.ts";

/** Number that each build adds to the outputs 2 x + 1. */
const beyond = { v1: 0, v2: 1000 };
type Version = keyof typeof beyond;
const CLIENTS = 4;

describe.skipIf(!hasRedis)(`replicas of two builds (with redis-server${hasRedis ? "" : ": not here"})`, () => {
  const redis = fixture(startRedis);
  const store = fixture(storeWith);
  beforeAll(async () => {
    await using source = await tempDir();
    const text = await Bun.file(join(modelFolder("lab"), "model.ts")).text();
    const builds = Object.entries(beyond).map(async ([version, more]) => {
      const changed = text.replace("(y.data[0] ?? 0)", `(y.data[0] ?? 0) + ${more}`);
      const folder = await writeModel(source, changed, version);
      return store.cliHere(["build", "--allow-random", "-t", `:${version}`, folder]);
    });
    expect((await Promise.all(builds)).map(({ stderr, code }) => (code === 0 ? "" : stderr))).toEqual(["", ""]);
  });

  const serve = (version: Version, config: Partial<ServeConfig> = {}) =>
    store.serve(`lab:${version}`, { queue: redis.url, ...config });

  /** Number of inputs that have ended, over all queues. More than the clients sent means that inputs ran twice. */
  async function endedInputs(): Promise<number> {
    const keys = await redis.client.keys("*:totals:*");
    const ended = await Promise.all(keys.map((key) => redis.client.hget(key, "ended")));
    return ended.map(Number).reduce((sum, each) => sum + each, 0);
  }

  beforeEach(() => redis.client.flushall());

  test("replace each other one by one under load, and each prediction has outputs of the build that accepted it", async () => {
    await using oldFront = await serve("v1", { role: "front" });
    await using oldWorker = await serve("v1", { role: "worker" });
    await using load = new Load([{ server: oldFront, version: "v1" }]);
    await load.ended(20);
    const [oldTotals = ""] = await redis.client.keys("*:totals:*");
    await using newFront = await serve("v2", { role: "front" });
    await using _newWorker = await serve("v2", { role: "worker" });
    load.use({ server: newFront, version: "v2" });
    await load.ended(20);
    await oldFront.stop();
    await until(async () => (await redis.client.hget(oldTotals, "items")) === "0");
    await oldWorker.stop();
    await load.ended(20);
    await load.stop();
    const outputs = await load.outputs(newFront);
    expect(outputs.filter(({ more, version }) => more !== beyond[version])).toEqual([]);
    expect(await endedInputs()).toBe(outputs.length);
  });

  test("read, wait for and cancel predictions of the other build, even without replicas of that build", async () => {
    await using newFront = await serve("v2", { role: "front" });
    const { client } = newFront;
    const oldFront = await serve("v1", { role: "front" });
    const demo = await oldFront.client.demos.create([{ x: 1 }]);
    const pending = await oldFront.client.create([{ x: 1 }]);
    const late = await oldFront.client.create([{ x: 2 }], { "Cancel-After": "0.1" });
    expect(await client.read(pending.prediction_id)).toEqual(pending);
    await oldFront.stop();
    expect(await client.cancel(pending.prediction_id)).toMatchObject({ status: "failed", error_message: "Canceled" });
    expect(await client.end(late.prediction_id)).toMatchObject({ error_message: expect.stringMatching(/ 0\.1 s$/) });
    await using _worker = await serve("v1", { role: "worker" });
    expect((await client.demos.end(demo.prediction_id)).status).toBe("success");
  });

  test("ignore data of an older sconce release under the same name", async () => {
    await redis.client.set("sconce:{joined}:work", "of another layout");
    await using front = await serve("v1", { queueName: "joined", role: "front" });
    expect((await front.client.create([{ x: 1 }])).status).toBe("pending");
  });

  test("can share a queue by its name: new replicas finish predictions that old replicas return", async () => {
    const config = { queueName: "joined" };
    await using old = await serve("v1", config);
    await using load = new Load([{ server: old, version: "v1" }]);
    await load.ended(20);
    await using next = await serve("v2", config);
    load.use({ server: next, version: "v2" });
    await load.ended(20);
    await old.stop();
    await load.ended(20);
    await load.stop();
    const outputs = await load.outputs(next);
    expect(new Set(outputs.map(({ more }) => more))).toEqual(new Set(Object.values(beyond)));
    expect(await endedInputs()).toBe(outputs.length);
  });
});

interface Replica {
  readonly server: TestServer;
  readonly version: Version;
}

interface Accepted {
  readonly version: Version;
  readonly x: number;
  readonly body: PredictionBody;
}

/**
 * Clients that send predictions to all replicas by turns, and to the next replica after a refusal. They record what
 * was accepted.
 */
class Load {
  readonly #replicas: Replica[];
  readonly #accepted: Accepted[] = [];
  readonly #clients: Promise<unknown>;
  #isStopped = false;

  constructor(replicas: readonly Replica[]) {
    this.#replicas = [...replicas];
    this.#clients = Promise.all(Array.from({ length: CLIENTS }, (_, i) => this.#ask(i)));
  }

  use(replica: Replica): void {
    this.#replicas.push(replica);
  }

  /** Resolves when clients have got `count` more outputs from the newest replica. */
  async ended(count: number): Promise<void> {
    const { version } = this.#replicas.at(-1) ?? {};
    const told = () =>
      this.#accepted.filter((each) => each.version === version && each.body.outputs !== undefined).length;
    const until = told() + count;
    while (told() < until) await Promise.race([this.#clients, nextTurn()]);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#clients;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // A failure of a client has already failed `ended` or `stop`.
    await this.stop().catch(() => {});
  }

  /** For each accepted prediction, its build and how far its output is from 2 x + 1. */
  outputs(reader: TestServer): Promise<{ version: Version; more: number }[]> {
    const ends = this.#accepted.map(async ({ version, x, body }) => {
      const { outputs } = await reader.client.end(body.prediction_id);
      return { version, more: Number(outputs?.[0]?.y) - (2 * x + 1) };
    });
    return Promise.all(ends);
  }

  async #ask(client: number): Promise<void> {
    for (let x = client; !this.#isStopped; x += CLIENTS) {
      const { server, version } = this.#replicas[Math.floor(x / CLIENTS) % this.#replicas.length] ?? {};
      if (server === undefined || version === undefined) continue;
      // A third of the requests does not wait for the end of the prediction.
      const headers = x % 3 === 0 ? {} : { Prefer: "wait" };
      // A replica that stops refuses requests or resets connections.
      const response = await server.client.post([{ x }], headers).catch(() => undefined);
      if (response === undefined || response.status === 503) continue;
      if (!response.ok) throw new Error(await response.text());
      this.#accepted.push({ version, x, body: (await response.json()) as PredictionBody });
    }
  }
}
