/** Load that comes at a rate, whatever the server does with it: made in a process of its own, by open-loop.ts. */
import { join } from "node:path";
import { z } from "../src/model/z.ts";
import { Child } from "./child.ts";

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

export const offeredAnswerSchema = z.object({
  offered: z.int(),
  /** Requests that came to nothing. */
  failed: z.object({
    /** Answered with an error. */
    refused: z.int(),
    /** Their connection ended. */
    lost: z.int(),
    /** Their client left before they were answered. */
    left: z.int(),
    /** Not answered in time. */
    unanswered: z.int(),
  }),
  /** Answered before the time was over. */
  perSecond: z.number(),
  /** From when a request was to be sent. */
  p50Ms: percentileSchema,
  p99Ms: percentileSchema,
  /** The same of those that were answered with an error. */
  refusedP50Ms: percentileSchema,
  refusedP99Ms: percentileSchema,
  /** How late requests were sent, which is part of their latency but not the server's doing. */
  lateP99Ms: percentileSchema,
  connections: z.int(),
});

export type OfferedRequest = z.infer<typeof offeredRequestSchema>;
export type OfferedAnswer = z.infer<typeof offeredAnswerSchema>;

export class OfferedLoad implements AsyncDisposable {
  readonly #child: Child;

  /** @param of.url what is posted to; @param of.bodies a file with one request body a line */
  constructor({ url, bodies }: { url: string; bodies: string }) {
    this.#child = new Child([process.execPath, join(import.meta.dir, "open-loop.ts"), url, bodies]);
  }

  async run(request: OfferedRequest): Promise<OfferedAnswer> {
    return offeredAnswerSchema.parse(await this.#child.ask(request));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#child[Symbol.asyncDispose]();
  }
}
