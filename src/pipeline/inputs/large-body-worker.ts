/** The worker thread that checks large bodies. It loads the model's code for its schemas, but no weights, and does not run `setup`. */
import { setPriority } from "node:os";
import { hasCode, messageOf, type SconceError } from "../../base/errors.ts";
import { loadModel } from "../../package/code/load.ts";
import { readIntact } from "../../package/store/blobs.ts";
import { InputDecoder } from "./input-decoder.ts";
import type { BundleSource, CheckAnswer, CheckRequest } from "./large-bodies.ts";
import { checkParts, splitBody } from "./large-body.ts";

declare const self: Worker;

// Small requests go before this thread. Elsewhere than on Linux, the call would lower the priority of the whole
// process.
if (process.platform === "linux") setPriority(10);

/**
 * After a body of this size, the thread collects garbage: an idle thread would otherwise keep up to ten times its
 * memory.
 */
const MIN_COLLECTED_BYTES = 4 * 2 ** 20;

let decoder: Promise<InputDecoder> | undefined;

self.onmessage = async ({ data: { bundle, chunks, maxInputs } }: MessageEvent<CheckRequest>) => {
  const bytes = Bun.concatArrayBuffers([...chunks], Infinity, true);
  let answer: CheckAnswer;
  try {
    decoder ??= open(bundle);
    const body = splitBody(bytes, await decoder, maxInputs);
    const checking = checkParts(body, await decoder);
    let step = checking.next();
    while (!step.done) step = checking.next();
    answer = { bytes, scan: body.scan, mostBytes: step.value };
  } catch (error) {
    answer = isRefusal(error)
      ? { bytes, refusal: { code: error.code, message: error.message, faults: error.faults } }
      : { bytes, error: messageOf(error) };
  }
  const { length } = bytes;
  self.postMessage(answer, [bytes.buffer]);
  if (length > MIN_COLLECTED_BYTES) Bun.gc(true);
};

async function open(bundle: BundleSource): Promise<InputDecoder> {
  const { input } = await loadModel(new TextDecoder().decode(await readIntact(bundle)), bundle.digest);
  return new InputDecoder(input, { isWorker: true });
}

/** Whether the body causes the error. Other errors come from the model's code. */
function isRefusal(error: unknown): error is SconceError {
  return hasCode(error, "body_invalid") || hasCode(error, "inputs_invalid");
}
