/** Which wheel of torch is chosen: versions and platforms, pip's configuration, and pages of package indexes; and what of a wheel is read. */
import { describe, expect, test } from "bun:test";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { chooseTorch, type Wish } from "../src/machine/libtorch/choose-wheel.ts";
import { IndexClient } from "../src/machine/libtorch/wheels/index-client.ts";
import { PackageIndex, type WheelLink } from "../src/machine/libtorch/wheels/package-index.ts";
import { pipConfig } from "../src/machine/libtorch/wheels/pip-config.ts";
import { parseRequirement, requirementsOf } from "../src/machine/libtorch/wheels/requirement.ts";
import { compareReleases, isAllowed, parseVersion } from "../src/machine/libtorch/wheels/version.ts";
import { Wheel } from "../src/machine/libtorch/wheels/wheel.ts";
import { failure } from "./helpers/failure.ts";
import { packageIndex, type TestIndex, wheel } from "./helpers/package-index.ts";
import { tempDir } from "./helpers/temp-dir.ts";
import { canMount, tmpfs } from "./helpers/tmpfs.ts";

describe("a version", () => {
  test("is a release, with what it was built for, or none", () => {
    expect(parseVersion("2.13.0+cpu")).toEqual({ text: "2.13.0+cpu", release: [2, 13, 0], local: "cpu" });
    expect(["2.16.0rc1", "2.16.0.dev20260101", "nightly"].map(parseVersion)).toEqual([undefined, undefined, undefined]);
    expect(compareReleases([2, 9], [2, 11])).toBeLessThan(0);
    expect(compareReleases([2, 13], [2, 13, 0])).toBe(0);
  });

  test.each([
    ["<=2.14.1", true],
    ["<2.14.1", false],
    [">=2.11,<2.16", true],
    ["==2.14.*", true],
    ["==2.13.*", false],
    ["!=2.14.1", false],
    ["~=2.11", true],
    ["~=2.13.0", false],
    ["", true],
    ["!2", false],
  ])("2.14.1 and %s", (specifiers, expected) => {
    const version = parseVersion("2.14.1+cu130");
    expect(version && isAllowed(version, specifiers)).toBe(expected);
  });
});

test("a requirement is what METADATA says that holds with the extras that are asked for", () => {
  expect(parseRequirement('cuda_Toolkit[cudart, cupti]==13.0.3; platform_system == "Linux"')).toEqual({
    name: "cuda-toolkit",
    extras: ["cudart", "cupti"],
    specifiers: "==13.0.3",
    extra: undefined,
  });
  expect(["-r other.txt", "# torch", "x @ https://x/y.whl"].map(parseRequirement)).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  const metadata = "Requires-Dist: a>=1; extra == 'cupti'\nRequires-Dist: b; extra == 'x'\nRequires-Dist: c (<2)\n";
  expect(requirementsOf(metadata, ["cupti"]).map(({ name, specifiers }) => name + specifiers)).toEqual(["a>=1", "c<2"]);
});

test("a line of blanks or of one long name is read in a time that grows as its length does", () => {
  expect(parseRequirement(`torch${" ".repeat(1_000_000)}@`)).toBeUndefined();
  expect(parseRequirement(`${"a".repeat(1_000_000)}@`)).toBeUndefined();
  expect(parseRequirement(` torch [ x ] ( >=2.11${" ".repeat(1_000_000)}) `)).toMatchObject({ specifiers: ">=2.11" });
});

describe("pip's configuration", () => {
  test("comes from its files in their order, then from variables", async () => {
    await using home = await tempDir();
    for (const folder of ["etc/pip", ".config/pip"]) await mkdir(home.join(folder), { recursive: true });
    await writeFile(home.join("etc/pip/pip.conf"), "[global]\nindex-url = https://first\ncert = /ca.pem\n");
    await writeFile(
      home.join(".config/pip/pip.conf"),
      "[global]\nindex_url: https://second\nextra-index-url =\n  https://third\n  ; none\n  /folder\n[install]\nindex-url = https://installs\n[download]\nindex-url = https://downloads\n",
    );
    const env = { HOME: home.path, XDG_CONFIG_DIRS: home.join("etc") };
    const found = pipConfig(env, "/nowhere");
    expect(found.indexes).toEqual(["https://installs", "https://third", "file:///folder"]);
    expect(found.cert).toBe("/ca.pem");
    expect(found.constraints).toEqual([]);
    const variables = { PIP_INDEX_URL: "https://mine", PIP_FIND_LINKS: "/wheels", PIP_CONSTRAINT: "a.txt b.txt" };
    const changed = pipConfig({ ...env, ...variables }, "/nowhere");
    expect(changed.indexes[0]).toBe("https://mine");
    expect(changed.links).toEqual(["file:///wheels"]);
    expect(changed.constraints).toEqual(["a.txt", "b.txt"]);
  });

  test("is pypi.org without any, and no index at all with no-index", () => {
    const env = { HOME: "/nowhere", PIP_CONFIG_FILE: "/dev/null" };
    expect(pipConfig(env)).toMatchObject({ indexes: ["https://pypi.org/simple"], links: [], constraints: [] });
    expect(pipConfig({ ...env, PIP_NO_INDEX: "1" }).indexes).toEqual([]);
  });
});

describe("the choice", () => {
  const link = (filename: string): WheelLink => {
    const [, version = "", , , platforms = ""] = filename.replace(/\.whl$/, "").split("-");
    const parsed = parseVersion(version);
    if (parsed === undefined) throw new Error(`${version} is no version`);
    return { filename, name: "torch", version: parsed, platforms, url: new URL("https://files/x"), sha256: undefined };
  };
  const wish: Wish = {
    version: undefined,
    minors: ["2.11", "2.12", "2.13"],
    gpu: false,
    constraints: [],
    glibc: "2.36",
    arch: "x64",
    places: "here",
  };
  const wheels = [
    "torch-2.13.0-cp312-cp312-manylinux_2_28_x86_64.whl",
    "torch-2.13.0+cpu-cp312-cp312-manylinux_2_28_x86_64.whl",
    "torch-2.13.1+rocm7-cp312-cp312-manylinux_2_28_x86_64.whl",
    "torch-2.13.1-cp312-cp312-manylinux_2_40_x86_64.whl",
    "torch-2.13.1-cp312-none-macosx_11_0_arm64.whl",
    "torch-2.14.0-cp312-cp312-manylinux_2_28_x86_64.whl",
    "torch-2.11.0-cp312-cp312-manylinux2014_aarch64.whl",
  ].map(link);
  const chosen = (change: Partial<Wish> = {}) => chooseTorch(wheels, { ...wish, ...change }).wheel.filename;

  test("is the newest supported one that this machine loads, one for the CPU before one for GPUs", () => {
    expect(chosen()).toBe("torch-2.13.0+cpu-cp312-cp312-manylinux_2_28_x86_64.whl");
    expect(chosen({ gpu: true })).toBe("torch-2.13.0-cp312-cp312-manylinux_2_28_x86_64.whl");
    expect(chosen({ glibc: "2.41" })).toBe("torch-2.13.1-cp312-cp312-manylinux_2_40_x86_64.whl");
    expect(chosen({ arch: "arm64", glibc: "2.17" })).toBe("torch-2.11.0-cp312-cp312-manylinux2014_aarch64.whl");
    expect(chosen({ version: "2.13.0" })).toContain("+cpu");
  });

  test("says what there is where nothing fits", async () => {
    expect(await failure(() => chosen({ glibc: undefined }))).toContain("there is none");
    expect(await failure(() => chosen({ version: "2.14" }))).toContain(
      "no wheel of torch 2.14 for linux x64 with glibc 2.36 at here: of the supported ones (2.11 to 2.13) there is 2.13.0, 2.13.0+cpu",
    );
  });
});

test("folders of wheels, and of an index's pages, are read as pip reads them", async () => {
  await using dir = await tempDir();
  await mkdir(dir.join("simple/torch"), { recursive: true });
  await mkdir(dir.join("wheels"));
  await writeFile(dir.join("wheels/torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl"), "");
  await writeFile(dir.join("wheels/torch-2.13.0.tar.gz"), "");
  const digest = "ab".repeat(32);
  await writeFile(
    dir.join("simple/torch/index.html"),
    `<a href="../../f/torch-2.14.1%2Bcpu-2-cp311-cp311-manylinux_2_28_x86_64.whl?a=1&amp;b#sha256=${digest}">x</a>
     <a href="torch-2.14.2-cp311-cp311-linux_x86_64.whl" data-yanked="broken">x</a>`,
  );
  const client = new IndexClient({ signal: new AbortController().signal });
  const url = (path: string) => pathToFileURL(dir.join(path)).href;
  const index = new PackageIndex(client, { indexes: [url("simple"), url("none")], links: [url("wheels")] });
  const found = await index.wheels("torch");
  expect(found.map(({ version, platforms, sha256 }) => [version.text, platforms, sha256])).toEqual([
    ["2.14.1+cpu", "manylinux_2_28_x86_64", digest],
    ["2.13.0+cpu", "linux_x86_64", undefined],
  ]);
  expect(found[0]?.url.pathname).toEndWith("/f/torch-2.14.1%2Bcpu-2-cp311-cp311-manylinux_2_28_x86_64.whl");
});

test("a page with a name that is no escaped text, and a password of that kind, are read as Python reads them", async () => {
  const asked: (string | null)[] = [];
  await using served = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch({ headers }) {
      asked.push(headers.get("authorization"));
      const links = '<a href="100%.whl">x</a> <a href="torch-2.13.0%2Bcpu-cp311-cp311-linux_x86_64.whl">x</a>';
      return new Response(links, { headers: { "Content-Type": "text/html" } });
    },
  });
  const indexes = [`http://some%40one:50%off@127.0.0.1:${served.port}/simple`];
  const client = new IndexClient({ signal: new AbortController().signal });
  const found = await new PackageIndex(client, { indexes, links: [] }).wheels("torch");
  expect(found.map(({ version }) => version.text)).toEqual(["2.13.0+cpu"]);
  expect(asked).toEqual([`Basic ${btoa("some@one:50%off")}`]);
});

describe("a wheel", () => {
  const content = { "torch/zeros": Buffer.alloc(3_000_000) };
  const made = wheel("torch-2.13.0-cp311-cp311-linux_x86_64.whl", {
    files: content,
    requires: ["x".repeat(70_000_000)],
  });

  /** Unpacks the file of a wheel of an index into a folder. */
  async function unpack(folder: string, index: TestIndex): Promise<Wheel> {
    const client = new IndexClient({ signal: new AbortController().signal, retryDelayMs: 1 });
    const [link] = await new PackageIndex(client, { indexes: [index.url], links: [] }).wheels("torch");
    if (link === undefined) throw new Error("there is no wheel");
    const opened = await Wheel.open(link, { client, partials: folder, inParts: true, onProgress() {} });
    await opened.unpack(
      opened.entries.filter(({ name }) => name in content),
      folder,
    );
    return opened;
  }

  test("is read no further than what was asked for, whatever its server sends", async () => {
    await using dir = await tempDir();
    using index = packageIndex([made], { surplusBytes: 100_000_000 });
    await unpack(dir.path, index);
    expect(Buffer.compare(await readFile(dir.join("torch/zeros")), content["torch/zeros"])).toBe(0);
    expect(index.sentBytes).toBeLessThan(100_000_000);
  });

  test("with a METADATA that fills the memory is refused", async () => {
    await using dir = await tempDir();
    using index = packageIndex([made]);
    const opened = await unpack(dir.path, index);
    expect(await failure(opened.text(/METADATA$/).then(({ length }) => length))).toStartWith(
      "wheel_invalid: torch-2.13.0-cp311-cp311-linux_x86_64.whl is damaged: torch-2.13.0.dist-info/METADATA cannot be unpacked",
    );
  });

  test.skipIf(!canMount)("with more in a file than it lists does not fill the disk", async () => {
    await using dir = await tempDir();
    using disk = tmpfs(dir.join("disk"), "1m");
    const bytes = Buffer.from(made.bytes);
    bytes.writeUInt32LE(1000, bytes.indexOf("PK\x01\x02", 0, "latin1") + 24);
    using index = packageIndex([{ ...made, bytes }]);
    expect(await failure(unpack(disk.path, index))).toEndWith("torch/zeros does not have its digest; try again");
  });
});
