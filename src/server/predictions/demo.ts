/** A demo prediction under way: from its inputs to outputs, demo outputs and the logs that led to them. */
import { SconceError } from "../../base/errors.ts";
import { faultBehind, type ItemFault } from "../flow/item-fault.ts";
import type { ItemFlow } from "../flow/item-flow.ts";
import type { ItemPipeline } from "../flow/item-pipeline.ts";
import { runDemo } from "../flow/run-demo.ts";
import { allOf, type InputList } from "../inputs/input-list.ts";
import { joined, listText, type Text, textOf } from "./large-text.ts";
import type { LivePrediction } from "./live.ts";
import type { OutputMemory } from "./output-memory.ts";

export interface DemoWorkOptions {
  readonly flow: ItemFlow;
  readonly pipeline: ItemPipeline;
  readonly onBegun: () => void;
  /** In UTF-8; what is written beyond them is left out of the logs. */
  readonly maxLogBytes: number;
  /** For outputs and demo outputs together; it is given back at the demo's end. */
  readonly memory: OutputMemory;
}

const CUT = "\n[the logs are longer than this server keeps]\n";

/** @throws SconceError as `runDemo` */
export async function workOnDemo(live: LivePrediction, inputs: InputList, options: DemoWorkOptions): Promise<void> {
  const { flow, pipeline, onBegun, maxLogBytes, memory } = options;
  let fault: ItemFault | undefined;
  const early: Text[] = [];
  live.begin({
    failure: (message) =>
      `"error_message":${JSON.stringify(message)}${fault === undefined ? "" : `,"errors":[${JSON.stringify(fault)}]`}`,
    outputs: early,
    release: () => memory[Symbol.dispose](),
  });
  const log = new BoundedLog(live, maxLogBytes);
  const { outputs, demoOutputs } = await runDemo(allOf(inputs), {
    flow,
    pipeline,
    signal: live.signal,
    onBegun: () => {
      onBegun();
      live.started();
    },
    write: (text) => log.write(text),
    onOutput: (index, text) => {
      early[index] = textOf(text);
      live.itemDone();
    },
    take: (bytes) => {
      const refusal = memory.take(bytes);
      if (refusal === undefined) return;
      live.end(refusal.message, refusal.reason);
      throw new SconceError("canceled", refusal.message);
    },
  }).catch((error: unknown) => {
    fault = faultBehind(error);
    throw error;
  });
  const lists = [listText("outputs", outputs.map(textOf)), listText("demo_outputs", demoOutputs.map(textOf))];
  live.itemsSucceeded = live.count;
  live.finish({ status: "success", members: joined(lists, ",") });
}

class BoundedLog {
  readonly #live: LivePrediction;
  #left: number;

  constructor(live: LivePrediction, maxBytes: number) {
    this.#live = live;
    this.#left = maxBytes;
  }

  /** Adds to the logs; answers whether they take more. */
  write(text: string): boolean {
    if (this.#live.isOver || this.#left < 0) return false;
    const bytes = Buffer.byteLength(text);
    if (bytes > this.#left) {
      this.#live.log(beginningOf(text, this.#left) + CUT);
      this.#left = -1;
    } else {
      this.#live.log(text);
      this.#live.charge.grow(bytes);
      this.#left -= bytes;
    }
    return this.#left >= 0;
  }
}

/** The whole characters within the first `maxBytes` of a text: a copy, as a part would hold on to the whole, which may be a gigabyte. */
function beginningOf(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text.slice(0, maxBytes)).subarray(0, maxBytes);
  return new TextDecoder().decode(bytes, { stream: true });
}
