/** Runs an exported program with PyTorch, `torch.export.load(path).module()`, and compares outputs with PyTorch's. */
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { bytesOfData, type Tensor } from "../../author/tensor.ts";
import { messageOf } from "../../base/errors.ts";
import { torchVersion } from "../../engine/native/binding.ts";
import { temporaryFolder } from "../../machine/files/temporary-folder.ts";
import { pythonFailure, pythonWithTorch } from "./plain/python-torch.ts";
import referenceScript from "./reference.py" with { type: "text" };

type Named = Readonly<Record<string, Tensor>>;

/** A call of a program. If the program has no such names, the order gives the inputs and outputs. */
export interface ReferenceCall {
  /** Inputs with the batch dimension. */
  readonly inputs: Named;
  /** Outputs to compare with PyTorch's. Undefined: the weights refused the call. */
  readonly outputs: Named | undefined;
  /** Rows of the inputs. Outputs with fewer rows are compared with the first rows of PyTorch's. */
  readonly rows: number;
}

const resultSchema = z.union([
  /** PyTorch's error message. */
  z.object({ refused: z.string() }),
  z.object({
    /** Outputs that differ by more than PyTorch's own runs: the place among the outputs of the call, and the difference. */
    differing: z.array(z.object({ output: z.number(), text: z.string() })),
    /** Number of outputs that differ by more than rounding, and not by more than PyTorch's own runs. */
    explained: z.number(),
  }),
]);

export type ReferenceResult = z.infer<typeof resultSchema>;

const LIMIT_MS = 120_000;

/** The result of each call, or why no comparison is possible. */
const referenceSchema = z.object({ results: z.array(resultSchema).optional(), missing: z.string().optional() });

type Reference = z.infer<typeof referenceSchema>;

/** Runs each call and compares its outputs. Never throws: a problem is returned as `missing`. */
export async function referenceOf(path: string, calls: readonly ReferenceCall[]): Promise<Reference> {
  const { command, env } = await pythonWithTorch();
  if (Bun.which(command) === null) return { missing: `there is no ${command}` };
  using temporary = temporaryFolder(tmpdir(), "sconce-reference-");
  const folder = temporary.path;
  try {
    await writeCalls(folder, calls);
    const began = performance.now();
    const child = Bun.spawn([command, "-c", referenceScript, folder, path, torchVersion()], {
      env: { ...process.env, ...env },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
      timeout: LIMIT_MS,
    });
    const [text, errors] = await Promise.all([child.stdout.text(), child.stderr.text()]);
    if ((await child.exited) !== 0) {
      const isTooSlow = child.signalCode === "SIGTERM" && performance.now() - began >= LIMIT_MS;
      return {
        missing: isTooSlow
          ? `${command} gave no result within ${LIMIT_MS / 1000} s`
          : pythonFailure(command, errors, child),
      };
    }
    return referenceSchema.parse(JSON.parse(text));
  } catch (error) {
    return { missing: messageOf(error) };
  }
}

async function writeCalls(folder: string, calls: readonly ReferenceCall[]): Promise<void> {
  let files = 0;
  const written = (tensors: Named) =>
    Promise.all(
      Object.entries(tensors).map(async ([name, { dtype, shape, data }]) => {
        const file = String(files++);
        await Bun.write(join(folder, file), bytesOfData(data));
        return { name, dtype, shape, file };
      }),
    );
  const listed = calls.map(async ({ inputs, outputs, rows }) => {
    return { inputs: await written(inputs), outputs: outputs ? await written(outputs) : null, rows };
  });
  await Bun.write(join(folder, "calls.json"), JSON.stringify(await Promise.all(listed)));
}
