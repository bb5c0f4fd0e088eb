/**
 * A root file system that contains only the files that a test adds. Programs run in it as in a container without a base
 * image. A mount namespace for each program removes its mounts when the program ends. The network is shared.
 */
import { chmod, copyFile, link, mkdir, realpath, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { follow, type RunningCli } from "./cli.ts";
import { tempDir } from "./temp-dir.ts";

/** A user other than root: programs that need root's rights fail. */
const defaultUser = { uid: 65532, gid: 65532 };
const devices = ["/dev/null", "/dev/urandom"];

const unshare = Bun.which("unshare") ?? "unshare";

/** Arguments of unshare: gain the right to mount, then drop it and switch to a user. */
interface Privileges {
  readonly gain: readonly string[];
  drop(user: BareRootUser): readonly string[];
}

const allPrivileges: readonly Privileges[] = [
  { gain: [], drop: ({ uid, gid }) => [`--setuid=${uid}`, `--setgid=${gid}`] },
  // Other users mount in a user namespace, and pick the program's user in a second, nested namespace.
  {
    gain: ["--user", "--map-root-user"],
    drop: ({ uid, gid }) => ["--user", `--map-user=${uid}`, `--map-group=${gid}`],
  },
];
const privileges = Bun.which(unshare) === null ? undefined : allPrivileges.find(isOpen);

export interface BareRootUser {
  readonly uid: number;
  readonly gid: number;
}

export interface BareRunOptions {
  /** The complete environment; empty by default. */
  readonly env?: Readonly<Record<string, string>>;
  /** By default a user without a name and without rights. */
  readonly user?: BareRootUser;
  /** Working folder in the root; `/` by default. */
  readonly cwd?: string;
  /** Folders with an in-memory file system, and the mount options of each, e.g. `size=10m,noexec`. */
  readonly tmpfs?: Readonly<Record<string, string>>;
}

/** A root file system. The end of the scope kills the programs in it and removes it. */
export interface BareRoot extends AsyncDisposable {
  /** Path outside the root. */
  readonly path: string;
  /**
   * Adds files: absolute paths in the root, each with the path of its source outside. Links are followed. Files are
   * hard-linked where possible.
   */
  add(files: Readonly<Record<string, string>>): Promise<void>;
  /** Starts a program by its absolute path in the root. */
  run(command: readonly string[], options?: BareRunOptions): RunningCli;
}

/** The reason why this machine cannot create a bare root; undefined if it can. */
export const bareRootObstacle: string | undefined =
  privileges === undefined ? "it needs Linux, and root or user namespaces" : undefined;

/** Returns `test`, or `test.skip` if this machine cannot create a bare root. A skipped test has the reason in its name. */
export function bareRootTest(test: {
  (name: string, body: () => Promise<void>, timeoutMs?: number): void;
  skip: BareRootTest;
}): BareRootTest {
  return bareRootObstacle === undefined
    ? test
    : (name, body, timeoutMs) => test.skip(`${name} (skipped: ${bareRootObstacle})`, body, timeoutMs);
}

type BareRootTest = (name: string, body: () => Promise<void>, timeoutMs?: number) => void;

/** A root file system with `/proc`, `/dev/null`, `/dev/urandom` and an empty `/tmp`. */
export async function bareRoot(): Promise<BareRoot> {
  const dir = await tempDir();
  // A temporary folder is readable only for its owner, but the programs run as other users.
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
        // Hard links fail across file systems, and for files of root if the user is not root.
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
 * The loader and the system libraries that these binaries link, as `bareRoot().add` takes them. Libraries beside the
 * binaries are left out.
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

/**
 * The command that mounts, changes root and user, and then execs the program. The program is the same process, so it
 * receives the signals.
 */
function enter(root: string, command: readonly string[], options: BareRunOptions): string[] {
  if (privileges === undefined) throw new Error(`no bare root: ${bareRootObstacle}`);
  const { env = {}, user = defaultUser, cwd = "/", tmpfs = {} } = options;
  // Recursive: users other than root may not drop the system's mounts below /proc.
  const mounts = [
    ...["/proc", ...devices].map((path) => `mount --rbind ${path} "$1${path}"`),
    ...Object.entries(tmpfs).map(([path, given]) => `mount -t tmpfs -o '${given}' tmpfs "$1${path}"`),
  ];
  const script = [...mounts, "shift", 'exec env -i "$@"'].join(" && ");
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const drop = [unshare, ...privileges.drop(user), "--root", root, "--wd", cwd, "--", ...command];
  return [unshare, ...privileges.gain, "--mount", "--", "sh", "-c", script, "sh", root, ...variables, ...drop];
}

function isOpen({ gain, drop }: Privileges): boolean {
  const nothing = [unshare, ...gain, "--mount", "--", unshare, ...drop(defaultUser), "--", "true"];
  return Bun.spawnSync(nothing, { stdout: "ignore", stderr: "ignore" }).success;
}
