/** OCI images with a small program: their content, and the layers that several images share. */
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { type Architecture, architectures, thisArchitecture } from "../src/base/platform-package.ts";
import { imagePlatform } from "../src/package/image/image-config.ts";
import { openImages } from "../src/package/image/layout.ts";
import { Blobs } from "../src/package/store/blobs.ts";
import { IndexFile } from "../src/package/store/index-file.ts";
import { annotations } from "../src/package/store/manifest.ts";
import { ModelStore } from "../src/package/store/store.ts";
import { failure } from "./helpers/failure.ts";
import { fixture, type TempDir, tempDir } from "./helpers/fixture.ts";
import { platform, readImage, smallImage, smallProgram, unpackImage } from "./helpers/image.ts";
import { modelConfig, modelLayers } from "./helpers/model-content.ts";
import { hasRegistry, startRegistry } from "./helpers/registry.ts";
import { storeWith } from "./helpers/server.ts";
import { skopeo, skopeoObstacle } from "./helpers/skopeo.ts";

let dir: TempDir;
let images: string;

const store = fixture(() => storeWith());
beforeAll(async () => {
  const made = new ModelStore(store.home);
  const config = modelConfig({ description: "Reads a digit." });
  await made.put({ repository: "digits", tags: ["v1"], config, layers: modelLayers("one") });
  await made.put({ repository: "digits", tags: ["v2"], config, layers: modelLayers("two") });
});
beforeEach(async () => {
  dir = await tempDir();
  images = dir.join("images");
});
afterEach(() => dir[Symbol.asyncDispose]());

const write = (reference: string, change: Omit<Parameters<typeof smallImage>[1], "home" | "reference"> = {}) =>
  smallImage(images, { home: store.home, reference, ...change });
const layersOf = (name: string) => readImage(images, name).manifest.layers.map(({ digest }) => digest);
const names = () => IndexFile.read(images).descriptors.map((each) => each.annotations?.[annotations.refName]);

/** Path and content hash of each file in a folder. */
async function contentOf(folder: string): Promise<Record<string, bigint | number>> {
  const found = (await readdir(folder, { recursive: true, withFileTypes: true })).filter((each) => each.isFile());
  const paths = found.map((each) => `${each.parentPath}/${each.name}`).sort();
  const hashes = paths.map(async (path) => [path.slice(folder.length), Bun.hash(await Bun.file(path).bytes())]);
  return Object.fromEntries(await Promise.all(hashes));
}

describe("an image", () => {
  const name = "is read and copied by skopeo, digest by digest";
  test.skipIf(skopeoObstacle !== undefined)(
    `${name}${skopeoObstacle ? ` (skipped: ${skopeoObstacle})` : ""}`,
    async () => {
      const { digest } = await write("digits:v1");
      const seen = JSON.parse(await skopeo("inspect", `oci:${images}:digits:v1`));
      expect(seen).toMatchObject({ Digest: digest, Architecture: platform.architecture, Os: "linux" });
      expect(seen.Layers).toEqual(layersOf("digits:v1"));
      await skopeo("copy", `oci:${images}:digits:v1`, `oci:${dir.join("copy")}:other`);
      expect(readImage(dir.join("copy"), "other").digest).toBe(digest);
      // A Docker archive has the layers uncompressed, named by the digests that the image's config lists.
      await skopeo("copy", `oci:${images}:digits:v1`, `docker-archive:${dir.join("archive")}:digits:v1`);
    },
  );

  test("has start settings: port, unprivileged user, environment, labels", async () => {
    await write("digits:v1");
    const { config } = readImage(images, "digits:v1");
    const model = await new ModelStore(store.home).resolve("digits:v1");
    expect(config).toMatchObject({ ...platform, created: "1970-01-01T00:00:00Z" });
    expect(config.config).toEqual({
      User: "65532:65532",
      ExposedPorts: { "3000/tcp": {} },
      Env: [
        "PATH=/opt/sconce:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME=/home/sconce",
        "SCONCE_HOST=0.0.0.0",
        "SCONCE_PORT=3000",
      ],
      Entrypoint: ["/opt/sconce/server"],
      WorkingDir: "/home/sconce",
      Labels: {
        "org.opencontainers.image.title": "digits",
        "org.opencontainers.image.version": model.digest.slice(7, 19),
        "org.opencontainers.image.description": "Reads a digit.",
        "sconce.model.digest": model.digest,
      },
      StopSignal: "SIGTERM",
    });
  });

  test("has a user, a loader with its libraries, the program and a store with one model, and no shell", async () => {
    await write("digits:v1");
    await mkdir(dir.join("root"));
    await unpackImage(images, readImage(images, "digits:v1"), dir.join("root"));
    const files = await readdir(dir.join("root"), { recursive: true });
    for (const part of ["ld-linux", "libc.so.6", "libresolv.so.2"]) {
      expect(files.filter((file) => file.includes(part))).not.toEqual([]);
    }
    expect(files).toContain("opt/sconce/lib/libsmall.so");
    expect(files.filter((file) => /(^|\/)(ba|da)?sh$/.test(file))).toEqual([]);
    expect(await Bun.file(dir.join("root/etc/passwd")).text()).toContain("sconce:x:65532:65532:sconce:/home/sconce:");
    const model = await new ModelStore(dir.join("root/opt/sconce/model")).resolve();
    await new ModelStore(dir.join("root/opt/sconce/model")).verify(model);
    expect(model).toMatchObject({
      repository: "digits",
      digest: (await new ModelStore(store.home).resolve("digits:v1")).digest,
    });
  });

  test("is the same bytes when it is written again elsewhere, and all its times are 1970", async () => {
    await write("digits:v1");
    await smallImage(dir.join("again"), { home: store.home, reference: "digits:v1" });
    expect(await contentOf(images)).toEqual(await contentOf(dir.join("again")));
    const layer = new Blobs(images).path(layersOf("digits:v1")[2] ?? "");
    const listed = await Bun.$`tar -tvz --utc -f ${layer}`.text();
    expect(listed.match(/ 1970-01-01 00:00 /g)?.length).toBe(listed.trim().split("\n").length);
  });
});

describe("an image of several platforms", () => {
  const other: Architecture = process.arch === "x64" ? "arm64" : "x64";
  const runtime = `/usr/${architectures[other]}-linux-gnu/lib`;
  const obstacle = !existsSync(join(runtime, "libstdc++.so.6"))
    ? `there is no ${runtime}`
    : hasRegistry
      ? skopeoObstacle
      : "it needs docker-registry";
  const indexSchema = z.object({
    manifests: z.array(z.looseObject({ digest: z.string(), platform: z.looseObject({}) })),
  });
  const writeBoth = async () => {
    // Both programs are for this machine's platform, because not every machine has the libraries of another platform.
    const { digest } = await write("digits:v1", {
      programs: [await smallProgram("true"), await smallProgram("false")],
    });
    return indexSchema.parse(await Bun.file(new Blobs(images).path(digest)).json()).manifests;
  };

  test("is one name for an index, which has an image for each platform", async () => {
    const written = await writeBoth();
    expect(written.map((each) => each.platform)).toEqual([{ ...platform }, { ...platform }]);
    expect(new Set(written.map(({ digest }) => digest)).size).toBe(2);
    expect(names()).toEqual(["digits:v1"]);
  });

  test.skipIf(obstacle !== undefined)(
    `is in a registry under one name, from which each platform gets its image${obstacle ? ` (skipped: ${obstacle})` : ""}`,
    async () => {
      const program = await smallProgram();
      await write("digits:v1", { programs: [program, { ...program, arch: other }] });
      await using registry = await startRegistry();
      const target = `docker://${registry.host}/digits:v1`;
      await skopeo("copy", "--all", "--dest-tls-verify=false", `oci:${images}:digits:v1`, target);
      for (const arch of [thisArchitecture(), other]) {
        const { architecture } = imagePlatform(arch);
        const seen = await skopeo("--override-arch", architecture, "inspect", "--tls-verify=false", target);
        expect(JSON.parse(seen)).toMatchObject({ Architecture: architecture });
      }
    },
  );

  test("goes away as a whole when another image takes its name", async () => {
    const blobs = new Blobs(images);
    const written = await writeBoth();
    expect(written.every(({ digest }) => blobs.all().includes(digest))).toBe(true);
    await write("digits:v1", { programs: [await smallProgram("sleep")] });
    expect(written.some(({ digest }) => blobs.all().includes(digest))).toBe(false);
  });

  test("needs the npm packages of its platforms, which the error names with the command that installs them", async () => {
    const args = ["image", "digits:v1", "-o", images, "--platform", `linux/${imagePlatform(other).architecture}`];
    const { code, stderr } = await store.cliHere(args);
    expect(code).toBe(1);
    expect(stderr).toContain(`programs for ${other} need the package @sconce/linux-${other}-gnu`);
    expect(stderr).toContain("bun add --cpu '*' sconce @oven/bun-linux-");
  });
});

describe("in one layout", () => {
  test("images of two versions of a model differ only in the model's layer", async () => {
    await write("digits:v1");
    const { layers } = await write("digits:v2");
    expect(layers.map(({ title, isShared }) => [title, isShared])).toEqual([
      ["runtime libraries", true],
      ["libtorch and server", true],
      ["model", false],
    ]);
    const [one, two] = [layersOf("digits:v1"), layersOf("digits:v2")];
    expect(one.slice(0, 2)).toEqual(two.slice(0, 2));
    expect(one[2]).not.toBe(two[2]);
    expect(names()).toEqual(["digits:v1", "digits:v2"]);
  });

  test("an image takes over the name of another, and adds no layer if it has the same model", async () => {
    await write("digits:v1");
    await write("digits:v2", { name: "digits:v1" });
    expect(names()).toEqual(["digits:v1"]);
    const { layers } = await write("digits:latest", { name: "team/digits:new" });
    expect(layers.map(({ isShared }) => isShared)).toEqual([true, true, true]);
    expect(names()).toEqual(["digits:v1", "team/digits:new"]);
  });

  test("files that only the replaced image needed are removed", async () => {
    const { digest } = await write("digits:v1", { name: "a" });
    const [, , model = ""] = layersOf("a");
    await write("digits:v2", { name: "b" });
    await write("digits:v2", { name: "a" });
    const blobs = await readdir(`${images}/blobs/sha256`);
    const isThere = (each: string) => blobs.includes(each.slice("sha256:".length));
    expect([digest, model].map(isThere)).toEqual([false, false]);
    expect([...layersOf("a"), ...layersOf("b")].every(isThere)).toBe(true);
    // Three layers that the images share, and one config and one manifest.
    expect(blobs.length).toBe(5);
  });

  test("an image that fails changes nothing, and leaves no file", async () => {
    await write("digits:v1");
    const before = await contentOf(images);
    const libraries = [{ name: "libgone.so", path: dir.join("gone") }];
    const programs = [{ arch: thisArchitecture(), executable: "/bin/true", libraries }];
    expect(await failure(write("digits:v2", { programs }))).toContain("gone: cannot open shared object file");
    expect(await contentOf(images)).toEqual(before);
  });
});

describe("refused is", () => {
  test("a folder with other content, such as a model store", async () => {
    await using dir = await tempDir();
    await writeFile(dir.join("file"), "text");
    const open = (path: string) => failure(() => openImages(path));
    expect(await open(dir.path)).toContain("has files and is not an OCI image layout; expected a new or empty folder");
    expect(await open(dir.join("file"))).toContain("is not a folder");
    expect(await open(store.home)).toContain("is a store of models, whose names an image would take");
  });

  test.each([
    [["digits"], "missing --output DIR"],
    [["digits", "-o", "images", "--tag", "a b"], "--tag must be letters and digits"],
    [["digits", "-o", "package.json"], "package.json is not a folder"],
    [["digits", "-o", "images", "--platform", "linux/riscv64"], "--platform must be linux/amd64, linux/arm64, or both"],
  ])("wrong usage: %j", async (args, part) => {
    const result = await store.cliHere(["image", ...args]);
    expect(result).toMatchObject({ code: 2, stdout: "" });
    expect(result.stderr).toContain(part);
  });
});
