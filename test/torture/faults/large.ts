/** Bodies of 60 MB beside small requests. */
import type { Fault, Injection } from "../fault.ts";
import { TestedServer } from "../tested-server.ts";
import { create, predict } from "../traffic.ts";

/** Bytes of the texts of two inputs in one body. One input has at most 36 MiB. */
const LARGE_BYTES = 35_000_000;
const OTHER_BYTES = 25_000_000;
/** Milliseconds between small requests, which leave the processor to the large ones. */
const PAUSE_MS = 5;

export const large: Fault = {
  name: "large",
  title: "a body of 60 MB shuts out no small request, and survives a kill",
  async inject(injection) {
    await largeBodies(injection);
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
      const sending = predict(server.url, [{ x: 1, note }, { x: 2, note: note.slice(0, OTHER_BYTES) }, { x: 3 }]);
      await beside.runWhile(sending);
      const { outputs } = await sending;
      tally.counts.checked += 1;
      const lengths = outputs?.slice(0, 2).map(({ length }) => length);
      if (lengths?.[0] !== LARGE_BYTES || lengths[1] !== OTHER_BYTES || outputs?.[2]?.y !== 9) {
        tally.found("wrong", `a body of ${LARGE_BYTES + OTHER_BYTES} bytes: ${JSON.stringify(outputs)?.slice(0, 300)}`);
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
