/** The raw loop: what libtorch alone does with batches of ready tensors, in a process of its own. */
import { join } from "node:path";
import { z } from "../src/model/z.ts";
import { Child } from "./child.ts";
import { type Network, type Output, outputSchema, python, storeEnv } from "./networks.ts";

/**
 * What a loop is asked: batches of `rows` for `ms`, one after the other where their single time is what counts; or what the model
 * gives for each of the inputs.
 */
export const rawRequestSchema = z.union([
  z.object({ rows: z.int(), ms: z.number(), isAlone: z.boolean() }),
  z.object({ outputs: z.literal("all") }),
]);
/** Items a second, and the median time of one batch. */
export const rawAnswerSchema = z.object({ perSecond: z.number(), medianMs: z.number() });
export const rawOutputsSchema = z.object({ outputs: z.array(outputSchema) });

export type RawRequest = z.infer<typeof rawRequestSchema>;
export type RawAnswer = z.infer<typeof rawAnswerSchema>;
export type RawOutputs = z.infer<typeof rawOutputsSchema>;

export class RawLoop implements AsyncDisposable {
  readonly #child: Child;

  private constructor(child: Child) {
    this.#child = child;
  }

  /** In this program's own addon; or in PyTorch for Python as a check of it, which takes the fully connected networks only. */
  static start(
    of: "addon" | "python",
    { name, folder, inputs }: Pick<Network, "name" | "folder" | "inputs">,
    threads: number,
  ): RawLoop {
    if (of === "addon") {
      const script = join(import.meta.dir, "raw-loop.ts");
      return new RawLoop(new Child([process.execPath, script, name, inputs, String(threads)], storeEnv));
    }
    const { command, env } = python();
    return new RawLoop(new Child([command, join(import.meta.dir, "raw_loop.py"), folder, String(threads)], env));
  }

  /** Batches of `rows`, two of them under way, over all inputs as often as the time allows and at least once. */
  throughput(rows: number, seconds: number): Promise<RawAnswer> {
    return this.#run({ rows, ms: seconds * 1000, isAlone: false });
  }

  /** One item, one at a time. */
  latency(seconds: number): Promise<RawAnswer> {
    return this.#run({ rows: 1, ms: seconds * 1000, isAlone: true });
  }

  /** Of each input, run alone; the addon's only. */
  async outputs(): Promise<Output[]> {
    return rawOutputsSchema.parse(await this.#ask({ outputs: "all" })).outputs;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#child[Symbol.asyncDispose]();
  }

  async #run(request: RawRequest): Promise<RawAnswer> {
    return rawAnswerSchema.parse(await this.#ask(request));
  }

  #ask(request: RawRequest): Promise<unknown> {
    return this.#child.ask(request);
  }
}
