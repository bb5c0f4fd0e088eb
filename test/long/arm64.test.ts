/**
 * The addons, the npm packages, the one file and an image for Linux on arm64. This machine compiles them, and runs them
 * through an emulator. Emulation orders memory like x86-64, and is slow, so no test here depends on order or time.
 */
import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { heldOutDigits } from "../../examples/digits/heldout.ts";
import { madeAddons } from "../../scripts/pack/addons.ts";
import { targetFor } from "../../scripts/pack/cross.ts";
import { packPackages } from "../../scripts/pack/npm.ts";
import { compileCommandLine } from "../../scripts/pack/one-file.ts";
import { run } from "../../scripts/setup/command.ts";
import { bunPackage } from "../../src/base/platform-package.ts";
import { addonName } from "../../src/machine/libtorch/pack.ts";
import type { LibraryFile } from "../../src/package/executable/library-files.ts";
import { arm64Obstacle, arm64Root, emulation, minor } from "../helpers/arm64.ts";
import { bareRoot } from "../helpers/bare-root.ts";
import { clientOf, type RunningCli } from "../helpers/cli.ts";
import type { Client } from "../helpers/client.ts";
import { fixture, tempDir } from "../helpers/fixture.ts";
import { readImage, startOf, unpackImage } from "../helpers/image.ts";
import { cacheFolder } from "../helpers/machine.ts";
import { npmRegistry } from "../helpers/npm-registry.ts";
import { storeWith } from "../helpers/server.ts";
import { greatestDifference } from "../helpers/tensors.ts";

const checkout = join(import.meta.dir, "../..");
const obstacle = await arm64Obstacle();
/** A digit's scores on two processors differ by rounding. */
const MOST = 1e-5;
const LIMIT_MS = 600_000;

/** Test files for the addons. */
const nativeFiles = [
  "native",
  "native-call",
  "native-errors",
  "native-lifetime",
  "native-programs",
  "dtypes",
  "frames",
  "written-pictures",
  "long/packed-layers",
];
/** Parts of names of tests that depend on machine code for x86-64, on its rounding, or on figures of memory. */
const others = [
  "compiled package",
  "aotinductor",
  "AOTInductor",
  "a package that",
  "are recognized by",
  "memory",
  "as exact as",
];

function tests(): void {
  const target = fixture(() => targetFor("arm64"));
  const dir = fixture(tempDir);
  const store = fixture(() => storeWith(join(checkout, "examples/digits")));
  const known = fixture(async () => {
    const inputs = (await heldOutDigits()).slice(0, 100).map(({ image }) => ({ image: image.toDataUri() }));
    await using server = await store.serve("digits");
    return { inputs, scores: await scoresOf(server.client, inputs) };
  });

  const registry = fixture(async () => {
    const addons = madeAddons({ minors: [minor], arch: "arm64" });
    const packages = await packPackages(dir.join("packed"), addons, target, { level: 0, isStripped: false });
    const [bun, at] = [dir.join("bun.tgz"), dirname(dirname(target.bun))];
    await run([process.execPath, "pm", "pack", "--gzip-level=0", "--cwd", at, "--filename", bun], { verbose: false });
    return npmRegistry([...packages, bun]);
  }, LIMIT_MS);

  /** Compares a server's answers with this machine's, and stops the server. */
  async function expectSameAnswers(server: RunningCli): Promise<void> {
    const scores = await scoresOf(await clientOf(server), known.inputs);
    const apart = greatestDifference(scores, known.scores);
    console.log(`arm64: ${scores.length} scores differ by at most ${apart}`);
    expect(apart).toBeLessThan(MOST);
    server.kill("SIGTERM");
    expect(await server.exited, server.lines.join("\n")).toBe(0);
  }

  test(
    "the addons pass their tests, and packed layers have PyTorch's outputs",
    async () => {
      await using root = await arm64Root();
      const build = "/build/Release";
      const { bun, pixels, files } = target;
      await root.add({ "/bun": bun, [`${build}/${addonName}`]: files.addon.path, [`${build}/pixels.so`]: pixels });
      await root.add(inFolder(`${build}/libtorch/lib`, files.libtorch));
      const binds = { "/sconce": checkout, "/sconce/build": join(root.path, "build") };
      const names = `--test-name-pattern=^(?!.*(${others.join("|")})).*$`;
      const paths = nativeFiles.map((name) => `test/${name}.test.ts`);
      const options = ["test", "--no-isolate", `--timeout=${LIMIT_MS}`, names, ...paths];
      await using tests = root.run(["/bun", ...options], { cwd: "/sconce", env: home, binds });
      expect(await tests.exited, tests.lines.join("\n")).toBe(0);
      const passed = Number(/^ *(\d+) pass$/m.exec(tests.lines.join("\n"))?.[1]);
      console.log(`arm64: ${passed} tests of the addons pass`);
      expect(passed).toBeGreaterThan(300);
    },
    LIMIT_MS,
  );

  test(
    "the npm packages, installed by Bun, serve a model",
    async () => {
      await using root = await arm64Root();
      await root.add({ "/bun": target.bun });
      const env = { ...home, BUN_CONFIG_REGISTRY: registry.url, SCONCE_HOME: "/store" };
      await using adding = root.run(["/bun", "add", "sconce"], { cwd: "/tmp", env });
      expect(await adding.exited, adding.lines.join("\n")).toBe(0);
      const command = ["/bun", "node_modules/.bin/sconce", "serve", "digits", ...listening];
      await expectSameAnswers(root.run(command, { cwd: "/tmp", env, binds: { "/store": store.home } }));
    },
    LIMIT_MS,
  );

  test(
    "the command line as one file serves a model",
    async () => {
      await using root = await arm64Root();
      const outfile = join(root.path, "sconce");
      await withCache(() => compileCommandLine({ outfile, libtorch: "embedded", target }));
      const env = { ...home, SCONCE_HOME: "/store" };
      await expectSameAnswers(
        root.run(["/sconce", "serve", "digits", ...listening], { env, binds: { "/store": store.home } }),
      );
    },
    LIMIT_MS,
  );

  const runtime = existsSync("/usr/aarch64-linux-gnu/lib/libstdc++.so.6")
    ? ""
    : " (skipped: it needs libstdc++6-arm64-cross)";
  test.skipIf(runtime !== "")(
    `an image, written on this machine from the npm packages, serves its model${runtime}`,
    async () => {
      const [project, images] = [dir.join("project"), dir.join("images")];
      await Bun.write(join(project, "package.json"), "{}");
      const env = { ...home, HOME: dir.path, BUN_CONFIG_REGISTRY: registry.url, SCONCE_HOME: store.home };
      const bun = (...args: string[]) => run([process.execPath, ...args], { verbose: false, env });
      await bun("add", "--cwd", project, "--cpu=*", "sconce", `${bunPackage("arm64")}@${Bun.version}`);
      const script = join(project, "node_modules/.bin/sconce");
      await bun(script, "image", "digits", "-o", images, "--tag", "digits:arm64", "--platform", "linux/arm64");
      await using root = await bareRoot(emulation);
      const image = readImage(images, "digits:arm64");
      await unpackImage(images, image, root.path);
      const { command, options } = startOf(image);
      await expectSameAnswers(root.run([...command, ...listening], options));
    },
    LIMIT_MS,
  );
}

const listening = ["--host", "127.0.0.1", "--port", "0"];
const home = { HOME: "/tmp", TMPDIR: "/tmp", PATH: "/" };

async function scoresOf(client: Client, inputs: readonly unknown[]): Promise<number[]> {
  const { status, outputs = [] } = await client.predict(inputs);
  expect(status).toBe("success");
  return outputs.flatMap(({ scores }) => z.array(z.number()).parse(scores));
}

/** Compiles with the libraries that the tests have compressed before. */
async function withCache(compile: () => Promise<unknown>): Promise<void> {
  const { SCONCE_CACHE_DIR: before } = process.env;
  process.env.SCONCE_CACHE_DIR = cacheFolder;
  try {
    await compile();
  } finally {
    if (before === undefined) delete process.env.SCONCE_CACHE_DIR;
    else process.env.SCONCE_CACHE_DIR = before;
  }
}

function inFolder(folder: string, files: readonly LibraryFile[]): Record<string, string> {
  return Object.fromEntries(files.map(({ name, path }) => [`${folder}/${name}`, path]));
}

if (obstacle === undefined) describe("on arm64", tests);
else test.skip(`Linux on arm64 (skipped: ${obstacle})`, () => {});
