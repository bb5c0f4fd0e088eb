/**
 * Makes the npm packages in dist/: sconce, create-sconce for `bun create sconce`, and the addons and libtorch of one
 * platform. The package sconce is the same for all platforms.
 */
import { chmodSync, cpSync, mkdirSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { formatBytes } from "../../src/base/bytes.ts";
import {
  architectures,
  isArchitecture,
  libtorchPackage,
  pixelsName,
  platformPackage,
} from "../../src/base/platform-package.ts";
import { addonName } from "../../src/machine/libtorch/pack.ts";
import type { Target } from "../../src/package/executable/target.ts";
import { tempDir } from "../../test/helpers/fixture.ts";
import type { PackOptions } from "../pack.ts";
import { sourcesDigest } from "../setup/addon.ts";
import { run } from "../setup/command.ts";
import { pageFolder } from "../setup/page.ts";
import { root } from "../setup/step.ts";
import { madeAddons } from "./addons.ts";
import { isForCpus, targetFor } from "./cross.ts";
import { requirePublishable, writeLibtorch } from "./libtorch.ts";
import { tryPackages } from "./npm-trial.ts";
import { writeTypes } from "./types.ts";

export const dist = join(root, "dist");
const { version, license, description, dependencies } = await Bun.file(join(root, "package.json")).json();
/**
 * Removes `swagger-ui-dist` from the dependencies, because it depends on a package that reports each installation. The
 * build copies the needed files instead.
 */
const { "swagger-ui-dist": _, ...exact } = dependencies;
const swaggerFiles = [
  "LICENSE",
  "NOTICE",
  "swagger-ui-bundle.js",
  "swagger-ui-bundle.js.LICENSE.txt",
  "swagger-ui.css",
];

export async function pack(options: PackOptions): Promise<void> {
  const { arch, isTried } = options;
  const found = madeAddons(options);
  const target = await targetFor(arch);
  requirePublishable(target);
  const tarballs = await packPackages(dist, found, target);
  for (const path of tarballs) console.log(`${relative(root, path)}: ${formatBytes(statSync(path).size)}`);
  if (isTried && arch === process.arch) await tryPackages(tarballs);
}

/** Paths of addons, by minor release of torch. */
export type Addons = Readonly<Record<string, string>>;

export interface PackageForm {
  /** Compression level of gzip, 0 to 9. */
  readonly level: number;
  /** Whether libtorch lacks its local symbols. */
  readonly isStripped: boolean;
}

/** Writes the npm packages as tarballs. @returns their paths */
export async function packPackages(
  folder: string,
  found: Addons,
  target: Target,
  { level, isStripped }: PackageForm = { level: 9, isStripped: true },
): Promise<string[]> {
  await using work = await tempDir();
  mkdirSync(folder, { recursive: true });
  const libtorch = await libtorchFiles(work.join("libtorch"), target, isStripped);
  const made = [
    libtorch,
    await sconce(work.join("sconce"), libtorch.version),
    await addons(work.join("addons"), found, target),
    await createSconce(work.join("create-sconce")),
  ];
  const paths = [];
  for (const { name, version, at } of made) {
    const path = join(folder, `${name.replace("@", "").replace("/", "-")}-${version}.tgz`);
    const options = ["--quiet", "--ignore-scripts", "--gzip-level", String(level), "--cwd", at, "--filename", path];
    await run([process.execPath, "pm", "pack", ...options], { verbose: false });
    paths.push(path);
  }
  return paths;
}

async function sconce(at: string, libtorchVersion: string) {
  const names = ["src", "docs", "README.md", "LICENSE"];
  for (const name of names) cpSync(join(root, name), join(at, name), { recursive: true });
  chmodSync(join(at, "src", "main.ts"), 0o755);
  for (const name of swaggerFiles)
    cpSync(join(root, "node_modules/swagger-ui-dist", name), join(at, "swagger-ui", name));
  cpSync(pageFolder, join(at, "page"), { recursive: true });
  await writeTypes(join(at, "types"));
  await writeJson(join(at, "tsconfig.json"), await authorSettings());
  return describe(at, {
    name: "sconce",
    description,
    // For compilers whose tsconfig.json finds sconce by `paths`, which ignore `exports`.
    types: "./types/index.d.ts",
    exports: {
      ".": { types: "./types/index.d.ts", default: "./src/index.ts" },
      "./testing": { types: "./types/testing.d.ts", default: "./src/testing.ts" },
      "./package.json": "./package.json",
    },
    imports: { "#page/*": "./page/*", "#swagger-ui/*": "./swagger-ui/*" },
    bin: { sconce: "src/main.ts" },
    engines: { bun: ">=1.4.5" },
    dependencies: exact,
    optionalDependencies: Object.fromEntries(
      Object.keys(architectures)
        .filter(isArchitecture)
        .flatMap((arch) => [
          [platformPackage(arch), version],
          [libtorchPackage(arch), libtorchVersion],
        ]),
    ),
  });
}

async function addons(at: string, found: Addons, { arch, pixels }: Target) {
  cpSync(pixels, join(at, pixelsName));
  for (const [minor, path] of Object.entries(found)) {
    cpSync(path, join(at, minor, addonName));
    await Bun.write(join(at, minor, "sources"), `${sourcesDigest()}\n`);
  }
  cpSync(join(root, "LICENSE"), join(at, "LICENSE"));
  return describe(at, {
    name: platformPackage(arch),
    description: "The native addon of sconce, for each minor of torch that it supports",
    ...platform(arch),
  });
}

/**
 * Makes the npm package of libtorch. The package has the version of torch: releases of sconce with the same torch share
 * the package.
 */
async function libtorchFiles(at: string, target: Target, isStripped: boolean) {
  const { arch } = target;
  return describe(at, {
    name: libtorchPackage(arch),
    version: await writeLibtorch(at, target, isStripped),
    license: "BSD-3-Clause",
    description: "PyTorch's libraries for CPUs, for sconce",
    // npm refuses to publish a private package.
    ...(!isForCpus(target) && { private: true }),
    ...platform(arch),
  });
}

const platform = (arch: string) => ({ os: ["linux"], cpu: [arch], libc: ["glibc"] });

async function createSconce(at: string) {
  cpSync(join(root, "scripts/pack/create-sconce.ts"), join(at, "create.ts"));
  cpSync(join(root, "LICENSE"), join(at, "LICENSE"));
  chmodSync(join(at, "create.ts"), 0o755);
  return describe(at, {
    name: "create-sconce",
    description: "Writes a folder with a PyTorch model that serves: bun create sconce DIR",
    bin: { "create-sconce": "create.ts" },
  });
}

interface Description extends Readonly<Record<string, unknown>> {
  readonly name: string;
  /** Version of the npm package. Default: the version of sconce. */
  readonly version?: string;
}

async function describe(at: string, description: Description) {
  const whole = { version: String(version), license, type: "module", ...description };
  await writeJson(join(at, "package.json"), whole);
  return { name: whole.name, version: whole.version, at };
}

/** Compiler settings that a model's tsconfig.json extends: the checkout's settings without its paths. */
async function authorSettings(): Promise<object> {
  const { compilerOptions } = await Bun.file(join(root, "tsconfig.json")).json();
  const { paths: _, types: __, ...options } = compilerOptions;
  return { compilerOptions: { ...options, lib: ["ESNext", "DOM"] } };
}

async function writeJson(path: string, value: object): Promise<void> {
  await Bun.write(path, `${JSON.stringify(value, null, 2)}\n`);
}
