/** Models are loaded and unloaded as memory allows. Clock and memory are simulated. */
import { describe, expect, test } from "bun:test";
import { SconceError } from "../src/base/errors.ts";
import { ModelStore } from "../src/package/store/store.ts";
import { EngineLoads } from "../src/server/engine-loads.ts";
import { ModelTable } from "../src/server/model-table.ts";
import { fixture } from "./helpers/fixture.ts";
import { settle } from "./helpers/loop-turns.ts";
import { storeWith } from "./helpers/server.ts";
import { SimulatedClock } from "./helpers/simulation.ts";

const lab = fixture(() => storeWith("lab"));

/** A server with three models, of which memory can hold two. */
async function server({ failures = 0 } = {}) {
  const packaged = await new ModelStore(lab.home).resolve("lab");
  /** Memory that a loaded model needs: its weights, and 300 MiB for its engine process. */
  const needed = packaged.size + 300 * 2 ** 20;
  const clock = new SimulatedClock();
  const log: string[] = [];
  const loaded = new Set<string>();
  /** For each model, milliseconds since its last prediction; 0 while one runs. */
  const idleMs = [0, 0, 0];
  let left = failures;
  const table = new ModelTable();
  const builds = ["a", "b", "c"].map((name, slot) => {
    const engine = {
      socket: undefined,
      ended: undefined,
      async start() {
        if (left-- > 0) throw new SconceError("weights_invalid", "no such file");
        loaded.add(name);
        log.push(`load ${name}`);
      },
      async stop() {
        loaded.delete(name);
        log.push(`unload ${name}`);
      },
    };
    return table.add({ served: { name, packaged, options: {} }, slot, engine, counts: "" });
  });
  const idleOf = (number: number) => idleMs[builds.findIndex((build) => build.number === number)] ?? 0;
  /** The states of the models in each snapshot. */
  const published: string[] = [];
  const fronts = {
    async publish() {
      const { models } = table.snapshot();
      published.push(models.map(({ state, reason = "" }) => `${state} ${reason}`.trim()).join(", "));
      const draining = models.filter(({ state }) => state === "draining");
      return new Set(draining.map(({ number }) => number).filter((number) => idleOf(number) === 0));
    },
    idleMs: async (number: number) => idleOf(number),
  };
  const freeBytes = () => (2.5 - loaded.size) * needed;
  const loads = new EngineLoads({ table, fronts, freeBytes, clock });
  const of = (model: number) => builds[model] ?? raise(model);
  return {
    clock,
    log,
    loaded,
    idleMs,
    published,
    start: (model: number, isPreload?: boolean) => loads.start(of(model), isPreload),
    load: (model: number, isUrgent: boolean) => loads.load(of(model), isUrgent),
    unload: (model: number) => loads.unload(of(model)),
  };
}

function raise(model: number): never {
  throw new RangeError(`there is no model ${model}`);
}

describe("a model that does not fit in memory beside the loaded models", () => {
  test("takes the place of the model that was used least recently", async () => {
    const { start, log, idleMs } = await server();
    await start(0);
    await start(1);
    idleMs[0] = 20;
    idleMs[1] = 900;
    await start(2);
    expect(log).toEqual(["load a", "load b", "unload b", "load c"]);
  });

  test("waits while all loaded models work, and takes the place of the first that is idle", async () => {
    const { start, log, idleMs, clock } = await server();
    await start(0);
    await start(1);
    const starting = start(2);
    for (let i = 0; i < 5; i++) {
      await settle();
      await clock.advanceTo(clock.now() + 100);
    }
    expect(log).toEqual(["load a", "load b"]);
    idleMs[0] = 1;
    await settle();
    await clock.advanceTo(clock.now() + 100);
    await starting;
    expect(log).toEqual(["load a", "load b", "unload a", "load c"]);
  });

  test("unloads no other model at the start of the server, but waits for its first prediction", async () => {
    const { start, log, idleMs } = await server();
    for (const model of [0, 1]) await start(model, true);
    idleMs.fill(900);
    await start(2, true);
    expect(log).toEqual(["load a", "load b"]);
    await start(2);
    expect(log).toContain("load c");
  });
});

describe("a failed load", () => {
  test("is tried again ten seconds later, for a prediction", async () => {
    const { load, log, published, clock } = await server({ failures: 1 });
    await load(0, false);
    expect(published.at(-1)).toBe("failed the weights cannot be used, unloaded, unloaded");
    await load(0, false);
    await clock.advanceTo(9900);
    await settle();
    expect(log).toEqual([]);
    await clock.advanceTo(10_100);
    await settle();
    expect(log).toEqual(["load a"]);
  });

  test("leaves its memory to other models", async () => {
    const { start, load, log } = await server({ failures: 1 });
    await load(0, false);
    await start(1);
    await start(2);
    expect(log).toEqual(["load b", "load c"]);
  });
});

test("a model goes through its states in order, and back to ready if a front still needs it", async () => {
  const { start, unload, log, published, idleMs, clock } = await server();
  await start(0);
  const unloading = unload(0);
  for (let i = 0; i < 3; i++) {
    await settle();
    await clock.advanceTo(clock.now() + 100);
  }
  idleMs[0] = 1;
  await settle();
  // A prediction that arrives while the model is drained loads it again.
  const starting = clock.advanceTo(clock.now() + 100).then(() => start(0));
  await Promise.all([unloading, starting]);
  const states = published.map((models) => models.split(",")[0]).filter((state, i, all) => state !== all[i - 1]);
  expect(states.slice(0, 5)).toEqual(["loading", "ready", "draining", "ready", "draining"]);
  expect(states.slice(-4)).toEqual(["draining", "unloaded", "loading", "ready"]);
  expect(log).toEqual(["load a", "unload a", "load a"]);
});
