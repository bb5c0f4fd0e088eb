/**
 * Debian programs that tests use: the installed program, or a copy unpacked into `.sconce/debian`. Unpacking needs no
 * root and changes nothing outside the checkout.
 */
import { existsSync, readdirSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { Failure, run } from "../../scripts/setup/command.ts";
import { state, withLock } from "../../scripts/setup/step.ts";

/** Each name is a package and its program. */
export const debianTools = [
  "docker-registry",
  "skopeo",
  "redis-server",
  "chromium-headless-shell",
  "nginx",
  "haproxy",
  "caddy",
  "prometheus",
] as const;
/** Packages to unpack beside a tool even if they are installed: the tool looks for their files beside itself. */
const ownPackages: Readonly<Record<string, readonly string[]>> = { "chromium-headless-shell": ["chromium-common"] };
/** Tools that work without the dependencies of their package: promtool of Prometheus needs none of its fonts and scripts. */
const aloneTools: ReadonlySet<string> = new Set(["prometheus"]);
export type DebianToolName = (typeof debianTools)[number];

export interface DebianTool {
  /** Command; further arguments follow. */
  readonly command: string;
  /** Variables to add to the tool's environment. */
  readonly env: Readonly<Record<string, string>>;
}

export interface DebianToolOptions {
  /** Folder of unpacked tools. */
  readonly home?: string;
  /** Prefers unpacked tools to installed tools. */
  readonly ignoreSystem?: boolean;
  /** More options of apt-get. */
  readonly apt?: readonly string[];
  /** Replaces the packages that are always unpacked with a tool. */
  readonly own?: Readonly<Record<string, readonly string[]>>;
}

const defaultHome = join(state, "debian");

/** The tool; undefined if it is neither installed nor fetched. */
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
 * Unpacks missing tools with the libraries that the system lacks. Does nothing if all exist. A kill at any moment is
 * harmless.
 * @returns the reason for missing tools, in words; undefined if all exist
 */
export async function fetchDebianTools(
  names: readonly string[] = debianTools,
  options: DebianToolOptions = {},
): Promise<string | undefined> {
  const isMissing = (name: string) => debianTool(name, options) === undefined;
  if (!names.some(isMissing)) return undefined;
  for (const tool of ["apt-get", "dpkg"]) if (!Bun.which(tool)) return `${tool} is not there`;
  try {
    // Checks again under the lock: the previous lock owner may have fetched the tools.
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
      const all = await packagesOf([name, ...(own[name] ?? [])], apt);
      const packages = aloneTools.has(name) ? all.filter((each) => each.startsWith(`${name}=`)) : all;
      const [archives, folder] = [join(work, "archives", name), join(work, "unpacked", name)];
      await mkdir(archives, { recursive: true });
      await mkdir(folder, { recursive: true });
      // apt-get downloads into its working folder, and verifies downloads against the signed lists.
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
    // apt-get run by root would download as the user `_apt`, who may not read this folder.
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

/** The folder and its subfolders for one architecture. */
function librariesIn(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => /-linux-gnu/.test(name))
    .map((name) => join(folder, name));
}
