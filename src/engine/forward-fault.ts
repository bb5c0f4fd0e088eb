/** What a forward pass that fails before the server is ready says to the author: what was tried, and the usual cause. */
import { codedError, oneLine, SconceError } from "../errors.ts";

/** Longest part of libtorch's own words: it may list every backend. */
const MAX_SHOWN = 300;

const causes: readonly (readonly [RegExp, string])[] = [
  [
    /must have the same dtype|expected (m1 and m2|scalar type)|Input type .* and (weight|bias) type/i,
    "the weights and what they are given have other dtypes: export after net.float(), or declare the inputs as the weights take them",
  ],
  [
    /from the '(CUDA|XLA|MPS)' backend|Expected all tensors to be on the same device|not compiled with CUDA|No CUDA GPUs/i,
    'a device is written into the network (device="cuda", .cuda()): take that of an input, x.device, and export again',
  ],
  [
    /Unknown builtin op|Could not find schema|no kernel.*registered|Could not find .*operator/i,
    "its library is missing: name it under operators",
  ],
];

/** @param worked the largest batch that did not fail */
export function forwardFault(error: unknown, { size, worked }: { size: number; worked: number }): SconceError {
  const fault = codedError(error);
  if (fault.code !== "run_failed" && fault.code !== "weights_invalid") return fault;
  const cause = causes.find(([pattern]) => pattern.test(fault.message))?.[1];
  if (worked === 0 && cause === undefined) return fault;
  const tried =
    worked > 0
      ? `forward failed with a batch of ${size} (${worked} worked): was it traced or exported with a fixed batch, or does an output lack the batch dimension?`
      : `forward failed: ${cause}.`;
  return new SconceError(fault.code, `${tried} ${oneLine(fault.message, MAX_SHOWN)}`, { cause: fault });
}
