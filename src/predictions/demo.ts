/** Runs a demo prediction: calls the `demo` function of the model's author, and collects its outputs and logs. */
import { SconceError } from "../base/errors.ts";
import { type InputList, toArray } from "../pipeline/inputs/input-list.ts";
import { faultBehind, type ItemFault } from "../pipeline/item-fault.ts";
import type { ItemFlow } from "../pipeline/item-flow.ts";
import type { ItemPipeline } from "../pipeline/item-pipeline.ts";
import { runDemo } from "../pipeline/run-demo.ts";
import { joined, listText, type Text, textOf } from "./large-text.ts";
import type { LivePrediction } from "./live.ts";

export interface DemoWorkOptions {
  readonly flow: ItemFlow;
  readonly pipeline: ItemPipeline;
  readonly onStart: () => void;
  /** Maximum UTF-8 bytes of the logs; the rest is cut. */
  readonly maxLogBytes: number;
}

const CUT = "\n[the logs are longer than this server keeps]\n";

export async function workOnDemo(live: LivePrediction, inputs: InputList, options: DemoWorkOptions): Promise<void> {
  const { flow, pipeline, onStart, maxLogBytes } = options;
  let fault: ItemFault | undefined;
  const early: Text[] = [];
  live.begin({
    failure: (message) =>
      `"error_message":${JSON.stringify(message)}${fault === undefined ? "" : `,"errors":[${JSON.stringify(fault)}]`}`,
    outputs: early,
    release() {},
  });
  const { outputs, demoOutputs } = await runDemo(toArray(inputs), {
    flow,
    pipeline,
    signal: live.signal,
    onStart: () => {
      onStart();
      live.started();
    },
    write: boundedLog(live, maxLogBytes),
    onOutput: (index, text) => {
      early[index] = textOf(text);
      live.itemDone();
    },
    parts: live.partsReceiver,
    take: (bytes) => {
      if (!live.take(bytes)) throw new SconceError("canceled", "the demo prediction has ended");
    },
  }).catch((error: unknown) => {
    fault = faultBehind(error);
    throw error;
  });
  const lists = [listText("outputs", outputs.map(textOf)), listText("demo_outputs", demoOutputs.map(textOf))];
  live.itemsSucceeded = live.count;
  live.finish({ status: "success", members: joined(lists, ",") });
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
    live.log(isCut ? beginningOf(text, freeBytes) + CUT : text);
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
