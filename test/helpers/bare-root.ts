/**
 * A root file system that contains only the files that a test adds, like a container without a base image. The mounts
 * of a program end with the program, because each program has its own mount namespace. Programs share the network of
 * the machine.
 */
import { chmod, copyFile, link, mkdir, realpath, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { follow, type RunningCli } from "./cli.ts";
import { tempDir } from "./fixture.ts";

/** The default user of programs, which is not root, so programs that need root's rights fail. */
const defaultUser = { uid: 65532, gid: 65532 };
const devices = ["/dev/null", "/dev/urandom"];

const unshare = Bun.which("unshare") ?? "unshare";

/** Arguments of `unshare`: first to get the right to mount, then to drop it and become a user. */
interface Privileges {
  readonly gain: readonly string[];
  drop(user: BareRootUser): readonly string[];
}

/** A user namespace gives the right to mount, and a second, nested one sets the program's user. */
const inNamespace: Privileges = {
  gain: ["--user", "--map-root-user"],
  drop: ({ uid, gid }) => ["--user", `--map-user=${uid}`, `--map-group=${gid}`],
};
const allPrivileges: readonly Privileges[] = [
  { gain: [], drop: ({ uid, gid }) => [`--setuid=${uid}`, `--setgid=${gid}`] },
  // For tests that do not run as root.
  inNamespace,
];
const privileges = Bun.which(unshare) === null ? undefined : allPrivileges.find((each) => isOpen(each));

export interface BareRootUser {
  readonly uid: number;
  readonly gid: number;
}

export interface BareRunOptions {
  /** The whole environment of the program; empty by default. */
  readonly env?: Readonly<Record<string, string>>;
  /** Default: a user without a name, who is not root. */
  readonly user?: BareRootUser;
  /** Working folder of the program in the root; default `/`. */
  readonly cwd?: string;
  /** Paths where an in-memory file system is mounted, with the mount options of each, e.g. `size=10m,noexec`. */
  readonly tmpfs?: Readonly<Record<string, string>>;
  /** Folders of this machine, by their path in the root, in the order of mounting. */
  readonly binds?: Readonly<Record<string, string>>;
}

/** The emulator for the programs of a root. The kernel uses the emulator only while one of these programs runs. */
export interface Emulation {
  /** Line for the kernel's `binfmt_misc`: the first bytes of the programs' files, and the emulator. */
  readonly registration: string;
  /** Text of `/proc/cpuinfo`. Without it, programs would read the text of this machine. */
  readonly cpuinfo: string;
  /** Environment variables of every program. */
  readonly env: Readonly<Record<string, string>>;
}

/** A root file system, for `await using`: the end of the scope kills its programs and removes it. */
export interface BareRoot extends AsyncDisposable {
  /** Path of the root on this machine. */
  readonly path: string;
  /**
   * Adds files: each key is an absolute path in the root, its value the path of the source on this machine. Symbolic
   * links are followed. Files are hard-linked if possible, otherwise copied.
   */
  add(files: Readonly<Record<string, string>>): Promise<void>;
  /** Starts a program. `command` begins with the program's absolute path in the root. */
  run(command: readonly string[], options?: BareRunOptions): RunningCli;
}

/** Why this machine cannot make a bare root file system; undefined if it can. */
export const bareRootObstacle: string | undefined =
  privileges === undefined ? "it needs Linux, and root or user namespaces" : undefined;

/** Why this machine cannot run programs through an emulator; undefined if it can. */
export function emulationObstacle(emulation: Emulation): string | undefined {
  return isOpen(inNamespace, registered(emulation, "/sys"))
    ? undefined
    : "it needs user namespaces with their own list of emulators, as in Linux 6.7";
}

/** `test`, or `test.skip` if this machine cannot make a root file system; then the name of the test says why. */
export function bareRootTest(test: {
  (name: string, body: () => Promise<void>, timeoutMs?: number): void;
  skip: BareRootTest;
}): BareRootTest {
  return bareRootObstacle === undefined
    ? test
    : (name, body, timeoutMs) => test.skip(`${name} (skipped: ${bareRootObstacle})`, body, timeoutMs);
}

type BareRootTest = (name: string, body: () => Promise<void>, timeoutMs?: number) => void;

/** Makes a root file system with `/proc`, `/dev/null`, `/dev/urandom` and an empty `/tmp`; with an emulator, also `/sys`. */
export async function bareRoot(emulation?: Emulation): Promise<BareRoot> {
  const dir = await tempDir();
  // The temporary folder is open to its owner only, but programs run as other users.
  await chmod(dir.path, 0o755);
  for (const folder of ["proc", "sys", "dev", "tmp"]) await mkdir(dir.join(folder));
  await chmod(dir.join("tmp"), 0o1777);
  for (const device of devices) await writeFile(dir.join(device), "");
  if (emulation !== undefined) await writeFile(dir.join("cpuinfo"), emulation.cpuinfo);
  const running: RunningCli[] = [];
  return {
    path: dir.path,
    async add(files) {
      for (const [inside, outside] of Object.entries(files)) {
        const path = dir.join(inside);
        const source = await realpath(outside);
        await mkdir(dirname(path), { recursive: true });
        await rm(path, { force: true });
        // A hard link fails between file systems, and for files of root if the user is not root.
        await link(source, path).catch(() => copyFile(source, path));
      }
    },
    run(command, options = {}) {
      const program = follow(
        Bun.spawn(enter(dir.path, command, options, emulation), { stdin: "ignore", stdout: "pipe", stderr: "pipe" }),
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
 * The command that mounts, changes the root and the user, and then becomes the program by `exec`. So signals for the
 * process reach the program.
 */
function enter(root: string, command: readonly string[], options: BareRunOptions, emulation?: Emulation): string[] {
  const own = emulation === undefined ? privileges : inNamespace;
  if (own === undefined) throw new Error(`no bare root: ${bareRootObstacle}`);
  const { env = {}, user = defaultUser, cwd = "/", tmpfs = {}, binds = {} } = options;
  // `--rbind` copies mounts below /proc, too: in a user namespace these may not be left out.
  const mounts = [
    ...["/proc", ...devices].map((path) => `mount --rbind ${path} "$1${path}"`),
    ...(emulation === undefined ? [] : emulated(emulation)),
    ...Object.entries(binds).map(([path, given]) => `mkdir -p "$1${path}" && mount --rbind '${given}' "$1${path}"`),
    ...Object.entries(tmpfs).map(([path, given]) => `mount -t tmpfs -o '${given}' tmpfs "$1${path}"`),
  ];
  const script = [...mounts, "shift", 'exec env -i "$@"'].join(" && ");
  const variables = Object.entries({ ...emulation?.env, ...env }).map(([name, value]) => `${name}=${value}`);
  const drop = [unshare, ...own.drop(user), "--root", root, "--wd", cwd, "--", ...command];
  return [unshare, ...own.gain, "--mount", "--", "sh", "-c", script, "sh", root, ...variables, ...drop];
}

function emulated(emulation: Emulation): string[] {
  return [
    registered(emulation, "$1/sys"),
    'mount --rbind /sys "$1/sys"',
    'mount --bind "$1/cpuinfo" "$1/proc/cpuinfo"',
  ];
}

/** Shell commands that register an emulator for the user namespace. @param at any folder, to mount over */
function registered({ registration }: Emulation, at: string): string {
  return `mount -t binfmt_misc binfmt_misc "${at}" && printf %s '${registration}' > "${at}/register"`;
}

function isOpen({ gain, drop }: Privileges, command = "true"): boolean {
  const script = `${command} && exec "$@"`;
  const nothing = [
    unshare,
    ...gain,
    "--mount",
    "--",
    "sh",
    "-c",
    script,
    "sh",
    unshare,
    ...drop(defaultUser),
    "--",
    "true",
  ];
  return Bun.spawnSync(nothing, { stdout: "ignore", stderr: "ignore" }).success;
}
