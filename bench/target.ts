/** A server under load: started in a process of its own, its answers checked before anything is timed. */
import { join } from "node:path";
import { z } from "../src/model/z.ts";
import { areAlike } from "./alike.ts";
import { Child, type ThreadTimes } from "./child.ts";
import { type Load, type LoadOptions, load } from "./load.ts";
import { type Network, outputSchema, sconceCommand, storeEnv } from "./networks.ts";

/** What the server says of the work it has done. */
export interface Work {
  readonly batches: number;
  readonly items: number;
  /** From a batch's dispatch to its rows, of all batches together. */
  readonly batchSeconds: number;
  readonly failedPredictions: number;
}

/** Load, and what it cost the thread that runs JS. */
export interface TargetLoad extends Load {
  /** Of processor time for one request: steadier than requests a second on a machine that others use. */
  readonly jsThreadUs: number | undefined;
  /** The busiest thread beside that, which is an inference thread where there is one: the shares of the time that it ran and waited. */
  readonly busiest: ThreadTimes | undefined;
}

/** Long enough for the JIT compilers of server and load to be done, and for TorchScript to have seen every size it will see. */
export const WARM_UP_S = 15;

export class Target implements AsyncDisposable {
  readonly url: string;
  readonly child: Child;

  private constructor(child: Child, url: string) {
    this.child = child;
    this.url = url;
  }

  /** `sconce serve`, with one inference thread unless told otherwise; resolves when it is ready. */
  static async served(model: string, options: readonly string[] = ["--threads", "1"]): Promise<Target> {
    return Target.start([...sconceCommand, "serve", model, "--port", "0", "--host", "127.0.0.1", ...options], storeEnv);
  }

  /** The same route without a record and a model. */
  static async echo({ folder, name }: Pick<Network, "folder" | "name">): Promise<Target> {
    return Target.start([process.execPath, join(import.meta.dir, "echo.ts"), folder, name]);
  }

  /** A command that logs the address it listens on. */
  static async start(command: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Target> {
    const child = new Child(command, env);
    const [, url = ""] = await child.heard(/Listening on (http\S+)/);
    return new Target(child, url);
  }

  /** @throws Error when the server does not give the samples' outputs for their inputs, all in one request */
  async check({ samples, name }: Pick<Network, "samples" | "name">): Promise<void> {
    const { inputs, outputs } = samples;
    const response = await fetch(`${this.url}/predictions`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Prefer: "wait" },
      body: JSON.stringify(inputs),
    });
    const text = await response.text();
    const answer = answerSchema.safeParse(JSON.parse(text));
    const isRight =
      answer.success &&
      answer.data.outputs.length === outputs.length &&
      answer.data.outputs.every((output, i) => areAlike(output, outputs[i] ?? {}));
    if (!isRight) throw new Error(`${name} was answered wrongly (${response.status}): ${text.slice(0, 500)}`);
  }

  async load(options: Omit<LoadOptions, "url">): Promise<TargetLoad> {
    const before = this.child.mainThreadSeconds();
    const threads = this.child.otherThreads();
    const begin = performance.now();
    const done = await load({ ...options, url: `${this.url}/predictions` });
    const after = this.child.mainThreadSeconds();
    const busiest = busiestOf(threads, this.child.otherThreads(), (performance.now() - begin) / 1000);
    const isKnown = before !== undefined && after !== undefined && done.answered > 0;
    return { ...done, busiest, jsThreadUs: isKnown ? ((after - before) / done.answered) * 1e6 : undefined };
  }

  async work(): Promise<Work> {
    const text = await (await fetch(`${this.url}/metrics`)).text();
    const read = (series: string) =>
      [...text.matchAll(new RegExp(`^${series} (\\S+)$`, "gm"))].reduce((sum, [, value]) => sum + Number(value), 0);
    return {
      batches: read("sconce_batch_size_count"),
      items: read("sconce_batch_size_sum"),
      batchSeconds: read("sconce_batch_seconds_sum"),
      failedPredictions: read('sconce_predictions_total{status="failed".*}'),
    };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.child[Symbol.asyncDispose]();
  }
}

function busiestOf(
  before: ReadonlyMap<string, ThreadTimes>,
  after: ReadonlyMap<string, ThreadTimes>,
  seconds: number,
): ThreadTimes | undefined {
  const shares = [...after].map(([thread, { ran, waited }]) => {
    const then = before.get(thread) ?? { ran: 0, waited: 0 };
    return { ran: (ran - then.ran) / seconds, waited: (waited - then.waited) / seconds };
  });
  return shares.toSorted((a, b) => b.ran - a.ran)[0];
}

const answerSchema = z.looseObject({ status: z.literal("success"), outputs: z.array(outputSchema) });

/** Failed predictions beyond those that the load left behind: at its end it closes every connection, which cancels what is under way. */
export function lost(failedPredictions: number, load: { readonly runs: number; readonly connections: number }): number {
  return Math.max(0, failedPredictions - load.runs * load.connections);
}

export function refuseFailures(done: TargetLoad): TargetLoad {
  if (done.failed > 0) throw new Error(`${done.failed} requests failed at the echo, which then is no yardstick`);
  return done;
}
