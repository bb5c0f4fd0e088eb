/**
 * Programs of Debian that tests use: the installed program, or a copy unpacked into `.sconce/debian`. Unpacking needs
 * no root, and changes nothing outside the checkout.
 */
import { existsSync, readdirSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { Failure, run } from "../../scripts/setup/command.ts";
import { state } from "../../scripts/setup/step.ts";
import { lockWhenFree } from "../../src/machine/files/lock.ts";

/** Packages of programs. */
export const debianTools = [
  "docker-registry",
  "skopeo",
  "redis-server",
  "chromium-headless-shell",
  "nginx",
  "haproxy",
  "caddy",
  "prometheus",
  "qemu-user-static",
  "g++-aarch64-linux-gnu",
] as const;
/** Programs with another name than their package. */
const programNames: Readonly<Record<string, string>> = {
  "qemu-user-static": "qemu-aarch64-static",
  "g++-aarch64-linux-gnu": "aarch64-linux-gnu-g++",
};
/**
 * Packages to unpack beside a program even if they are installed: the program looks for their files in its own folder.
 */
const ownPackages: Readonly<Record<string, readonly string[]>> = { "chromium-headless-shell": ["chromium-common"] };
/** Programs that run without the dependencies of their package: promtool of `prometheus` needs no fonts and scripts. */
const aloneTools: ReadonlySet<string> = new Set(["prometheus"]);
export type DebianToolName = (typeof debianTools)[number];

export interface DebianTool {
  /** Path of the program. */
  readonly command: string;
  /** Variables that the program needs in its environment. */
  readonly env: Readonly<Record<string, string>>;
}

const home = join(state, "debian");

/** A program of Debian; undefined if it is neither installed nor unpacked. */
export function debianTool(name: string): DebianTool | undefined {
  const program = programNames[name] ?? name;
  const installed = Bun.which(program);
  if (installed !== null) return { command: installed, env: {} };
  const folder = join(home, name);
  const command = ["bin", "sbin"].map((part) => join(folder, "usr", part, program)).find(existsSync);
  if (command === undefined) return undefined;
  const libraries = ["usr/lib", "lib"].flatMap((part) => librariesIn(join(folder, part)));
  return { command, env: libraries.length === 0 ? {} : { LD_LIBRARY_PATH: libraries.join(":") } };
}

/**
 * Unpacks the programs that are missing, with the libraries that the machine lacks. A kill at any moment does no
 * harm. @returns why programs are missing, in words; undefined if all exist
 */
export async function fetchDebianTools(names: readonly string[] = debianTools): Promise<string | undefined> {
  if (!names.some(isMissing)) return undefined;
  for (const tool of ["apt-get", "dpkg"]) if (!Bun.which(tool)) return `${tool} is not there`;
  try {
    // `fetchAll` checks again under the lock: another process may have fetched the programs.
    using _lock = await lockWhenFree(join(state, "debian.sqlite"));
    await fetchAll(names.filter(isMissing));
    return undefined;
  } catch (error) {
    if (error instanceof Failure) return error.lines.at(-2) ?? error.message;
    throw error;
  }
}

function isMissing(name: string): boolean {
  return debianTool(name) === undefined;
}

async function fetchAll(missing: readonly string[]): Promise<void> {
  if (missing.length === 0) return;
  const work = join(home, "unfinished");
  await rm(work, { recursive: true, force: true });
  const apt = aptIn(work);
  try {
    for (const part of ["lists/partial", "cache/archives/partial"]) await mkdir(join(work, part), { recursive: true });
    await run([...apt, "update"], { verbose: false });
    for (const name of missing) {
      const all = await packagesOf([name, ...(ownPackages[name] ?? [])], apt);
      const packages = aloneTools.has(name) ? all.filter((each) => each.startsWith(`${name}=`)) : all;
      const [archives, folder] = [join(work, "archives", name), join(work, "unpacked", name)];
      await mkdir(archives, { recursive: true });
      await mkdir(folder, { recursive: true });
      // apt-get downloads into its working folder. It verifies each package against the signed lists.
      await run(["sh", "-c", 'cd "$0" && exec "$@"', archives, ...apt, "download", ...packages], { verbose: false });
      for (const file of readdirSync(archives)) {
        await run(["dpkg", "-x", join(archives, file), folder], { verbose: false });
      }
      await rename(folder, join(home, name));
    }
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/**
 * The command apt-get with the machine's package sources and list of installed packages, but with other folders for
 * lists and cache.
 */
function aptIn(work: string): string[] {
  const settings = [
    `Dir::State::Lists=${join(work, "lists")}`,
    `Dir::Cache=${join(work, "cache")}`,
    "Debug::NoLocking=true",
    // As root, apt-get would download as the user `_apt`, who may not read this folder.
    "APT::Sandbox::User=",
    "Acquire::Languages=none",
    "Acquire::Retries=1",
    "Acquire::http::Timeout=20",
  ];
  return ["apt-get", "-qq", ...settings.flatMap((setting) => ["-o", setting])];
}

/** The packages with these names, and their dependencies that the machine lacks, each as `name=version`. */
async function packagesOf(names: readonly string[], apt: readonly string[]): Promise<string[]> {
  const command = [...apt, "install", "--simulate", "--reinstall", "--no-install-recommends", ...names];
  const child = Bun.spawn(command, {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    env: { ...process.env, LC_ALL: "C" },
  });
  const [output, errors, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  // apt-get prints lines such as `Inst skopeo [1.9.2] (1.9.3+ds1-1+b10 Debian:12.5/stable [amd64])`.
  const packages = [...output.matchAll(/^Inst (\S+) .*?\((\S+) /gm)].map(([, each, version]) => `${each}=${version}`);
  if (code === 0 && packages.length > 0) return packages;
  throw new Failure([errors.trim().split("\n").at(-1) ?? "", `apt-get cannot install ${names.join(" ")}`]);
}

/**
 * The folder's subfolders for one processor architecture, such as `x86_64-linux-gnu`, where Debian has its libraries.
 */
function librariesIn(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => /-linux-gnu/.test(name))
    .map((name) => join(folder, name));
}
