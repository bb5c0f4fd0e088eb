/**
 * Programs of Debian that the tests measure sconce against: the system's own, or else unpacked into `.sconce/debian`, which
 * needs no root and changes nothing outside the checkout.
 */
import { existsSync, readdirSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { Failure, run } from "../../scripts/setup/command.ts";
import { state, withLock } from "../../scripts/setup/step.ts";

/** Named alike as packages and as programs. */
export const debianTools = ["docker-registry", "skopeo", "redis-server", "chromium-headless-shell", "nginx"] as const;
/** Packages whose files a tool looks for beside itself: to have them in the system is of no use to it. */
const ownPackages: Readonly<Record<string, readonly string[]>> = { "chromium-headless-shell": ["chromium-common"] };
export type DebianToolName = (typeof debianTools)[number];

export interface DebianTool {
  /** Command in front of the arguments. */
  readonly command: string;
  /** To be added to the environment that it is started with. */
  readonly env: Readonly<Record<string, string>>;
}

export interface DebianToolOptions {
  /** Where tools are unpacked. */
  readonly home?: string;
  /** Prefers the unpacked tools to the system's. */
  readonly ignoreSystem?: boolean;
  /** Further options of apt-get. */
  readonly apt?: readonly string[];
  /** Packages to unpack with a tool even if the system has them. */
  readonly own?: Readonly<Record<string, readonly string[]>>;
}

const defaultHome = join(state, "debian");

/** The tool, or undefined where neither the system has it nor `npm test` could fetch it. */
export function debianTool(name: string, options: DebianToolOptions = {}): DebianTool | undefined {
  const { home = defaultHome, ignoreSystem = false } = options;
  const installed = ignoreSystem ? null : Bun.which(name);
  if (installed !== null) return { command: installed, env: {} };
  const folder = join(home, name);
  const command = ["bin", "sbin"].map((part) => join(folder, "usr", part, name)).find(existsSync);
  if (command === undefined) return undefined;
  const libraries = ["usr/lib", "lib"].flatMap((part) => librariesIn(join(folder, part)));
  return { command, env: libraries.length === 0 ? {} : { LD_LIBRARY_PATH: libraries.join(":") } };
}

/**
 * Unpacks missing tools with the libraries that the system lacks. Does nothing if all exist. A kill at any moment is harmless.
 *
 * @returns why some could not be had, for people; undefined when all are there
 */
export async function fetchDebianTools(
  names: readonly string[] = debianTools,
  options: DebianToolOptions = {},
): Promise<string | undefined> {
  const isMissing = (name: string) => debianTool(name, options) === undefined;
  if (!names.some(isMissing)) return undefined;
  for (const tool of ["apt-get", "dpkg"]) if (!Bun.which(tool)) return `${tool} is not there`;
  try {
    // Checks again with the lock: its last owner may have fetched them.
    await withLock(() => fetchAll(names, isMissing, options));
    return undefined;
  } catch (error) {
    if (error instanceof Failure) return error.lines.at(-2) ?? error.message;
    throw error;
  }
}

async function fetchAll(
  names: readonly string[],
  isMissing: (name: string) => boolean,
  { home = defaultHome, apt: further = [], own = ownPackages }: DebianToolOptions,
): Promise<void> {
  const missing = names.filter(isMissing);
  if (missing.length === 0) return;
  const work = join(home, "unfinished");
  await rm(work, { recursive: true, force: true });
  const apt = aptIn(work, further);
  try {
    for (const part of ["lists/partial", "cache/archives/partial"]) await mkdir(join(work, part), { recursive: true });
    await run([...apt, "update"], { verbose: false });
    for (const name of missing) {
      const packages = await packagesOf([name, ...(own[name] ?? [])], apt);
      const [archives, folder] = [join(work, "archives", name), join(work, "unpacked", name)];
      await mkdir(archives, { recursive: true });
      await mkdir(folder, { recursive: true });
      // apt-get writes into the folder that it is started in, and has checked what it writes against the signed lists.
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

/** apt-get with the system's sources and list of installed packages, but separate lists and cache. */
function aptIn(work: string, further: readonly string[]): string[] {
  const settings = [
    `Dir::State::Lists=${join(work, "lists")}`,
    `Dir::Cache=${join(work, "cache")}`,
    "Debug::NoLocking=true",
    // Root would hand downloads to a user who may not see this folder.
    "APT::Sandbox::User=",
    "Acquire::Languages=none",
    "Acquire::Retries=1",
    "Acquire::http::Timeout=20",
  ];
  return ["apt-get", "-qq", ...settings.flatMap((setting) => ["-o", setting]), ...further];
}

/** These packages and their missing dependencies, as `name=version`. */
async function packagesOf(names: readonly string[], apt: readonly string[]): Promise<string[]> {
  const command = [...apt, "install", "--simulate", "--reinstall", "--no-install-recommends", ...names];
  const child = Bun.spawn(command, {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    env: { ...process.env, LC_ALL: "C" },
  });
  const [output, errors, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  // For example `Inst skopeo [1.9.2] (1.9.3+ds1-1+b10 Debian:12.5/stable [amd64])`.
  const packages = [...output.matchAll(/^Inst (\S+) .*?\((\S+) /gm)].map(([, each, version]) => `${each}=${version}`);
  if (code === 0 && packages.length > 0) return packages;
  throw new Failure([errors.trim().split("\n").at(-1) ?? "", `apt-get cannot install ${names.join(" ")}`]);
}

/** The folder and its subfolders of an architecture. */
function librariesIn(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => /-linux-gnu/.test(name))
    .map((name) => join(folder, name));
}
