/** Bodies of 60 MB, and results that exceed `--retain-bytes`, beside small requests. */
import { readdirSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { until } from "../bounded.ts";
import type { Fault, Injection } from "../fault.ts";
import { TestedServer } from "../tested-server.ts";
import { create, predict } from "../traffic.ts";

const LARGE_BYTES = 60_000_000;
const ECHO_BYTES = 100_000;
const BUDGET_BYTES = 1_000_000;
/** Milliseconds between small requests, which leave the processor to the large ones. */
const PAUSE_MS = 5;

export const large: Fault = {
  name: "large",
  title:
    "a body of 60 MB and results beyond the budget of bytes shut out no small request, and what was told of them is kept",
  async inject(injection) {
    await largeBodies(injection);
    await smallBudget(injection);
  },
};

async function largeBodies({ tally, home, isLong }: Injection): Promise<void> {
  await using server = await TestedServer.start({ home });
  const note = "n".repeat(LARGE_BYTES);
  const alone = new Small(server.url);
  if (isLong) {
    await alone.runWhile(Bun.sleep(5000));
    tally.note(`small requests with nothing beside them: ${alone.latencies}`);
  }
  for (let round = 0; round < (isLong ? 5 : 1); round++) {
    const beside = new Small(server.url);
    await tally.inject(async () => {
      const sending = predict(server.url, [{ x: 1, note }, { x: 2 }]);
      await beside.runWhile(sending);
      const { outputs } = await sending;
      tally.counts.checked += 1;
      if (outputs?.[0]?.length !== LARGE_BYTES || outputs[1]?.y !== 6) {
        tally.found("wrong", `a body of ${LARGE_BYTES} bytes: ${JSON.stringify(outputs)?.slice(0, 300)}`);
      }
      if (beside.count === 0) tally.found("stuck", "no small request was answered beside a large one");
      for (const problem of beside.problems) tally.found("wrong", problem);
      tally.note(`beside 60 MB ${beside.count} small requests were answered${isLong ? `: ${beside.latencies}` : ""}`);
    });
  }
  await tally.inject(async () => {
    const length = isLong ? LARGE_BYTES : LARGE_BYTES / 10;
    const at = await create(server.url, [{ x: 7, note: note.slice(0, length) }]);
    await server.kill();
    await server.started();
    const record = await (await fetch(new URL(at, server.url), { headers: { Prefer: "wait=60" } })).text();
    tally.counts.checked += 1;
    if (!record.includes(`"length":${length}`))
      tally.found("lost", `${length / 1e6} MB over a kill: ${record.slice(0, 500)}\n${server.lastLines}`);
  });
}

async function smallBudget({ tally, home, isLong }: Injection): Promise<void> {
  const store = ["--retain-bytes", String(BUDGET_BYTES)];
  await using server = await TestedServer.start({ home, args: store });
  const total = isLong ? 2000 : 60;
  const told: string[] = [];
  const beside = new Small(server.url);
  await tally.inject(async () => {
    const sending = (async () => {
      for (let i = 0; i < total; i++) {
        told.push(await create(server.url, [{ x: i, note: noteOf(i), echo: true }]));
        if (told.length % 20 === 0) await ended(server.url, told.at(-1) ?? "");
      }
      await ended(server.url, told.at(-1) ?? "");
    })();
    await beside.runWhile(sending);
    await sending;
    for (const problem of beside.problems) tally.found("wrong", problem);
    await server.kill();
    await server.started();
    await lookBack(server, told, tally);
  });
  tally.note(
    `beside ${total} results of 100 kB ${beside.count} small requests were answered${isLong ? `: ${beside.latencies}` : ""}`,
  );
}

/**
 * Checks retention after a restart: the newest results exist, the oldest do not, and the existing results together are
 * about as large as the limit.
 */
async function lookBack(server: TestedServer, told: readonly string[], tally: Injection["tally"]): Promise<void> {
  // Predictions that ended just before the kill may run again, so their ends are awaited.
  for (const at of told) await ended(server.url, at);
  let bytes = 0;
  let isGone = false;
  for (const [i, at] of [...told.entries()].reverse()) {
    const response = await fetch(new URL(at, server.url));
    const text = await response.text();
    tally.counts.checked += 1;
    if (response.status === 404) isGone = true;
    else if (response.status !== 200) tally.found("wrong", `${at}: ${response.status} ${text.slice(0, 300)}`);
    else if (isGone) tally.found("wrong", `${at} is there and a newer one is not`);
    else if (!text.includes(noteOf(i))) tally.found("wrong", `${at} has another's output: ${text.slice(0, 300)}`);
    else bytes += text.length;
  }
  // 2 percent more than the limit, since a record also has an id and times.
  if (bytes > 1.02 * BUDGET_BYTES)
    tally.found("leaked", `${bytes} bytes of results are kept, and ${BUDGET_BYTES} may be`);
  if (bytes < BUDGET_BYTES - 4 * ECHO_BYTES)
    tally.found("lost", `only ${bytes} bytes of results are kept of ${BUDGET_BYTES}`);
  tally.note(
    `${bytes} bytes of results kept of a budget of ${BUDGET_BYTES}, in files of ${fileBytes(server.storePath)} bytes`,
  );
}

function noteOf(i: number): string {
  return `${i}-`.repeat(ECHO_BYTES).slice(0, ECHO_BYTES);
}

async function ended(url: URL, at: string): Promise<void> {
  await until(async () => {
    const response = await fetch(new URL(at, url), { headers: { Prefer: "wait=60" } });
    const text = await response.text();
    // 404: the prediction may have ended and been evicted.
    return response.status === 404 || text.includes('"status":"success"');
  }, `the end of ${at}`);
}

/** Bytes of the database and of all files whose names begin like its name. */
function fileBytes(path: string): number {
  const folder = dirname(path);
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) =>
    name.startsWith(basename(path)),
  );
  return names.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
}

/** A client that sends small requests one after another. */
class Small {
  readonly problems: string[] = [];
  readonly #url: URL;
  readonly #ms: number[] = [];

  constructor(url: URL) {
    this.#url = url;
  }

  /** Number of requests that were answered. */
  get count(): number {
    return this.#ms.length;
  }

  /** Latencies for the report; no check uses them. */
  get latencies(): string {
    const sorted = this.#ms.toSorted((a, b) => a - b);
    const at = (part: number) => (sorted[Math.floor(part * (sorted.length - 1))] ?? 0).toFixed(1);
    return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, most ${at(1)} ms`;
  }

  async runWhile(others: Promise<unknown>): Promise<void> {
    let isOver = false;
    const over = () => {
      isOver = true;
    };
    others.then(over, over);
    for (let x = 0; !isOver; x++) {
      const began = performance.now();
      const { outputs } = await predict(this.#url, [{ x }]);
      if (isOver) return;
      this.#ms.push(performance.now() - began);
      await Bun.sleep(PAUSE_MS);
      if (outputs?.[0]?.y !== 3 * x) this.problems.push(`a small request with x ${x}: ${JSON.stringify(outputs)}`);
    }
  }
}
