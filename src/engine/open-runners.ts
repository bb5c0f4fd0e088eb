/**
 * Opens the runners of a model, on one device or several. A runner calls the forward pass, or the model's own `predict`
 * or `step`.
 */

import type { Predict, Steps } from "../author/session.ts";
import type { TensorSpecs } from "../author/tensor.ts";
import { SconceError } from "../base/errors.ts";
import { loadOperators, type NativeSession, openSession, type SessionOptions } from "./native/binding.ts";
import { PredictRunner } from "./predict-runner.ts";
import type { Runner } from "./runner.ts";
import { StepRunner } from "./step-runner.ts";

export interface OpenOptions {
  readonly weights: Readonly<Record<string, string>>;
  /** Paths of libraries with custom operators that the weights use. */
  readonly operators: readonly string[];
  /** The model's own function. Undefined: batches run through the forward pass of the single weights file. */
  readonly predict: Predict | Steps | undefined;
  readonly inputs: TensorSpecs;
  readonly outputs: TensorSpecs;
  /** Declared tensors of partial outputs. Default: `outputs`. */
  readonly parts?: TensorSpecs;
  /** `cpu`, or one or more devices `cuda:N`. */
  readonly devices: readonly string[];
  readonly threads: number;
  /** Runners on each device. They share the weights, unless a run changes them. */
  readonly instances: number;
  /** Whether layers may rearrange their weights for the processor (default true). */
  readonly pack?: boolean | undefined;
}

/**
 * Checks the requested batch size, and returns it.
 * @throws SconceError `weights_invalid` if the weights take smaller batches only
 */
export function batchSizeFor([runner]: readonly Runner[], asked: number): number {
  const most = runner?.mostRows ?? Infinity;
  if (asked <= most) return asked;
  throw new SconceError(
    "weights_invalid",
    `a batch size of ${asked} was asked for, the weights take at most ${most}: set batchSize or --batch-size to ${most} or less, or export them for larger batches, with an example of ${asked} rows`,
  );
}

/**
 * Opens `instances` runners on each device. If one fails, all are closed.
 * @returns the runners, alternating between the devices, so that even two batches use two devices
 */
export async function openRunners(options: OpenOptions): Promise<Runner[]> {
  for (const path of options.operators) await loadOperators(path);
  await using opened = new AsyncDisposableStack();
  const open: Open = async (wanted) => {
    const session = await openSession(wanted);
    opened.defer(() => session.dispose());
    return session;
  };
  const opening = options.devices.map((device) => openOn(device, options, open));
  // Runners on other devices may still be opening after a failure, and must be closed too.
  await Promise.allSettled(opening);
  const byDevice = await Promise.all(opening);
  opened.move();
  return Array.from({ length: options.instances }, (_, i) => byDevice.flatMap((runners) => runners[i] ?? [])).flat();
}

type Open = (options: SessionOptions) => Promise<NativeSession>;

async function openOn(device: string, options: OpenOptions, open: Open): Promise<readonly Runner[]> {
  const { weights, predict, inputs, outputs, parts = outputs, threads, instances, pack } = options;
  if (predict === undefined) {
    const [path, another] = Object.values(weights);
    // `defineModel` refuses several weights without `predict`.
    if (path === undefined || another !== undefined) {
      throw new SconceError("model_invalid", "several weights need `predict`");
    }
    return sharing({ path, inputs, outputs, device, threads, pack, instances }, instances, open);
  }
  const sessions: Record<string, NativeSession>[] = Array.from({ length: instances }, () => ({}));
  for (const [name, path] of Object.entries(weights)) {
    const shared = await sharing({ path, device, threads, pack, instances }, instances, open);
    for (const [i, session] of shared.entries()) Object.assign(sessions[i] ?? {}, { [name]: session });
  }
  const shared = { inputs, outputs, parts, device };
  if (typeof predict === "function") {
    return sessions.map((byName) => new PredictRunner({ ...shared, sessions: byName, predict }));
  }
  return sessions.map((byName) => new StepRunner({ ...shared, sessions: byName, steps: predict }));
}

async function sharing(options: SessionOptions, count: number, open: Open): Promise<NativeSession[]> {
  const first = await open(options);
  const sessions = [first];
  const others = first.keepsState ? { ...options, instances: 1 } : { ...options, share: first };
  while (sessions.length < count) sessions.push(await open(others));
  return sessions;
}
