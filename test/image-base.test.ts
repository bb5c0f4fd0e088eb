/** Images that add their layers to a base image, and base images and folders that are refused. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { appendFile, mkdir, writeFile } from "node:fs/promises";
import { openBase } from "../src/package/image/base-image.ts";
import { ImageLayout } from "../src/package/image/layout.ts";
import { imagePlatform } from "../src/package/image/platform.ts";
import { ModelStore } from "../src/package/store/store.ts";
import { cli } from "./helpers/cli.ts";
import { failure } from "./helpers/failure.ts";
import { platform, readImage, smallImage, writeBase } from "./helpers/image.ts";
import { modelConfig, modelLayers } from "./helpers/model-content.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";

let home: TempDir;

beforeAll(async () => {
  home = await tempDir();
  await new ModelStore(home.path).put({ repository: "digits", config: modelConfig(), layers: modelLayers("one") });
});
afterAll(() => home[Symbol.asyncDispose]());

const base = (path: string) => openBase(path, platform);

describe("an image upon a base image", () => {
  const execution = {
    Env: ["PATH=/base/bin", "LANG=C.UTF-8", "SCONCE_PORT=80"],
    User: "1000:1000",
    WorkingDir: "/work",
    Cmd: ["sh"],
    Entrypoint: ["/base/start"],
    ExposedPorts: { "9000/tcp": {} },
    Labels: { kept: "yes", "org.opencontainers.image.title": "base" },
    Volumes: { "/data": {} },
  };

  test("has the base's layers in place of runtime libraries, and the base's settings except its start command", async () => {
    await using dir = await tempDir();
    const { digest } = await writeBase(dir.join("base"), { execution });
    const images = dir.join("images");
    const { layers } = await smallImage(images, {
      home: home.path,
      reference: "digits",
      base: base(`${dir.join("base")}:base`),
    });
    expect(layers.map(({ title }) => title)).toEqual(["base image", "libtorch and server", "model"]);
    const { manifest, config } = readImage(images, "digits");
    const below = readImage(dir.join("base"), "base");
    expect(manifest.layers[0]).toEqual(below.manifest.layers[0]);
    expect(manifest.annotations).toMatchObject({ "org.opencontainers.image.base.digest": digest });
    expect(config.rootfs.diff_ids[0]).toBe(below.config.rootfs.diff_ids[0]);
    expect(config.history?.length).toBe(3);
    expect(config.config).toEqual({
      Env: ["PATH=/base/bin", "LANG=C.UTF-8", "SCONCE_PORT=3000", "SCONCE_HOST=0.0.0.0"],
      User: "1000:1000",
      WorkingDir: "/work",
      Entrypoint: ["/opt/sconce/server"],
      ExposedPorts: { "9000/tcp": {}, "3000/tcp": {} },
      Labels: expect.objectContaining({ kept: "yes", "org.opencontainers.image.title": "digits" }),
      StopSignal: "SIGTERM",
      Volumes: { "/data": {} },
    });
  });

  test.each(["", "root", "0", "0:0"])("that runs as %j, the program runs without rights", async (User) => {
    await using dir = await tempDir();
    await writeBase(dir.join("base"), { execution: { User } });
    await smallImage(dir.join("images"), { home: home.path, reference: "digits", base: base(dir.join("base")) });
    expect(readImage(dir.join("images"), "digits").config.config?.User).toBe("65532:65532");
  });

  test("may be in the same layout as its base, in a folder whose name contains a colon", async () => {
    await using dir = await tempDir();
    const images = dir.join("a:b");
    await writeBase(images, { name: "debian:12" });
    await smallImage(images, { home: home.path, reference: "digits", base: base(`${images}:debian:12`) });
    expect(readImage(images, "digits").manifest.layers.length).toBe(3);
  });
});

describe("refused is", () => {
  test("a base that is missing, ambiguous, for another processor, or damaged", async () => {
    await using dir = await tempDir();
    const folder = dir.join("base");
    expect(await failure(() => base(folder))).toContain("usage: there is no folder");
    await mkdir(dir.join("empty"));
    expect(await failure(() => base(dir.join("empty")))).toContain("is not an OCI image layout");
    await writeBase(folder, { architecture: "mips" });
    expect(await failure(() => base(folder))).toContain("is for linux/mips; expected linux/");
    await writeBase(folder, { name: "other" });
    expect(await failure(() => base(folder))).toContain(`has 2 images; give one of ${folder}:base, ${folder}:other`);
    expect(await failure(() => base(`${folder}:nope`))).toContain('has no single image "nope"');
    const [layer] = readImage(folder, "other").manifest.layers;
    const path = ImageLayout.open(folder).blobs.path(layer?.digest ?? "");
    const content = await Bun.file(path).bytes();
    await writeFile(path, content.with(content.length - 1, 1 ^ (content.at(-1) ?? 0)));
    const upon = { home: home.path, reference: "digits", base: base(`${folder}:other`) };
    expect(await failure(smallImage(dir.join("images"), upon))).toContain("image_invalid: ");
    await appendFile(path, "more");
    expect(await failure(smallImage(dir.join("images"), upon))).toContain("is missing or has other bytes");
  });

  test("a folder with other content, such as a model store", async () => {
    await using dir = await tempDir();
    await writeFile(dir.join("file"), "text");
    const open = (path: string) => failure(() => ImageLayout.openOrCreate(path));
    expect(await open(dir.path)).toContain("has files and is not an OCI image layout; expected a new or empty folder");
    expect(await open(dir.join("file"))).toContain("is not a folder");
    expect(await open(home.path)).toContain("is a store of models, whose names an image would take");
  });

  test("a machine whose libraries cannot be in an image", async () => {
    expect(imagePlatform("linux", "x64")).toEqual({ os: "linux", architecture: "amd64" });
    expect(imagePlatform("linux", "arm64")).toEqual({ os: "linux", architecture: "arm64" });
    expect(await failure(() => imagePlatform("darwin", "arm64"))).toContain("which is darwin arm64; expected linux");
    expect(await failure(() => imagePlatform("linux", "ia32"))).toContain("which is linux ia32");
  });

  test.each([
    [["digits"], "missing --output DIR"],
    [["digits", "-o", "images", "--tag", "a b"], "--tag must be letters and digits"],
    [["digits", "-o", "images", "--source-date-epoch", "-1"], "must be a whole number from 0 to 8589934591"],
    [["digits", "-o", "images", "--base", "nope"], "there is no folder nope"],
    [["digits", "-o", "package.json"], "package.json is not a folder"],
  ])("wrong usage: %j", async (args, part) => {
    const result = await cli(["image", ...args], { env: { SCONCE_HOME: home.path } });
    expect(result).toMatchObject({ code: 2, stdout: "" });
    expect(result.stderr).toContain(part);
  });
});
