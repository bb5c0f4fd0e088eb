/** Compiles exported programs with AOTInductor, by a Python with torch. Results are cached. */
import { existsSync, mkdirSync } from "node:fs";
import { cpus } from "node:os";
import { basename, join } from "node:path";
import { SconceError } from "../../../base/errors.ts";
import { log } from "../../../base/log.ts";
import { torchVersion } from "../../../engine/native/binding.ts";
import { GUARDS_KEY, WeightsFile } from "../../../engine/program/weights-file.ts";
import { madeOnce } from "../../../machine/files/made-once.ts";
import { cacheLocation, secureFolder } from "../../../machine/libtorch/cache-folder.ts";
import { pythonFailure, pythonWithTorch } from "./python-torch.ts";

/**
 * Rows to which a smaller example is enlarged, if the model declares no largest batch. Inductor specializes kernels for
 * the rows of the example.
 */
const EXAMPLE_ROWS = 32;

/**
 * Python script that compiles an exported program.
 * - `enlarged` repeats the rows of the example and exports the program again, with only tensors as arguments and
 * results. If that fails, the program stays unchanged.
 * - `with_dtypes` gives scalar tensors the dtype of the program, because Inductor would make int64 tensors of integers.
 * - `backed_size_oblivious` lets the compiled code accept sizes below 2, if the program declares such a size.
 * - `precompile_headers` is off, because it pays off only for many packages.
 * - On a CPU, freezing rearranges weights for the processor, and layout optimization chooses the memory format that
 * convolutions prefer. Linear layers then take less than half the time.
 */
const script = `import inspect, sys, torch, torch._inductor.config as config
from torch.export.graph_signature import InputKind, OutputKind, TensorArgument
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten
def sizes_of(program):
    values = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    arguments = [spec.arg for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]
    return {arg.name: list(values[arg.name].shape) for arg in arguments if isinstance(arg, TensorArgument)}
def is_small(program, size):
    return not isinstance(size, int) and size.node.expr in program.range_constraints and program.range_constraints[size.node.expr].lower < 2
def is_tensor(value):
    return isinstance(value, torch.Tensor)
def tensors_only(program):
    leaves, spec = tree_flatten(program.example_inputs)
    constants, module = [None if is_tensor(each) else (each,) for each in leaves], program.module()
    def forward(*args, **kwargs):
        tensors = iter(tree_leaves((args, kwargs)))
        args, kwargs = tree_unflatten([next(tensors) if each is None else each[0] for each in constants], spec)
        outputs = module(*args, **kwargs)
        if isinstance(outputs, dict):
            return {name: each for name, each in outputs.items() if each is not None}
        return tuple(each for each in outputs if each is not None) if isinstance(outputs, (tuple, list)) else outputs
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in sizes_of(program)]
    forward.__signature__ = inspect.Signature(parameters)
    wrapper = torch.nn.Module()
    wrapper.module, wrapper.forward = module, forward
    return wrapper
def enlarged(program, rows):
    leaves, spec = tree_flatten(program.example_inputs)
    tensors, sizes = [each for each in leaves if is_tensor(each)], list(sizes_of(program).values())
    results = [spec.arg for spec in program.graph_signature.output_specs if spec.kind == OutputKind.USER_OUTPUT]
    has_constants = len(tensors) < len(leaves) or any(not isinstance(each, TensorArgument) for each in results)
    batch = sizes[0][0]
    is_large = isinstance(batch, int) or any(tensor.shape[0] >= rows for tensor in tensors)
    if is_large and not has_constants:
        return program
    def more(tensor, shape):
        for dim, size in enumerate(shape):
            if not is_large and not isinstance(size, int) and str(size) == str(batch):
                tensor = tensor.index_select(dim, torch.arange(rows, device=tensor.device) % tensor.shape[dim])
        return tensor.clone()
    tensors = [more(*each) for each in zip(tensors, sizes, strict=True)]
    module, given = tensors_only(program) if has_constants else program.module(), iter(tensors)
    args, kwargs = tree_unflatten([next(given) if is_tensor(each) else each for each in leaves], spec)
    if has_constants:
        args, kwargs = tuple(filter(is_tensor, args)), {name: each for name, each in kwargs.items() if is_tensor(each)}
    def dimension(size):
        if not is_small(program, size):
            return torch.export.Dim.AUTO
        range = program.range_constraints[size.node.expr]
        return torch.export.Dim(str(size), min=int(range.lower), max=int(range.upper) if range.upper < 2**31 else None)
    def exported(dimension):
        shapes = torch.export.ShapesCollection()
        for tensor, shape in zip(tensors, sizes):
            shapes[tensor] = {dim: dimension(size) for dim, size in enumerate(shape) if not isinstance(size, int)}
        return torch.export.export(module, args, kwargs, dynamic_shapes=shapes, strict=False)
    try:
        larger = exported(dimension)
    except Exception:
        larger = exported(lambda size: torch.export.Dim.AUTO)
    same = zip(sizes, sizes_of(larger).values(), strict=True)
    is_free = all(isinstance(old, int) == isinstance(new, int) for each in same for old, new in zip(*each, strict=True))
    return larger if is_free else program
def with_dtypes(program):
    for node in program.graph.find_nodes(op="call_function", target=torch.ops.aten.scalar_tensor.default):
        node.kwargs = {**node.kwargs, "dtype": node.meta["val"].dtype}
options = {"aot_inductor.precompile_headers": False} if hasattr(config.aot_inductor, "precompile_headers") else {}
program = torch.export.load(sys.argv[1])
if any(is_small(program, size) for sizes in sizes_of(program).values() for size in sizes[1:]):
    torch.fx.experimental._config.backed_size_oblivious = True
try:
    program = enlarged(program, int(sys.argv[5]))
except Exception as error:
    print(f"the example is kept as it is: {error}", file=sys.stderr)
with_dtypes(program)
options["aot_inductor.metadata"] = {sys.argv[3]: sys.argv[4]}
if all(each.device.type == "cpu" for each in program.state_dict.values()):
    options |= {"freezing": True, "force_layout_optimization": True}
torch._inductor.aoti_compile_and_package(program, package_path=sys.argv[2], inductor_configs=options)`;

/**
 * JSON of the guards. Bounds become numbers, because JSON has no bigint. Only bounds that are too large to matter are
 * rounded.
 */
function guardJson(program: WeightsFile): string {
  return JSON.stringify(program.guardSource(), (_key, value: unknown) =>
    typeof value === "bigint" ? Number(value) : value,
  );
}

/**
 * Compiles an exported program, or finds the cached result.
 * @param rows the largest batch that the model declares
 * @returns the path of the AOTInductor package
 * @throws SconceError `weights_invalid` with a fix when compiling fails
 */
export async function compiledProgram(path: string, rows = EXAMPLE_ROWS): Promise<string> {
  const file = await compiledPath(path, rows);
  if (existsSync(file)) return file;
  const guards = guardJson(new WeightsFile(path));
  const { command, env } = await pythonWithTorch();
  if (Bun.which(command) === null) throw notCompiled(path, `there is no ${command} to run`);
  log.info(`Compiling ${basename(path)} with AOTInductor; the result is kept for the next time`);
  return madeOnce(file, async (unfinished) => {
    const child = Bun.spawn([command, "-c", script, path, unfinished, GUARDS_KEY, guards, String(rows)], {
      env: { ...process.env, ...env },
      stdin: "ignore",
      stdout: "ignore",
      stderr: "pipe",
    });
    const errors = await child.stderr.text();
    if ((await child.exited) !== 0)
      throw (
        newerProgram(path) ?? (isRefused(errors) ? refused : notCompiled)(path, pythonFailure(command, errors, child))
      );
  });
}

/**
 * Path of a program's package in the cache. Its name is a hash of the program, the largest batch, the script, torch's
 * version and the processor.
 */
export async function compiledPath(path: string, rows = EXAMPLE_ROWS): Promise<string> {
  const hasher = new Bun.CryptoHasher("sha256");
  hasher.update(`${torchVersion()} ${process.arch} ${cpus()[0]?.model} ${rows}\n${script}\n`);
  for await (const part of Bun.file(path).stream()) hasher.update(part);
  const cache = cacheLocation(process.env.SCONCE_CACHE_DIR);
  if (cache === undefined) throw notCompiled(path, "there is no cache directory: set SCONCE_CACHE_DIR");
  const folder = join(cache, "compiled");
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return join(secureFolder(folder), `${hasher.digest("hex").slice(0, 32)}.pt2`);
}

/**
 * The error for a program that a later release of torch has saved; PyTorch's own error does not mention the release.
 * Undefined for other programs.
 */
function newerProgram(path: string): SconceError | undefined {
  const [, saved = ""] = /"torch_version": ?"([^"+]+)/.exec(new WeightsFile(path).programText ?? "") ?? [];
  if (saved === "" || Bun.semver.order(saved, torchVersion()) <= 0) return undefined;
  const name = basename(path);
  return new SconceError(
    "weights_invalid",
    `${name} was saved by torch ${saved}, and torch ${torchVersion()} of this sconce can't read it: save it with that one, in Python: pip install torch==${torchVersion()}; torch.export.save(torch.export.export(net.eval(), example, dynamic_shapes=…), "${name}")`,
  );
}

/** Whether AOTInductor ran and does not support the program. Otherwise Python, torch or the C++ compiler is missing. */
export function isRefused(errors: string): boolean {
  return /^torch\._(?:inductor|dynamo)\.exc\.\w+: /m.test(errors) && !/CxxCompiler|CppCompileError/.test(errors);
}

function refused(path: string, why: string): SconceError {
  return new SconceError(
    "weights_invalid",
    `AOTInductor of torch ${torchVersion()} can't compile ${basename(path)} (${why}): export the network without the operation that it does not support`,
  );
}

function notCompiled(path: string, why: string): SconceError {
  const name = basename(path);
  return new SconceError(
    "weights_invalid",
    `${name} is an exported program, and can't be compiled here (${why}): install a C++ compiler and torch ${torchVersion()} for python3, or compile it where they are: torch._inductor.aoti_compile_and_package(torch.export.load("${name}"), package_path="compiled.pt2")`,
  );
}
