/**
 * The npm packages, installed on a machine that has only Bun: no Python, no other libtorch, no checkout, an empty
 * home.
 */
import { beforeAll, expect, test } from "bun:test";
import { chmod, mkdir, readdir, symlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { targetFor } from "../../scripts/pack/cross.ts";
import { packPackages } from "../../scripts/pack/npm.ts";
import { readLibtorch } from "../../scripts/setup/libtorch.ts";
import { thisArchitecture } from "../../src/base/platform-package.ts";
import { minorOf } from "../../src/machine/libtorch/libtorch-build.ts";
import { clientOf, follow } from "../helpers/cli.ts";
import { fixture, tempDir } from "../helpers/fixture.ts";
import { npmRegistry } from "../helpers/npm-registry.ts";

const root = join(import.meta.dir, "../..");
const libtorch = readLibtorch();
let project: string;

/** Runs Bun as a user with an empty home, with no variables but these and `env`. */
function start(command: readonly string[], { cwd = project, env = {} } = {}) {
  const known = {
    HOME: dir.join("home"),
    PATH: dir.join("bin"),
    TMPDIR: dir.join("tmp"),
    BUN_CONFIG_REGISTRY: registry.url,
  };
  const options = { stdin: "ignore", stdout: "pipe", stderr: "pipe" } as const;
  return follow(Bun.spawn([process.execPath, ...command], { ...options, cwd, env: { ...known, ...env } }));
}

async function output(command: readonly string[], options: Parameters<typeof start>[1] = {}): Promise<string> {
  await using child = start(command, options);
  const text = await child.stdout;
  expect(await child.exited, child.lines.join("\n") + text).toBe(0);
  return text;
}

const dir = fixture(tempDir);
const registry = fixture(async () => {
  for (const name of ["home", "bin", "tmp", "packed"]) await mkdir(dir.join(name));
  await symlink(process.execPath, dir.join("bin", "bun"));
  const addons = { [minorOf(libtorch?.build ?? "")]: join(root, "build/Release/sconce.node") };
  // Compression and the removal of symbols would take most of the time of this file.
  const form = { level: 0, isStripped: false };
  return npmRegistry(await packPackages(dir.join("packed"), addons, await targetFor(thisArchitecture()), form));
});
beforeAll(async () => {
  project = dir.join("my-model");
  await output(["create", "sconce", "my-model"], { cwd: dir.path });
});

test("bun create sconce DIR makes a folder that `bun run serve` serves", async () => {
  await using server = start(["run", "serve", "--port", "0", "--host", "127.0.0.1"]);
  const client = await clientOf(server);
  expect(await client.predict([{ colour: "#ff8800" }])).toMatchObject({ status: "success" });
  // `bun run` passes the signal on to the server.
  server.kill("SIGTERM");
  expect(await server.exited).toBe(0);
});

test("libtorch comes from $LIBTORCH, else from the Python on the PATH, else from the npm package; unsupported versions are skipped", async () => {
  const libtorchOf = async (env = {}) => {
    await using doctor = start(["x", "sconce", "doctor", "--port", "0"], { env });
    return /^. libtorch .* in (\S+)$/m.exec(await doctor.stdout)?.[1];
  };
  const packaged = join(project, "node_modules/@sconce", `libtorch-linux-${process.arch}`);
  const python = async (torch: string) => {
    const folder = dir.join(`python-${basename(torch)}`);
    await Bun.write(join(folder, "python3"), `#!/bin/sh\necho ${torch}\n`);
    await chmod(join(folder, "python3"), 0o755);
    return `${folder}:${dir.join("bin")}`;
  };
  expect(await libtorchOf()).toBe(packaged);
  await Bun.write(dir.join("old/build-version"), "1.13.1\n");
  await Bun.write(dir.join("old/lib/libtorch_cpu.so"), "");
  expect(await libtorchOf({ PATH: await python(dir.join("old")) })).toBe(packaged);
  const found = libtorch?.root ?? "";
  expect(await libtorchOf({ PATH: await python(found) })).toBe(found);
  expect(await libtorchOf({ PATH: await python(dir.join("old")), LIBTORCH: found })).toBe(found);
});

test.if(Bun.which("npm") !== null)("npm create sconce DIR makes the same folder, with Bun on the PATH", async () => {
  const env = {
    HOME: dir.join("npm-home"),
    PATH: `${dir.join("bin")}:${dirname(Bun.which("npm") ?? "")}:/usr/bin:/bin`,
    BUN_CONFIG_REGISTRY: registry.url,
    // Bun, which npm runs here, installs the packages that `bun create` has downloaded before.
    BUN_INSTALL_CACHE_DIR: dir.join("home/.bun/install/cache"),
    npm_config_registry: registry.url,
  };
  const command = ["npm", "create", "--yes", "sconce", "by-npm"];
  await using npm = follow(Bun.spawn(command, { cwd: dir.path, env, stdin: "ignore", stdout: "pipe", stderr: "pipe" }));
  const text = await npm.stdout;
  expect(await npm.exited, npm.lines.join("\n") + text).toBe(0);
  expect(await readdir(dir.join("by-npm"))).toEqual(await readdir(project));
});

test("build and check resolve relative folders in environment variables from the folder of the caller", async () => {
  await symlink(libtorch?.root ?? "", dir.join("torch"));
  const env = { LIBTORCH: "torch", SCONCE_HOME: "own/home", SCONCE_CACHE_DIR: "own/cache" };
  const sconce = join(project, "node_modules/sconce/src/main.ts");
  const options = { cwd: dir.path, env };
  const reference = (await output([sconce, "build", "my-model"], options)).trim();
  expect(await output([sconce, "models"], { env: { SCONCE_HOME: dir.join("own/home") } })).toContain(
    reference.split(":")[0] ?? reference,
  );
  await output([sconce, "check", "my-model"], options);
  expect(await readdir(project)).not.toContain("own");
});

test("the installed packages include the image addon", async () => {
  const script = `import { Image } from "sconce";
    const image = await Image.fromPixels({ data: Uint8Array.of(1, 2, 3), width: 1, height: 1, channels: 3 });
    console.log(...(await image.pixels()).data);`;
  expect(await output(["-e", script], { cwd: project })).toBe("1 2 3\n");
});

test("the package sconce names the packages of each platform, and refuses any other platform by name", async () => {
  const { optionalDependencies } = await Bun.file(join(project, "node_modules/sconce/package.json")).json();
  const packages = ["linux-x64-gnu", "libtorch-linux-x64", "linux-arm64-gnu", "libtorch-linux-arm64"];
  expect(Object.keys(optionalDependencies)).toEqual(packages.map((name) => `@sconce/${name}`));
  const script = `import { Image } from "sconce";
    Object.defineProperty(process, "arch", { value: "riscv64" });
    await Image.fromPixels({ data: Uint8Array.of(1), width: 1, height: 1, channels: 1 }).catch(({ message }) => console.log(message));`;
  expect(await output(["-e", script], { cwd: project })).toBe(
    "sconce has no native addon for linux riscv64: it runs on Linux with glibc, on x64 and arm64; use such a machine, or a Linux container\n",
  );
});

test("the types resolve with Node's module resolution, the strictest, without Bun's types", async () => {
  const misspelt =
    'import { image } from "sconce";\n// @ts-expect-error\nexport const field = image({ maxByts: 1 });\n';
  await Bun.write(join(project, "fields.ts"), misspelt);
  const how = ["--module", "nodenext", "--moduleResolution", "nodenext", "--skipLibCheck", "false"];
  expect(await output([join(root, "node_modules/typescript/bin/tsc"), "-p", ".", ...how])).toBe("");
});

test("no installed package sends a report about its installation", () => {
  expect(registry.downloads).toContain("sconce");
  expect(registry.downloads.filter((name) => /scarf|swagger-ui-dist/.test(name))).toEqual([]);
});
