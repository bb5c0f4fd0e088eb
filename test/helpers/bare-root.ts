/**
 * A root file system with nothing but what a test puts there, and programs that run in it, as in a container without a base
 * image. Mounts are made in a namespace of the program's own, so none outlives it, however it ends; the network is shared.
 */
import { chmod, copyFile, link, mkdir, realpath, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { follow, type RunningCli } from "./cli.ts";
import { tempDir } from "./temp-dir.ts";

/** A user other than root: a program that needs root's rights fails. */
const defaultUser = { uid: 65532, gid: 65532 };
const devices = ["/dev/null", "/dev/urandom"];

const unshare = Bun.which("unshare") ?? "unshare";

/** How a process gets the right to mount, and how it then gives it up and becomes a user: arguments of unshare. */
interface Way {
  readonly rise: readonly string[];
  become(user: BareRootUser): readonly string[];
}

const ways: readonly Way[] = [
  { rise: [], become: ({ uid, gid }) => [`--setuid=${uid}`, `--setgid=${gid}`] },
  // One who is not root is it in a user namespace of his own, and whoever he likes in another one inside it.
  {
    rise: ["--user", "--map-root-user"],
    become: ({ uid, gid }) => ["--user", `--map-user=${uid}`, `--map-group=${gid}`],
  },
];
const way = Bun.which(unshare) === null ? undefined : ways.find(isOpen);

export interface BareRootUser {
  readonly uid: number;
  readonly gid: number;
}

export interface BareRunOptions {
  /** All of its environment; empty by default. */
  readonly env?: Readonly<Record<string, string>>;
  /** By default one without a name and rights. */
  readonly user?: BareRootUser;
  /** A folder of the root; `/` by default. */
  readonly cwd?: string;
  /** Folders of the root with an empty file system in memory, and the mount options of each, e.g. `size=10m,noexec`. */
  readonly tmpfs?: Readonly<Record<string, string>>;
}

/** Removed, and what runs in it ended, when the scope ends. */
export interface BareRoot extends AsyncDisposable {
  /** Where it lies outside. */
  readonly path: string;
  /** Puts files there: absolute paths inside, and where each comes from outside. Links are followed; nothing is copied that can be linked. */
  add(files: Readonly<Record<string, string>>): Promise<void>;
  /** Starts a program by its absolute path inside. */
  run(command: readonly string[], options?: BareRunOptions): RunningCli;
}

/** Reason for a skipped test, if this machine cannot make a root; else undefined. */
export const bareRootObstacle: string | undefined =
  way === undefined ? "it needs Linux, and root or user namespaces" : undefined;

/** `test`, or where there can be no bare root `test.skip`; the name says why. */
export function bareRootTest(test: {
  (name: string, body: () => Promise<void>, timeoutMs?: number): void;
  skip: BareRootTest;
}): BareRootTest {
  return bareRootObstacle === undefined
    ? test
    : (name, body, timeoutMs) => test.skip(`${name} (skipped: ${bareRootObstacle})`, body, timeoutMs);
}

type BareRootTest = (name: string, body: () => Promise<void>, timeoutMs?: number) => void;

/** A root with `/proc`, `/dev/null`, `/dev/urandom` and an empty `/tmp`. */
export async function bareRoot(): Promise<BareRoot> {
  const dir = await tempDir();
  // Programs in the root may read the folder; a test folder would deny it.
  await chmod(dir.path, 0o755);
  for (const folder of ["proc", "dev", "tmp"]) await mkdir(dir.join(folder));
  await chmod(dir.join("tmp"), 0o1777);
  for (const device of devices) await writeFile(dir.join(device), "");
  const running: RunningCli[] = [];
  return {
    path: dir.path,
    async add(files) {
      for (const [inside, outside] of Object.entries(files)) {
        const path = dir.join(inside);
        const source = await realpath(outside);
        await mkdir(dirname(path), { recursive: true });
        await rm(path, { force: true });
        // Another file system, or a file of root's for one who is not.
        await link(source, path).catch(() => copyFile(source, path));
      }
    },
    run(command, options = {}) {
      const program = follow(
        Bun.spawn(enter(dir.path, command, options), { stdin: "ignore", stdout: "pipe", stderr: "pipe" }),
      );
      running.push(program);
      return program;
    },
    async [Symbol.asyncDispose]() {
      for (const program of running) await program[Symbol.asyncDispose]();
      await dir[Symbol.asyncDispose]();
    },
  };
}

/**
 * What a program needs of the system to be started, as `bareRoot().add` takes it: the loader and the libraries that the linker
 * finds for these binaries, less those in the folders of the binaries themselves.
 */
export async function systemLibraries(...binaries: readonly string[]): Promise<Record<string, string>> {
  const own = await Promise.all(binaries.map(async (binary) => dirname(await realpath(binary))));
  const found: Record<string, string> = {};
  for (const binary of binaries) {
    const text = await Bun.$`ldd ${binary}`.text();
    for (const [, path = ""] of text.matchAll(/(?:=> |^\s*)(\/\S+) \(0x/gm)) {
      if (!own.includes(dirname(await realpath(path)))) found[path] = path;
    }
  }
  return found;
}

/** The command line that mounts, changes the root and the user, and becomes the program: one process, which gets the signals. */
function enter(root: string, command: readonly string[], options: BareRunOptions): string[] {
  if (way === undefined) throw new Error(`no bare root: ${bareRootObstacle}`);
  const { env = {}, user = defaultUser, cwd = "/", tmpfs = {} } = options;
  // With its parts: a mount that the system has put into /proc may not be left out by one who is not root.
  const mounts = [
    ...["/proc", ...devices].map((path) => `mount --rbind ${path} "$1${path}"`),
    ...Object.entries(tmpfs).map(([path, given]) => `mount -t tmpfs -o '${given}' tmpfs "$1${path}"`),
  ];
  const script = [...mounts, "shift", 'exec env -i "$@"'].join(" && ");
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const become = [unshare, ...way.become(user), "--root", root, "--wd", cwd, "--", ...command];
  return [unshare, ...way.rise, "--mount", "--", "sh", "-c", script, "sh", root, ...variables, ...become];
}

function isOpen({ rise, become }: Way): boolean {
  const nothing = [unshare, ...rise, "--mount", "--", unshare, ...become(defaultUser), "--", "true"];
  return Bun.spawnSync(nothing, { stdout: "ignore", stderr: "ignore" }).success;
}
