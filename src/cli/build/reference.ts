/** Runs an exported program with PyTorch: `torch.export.load(path).module()`. */
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { arrayTypes, type DType, type Tensor } from "../../author/tensor.ts";
import { bytesOf } from "../../author/tensor-memory.ts";
import { messageOf } from "../../base/errors.ts";
import { torchVersion } from "../../engine/native/binding.ts";
import { temporaryFolder } from "../../machine/files/temporary-folder.ts";
import { pythonFailure, pythonWithTorch } from "./plain/python-torch.ts";

/** Inputs of one call by name, with the batch dimension. */
export type ReferenceCall = Readonly<Record<string, Tensor>>;

/** Outputs of one call in the program's order, or PyTorch's error message. */
export type ReferenceResult =
  | { readonly outputs: readonly ReferenceOutput[]; readonly refused?: undefined }
  | { readonly outputs?: undefined; readonly refused: string };

export interface ReferenceOutput {
  /** Name of the output; undefined when the program returns a tensor or a tuple. */
  readonly name: string | undefined;
  readonly tensor: Tensor;
}

export type Reference =
  | { readonly results: readonly ReferenceResult[]; readonly missing?: undefined }
  /** Why no comparison is possible. */
  | { readonly results?: undefined; readonly missing: string };

const LIMIT_MS = 120_000;

const script = `import json, sys, warnings
warnings.simplefilter("ignore")
folder, path, wanted = sys.argv[1:]
try:
    import torch
except ImportError:
    print(json.dumps({"missing": "it has no torch"})); sys.exit()
if torch.__version__.split(".")[:2] != wanted.split(".")[:2]:
    print(json.dumps({"missing": f"its torch is {torch.__version__}, not {wanted}"})); sys.exit()
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.utils import _pytree as pytree
program = torch.export.load(path)
module = program.module()
torch.set_num_threads(1)
def tensor(one):
    dtype, data = getattr(torch, one["dtype"]), bytearray(open(f"{folder}/{one['file']}", "rb").read())
    return torch.frombuffer(data, dtype=dtype).reshape(one["shape"]) if data else torch.empty(one["shape"], dtype=dtype)
arguments = [spec.arg for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]
results = []
for number, call in enumerate(json.load(open(f"{folder}/calls.json"))):
    try:
        flat = [each.value if isinstance(each, ConstantArgument) else tensor(call[each.name]) for each in arguments]
        args, kwargs = pytree.tree_unflatten(flat, program.call_spec.in_spec)
        with torch.no_grad(): given = module(*args, **kwargs)
        outputs = []
        for keys, value in pytree.tree_flatten_with_path(given)[0]:
            if value is None: continue
            name = getattr(keys[0], "key", None) if len(keys) == 1 else None
            file = f"out{number}.{len(outputs)}"
            value = value.detach().contiguous()
            with open(f"{folder}/{file}", "wb") as out: out.write(value.reshape(-1).view(torch.uint8).numpy().tobytes())
            outputs.append({"name": name, "dtype": str(value.dtype)[6:], "shape": list(value.shape), "file": file})
        results.append({"outputs": outputs})
    except Exception as error:
        results.append({"refused": str(error)[:500]})
print(json.dumps({"results": results}))
`;

const dtypeSchema = z.custom<DType>((name) => typeof name === "string" && name in arrayTypes);
const outputSchema = z.object({
  name: z.string().nullable(),
  dtype: dtypeSchema,
  shape: z.array(z.number()),
  file: z.string(),
});
const answerSchema = z.union([
  z.object({ missing: z.string() }),
  z.object({
    results: z.array(z.union([z.object({ outputs: z.array(outputSchema) }), z.object({ refused: z.string() })])),
  }),
]);

/** Runs the program with the inputs of each call. Never throws: a problem is returned as `missing`. */
export async function referenceOf(path: string, calls: readonly ReferenceCall[]): Promise<Reference> {
  const { command, env } = await pythonWithTorch();
  if (Bun.which(command) === null) return { missing: `there is no ${command}` };
  using temporary = temporaryFolder(tmpdir(), "sconce-reference-");
  const folder = temporary.path;
  try {
    await writeCalls(folder, calls);
    const began = performance.now();
    const child = Bun.spawn([command, "-c", script, folder, path, torchVersion()], {
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
    const answer = answerSchema.parse(JSON.parse(text));
    if ("missing" in answer) return answer;
    return { results: await Promise.all(answer.results.map((result) => resultOf(folder, result))) };
  } catch (error) {
    return { missing: messageOf(error) };
  }
}

async function writeCalls(folder: string, calls: readonly ReferenceCall[]): Promise<void> {
  const listed = calls.map((call, number) =>
    Object.entries(call).map(
      ([name, { dtype, shape }]) => [name, { dtype, shape, file: `in${number}.${name}` }] as const,
    ),
  );
  await Bun.write(join(folder, "calls.json"), JSON.stringify(listed.map((call) => Object.fromEntries(call))));
  for (const [number, call] of calls.entries()) {
    for (const [name, { data }] of Object.entries(call))
      await Bun.write(join(folder, `in${number}.${name}`), bytesOf(data));
  }
}

type Answered = Extract<z.infer<typeof answerSchema>, { results: unknown }>["results"][number];

async function resultOf(folder: string, result: Answered): Promise<ReferenceResult> {
  if ("refused" in result) return result;
  const outputs = result.outputs.map(async ({ name, dtype, shape, file }): Promise<ReferenceOutput> => {
    const { buffer } = await Bun.file(join(folder, file)).bytes();
    return { name: name ?? undefined, tensor: { dtype, shape, data: new arrayTypes[dtype](buffer) } };
  });
  return { outputs: await Promise.all(outputs) };
}
