/** Load that comes at a rate, whatever the server does with it, made in a process of its own; and latencies under shares of what it can do. */
import { join } from "node:path";
import { z } from "../src/model/z.ts";
import { Child } from "./child.ts";
import { warmUpSeconds } from "./comparison.ts";
import type { CaseOptions, Measurement } from "./measurement.ts";
import { connectedNetwork } from "./networks.ts";
import { ms, perSecond } from "./report.ts";
import { raw, sconce } from "./targets.ts";
import { inTurns, median, sum } from "./turns.ts";

export const offeredRequestSchema = z.object({
  perSecond: z.number(),
  seconds: z.number(),
  /** Clients leave after this long; by default they stay. */
  patienceMs: z.number().optional(),
});

/** JSON knows no NaN, which is the percentile of nothing. */
const percentileSchema = z
  .number()
  .nullable()
  .transform((value) => value ?? Number.NaN);

const offeredAnswerSchema = z.object({
  offered: z.int(),
  /** Requests that came to nothing: answered with an error, their connection ended, their client left before, not answered in time. */
  failed: z.object({ refused: z.int(), lost: z.int(), left: z.int(), unanswered: z.int() }),
  /** Answered before the time was over. */
  perSecond: z.number(),
  /** From when a request was to be sent. */
  p50Ms: percentileSchema,
  p99Ms: percentileSchema,
  /** The same of those that were answered with an error. */
  refusedP99Ms: percentileSchema,
  /** How late requests were sent, which is part of their latency but not the server's doing. */
  lateP99Ms: percentileSchema,
});

export type OfferedRequest = z.infer<typeof offeredRequestSchema>;
export type OfferedAnswer = z.infer<typeof offeredAnswerSchema>;

export class OfferedLoad implements AsyncDisposable {
  readonly #child: Child;

  /** @param of.url what is posted to; @param of.bodies a file with one request body a line */
  constructor({ url, bodies }: { url: string; bodies: string }) {
    // So many at once that no request waits for the answer of another one.
    const env = { BUN_CONFIG_MAX_HTTP_REQUESTS: "20000" };
    this.#child = new Child([process.execPath, join(import.meta.dir, "open-loop.ts"), url, bodies], { env });
  }

  async run(request: OfferedRequest): Promise<OfferedAnswer> {
    return offeredAnswerSchema.parse(await this.#child.ask(request));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#child[Symbol.asyncDispose]();
  }
}

const SHARES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1];
/** Of the limit; its latencies are the ones that the table shows. */
const SHOWN = 0.7;
/** What is compared are percentiles of a random load, which takes more requests than a rate does. */
const LONG_TURNS = 2;

/** How long predictions take when they are not waited for, by shares of what the raw loop does. */
export async function offeredLoad(options: CaseOptions): Promise<Measurement> {
  const { seconds, repeats, canary } = options;
  const network = await connectedNetwork("mlp");
  await using served = await sconce()(network);
  await using loop = await raw(64)(network);
  await served.check();
  await served.measure({ connections: 64, seconds: warmUpSeconds(seconds) });
  await using load = new OfferedLoad(served);
  let limit = 0;
  const turns = await inTurns(
    repeats * SHARES.length,
    async () => {
      await canary.listen();
      limit = (await loop.measure({ connections: 1, seconds })).perSecond;
      return limit;
    },
    async (turn) => {
      const share = SHARES[turn % SHARES.length] ?? 1;
      const done = await load.run({ perSecond: share * limit, seconds: seconds * LONG_TURNS });
      await served.check();
      return { share, ...done };
    },
  );
  const loads = turns.map(({ measured }) => measured);
  const medianLimit = median(turns.map(({ before }) => before));
  const atShare = (share: number) => loads.filter((each) => each.share === share);
  const line = (name: string, pick: (done: OfferedAnswer) => number) => ({
    plot: "offered" as const,
    name,
    points: SHARES.map((x) => ({ x, y: median(atShare(x).map(pick)) })),
    limit: medianLimit,
  });
  const lines = [line("median", ({ p50Ms }) => p50Ms), line("p99", ({ p99Ms }) => p99Ms)];
  const failures = loads.map(({ failed: { refused, lost, unanswered } }) => refused + lost + unanswered);
  return {
    subject: "mlp, offered load",
    compared: `median at ${SHOWN} of the raw loop`,
    unit: "ms",
    values: atShare(SHOWN).map(({ p50Ms }) => p50Ms),
    behind: [
      `${perSecond(SHOWN * medianLimit)} of ${perSecond(medianLimit)}`,
      ...SHARES.map(
        (share, i) => `${share}: ${lines.map(({ points }) => ms(points[i]?.y ?? Number.NaN)).join(" and ")}`,
      ),
      `sent late p99 ${ms(median(loads.map(({ lateP99Ms }) => lateP99Ms)))}`,
    ].join(", "),
    failed: sum(failures),
    lines,
  };
}
