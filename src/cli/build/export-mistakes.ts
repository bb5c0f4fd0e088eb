/**
 * The common mistakes of an export. Each has its messages from libtorch or the addon, and a line of Python that fixes
 * it.
 */
import type { TensorSpecs } from "../../author/tensor.ts";

export interface ExportMistake {
  readonly name: string;
  /** Matches libtorch's or the addon's message for this mistake; undefined if no message is typical. */
  readonly seen?: RegExp;
  /** The cause, if the message does not name it. */
  readonly cause?: string;
  /** @returns a line of Python that fixes the mistake @param inputs the declared inputs of the model */
  python(inputs: TensorSpecs): string;
}

/** A line of Python that exports the network with a dynamic batch dimension. Declared dimensions without a fixed size stay dynamic. */
function exporting(inputs: TensorSpecs): string {
  const free = Object.entries(inputs).map(([name, { dims }]) => {
    const dynamic = [0, ...dims.flatMap((dim, i) => (typeof dim === "number" ? [] : [i + 1]))];
    return `"${name}": {${dynamic.map((at) => `${at}: torch.export.Dim.DYNAMIC`).join(", ")}}`;
  });
  const shapes = free.length === 0 ? "tuple({0: torch.export.Dim.DYNAMIC} for _ in example)" : `{${free.join(", ")}}`;
  return `torch.export.export(net.eval(), example, dynamic_shapes=${shapes})`;
}

export const exportMistakes = {
  fixedBatch: {
    name: "fixed batch",
    seen: /with a batch of \d+ \(\d+ worked\)|compiled for at most|not with 1 item|a fixed batch of \d+/,
    python: (inputs) =>
      `program = ${exporting(inputs)}  # an example of 2 rows or more; in forward x.shape[0], no number`,
  },
  noBatch: {
    name: "no batch dimension",
    seen: /one number for the whole batch|no batch dimension|was declared, the weights gave \w+\(\)$/,
    python: () => "y = y.mean(dim=1)  # one row for each item: reduce over dim=1 and up, never over all or dim=0",
  },
  trainingMode: {
    name: "training mode",
    seen: /exported in training mode|Expected more than 1 value per channel when training/,
    python: (inputs) => `program = ${exporting(inputs)}  # eval() before it is traced or exported`,
  },
  dtype: {
    name: "dtype",
    seen: /must have the same dtype|expected (m1 and m2|scalar type)|Input type .* and (weight|bias) type/i,
    cause:
      "the weights and what they are given have other dtypes: export after net.float(), or declare the inputs as the weights take them",
    python: (inputs) =>
      `net = net.float(); program = ${exporting(inputs)}  # or declare the input as the weights take it`,
  },
  outputDtype: {
    name: "dtype of an output",
    seen: /: (\w+)\(.*\) was declared, the weights gave (?!\1\()/,
    python: () => "y = y.float()  # at the end of forward, or declare the output in model.ts as the weights give it",
  },
  outputShape: {
    name: "shape of an output",
    seen: /was declared, the weights gave/,
    python: () => "y = y.reshape(x.shape[0], -1)  # or declare the output in model.ts as the weights give it",
  },
  device: {
    name: "weights on a GPU",
    seen: /from the '(CUDA|XLA|MPS)' backend|Expected all tensors to be on the same device|not compiled with CUDA|No CUDA GPUs/i,
    cause:
      'a device is written into the network (device="cuda", .cuda()): take that of an input, x.device, and export again',
    python: (inputs) =>
      `net = net.cpu(); program = ${exporting(inputs)}  # in forward: torch.zeros(4, device=x.device)`,
  },
  operator: {
    name: "unknown operator",
    seen: /has no operator|Unknown builtin op|Could not find schema|no kernel.*registered|Could not find .*operator/i,
    cause: "name a library with the operator under operators in model.ts (docs/declare.md#operators)",
    python: () => 'torch.ops.load_library("ops.so")  # and operators: ["ops.so"] in model.ts',
  },
  names: {
    name: "names",
    seen: /the model declares the inputs|the model declares \d+|which the model/,
    python: (inputs) =>
      `def forward(self, ${Object.keys(inputs).join(", ")}): …  # or rename in model.ts; outputs by name: return {"scores": y}`,
  },
  padding: {
    name: "padding taken for content",
    python: () =>
      "y = (x * mask).sum(1) / mask.sum(1)  # mask: an input with the same pad(…, 0) name, filled with ones",
  },
  mixed: {
    name: "training mode, or items mixed",
    python: (inputs) =>
      `program = ${exporting(inputs)}  # batch normalization in training mode? else: no softmax, mean, sum or norm over dim=0`,
  },
  random: {
    name: "training mode, or random outputs",
    python: (inputs) =>
      `program = ${exporting(inputs)}  # dropout kept by a trace? else take the noise, or the state, as an input`,
  },
} as const satisfies Readonly<Record<string, ExportMistake>>;

/** The first mistake whose pattern matches a message; undefined without a match. */
export function mistakeIn(message: string): ExportMistake | undefined {
  return Object.values<ExportMistake>(exportMistakes).find(({ seen }) => seen?.test(message));
}
