/**
 * The JPEG unit of a GPU decodes pictures of fields with `nvjpeg: true`. All tests but one run without a GPU: a small C
 * library takes the place of the driver and of nvJPEG.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { $ } from "bun";
import { Image } from "../src/author/media.ts";
import { cudaDeviceCount } from "../src/engine/native/binding.ts";
import { nvjpegFor } from "../src/machine/nvjpeg.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";

const samples = join(import.meta.dir, "../examples/upscale/samples");
const turbo = join(
  import.meta.dir,
  `../node_modules/@julusian/jpeg-turbo/prebuilds/jpeg-turbo-linux-${process.arch}/libturbojpeg.so.0`,
);
let dir: TempDir;
let jpegs: string[];

beforeAll(async () => {
  dir = await tempDir();
  await $`cc -shared -fPIC -o ${dir.join("libcuda.so.1")} ${join(import.meta.dir, "helpers/jpeg-unit-stub.c")}`;
  await $`cp ${dir.join("libcuda.so.1")} ${dir.join("libnvjpeg.so.13")}`;
  const source = new Image({ bytes: await Bun.file(join(samples, "chelsea.png")).bytes(), mediaType: "image/png" });
  jpegs = Array.from({ length: 40 }, (_, i) => dir.join(`${i}.jpg`));
  for (const [i, path] of jpegs.entries()) {
    const pixels = await source.pixels({ width: 50 + i, height: 90 - i, fit: "cover" });
    const jpeg = await Image.fromPixels(pixels, { format: "jpeg", quality: 90 });
    await Bun.write(path, jpeg.bytes);
  }
});
afterAll(() => dir[Symbol.asyncDispose]());

async function decode(paths: readonly string[], { fault = "", device = 0, isReal = false } = {}) {
  const log = dir.join(`${crypto.randomUUID()}.log`);
  await Bun.write(log, "");
  const child = Bun.spawn(
    [process.execPath, join(import.meta.dir, "helpers/jpeg-unit-child.ts"), ...paths, `${device}`],
    {
      env: {
        ...process.env,
        ...(isReal ? {} : { LD_LIBRARY_PATH: dir.path }),
        STUB_TURBO: turbo,
        STUB_LOG: log,
        STUB_FAULT: fault,
      },
      stderr: "pipe",
    },
  );
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  const batches = (await Bun.file(log).text()).split("\n").filter(Boolean).map(Number);
  const decoded = batches.reduce((sum, size) => sum + size, 0);
  const lines = out.trim().split("\n");
  const { isOpen, isEqual } = JSON.parse(lines.at(-1) ?? "{}");
  return { isOpen, isEqual, decoded, text: `${out}${err}` };
}

test("a model on the CPU uses no JPEG unit, a model on GPUs that of its first GPU", () => {
  expect(nvjpegFor(["cpu"])).toBeUndefined();
  expect(nvjpegFor(["cuda:2", "cuda:0"])).toMatchObject({ device: 2 });
});

describe("a field with nvjpeg", () => {
  test("decodes JPEGs in the JPEG unit, each once, with the pixels of the CPU", async () => {
    const { isOpen, isEqual, decoded } = await decode(jpegs);
    expect({ isOpen, isEqual, decoded }).toEqual({ isOpen: true, isEqual: true, decoded: jpegs.length });
  });

  const gpus = cudaDeviceCount();
  const where = gpus === 0 ? "a real JPEG unit (skipped: this machine has no GPU)" : "a real JPEG unit";
  test.skipIf(gpus === 0)(`gives the pixels of the CPU on ${where}`, async () => {
    const { isOpen, isEqual } = await decode([...jpegs, join(samples, "coffee.jpg")], { isReal: true });
    expect({ isOpen, isEqual }).toEqual({ isOpen: true, isEqual: true });
  });

  test("decodes other pictures and progressive JPEGs on the CPU", async () => {
    const progressive = dir.join("progressive.jpg");
    await Bun.write(progressive, await new Bun.Image(jpegs[0] ?? "").jpeg({ progressive: true }).bytes());
    const { isEqual, decoded } = await decode([progressive, join(samples, "chelsea.png"), jpegs[1] ?? ""]);
    expect({ isEqual, decoded }).toEqual({ isEqual: true, decoded: 1 });
  });

  test("decodes on the CPU after an error of the GPU", async () => {
    const { isOpen, isEqual, decoded } = await decode(jpegs, { fault: "decode" });
    expect({ isOpen, isEqual, decoded }).toEqual({ isOpen: true, isEqual: true, decoded: 0 });
  });

  test.each([
    ["a GPU without a JPEG unit", { fault: "unit" }, "this GPU has no JPEG unit that nvJPEG can use"],
    ["a missing GPU", { device: 1 }, "cuDeviceGet gave error 101"],
  ])("decodes on the CPU for %s, and a line of the log says so", async (_, where, reason) => {
    const { isOpen, isEqual, decoded, text } = await decode(jpegs.slice(0, 2), where);
    expect({ isOpen, isEqual, decoded }).toEqual({ isOpen: false, isEqual: true, decoded: 0 });
    expect(text).toMatch(new RegExp(`The CPU decodes pictures, not the JPEG unit of cuda:\\d: ${reason}`));
  });
});
