/**
 * Two models in one server: one is flooded, loaded, unloaded and killed, and the predictions of the other must stay
 * as they are.
 */
import { median } from "../../../bench/numbers.ts";
import { tempDir } from "../../helpers/temp-dir.ts";
import { until } from "../bounded.ts";
import type { Fault, Injection } from "../fault.ts";
import { timesOfGoodClient } from "../good-client.ts";
import { TestedServer } from "../tested-server.ts";
import { predict, Traffic } from "../traffic.ts";

const FLOODED = "/models/torture";
const QUIET = "/models/quiet";
/** Number of clients of the flood. Each sends its next request when it has an answer. */
const CLIENTS = 128;
/** Inputs of the floods. A batch of them takes 16 ms: the inputs sleep, or hold a core. */
const FLOODS = { sleeps: { sleepMs: 1 }, computes: { computeMs: 1 } };
type FloodKind = keyof typeof FLOODS;
/**
 * Requests before the long form measures. Until then JavaScriptCore compiles the server's code, on threads that compete
 * with the server for the cores.
 */
const WARM_UP = { requests: 100_000, clients: 32, ofGoodClient: 100 };
const PHASE_MS = { short: 500, long: 8000 };
const ROUNDS = { short: 1, long: 5 };
/**
 * Allowed ratio of latencies with and without the flood. Only the long form checks it: other programs slow down a
 * short run.
 */
const MAX_RATIO = 1.5;

export const models: Fault = {
  name: "models",
  title: "a flood, loads and unloads, and kills of one model leave the predictions of the other as they are",
  async inject(injection) {
    const { home } = injection;
    await using file = await listFile();
    const args = ["--models", file.path, "--keep-alive", "600", "--admin-port", "0"];
    await using server = await TestedServer.start({ home, args });
    await predict(server.url, [{ x: 1 }], `${FLOODED}/predictions`);
    // The flooded model was loaded first, so this is its engine process.
    const flooded = await server.child("engine");
    await predict(server.url, [{ x: 1 }], `${QUIET}/predictions`);
    const quiet = server.children("engine").find((pid) => pid !== flooded) ?? 0;
    if (injection.isLong) await warmUp(server.url);
    for (const kind of ["sleeps", "computes"] as const) await flood(injection, server, kind);
    await kill(injection, server, { flooded, quiet });
    await reload(injection, server);
  },
};

/** A file for `--models` that serves the same model under a second name. */
async function listFile() {
  const dir = await tempDir();
  const path = dir.join("models.toml");
  await Bun.write(path, '[[model]]\nmodel = "torture"\nname = "quiet"\n');
  return { path, [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose]() };
}

async function warmUp(url: URL): Promise<void> {
  const inputs = Array.from({ length: 8 }, (_, x) => ({ x }));
  let count = 0;
  const client = async (model: string) => {
    for (; count < WARM_UP.requests; count++)
      await predict(url, count % 2 === 0 ? inputs : [{ x: 1 }], `${model}/predictions`);
  };
  await Promise.all(Array.from({ length: WARM_UP.clients }, (_, i) => client(i % 2 === 0 ? FLOODED : QUIET)));
}

async function flood({ tally, isLong }: Injection, server: TestedServer, kind: FloodKind): Promise<void> {
  const uncounted = isLong ? WARM_UP.ofGoodClient : 0;
  const request = { url: new URL(`${QUIET}/predictions`, server.url).href, body: '[{"x": 2}]', uncounted };
  const phaseMs = isLong ? PHASE_MS.long : PHASE_MS.short;
  const ratios: number[] = [];
  for (let round = 0; round < (isLong ? ROUNDS.long : ROUNDS.short); round++) {
    await tally.inject(async () => {
      const alone = await timesOfGoodClient(request, Bun.sleep(phaseMs));
      const flooding = new Flood(server.url, kind);
      // Half a phase before the measurement, in which the server learns the load.
      await Bun.sleep(phaseMs / 2);
      const beside = await timesOfGoodClient(request, Bun.sleep(phaseMs));
      const answers = await flooding.stop();
      tally.counts.checked += alone.length + beside.length;
      const [quietMs, floodedMs] = [p99(alone), p99(beside)];
      ratios.push(floodedMs / quietMs);
      tally.note(
        `p99 of the quiet model ${quietMs.toFixed(1)} ms alone (${alone.length} requests), ${floodedMs.toFixed(1)} ms beside a flood that ${kind} (${beside.length} requests); the flood got ${[...answers].map(([status, count]) => `${count} × ${status}`).join(", ")}`,
      );
      const wrong = [...answers.keys()].filter((status) => ![200, 429].includes(status));
      if (wrong.length > 0) tally.found("wrong", `the flood was answered with ${wrong.join(", ")}`);
      if (!answers.has(200)) tally.found("stuck", "no request of the flood was answered with outputs");
    });
  }
  const ratio = median(ratios);
  tally.note(`p99 of the quiet model beside a flood that ${kind}: ${ratio.toFixed(2)} of its p99 alone`);
  if (isLong && ratio > MAX_RATIO)
    tally.found("stuck", `a flood makes the p99 of the other model ${ratio.toFixed(2)} times as long`);
}

function p99(ascending: readonly number[]): number {
  return ascending[Math.floor(0.99 * ascending.length)] ?? Number.NaN;
}

class Flood {
  readonly #answers = new Map<number, number>();
  readonly #clients: Promise<unknown>;
  #isOver = false;

  constructor(url: URL, kind: FloodKind) {
    const body = JSON.stringify(Array.from({ length: 8 }, (_, x) => ({ x, ...FLOODS[kind] })));
    const path = new URL(`${FLOODED}/predictions`, url);
    this.#clients = Promise.all(
      Array.from({ length: CLIENTS }, async () => {
        while (!this.#isOver) {
          const headers = { "Content-Type": "application/json", Prefer: "wait=60" };
          const answer = await fetch(path, { method: "POST", headers, body });
          await answer.arrayBuffer();
          this.#answers.set(answer.status, (this.#answers.get(answer.status) ?? 0) + 1);
        }
      }),
    );
  }

  /** Ends the flood. @returns the number of answers by status */
  async stop(): Promise<ReadonlyMap<number, number>> {
    this.#isOver = true;
    await this.#clients;
    return this.#answers;
  }
}

async function kill(
  { tally, random, isLong }: Injection,
  server: TestedServer,
  pids: { flooded: number; quiet: number },
) {
  const options = { url: server.url, tally, random, lastLines: () => server.lastLines };
  const isGivenUp = (message: string) => /SIGKILL.* while it ran this input alone/.test(message);
  const [own, other] = [
    new Traffic({ ...options, base: FLOODED, isGivenUp }),
    new Traffic({ ...options, base: QUIET }),
  ];
  const total = isLong ? 2000 : 150;
  const running = Promise.all([own.run(total), other.run(total)]);
  let engine = pids.flooded;
  for (let i = 1; i <= (isLong ? 10 : 2); i++) {
    const before = own.done;
    await tally.inject(async () => {
      process.kill(engine, "SIGKILL");
      await until(
        () => server.children("engine").some((pid) => pid !== engine && pid !== pids.quiet),
        () => `another engine process\n${server.lastLines}`,
      );
      engine = server.children("engine").find((pid) => pid !== pids.quiet) ?? 0;
      await until(
        () => own.done > before || own.done >= total,
        () => `an answer after a kill\n${server.lastLines}`,
      );
    });
  }
  await running;
  await Promise.all([own.verify(), other.verify()]);
  if (!server.children("engine").includes(pids.quiet)) tally.problem("the engine process of the other model has ended");
  if (other.retried > 0) tally.found("lost", `${other.retried} requests to the other model got no answer`);
}

/** Unloads one model between its predictions and loads it again, while clients use both. */
async function reload({ tally, random, isLong }: Injection, server: TestedServer): Promise<void> {
  const options = { url: server.url, tally, random, lastLines: () => server.lastLines };
  const all = [FLOODED, QUIET].map((base) => new Traffic({ ...options, base, clients: 1 }));
  const total = isLong ? 1000 : 100;
  const running = Promise.all(all.map((each) => each.run(total)));
  const move = (name: string, what: string) =>
    fetch(new URL(`/v2/repository/models/${name}/${what}`, server.adminUrl), { method: "POST" });
  for (let i = 0; i < (isLong ? 20 : 3); i++) {
    await tally.inject(async () => {
      const name = i % 2 === 0 ? "torture" : "quiet";
      for (const what of ["unload", "load"]) {
        const { status } = await move(name, what);
        if (status !== 200) tally.found("wrong", `${what} of ${name} was answered with ${status}`);
      }
    });
  }
  await running;
  for (const each of all) {
    await each.verify();
    if (each.retried > 0) tally.found("lost", `${each.retried} requests got no answer beside loads and unloads`);
  }
  tally.note(`${2 * total} predictions and demos of two models, beside loads and unloads`);
}
