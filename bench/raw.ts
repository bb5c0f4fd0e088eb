/** The raw loop: what libtorch alone does with batches of ready tensors, in a process of its own. */
import { join } from "node:path";
import { z } from "../src/model/z.ts";
import { Child } from "./child.ts";
import { type Network, python } from "./networks.ts";

/** What a loop is asked: batches of `rows` for `ms`, one after the other where their single time is what counts. */
export const rawRequestSchema = z.object({ rows: z.int(), ms: z.number(), isAlone: z.boolean() });
/** Items a second, and the median time of one batch. */
export const rawAnswerSchema = z.object({ perSecond: z.number(), medianMs: z.number() });

export type RawAnswer = z.infer<typeof rawAnswerSchema>;

export class RawLoop implements AsyncDisposable {
  readonly #child: Child;

  private constructor(child: Child) {
    this.#child = child;
  }

  /** In this program's own addon, or in PyTorch for Python as a check of it. */
  static start(of: "addon" | "python", { name, folder }: Network, threads: number): RawLoop {
    if (of === "addon") {
      const script = join(import.meta.dir, "raw-loop.ts");
      return new RawLoop(new Child([process.execPath, script, folder, name, String(threads)]));
    }
    const { command, env } = python();
    return new RawLoop(new Child([command, join(import.meta.dir, "raw_loop.py"), folder, String(threads)], env));
  }

  /** Full batches, two of them under way. */
  throughput(rows: number, seconds: number): Promise<RawAnswer> {
    return this.#ask({ rows, ms: seconds * 1000, isAlone: false });
  }

  /** One item, one at a time. */
  latency(seconds: number): Promise<RawAnswer> {
    return this.#ask({ rows: 1, ms: seconds * 1000, isAlone: true });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#child[Symbol.asyncDispose]();
  }

  async #ask(request: z.infer<typeof rawRequestSchema>): Promise<RawAnswer> {
    return rawAnswerSchema.parse(await this.#child.ask(request));
  }
}
