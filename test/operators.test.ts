/** Libraries with custom operators are packaged with the model, and loaded before its weights. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { cp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { readLibtorch } from "../scripts/setup/libtorch.ts";
import { type CliResult, cli } from "./helpers/cli.ts";
import { compiledOperators } from "./helpers/operators.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";

let dir: TempDir;
let made: string;

beforeAll(async () => {
  dir = await tempDir();
  made = await compiledOperators();
}, 600_000);

afterAll(() => dir[Symbol.asyncDispose]());

const model = (operators: string) => `import { defineModel, float32, tensor, z } from "sconce";
export default defineModel({
  name: "triple",
  input: z.object({ x: z.number() }),
  output: z.object({ y: z.number() }),
  tensors: { inputs: { x: float32() }, outputs: { y: float32() } },
  weights: "triple.pt",
  operators: ${operators},
  example: { x: 2 },
  preprocess: ({ x }) => ({ x: tensor(Float32Array.of(x), []) }),
  postprocess: ({ y }) => ({ y: y.data[0] ?? 0 }),
});
`;

/** Builds in a separate process, because a process cannot unload a library. */
async function build(operators: string): Promise<CliResult> {
  const folder = join(dir.path, Bun.hash(operators).toString(36));
  await cp(made, folder, { recursive: true });
  await writeFile(join(folder, "model.ts"), model(operators));
  return cli(["build", folder], { env: { SCONCE_HOME: join(dir.path, "store") } });
}

test("a model with its operators builds, packs and runs", async () => {
  expect((await build('["operators.so"]')).code).toBe(0);
  const { code, stdout, stderr } = await cli(["predict", "triple", "x=2.5"], {
    env: { SCONCE_HOME: join(dir.path, "store") },
  });
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(JSON.parse(stdout)).toEqual({ y: 7.5 });
});

test("an executable file contains the libraries of custom operators", async () => {
  expect((await build('["operators.so"]')).code).toBe(0);
  const path = join(dir.path, "executable");
  const env = { SCONCE_HOME: join(dir.path, "store"), SCONCE_CACHE_DIR: join(dir.path, "cache") };
  expect((await cli(["compile", "triple", "-o", path, "--libtorch", "external"], { env })).code).toBe(0);
  const libtorch = readLibtorch()?.root ?? "";
  const child = Bun.spawn([path, "predict", "x=2.5", "--libtorch", libtorch], { env, stdout: "pipe" });
  expect(JSON.parse(await child.stdout.text())).toEqual({ y: 7.5 });
});

test("a model that lacks its operators is refused with the operator's name", async () => {
  const { code, stderr } = await build("[]");
  expect(code).toBe(1);
  expect(stderr).toContain("sconce::triple");
});

test("a file that is not a library is refused by name", async () => {
  const { code, stderr } = await build('["broken.so"]');
  expect(code).toBe(1);
  expect(stderr).toContain("operators broken.so cannot be loaded: ");
});
