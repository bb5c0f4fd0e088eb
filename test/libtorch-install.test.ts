/** `sconce libtorch`: libraries of a torch that comes from a package index, here one on this machine with small libraries. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { IndexClient } from "../src/machine/libtorch/wheels/index-client.ts";
import { PackageIndex } from "../src/machine/libtorch/wheels/package-index.ts";
import { type CliResult, cli, startCli } from "./helpers/cli.ts";
import { failure } from "./helpers/failure.ts";
import { type IndexOptions, packageIndex, smallLibraries, type TestWheel, wheel } from "./helpers/package-index.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";
import { canMount, tmpfs } from "./helpers/tmpfs.ts";

setDefaultTimeout(60_000);

const machine = process.arch === "arm64" ? "aarch64" : "x86_64";
const platform = `manylinux_2_28_${machine}`;
const newest = `torch-2.14.0-cp312-cp312-${platform}.whl`;
/** What serving on a CPU has no use for. */
const rest = randomBytes(3_000_000);

let dir: TempDir;
let wheels: TestWheel[];

beforeAll(async () => {
  dir = await tempDir();
  const library = await smallLibraries(dir.path);
  const torch = async (version: string, damaged: readonly string[] = []) =>
    wheel(`torch-${version}-cp312-cp312-${platform}.whl`, {
      files: {
        "torch/lib/libtorch_cuda.so": rest,
        "torch/lib/libtorch_cpu.so": await library("libtorch_cpu.so"),
        "torch/lib/libc10.so": await library("libc10.so"),
        "torch/version.py": `__version__ = '${version}+cu130'\n`,
      },
      requires: [
        "filelock",
        'cuda-toolkit[cudart,cupti]==13.0.*; platform_system == "Linux"',
        "nvidia-cudnn-cu13==9.1",
      ],
      damaged,
    });
  wheels = [
    await torch("2.13.0"),
    await torch("2.14.0"),
    await torch("2.15.0", ["torch/lib/libc10.so"]),
    await torch("2.16.0"),
    wheel("cuda_toolkit-13.0.3-py2.py3-none-any.whl", {
      files: {},
      requires: ["nvidia-cuda-cupti==13.0.85.*; extra == 'cupti'", "nvidia-cufft==12.*; extra == 'cufft'"],
    }),
    wheel(`nvidia_cuda_cupti-13.1.0-py3-none-${platform}.whl`, { files: {} }),
    wheel(`nvidia_cuda_cupti-13.0.85-py3-none-${platform}.whl`, {
      files: {
        "nvidia/cu13/lib/libcupti.so.13": await library("libcupti.so.13"),
        "nvidia/cu13/lib/libnvperf.so": rest,
      },
    }),
  ];
});

afterAll(() => dir[Symbol.asyncDispose]());

async function install(home: string, index: string, ...args: string[]): Promise<CliResult> {
  return cli(["libtorch", "install", ...args], { env: environment(home, index) });
}

function environment(home: string, index: string, config = "/dev/null") {
  return { SCONCE_HOME: home, HOME: home, PIP_CONFIG_FILE: config, PIP_INDEX_URL: index, XDG_CONFIG_DIRS: home };
}

function index(options: IndexOptions = {}) {
  return packageIndex(wheels, options);
}

/** Beside the installations themselves: what an interrupted one leaves is not seen by servers. */
function left(home: string): string[] {
  return readdirSync(join(home, "libtorch")).filter((name) => name !== ".lock");
}

const begin = (sent: readonly string[]) => Number(/bytes=(\d+)-/.exec(sent.at(-1) ?? "")?.[1] ?? 0);
const filesOf = (root: string) => readdirSync(join(root, ".."), { recursive: true, encoding: "utf8" }).sort();
const forCpu = [
  "torch/lib/libc10.so",
  "torch/lib/libtorch_cpu.so",
  "torch/version.py",
  "nvidia/cu13/lib/libcupti.so.13",
];

describe.skipIf(process.platform !== "linux" || Bun.which("cc") === null)("sconce libtorch", () => {
  test("installs the newest release that pip may install, of it what a CPU needs alone, and lists and removes it", async () => {
    await using home = await tempDir();
    using server = index({ form: "json", login: "me:s3cret" });
    await mkdir(home.join("pip"));
    await writeFile(home.join("pip/constraints.txt"), "numpy==1\ntorch<2.15  # not yet\n");
    await writeFile(
      home.join("pip.conf"),
      `[global]\nconstraint =\n  ${home.join("pip/constraints.txt")}\n[list]\nindex-url = x\n`,
    );
    const env = environment(home.path, server.url, home.join("pip.conf"));
    const { code, stdout, stderr } = await cli(["libtorch", "install", "--parts"], { env });
    const root = home.join("libtorch/2.14.0/torch");
    expect({ code, stdout }).toEqual({ code: 0, stdout: `${root}\n` });
    expect(stderr).toContain("2.15.0 is there, but");
    expect(stderr).toContain(`Taking ${newest} from 127.0.0.1:`);
    expect(stderr).not.toContain("s3cret");
    expect(filesOf(root).filter((name) => /\.\w+$/.test(name) && !/^nvidia$|lib$/.test(name))).toEqual(
      forCpu.toSorted(),
    );
    // The rest of both wheels is 6 MB.
    expect(server.sentBytes).toBeLessThan(1_500_000);

    expect((await cli(["libtorch", "install"], { env })).stderr).toContain("It is installed");
    expect((await cli(["libtorch", "list"], { env })).stdout).toContain(root);
    expect((await cli(["libtorch", "rm", "2.14.0"], { env })).stdout).toMatch(/^Removed 2\.14\.0: [\d.]+ KiB\n$/);
    expect(left(home.path)).toEqual([]);
  });

  test("asks for a login, and does not pass one on to where an index redirects", async () => {
    await using home = await tempDir();
    using server = index({ login: "me:s3cret", redirects: true });
    const open = server.url.replace("me:s3cret@", "");
    const { signal } = new AbortController();
    const wheelsAt = (url: string) =>
      new PackageIndex(new IndexClient({ signal }), { indexes: [url], links: [] }).wheels("torch");
    expect(await failure(wheelsAt(open))).toMatch(/127\.0\.0\.1:\d+ asks for a login: .*status 401/);
    expect(await failure(wheelsAt(server.url.replace("s3cret", "wrong")))).toMatch(/does not accept the name/);
    expect((await install(home.path, server.url, "2.13")).code).toBe(0);
    expect(new Set(server.elsewhere)).toEqual(new Set([null]));
  });

  test("throws away a wheel that has another digest than the index says, of which parts alone are not compared", async () => {
    await using home = await tempDir();
    using wrong = index({ wrongDigests: true });
    const { code, stderr } = await install(home.path, wrong.url, "2.14.0");
    expect(code).toBe(1);
    expect(stderr).toMatch(/torch-2\.14\.0-\S+ has the SHA-256 [0-9a-f]{64} where the index has [0-9a-f]{64}/);
    expect(readdirSync(home.join("libtorch/.partial"))).toEqual([]);
    const inParts = await install(home.path, wrong.url, "2.13.0", "--parts");
    expect(inParts).toMatchObject({ code: 0, stderr: expect.stringContaining("without --parts that of the index") });
    // Where a server sends no parts, they are whole.
    using other = index({ wrongDigests: true, takesRanges: false });
    expect((await install(home.path, other.url, "2.14.0", "--parts")).code).toBe(1);
    using right = index({ takesRanges: false });
    expect((await install(home.path, right.url, "2.14.0", "--parts")).code).toBe(0);
    expect(right.sent.filter((line) => line.startsWith(newest))).toEqual([`${newest} bytes=0-0`, `${newest} null`]);
  });

  test("refuses a file that has not the digest of the wheel's list", async () => {
    await using home = await tempDir();
    using server = index();
    const { code, stderr } = await install(home.path, server.url);
    expect(code).toBe(1);
    expect(stderr).toMatch(/torch-2\.15\.0-\S+ is damaged: torch\/lib\/libc10\.so does not have its digest/);
    expect(existsSync(home.join("libtorch/2.15.0"))).toBe(false);
    expect((await cli(["libtorch", "list"], { env: { SCONCE_HOME: home.path } })).stdout).toContain(
      "There is no libtorch",
    );
  });

  test("goes on where a connection was cut, and where an install was killed", async () => {
    await using home = await tempDir();
    const begins: number[] = [];
    const third = Promise.withResolvers<void>();
    using server = index({
      cut(filename, bytes) {
        // Lists and texts are smaller than libraries.
        if (filename !== newest || bytes < 100_000 || begins.length === 3) return bytes;
        if (begins.push(begin(server.sent)) === 3) third.resolve();
        return 50_000;
      },
    });
    await using killed = startCli(["libtorch", "install", "2.14.0"], { env: environment(home.path, server.url) });
    await third.promise;
    killed.kill("SIGKILL");
    await killed.exited;
    expect(existsSync(home.join("libtorch/2.14.0"))).toBe(false);
    const [first = 0] = begins;
    expect(begins).toEqual([first, first + 50_000, first + 100_000]);
    const before = server.sent.length;
    expect((await install(home.path, server.url, "2.14.0")).code).toBe(0);
    // Half of the first library, or more, was there.
    const later = server.sent.slice(before).join("\n");
    expect(later).toMatch(new RegExp(`bytes=(${first + 100_000}|${first + 150_000})-`));
    expect(left(home.path)).toEqual(["2.14.0"]);
  });

  test("of two at once one installs, and the other takes that", async () => {
    await using home = await tempDir();
    using server = index();
    const both = await Promise.all([1, 2].map(() => install(home.path, server.url, "2.14.0")));
    expect(both.map(({ code }) => code)).toEqual([0, 0]);
    expect(both[0]?.stdout).toBe(both[1]?.stdout ?? "");
    expect(both.filter(({ stderr }) => stderr.includes("It is installed")).length).toBe(1);
  });

  test.skipIf(!canMount)("says in one line that a disk is full", async () => {
    await using home = await tempDir();
    using disk = tmpfs(home.join("small"), "17m");
    using server = index();
    const { code, stderr } = await install(disk.path, server.url, "2.14.0");
    expect(code).toBe(1);
    expect(stderr.trimEnd().split("\n").at(-1)).toMatch(
      /^sconce: .*has room for [\d.]+ \w+ where [\d.]+ \w+ are needed/,
    );
  });

  // Long: a hundred megabytes and more.
  test.skipIf(!process.env.SCONCE_TEST_TORCH)(
    "installs the real torch of the index that pip is configured with",
    async () => {
      await using home = await tempDir();
      const pip = Object.entries(process.env).filter(([name]) => /^PIP_|^NODE_EXTRA_CA_CERTS$/.test(name));
      const env = { ...Object.fromEntries(pip.map(([name, value = ""]) => [name, value])), SCONCE_HOME: home.path };
      const { code, stderr } = await cli(["libtorch", "install"], { env });
      console.error(stderr);
      expect(code).toBe(0);
    },
  );

  test("is called with install, list or rm", async () => {
    expect(await cli(["libtorch", "instal"])).toMatchObject({
      code: 2,
      stderr: 'sconce: libtorch takes install, list, rm, not "instal"\n',
    });
  });
});
