/** Upgrades and a rollback under load, and kills of the newer or the older server at any moment of an upgrade. */
import { type Build, type BuildsStore, beyond, storeOfBuilds } from "../../helpers/builds.ts";
import { type RunningCli, startCli } from "../../helpers/cli.ts";
import { Client, type PredictionBody } from "../../helpers/client.ts";
import { freePort } from "../../helpers/free-port.ts";
import { ConnectionLoad } from "../../helpers/keep-alive.ts";
import { type TempDir, tempDir } from "../../helpers/temp-dir.ts";
import { comesTrue, until, within } from "../bounded.ts";
import type { Fault, Injection } from "../fault.ts";

export const upgrades: Fault = {
  name: "upgrades",
  title:
    "an upgrade and a rollback fail no request, and a kill of either server at any moment of an upgrade loses nothing",
  async inject(injection) {
    await using store = await storeOfBuilds();
    // The short form leaves this to test/upgrade.test.ts, which has the same load.
    if (injection.isLong) await underLoad(injection, store);
    for (let round = 0; round < (injection.isLong ? 10 : 1); round++) {
      for (const killed of ["newer", "older"] as const) await killedAnywhere(injection, store, killed);
    }
  },
};

const PAUSE_MS = 30;

interface Place {
  readonly store: BuildsStore;
  readonly dir: TempDir;
  readonly port: number;
}

function serve(build: Build, { store, dir, port }: Place): RunningCli {
  const options = ["--host", "127.0.0.1", "-p", String(port), "--store", dir.join("p.sqlite")];
  return startCli(["serve", `lab:${build}`, ...options], { env: { SCONCE_HOME: store.home, TMPDIR: dir.path } });
}

const buildOf = (store: BuildsStore, { model }: PredictionBody): Build =>
  store.names.v1 === `lab:${model?.tag}` ? "v1" : "v2";

async function underLoad({ tally }: Injection, store: BuildsStore): Promise<void> {
  await using dir = await tempDir();
  const place = { store, dir, port: freePort() };
  let server = serve("v1", place);
  await using servers = new AsyncDisposableStack();
  servers.use(server);
  await within(server.line("Listening on"), "the start");
  const load = new ConnectionLoad({ port: place.port, keeping: 4, renewing: 4 });
  const total = 20_000;
  const builds: readonly Build[] = ["v2", "v1", "v2", "v1"];
  /**
   * Periods of the upgrades: `whole` from the start of the newer server to the end of the older, `takeovers` only
   * from the takeover on.
   */
  const whole: Span[] = [];
  const takeovers: Span[] = [];
  for (const [i, build] of builds.entries()) {
    await until(() => load.sent >= ((i + 1) * total) / (builds.length + 2), "the load between two upgrades", 300_000);
    await tally.inject(async () => {
      const beganMs = performance.now();
      const newer = servers.use(serve(build, place));
      await within(server.line("takes over"), `the takeover\n${newer.lines.slice(-5).join("\n")}`);
      const takenMs = performance.now();
      const code = await within(server.exited, "the end of the older server");
      if (code !== 0) tally.problem(`the older server ended with code ${code}`);
      await within(newer.line("The older server has ended"), "the end of the upgrade");
      whole.push([beganMs, performance.now()]);
      takeovers.push([takenMs, performance.now()]);
      server = newer;
    });
  }
  await until(() => load.sent >= total, "the rest of the load", 300_000);
  await load.stop();
  for (const failure of load.failures) tally.found("lost", failure);
  const client = new Client(new URL(`http://127.0.0.1:${place.port}`));
  for (const { x, body } of load.answers) {
    tally.counts.checked += 1;
    if (body.outputs?.[0]?.y !== 2 * x + 1 + beyond[buildOf(store, body)]) tally.found("wrong", JSON.stringify(body));
  }
  for (const { body } of load.answers.filter((_, i) => i % 10 === 0)) {
    const read = await client.fetch(`/predictions/${body.prediction_id}`);
    if (read.status !== 200) tally.found("lost", `${body.prediction_id} answers ${read.status} after the upgrades`);
    await read.arrayBuffer();
  }
  const p99 = (during: (atMs: number) => boolean) => {
    const sorted = load.answers
      .filter(({ atMs }) => during(atMs))
      .map(({ ms }) => ms)
      .sort((a, b) => a - b);
    return sorted[Math.floor(0.99 * sorted.length)] ?? Number.NaN;
  };
  const quiet = p99((ms) => !isIn(whole, ms));
  const set = (spans: readonly Span[]) => (p99((ms) => isIn(spans, ms)) / quiet).toFixed(2);
  tally.note(
    `${load.sent} requests, ${load.failures.length} failed; p99 ${quiet.toFixed(1)} ms in quiet, times ${set(whole)} from the start of a newer server on, times ${set(takeovers)} from the takeover on`,
  );
}

type Span = readonly [beginMs: number, endMs: number];
const isIn = (spans: readonly Span[], ms: number) => spans.some(([begin, end]) => ms >= begin && ms <= end);

/**
 * Kills a server at a random moment of an upgrade. All acknowledged predictions must end, each with the output of the
 * build that it names.
 */
async function killedAnywhere(
  { tally, random }: Injection,
  store: BuildsStore,
  killed: "newer" | "older",
): Promise<void> {
  await using dir = await tempDir();
  const place = { store, dir, port: freePort() };
  await using older = serve("v1", place);
  await within(older.line("Listening on"), "the start");
  const client = new Client(new URL(`http://127.0.0.1:${place.port}`));
  const accepted = new Map<string, number>();
  let isStopping = false;
  // The newer server starts at low priority, so a client without pauses would delay its start.
  let pauseMs = PAUSE_MS;
  const creating = (async () => {
    for (let x = 0; !isStopping; x = (x + 1) % 400) {
      try {
        const { prediction_id: id } = await client.create([{ x }], { Connection: "close" });
        accepted.set(id, x);
      } catch {
        // The server was killed and refuses connections. Only acknowledged predictions count.
        await Bun.sleep(PAUSE_MS);
      }
      if (pauseMs > 0) await Bun.sleep(pauseMs);
    }
  })();
  await using newer = serve("v2", place);
  await within(older.line("A newer server"), "the begin of the upgrade");
  const isBefore = random() < 0.3;
  if (!isBefore) {
    await within(newer.line("Listening on"), "the takeover");
    pauseMs = 0;
  }
  await Bun.sleep(1500 * random());
  await tally.inject(async () => {
    (killed === "newer" ? newer : older).kill("SIGKILL");
    await (killed === "newer" ? newer : older).exited;
    // Whether a server is left. If the older server had ended before the newer was killed, none is, and another is
    // started.
    const answers = () =>
      client.fetch("/health/ready", { headers: { Connection: "close" } }).then(
        ({ ok }) => ok,
        () => false,
      );
    const hasServer = async () => await comesTrue(answers, 20_000);
    await using next = (await hasServer()) ? undefined : serve("v1", place);
    await next?.line("Listening on");
    isStopping = true;
    await creating;
    for (const [id, x] of accepted) {
      let body: PredictionBody | undefined;
      const ends = await comesTrue(async () => {
        const answer = await client
          .fetch(`/predictions/${id}`, { headers: { Prefer: "wait=5", Connection: "close" } })
          .catch(() => undefined);
        if (answer?.status === 404) return true;
        body = answer?.ok ? ((await answer.json()) as PredictionBody) : undefined;
        return body?.status === "success" || body?.status === "failed";
      });
      tally.counts.checked += 1;
      if (!ends) tally.found("stuck", `${id} after a kill of the ${killed} server`);
      else if (body === undefined) tally.found("lost", `${id} after a kill of the ${killed} server`);
      else if (body.outputs?.[0]?.y !== 2 * x + 1 + beyond[buildOf(store, body)])
        tally.found("wrong", JSON.stringify(body));
    }
  });
}
