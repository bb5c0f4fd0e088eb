/** Models are loaded and unloaded as memory allows. Clock and memory are simulated. */
import { describe, expect, test } from "bun:test";
import { SconceError } from "../src/base/errors.ts";
import { EngineLoads, type LoadedFronts } from "../src/server/engine-loads.ts";
import { SimulatedClock } from "./helpers/simulation.ts";

const MEGABYTE = 2 ** 20;
/** Memory of a model's weights, without the memory of its engine process. */
const MODEL_BYTES = 100 * MEGABYTE;
/** Memory that a loaded model needs: its weights, and 300 MiB for its engine process. */
const NEEDED = 400 * MEGABYTE;

/** A server with three models, of which memory can hold two. */
function server({ failures = 0 } = {}) {
  const clock = new SimulatedClock();
  const log: string[] = [];
  const loaded = new Set<string>();
  /** For each model, milliseconds since its last prediction; 0 while one runs. */
  const idleMs = [0, 0, 0];
  let left = failures;
  const names = ["a", "b", "c"];
  const engines = names.map((name) => ({
    name,
    bytes: MODEL_BYTES,
    async start() {
      if (left-- > 0) throw new SconceError("weights_invalid", "no such file");
      loaded.add(name);
      log.push(`load ${name}`);
    },
    async stop() {
      loaded.delete(name);
      log.push(`unload ${name}`);
    },
  }));
  const failed: string[] = [];
  const frontsOf = (model: number): LoadedFronts => ({
    failed: (reason) => failed.push(`${names[model]}: ${reason}`),
    changed: () => {},
    idleMs: async () => idleMs[model] ?? 0,
    release: async () => (idleMs[model] ?? 0) > 0,
  });
  const models = engines.map((engine, model) => ({ engine, fronts: frontsOf(model) }));
  const freeBytes = () => (2.5 - loaded.size) * NEEDED;
  const loads = new EngineLoads({ models, freeBytes, clock });
  return { clock, loads, log, loaded, idleMs, failed };
}

/** Lets all pending promises of a load settle. */
const settle = async () => {
  for (let i = 0; i < 50; i++) await Promise.resolve();
};

describe("a model that does not fit in memory beside the loaded models", () => {
  test("takes the place of the model that was used least recently", async () => {
    const { loads, log, idleMs } = server();
    await loads.start(0);
    await loads.start(1);
    idleMs[0] = 20;
    idleMs[1] = 900;
    await loads.start(2);
    expect(log).toEqual(["load a", "load b", "unload b", "load c"]);
  });

  test("waits while all loaded models work, and takes the place of the first that is idle", async () => {
    const { loads, log, idleMs, clock } = server();
    await loads.start(0);
    await loads.start(1);
    const starting = loads.start(2);
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
    const { loads, log, idleMs } = server();
    for (const model of [0, 1]) await loads.start(model, true);
    idleMs.fill(900);
    await loads.start(2, true);
    expect(log).toEqual(["load a", "load b"]);
    await loads.start(2);
    expect(log).toContain("load c");
  });
});

describe("a failed load", () => {
  test("is tried again ten seconds later, for a prediction", async () => {
    const { loads, log, failed, clock } = server({ failures: 1 });
    await loads.load(0, false);
    expect(failed).toEqual(["a: the weights cannot be used"]);
    await loads.load(0, false);
    await clock.advanceTo(9900);
    await settle();
    expect(log).toEqual([]);
    await clock.advanceTo(10_100);
    await settle();
    expect(log).toEqual(["load a"]);
  });

  test("is tried again at once for a request to load", async () => {
    const { loads, log } = server({ failures: 1 });
    await loads.load(0, false);
    await loads.load(0, true);
    expect(log).toEqual(["load a"]);
  });

  test("leaves its memory to other models", async () => {
    const { loads, log } = server({ failures: 1 });
    await loads.load(0, false);
    await loads.start(1);
    await loads.start(2);
    expect(log).toEqual(["load b", "load c"]);
  });
});
