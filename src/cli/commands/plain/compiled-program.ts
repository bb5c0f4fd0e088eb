/** Compiles exported programs with AOTInductor, by a Python with torch. Results are cached. */
import { existsSync, mkdirSync } from "node:fs";
import { cpus } from "node:os";
import { basename, join } from "node:path";
import { SconceError } from "../../../base/errors.ts";
import { log } from "../../../base/log.ts";
import { Archive } from "../../../engine/native/archive.ts";
import { torchVersion } from "../../../engine/native/binding.ts";
import { GUARDS_KEY, guardSourceOf, programFile } from "../../../engine/native/program.ts";
import type { GuardSource } from "../../../engine/native/program-guards.ts";
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
 * `enlarged` exports the program again with the rows of the example repeated. It keeps the program if that is
 * impossible: with a fixed batch, or if the program's guards refuse the example.
 * Compiled code usually refuses sizes below 2. `backed_size_oblivious` compiles for them where the program declares
 * such a size.
 * `precompile_headers` pays off only for many packages.
 * On a CPU, freezing repacks weights for the processor, and layout optimization chooses the memory format that
 * convolutions prefer. Linear layers then take less than half the time.
 */
const script = `import sys, torch, torch._inductor.config as config
from torch.utils._pytree import tree_map, tree_unflatten, tree_leaves
def sizes_of(program):
    values = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    return {name: list(values[name].shape) for name in program.graph_signature.user_inputs}
def is_small(program, size):
    return not isinstance(size, int) and size.node.expr in program.range_constraints and program.range_constraints[size.node.expr].lower < 2
def enlarged(program, rows):
    args, kwargs = program.example_inputs
    sizes = list(sizes_of(program).values())
    batch = sizes[0][0]
    if isinstance(batch, int) or any(tensor.shape[0] >= rows for tensor in tree_leaves((args, kwargs))):
        return program
    def more(tensor, shape):
        for dim, size in enumerate(shape):
            if not isinstance(size, int) and str(size) == str(batch):
                tensor = tensor.index_select(dim, torch.arange(rows, device=tensor.device) % tensor.shape[dim])
        return tensor
    spec = torch.utils._pytree.tree_structure((args, kwargs))
    leaves = [more(*each) for each in zip(tree_leaves((args, kwargs)), sizes, strict=True)]
    args, kwargs = tree_unflatten(leaves, spec)
    def dimension(size):
        if not is_small(program, size):
            return torch.export.Dim.AUTO
        range = program.range_constraints[size.node.expr]
        return torch.export.Dim(str(size), min=int(range.lower), max=int(range.upper) if range.upper < 2**31 else None)
    def exported(dimension):
        free = [{dim: dimension(size) for dim, size in enumerate(shape) if not isinstance(size, int)} for shape in sizes]
        shapes, named = tree_unflatten(free, spec)
        return torch.export.export(program.module(), args, kwargs, dynamic_shapes=(*shapes, *named.values()), strict=False)
    try:
        larger = exported(dimension)
    except Exception:
        larger = exported(lambda size: torch.export.Dim.AUTO)
    same = zip(sizes, sizes_of(larger).values(), strict=True)
    is_free = all(isinstance(old, int) == isinstance(new, int) for each in same for old, new in zip(*each, strict=True))
    return larger if is_free else program
options = {"aot_inductor.precompile_headers": False} if hasattr(config.aot_inductor, "precompile_headers") else {}
program = torch.export.load(sys.argv[1])
if any(is_small(program, size) for sizes in sizes_of(program).values() for size in sizes[1:]):
    torch.fx.experimental._config.backed_size_oblivious = True
try:
    program = enlarged(program, int(sys.argv[5]))
except Exception as error:
    print(f"the example is kept as it is: {error}", file=sys.stderr)
options["aot_inductor.metadata"] = {sys.argv[3]: sys.argv[4]}
if all(each.device.type == "cpu" for each in program.state_dict.values()):
    options |= {"freezing": True, "force_layout_optimization": True}
torch._inductor.aoti_compile_and_package(program, package_path=sys.argv[2], inductor_configs=options)`;

/** JSON of the guards. Bounds become doubles; this rounds only bounds too large to matter. */
function guardJson(guards: GuardSource): string {
  return JSON.stringify(guards, (_key, value: unknown) => (typeof value === "bigint" ? Number(value) : value));
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
  const guards = guardJson(guardSourceOf(path));
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
      throw newerProgram(path) ?? notCompiled(path, pythonFailure(command, errors, child));
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
  const [, saved = ""] = /"torch_version": ?"([^"+]+)/.exec(Archive.open(path)?.text(programFile) ?? "") ?? [];
  if (saved === "" || Bun.semver.order(saved, torchVersion()) <= 0) return undefined;
  const name = basename(path);
  return new SconceError(
    "weights_invalid",
    `${name} was saved by torch ${saved}, and torch ${torchVersion()} of this sconce can't read it: save it with that one, in Python: pip install torch==${torchVersion()}; torch.export.save(torch.export.export(net.eval(), example, dynamic_shapes=…), "${name}")`,
  );
}

function notCompiled(path: string, why: string): SconceError {
  const name = basename(path);
  return new SconceError(
    "weights_invalid",
    `${name} is an exported program, and can't be compiled here (${why}): install a C++ compiler and torch ${torchVersion()} for python3, or compile it where they are: torch._inductor.aoti_compile_and_package(torch.export.load("${name}"), package_path="compiled.pt2")`,
  );
}
