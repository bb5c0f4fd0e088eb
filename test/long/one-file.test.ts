/** The whole command line as one file, and as a Python wheel, with an empty home and without a checkout. */
import { beforeAll, describe, expect, test } from "bun:test";
import { readdir, readlink } from "node:fs/promises";
import { basename, delimiter, dirname, join } from "node:path";
import { packWheel } from "../../scripts/pack/wheel.ts";
import { readLibtorch } from "../../scripts/setup/libtorch.ts";
import { minorOf } from "../../src/machine/libtorch/libtorch-build.ts";
import { libraryFiles } from "../../src/package/executable/library-files.ts";
import { bareRoot, bareRootTest } from "../helpers/bare-root.ts";
import { clientOf, follow } from "../helpers/cli.ts";
import { compiledProgram } from "../helpers/compiled-program.ts";
import { fileUri } from "../helpers/data-uri.ts";
import { systemLibraries } from "../helpers/executable.ts";
import { fixture, tempDir } from "../helpers/fixture.ts";

const root = join(import.meta.dir, "../..");
const digits = join(root, "examples/digits");
const libtorch = readLibtorch();

/** Path of the command line as one file, which `npm test` has compiled. */
let sconce: string;
let addons: Readonly<Record<string, string>>;

const dir = fixture(tempDir);
beforeAll(async () => {
  addons = { [minorOf(libtorch?.build ?? "")]: join(root, "build/Release/sconce.node") };
  sconce = process.env.SCONCE_TEST_PROGRAM ?? dir.join("sconce");
  if (process.env.SCONCE_TEST_PROGRAM === undefined) await compiledProgram(sconce);
});

bareRootTest(test)("packages a model of TypeScript, serves it, and writes another with its types", async () => {
  await using system = await bareRoot();
  const names = ["model.ts", "canonicalize.ts", "grey-picture.ts", "heat-map.ts", "digits.pt2", "samples/3.png"];
  const files = new Map(names.map((name) => [`/model/${name}`, join(digits, name)]));
  for (const [minor, path] of Object.entries(addons)) files.set(`/bin/addons/${minor}/sconce.node`, path);
  for (const { name, path } of (await libraryFiles()).libtorch) files.set(`/torch/lib/${name}`, path);
  files.set("/torch/version.py", join(libtorch?.root ?? "", "version.py")).set("/bin/sconce", sconce);
  await system.add({ ...Object.fromEntries(files), ...(await systemLibraries()) });
  const env = { HOME: "/tmp/home", LIBTORCH: "/torch" };
  const run = (...args: string[]) => system.run(["/bin/sconce", ...args], { env });

  await using building = run("build", "/model", "-t", ":v1");
  expect(await building.stdout, building.lines.join("\n")).toBe("digits:v1\n");
  await using server = run("serve", "digits:v1", "--port=0", "--host=127.0.0.1");
  const client = await clientOf(server);
  const image = await fileUri(join(digits, "samples/3.png"));
  expect(await client.predict([{ image }])).toMatchObject({ status: "success", outputs: [{ digit: 3 }] });

  await using writing = run("init", "/tmp/flowers");
  expect(await writing.stdout).toContain("  /bin/sconce build /tmp/flowers\n");
  const types = await readlink(join(system.path, "tmp/flowers/.sconce/types"));
  expect((await readdir(join(system.path, types))).sort()).toEqual([
    "LICENSE",
    "build",
    "node_modules",
    "package.json",
    "src",
    "tsconfig.json",
  ]);
});

const python = libtorch?.python?.command ?? "python3";
const hasPip = Bun.spawnSync([python, "-c", "import importlib.util as u; assert u.find_spec('pip')"]).success;

describe.skipIf(!hasPip || !libtorch?.python)("a wheel", () => {
  let wheel: string;
  const start = (command: readonly string[], ...paths: string[]) => {
    const env = { HOME: dir.join("home"), PYTHONPATH: [dir.join("site"), ...paths].join(delimiter) };
    return follow(Bun.spawn([...command], { env, stdin: "ignore", stdout: "pipe", stderr: "pipe" }));
  };

  beforeAll(async () => {
    wheel = await packWheel(dir.path, { executable: sconce, addons, level: 0 });
    const options = ["--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check", "--quiet"];
    await using pip = start([python, "-m", "pip", "install", ...options, "--target", dir.join("site"), wheel]);
    expect(await pip.exited, pip.lines.join("\n")).toBe(0);
  });

  test("has the supported systems in its file name, and packages weights with the installed torch", async () => {
    expect(basename(wheel)).toMatch(/^sconce_serve-[\d.]+-py3-none-manylinux_2_\d\d_(x86_64|aarch64)\.whl$/);
    const weights = join(root, "src/cli/commands/init/template/model.pt2");
    const building = ["build", weights, "-t", "weights:v1"];
    await using program = start([dir.join("site/bin/sconce"), ...building], dirname(libtorch?.root ?? ""));
    expect(await program.stdout, program.lines.join("\n")).toBe("weights:v1\n");
  });

  test("runs commands that need no torch without torch, and says how to install it for the others", async () => {
    const { version } = await Bun.file(join(root, "package.json")).json();
    await using asked = start([python, "-S", "-m", "sconce_serve", "--version"]);
    expect(await asked.stdout).toBe(`${version}\n`);
    expect(asked.lines).toEqual([]);
    await using building = start([python, "-S", "-m", "sconce_serve", "build", digits]);
    expect(await building.exited).toBe(1);
    expect(building.lines[0]).toBe("sconce: this Python has no torch, which runs the models: pip install torch");
  });
});
