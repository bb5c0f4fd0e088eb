/** The raw loop: what libtorch alone does with batches of ready tensors, in a process of its own. */
import { join } from "node:path";
import { z } from "../src/model/z.ts";
import { Child } from "./child.ts";
import { type Network, type Output, outputSchema, python, storeEnv } from "./networks.ts";

/** What a loop is asked: batches of `rows` for `ms`; or what the model gives for each of the inputs. */
export const rawRequestSchema = z.union([
  z.object({ rows: z.int(), ms: z.number() }),
  z.object({ outputs: z.literal("all") }),
]);
const rateSchema = z.object({
  perSecond: z.number(),
  /** Of one batch, where they run one after the other. */
  medianMs: z.number().optional(),
});
const outputsSchema = z.object({ outputs: z.array(outputSchema) });

export class RawLoop implements AsyncDisposable {
  readonly #child: Child;

  private constructor(child: Child) {
    this.#child = child;
  }

  /** In this program's own addon: batches of all inputs as often as the time allows and at least once, two of them under way. */
  static async start({ name, folder, inputs }: Network, { threads = 1 } = {}): Promise<RawLoop> {
    const file = join(folder, "inputs.json");
    await Bun.write(file, JSON.stringify(inputs));
    const script = join(import.meta.dir, "raw-loop.ts");
    return new RawLoop(new Child([process.execPath, script, name, file, String(threads)], { env: storeEnv }));
  }

  static inPython({ folder }: Network): RawLoop {
    const { command, env } = python();
    const script = [join(import.meta.dir, "raw_loop.py"), join(folder, "weights.pt")];
    return new RawLoop(new Child([command, ...script], { env }));
  }

  async run(rows: number, seconds: number): Promise<z.infer<typeof rateSchema>> {
    return rateSchema.parse(await this.#child.ask({ rows, ms: seconds * 1000 }));
  }

  /** Of each input, run alone; the addon's only. */
  async outputs(): Promise<Output[]> {
    return outputsSchema.parse(await this.#child.ask({ outputs: "all" })).outputs;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#child[Symbol.asyncDispose]();
  }
}
