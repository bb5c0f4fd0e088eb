/** Random combinations of everything that takes memory of a server, and how much memory the server takes. */
import { type Attack, attackerFiles, attacks } from "../attacks.ts";
import type { Fault, Injection } from "../fault.ts";
import { timesOfGoodClient } from "../good-client.ts";
import { MemoryMeter } from "../memory-meter.ts";
import { TestedServer } from "../tested-server.ts";

const MAX_MEMORY = 512 * 2 ** 20;
/** Bytes outside the server's account: freed pages that allocators keep, code that runs for the first time, threads. */
const ALLOWANCE = 128 * 2 ** 20;
/** Milliseconds of one attack, or of one combination of attacks. */
const ATTACK_MS = { short: 2000, long: 15_000 };
const MIXTURES = 12;
const OF_ONE_MIXTURE = 5;
/** Names of the attacks that the short form runs at once. The long form combines attacks at random. */
const SHORT_MIXTURE: readonly string[] = [
  "demo results of 8 MB",
  "32 progressive JPEGs of 5,000 scans",
  "32 PNGs of 6 kB with 7000 × 7000 pixels",
  "empty tensors of 0x60000000 layers",
  "two padded dimensions whose product is large",
  "12 forms of 9,998 parts in 32 places each",
  "14 forms of 50 MB of parameters, compressed",
];

export const memory: Fault = {
  name: "memory",
  title:
    "whatever clients send, a server's processes stay within --max-memory together, and serve a good client beside it",
  async inject(injection) {
    const { random, isLong } = injection;
    const files = attackerFiles();
    try {
      if (isLong) for (const attack of attacks) await withstand(injection, files.url, [[attack]]);
      const mixtures = isLong
        ? Array.from({ length: MIXTURES }, () =>
            Array.from({ length: OF_ONE_MIXTURE }, () => attacks[Math.floor(random() * attacks.length)] ?? []).flat(),
          )
        : [attacks.filter(({ name }) => SHORT_MIXTURE.includes(name))];
      await withstand(injection, files.url, mixtures);
      if (isLong) await withstand(injection, files.url, mixtures, ["--retain-age", "0"]);
    } finally {
      await files.stop(true);
    }
  },
};

/**
 * Runs combinations of attacks one after another on one server, and checks its memory and the answers to a good
 * client.
 */
async function withstand(
  { tally, home, isLong }: Injection,
  files: URL,
  mixtures: readonly (readonly Attack[])[],
  args: readonly string[] = [],
): Promise<void> {
  const limits = ["--max-memory", String(MAX_MEMORY), "--allow-private-urls"];
  await using server = await TestedServer.start({ home, model: "greedy", args: [...limits, ...args] });
  // A good client runs all code once, because the first run takes memory that is not for clients.
  const good = { url: new URL("/predictions", server.url).href, body: "[{}]" };
  await timesOfGoodClient(good, Bun.sleep(500));
  using meter = new MemoryMeter(server.processes());
  const idle = meter.takePeak();
  for (const mixture of mixtures) {
    const name = [...args, mixture.map((attack) => attack.name).join("; ")].join(" ");
    await tally.inject(async () => {
      const ending = AbortSignal.timeout(isLong ? ATTACK_MS.long : ATTACK_MS.short);
      const target = { url: server.url, files, signal: ending };
      const attacking = Promise.all(mixture.map((attack) => attack.run(target)));
      const times = await timesOfGoodClient(good, attacking);
      const answered = times.length;
      const slowestMs = times[Math.floor(0.95 * answered)] ?? 0;
      const over = meter.takePeak() - idle - MAX_MEMORY;
      tally.counts.checked += answered;
      tally.note(
        `${megabytes(over + MAX_MEMORY)} MB over idle, ${answered} good requests answered, 95 % of them within ${slowestMs.toFixed(0)} ms: ${name}`,
      );
      if (over > ALLOWANCE) tally.found("leaked", `${megabytes(over)} MB over the limit: ${name}\n${server.lastLines}`);
    });
  }
}

function megabytes(bytes: number): string {
  return (bytes / 2 ** 20).toFixed(0);
}
