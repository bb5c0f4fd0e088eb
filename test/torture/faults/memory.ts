/** Random mixtures of all that takes a server's memory, and how much of it the server takes. */
import { type Attack, attackerFiles, attacks } from "../attacks.ts";
import { comesTrue, within } from "../bounded.ts";
import type { Fault, Injection } from "../fault.ts";
import { MemoryMeter } from "../memory-meter.ts";
import { TestedServer } from "../tested-server.ts";

const MAX_MEMORY = 512 * 2 ** 20;
/** What the account does not see: pages that were freed and that the allocators keep for a while, code that had not run, threads. */
const ALLOWANCE = 128 * 2 ** 20;
/** Longest time of one attack, or of one mixture. */
const ATTACK_MS = { short: 6000, long: 15_000 };
const MIXTURES = 12;
const OF_ONE_MIXTURE = 5;
/** Of the short form: always the same, as random ones go beyond the limit now and then, which the long form is to find. */
const SHORT_MIXTURE: readonly string[] = [
  "demo results of 8 MB",
  "32 progressive JPEGs of 5,000 scans",
  "32 PNGs of 6 kB with 7000 × 7000 pixels",
  "empty tensors of 0x60000000 layers",
  "two padded dimensions whose product is large",
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
      if (isLong) await withstand(injection, files.url, mixtures, ["--retain-count", "0"]);
    } finally {
      await files.stop(true);
    }
  },
};

/** One mixture after the other, on one server. */
async function withstand(
  { tally, home, isLong }: Injection,
  files: URL,
  mixtures: readonly (readonly Attack[])[],
  args: readonly string[] = [],
): Promise<void> {
  const limits = ["--max-memory", String(MAX_MEMORY), "--allow-private-urls", "--fetch-timeout", "5"];
  await using server = await TestedServer.start({ home, model: "greedy", args: [...limits, ...args] });
  const good = new GoodClient(server.url);
  // Code that runs for the first time takes memory that is not for clients.
  for (let i = 0; i < 20; i++) await good.sendOne();
  using meter = new MemoryMeter(server.processes());
  const idle = meter.takePeak();
  for (const mixture of mixtures) {
    const name = [...args, mixture.map((attack) => attack.name).join("; ")].join(" ");
    await tally.inject(async () => {
      const ending = AbortSignal.timeout(isLong ? ATTACK_MS.long : ATTACK_MS.short);
      const target = { url: server.url, files, signal: ending };
      const attacking = Promise.all(mixture.map((attack) => attack.run(target)));
      const answered = await good.during(attacking);
      const over = meter.takePeak() - idle - MAX_MEMORY;
      tally.counts.checked += answered;
      tally.note(`${megabytes(over + MAX_MEMORY)} MB over idle, ${answered} good requests answered: ${name}`);
      if (over > ALLOWANCE) tally.found("leaked", `${megabytes(over)} MB over the limit: ${name}\n${server.lastLines}`);
      if (answered === 0) tally.found("stuck", `no good request was answered beside: ${name}\n${server.lastLines}`);
    });
  }
}

function megabytes(bytes: number): string {
  return (bytes / 2 ** 20).toFixed(0);
}

/** Sends one small request after the other, and each again while the server has no room for it. */
class GoodClient {
  readonly #url: URL;

  constructor(url: URL) {
    this.#url = url;
  }

  /** @returns how many were answered; the last one may have been after the end */
  async during(others: Promise<unknown>): Promise<number> {
    let isOver = false;
    const over = others.finally(() => {
      isOver = true;
    });
    let answered = 0;
    for (; !isOver || answered === 0; answered++) await this.sendOne();
    await within(over, "the end of the attacks");
    return answered;
  }

  async sendOne(): Promise<void> {
    const isAnswered = async () => {
      const response = await fetch(new URL("/predictions", this.#url), {
        method: "POST",
        headers: { "Content-Type": "application/json", Prefer: "wait=60" },
        body: "[{}]",
      });
      const text = await response.text();
      if (response.status === 429) return false;
      if (text.includes('"status":"success"')) return true;
      throw new Error(`a good request was answered with ${response.status}: ${text.slice(0, 300)}`);
    };
    if (!(await comesTrue(isAnswered))) throw new Error("a good request was never taken");
  }
}
