/** Runs a demo prediction: calls the `demo` function of the model's author, and collects its outputs and logs. */
import { codedError, SconceError } from "../base/errors.ts";
import { reasonOf } from "../base/failure-reason.ts";
import { joined, listText, textOf } from "../base/large-text.ts";
import { type InputList, toArray } from "../pipeline/inputs/input-list.ts";
import { faultBehind } from "../pipeline/item-fault.ts";
import type { ItemFlow } from "../pipeline/item-flow.ts";
import type { ItemPipeline } from "../pipeline/item-pipeline.ts";
import { runDemo } from "../pipeline/run-demo.ts";
import type { LivePrediction } from "./live.ts";

export interface DemoWorkOptions {
  readonly flow: ItemFlow;
  readonly pipeline: ItemPipeline;
  /** Maximum UTF-8 bytes of the logs; the rest is cut. */
  readonly maxLogBytes: number;
}

const CUT = "\n[the logs are longer than this server keeps]\n";

/** Runs a demo to its end. Never rejects. */
export async function workOnDemo(live: LivePrediction, inputs: InputList, options: DemoWorkOptions): Promise<void> {
  const { maxLogBytes, ...run } = options;
  try {
    const { outputs, demoOutputs } = await runDemo(toArray(inputs), {
      ...run,
      signal: live.signal,
      onStart: () => {
        live.processing();
        live.dispatched();
      },
      write: boundedLog(live, maxLogBytes),
      onOutput: (index, text) => live.demoOutput(index, textOf(text)),
      parts: live.parts,
      take: (bytes) => {
        if (!live.take(bytes)) throw new SconceError("canceled", "the demo prediction has ended");
      },
    });
    const lists = [listText("outputs", outputs.map(textOf)), listText("demo_outputs", demoOutputs.map(textOf))];
    live.itemsSucceeded = live.count;
    live.finish({ status: "success", members: joined(lists, ",") });
  } catch (error) {
    if (live.isOver) return;
    const coded = codedError(error);
    live.context.onFault?.(`demo prediction ${live.id}`, coded, live);
    live.end(coded.clientMessage, reasonOf(coded.code), faultBehind(error));
  }
}

/**
 * Creates a function that appends to the logs of a demo, up to a limit of bytes. The function returns whether the logs
 * accept more text.
 */
function boundedLog(live: LivePrediction, maxBytes: number): (text: string) => boolean {
  let freeBytes = maxBytes;
  return (text) => {
    if (live.isOver || freeBytes < 0) return false;
    const bytes = Buffer.byteLength(text);
    const isCut = bytes > freeBytes;
    live.addLog(isCut ? beginningOf(text, freeBytes) + CUT : text);
    if (!isCut) live.charge.grow(bytes);
    freeBytes = isCut ? -1 : freeBytes - bytes;
    return !isCut;
  };
}

/** The first characters of a text, at most `maxBytes` bytes of UTF-8. A slice would keep the whole text in memory. */
function beginningOf(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text.slice(0, maxBytes)).subarray(0, maxBytes);
  return new TextDecoder().decode(bytes, { stream: true });
}
