/** The thread that checks large bodies; it loads the model's code for its schemas alone, and neither weights nor `setup`. */
import { setPriority } from "node:os";
import { hasCode, messageOf, type SconceError } from "../errors.ts";
import { loadModel } from "../model/load.ts";
import { InputDecoder } from "./input-decoder.ts";
import { joined } from "./joined.ts";
import type { BundleSource, CheckAnswer, CheckRequest } from "./large-bodies.ts";
import { checkLargeBody } from "./large-body.ts";

declare const self: Worker;

/** Whoever waits for a small answer goes first. On Linux a priority is a thread's; elsewhere it is the process's, and left alone. */
if (process.platform === "linux") setPriority(10);

let decoder: Promise<InputDecoder> | undefined;

self.onmessage = async ({ data: { id, bundle, chunks, maxInputs } }: MessageEvent<CheckRequest>) => {
  const bytes = joined(chunks);
  let answer: CheckAnswer;
  try {
    decoder ??= open(bundle);
    answer = { id, bytes, scan: checkLargeBody(bytes, await decoder, maxInputs) };
  } catch (error) {
    answer = isRefusal(error)
      ? { id, bytes, refusal: { code: error.code, message: error.message, faults: error.faults } }
      : { id, bytes, error: messageOf(error) };
  }
  self.postMessage(answer, [bytes.buffer]);
};

async function open({ path, digest }: BundleSource): Promise<InputDecoder> {
  const { input } = await loadModel(await Bun.file(path).text(), digest);
  // It may throw for the thread that it is in: the main thread tries again.
  return new InputDecoder(input, { rethrows: true });
}

/** Of the body, not of the model's code. */
function isRefusal(error: unknown): error is SconceError {
  return hasCode(error, "body_invalid") || hasCode(error, "inputs_invalid");
}
