/** The example upscale with a package that AOTInductor has compiled for dynamic sizes. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import model from "../../examples/upscale/model.ts";
import type { Tensor } from "../../src/author/tensor.ts";
import { ModelStore } from "../../src/package/store/store.ts";
import { tempDir } from "../helpers/fixture.ts";
import { storeWith } from "../helpers/server.ts";
import { sessions } from "../helpers/sessions.ts";
import { withWeights } from "../helpers/upscale.ts";
import { packages } from "../helpers/weights.ts";

const example = join(import.meta.dir, "../../examples/upscale");
const { path } = await packages();
const open = sessions();
const compiled = path("enlarged-compiled.pt2");

test("the compiled and the exported program give equal pixels for pictures of any size, alone and in batches", async () => {
  const [plain, ahead] = await Promise.all([
    open({ path: path("enlarged.pt2"), ...model.tensors }),
    open({ path: compiled, ...model.tensors }),
  ]);
  for (const [count, height, width] of [
    [1, 1, 1],
    [2, 1, 1],
    [1, 1, 9],
    [3, 5, 1],
    [4, 24, 31],
    [1, 120, 160],
  ] as const) {
    const batch = Array.from({ length: count }, (_, i) => [picture(height, width, i)]);
    const [[expected], [actual]] = await Promise.all([plain.run(batch), ahead.run(batch)]);
    expect(actual?.shape).toEqual([count, 2 * height, 2 * width, 3]);
    expect(actual?.data).toEqual(expected?.data);
  }
}, 600_000);

test("compiled weights in place of the program are packaged and served", async () => {
  await using dir = await tempDir();
  await using store = await storeWith();
  const folder = await withWeights(dir.join("upscale"), compiled);
  expect((await store.cliHere(["build", folder, "-t", ":aot"])).code).toBe(0);
  const ahead = await new ModelStore(store.home).resolve("upscale:aot");
  expect(ahead.layer("upscale.pt2").size).toBe(Bun.file(compiled).size);
  const predicted = await store.cliHere(["predict", "upscale:aot", `image=${join(example, "samples/coffee.jpg")}`]);
  expect(predicted.stdout).toContain("data:image/png;base64,");
}, 600_000);

/** A test picture with stripes and steps, a different one for each `seed`. */
function picture(height: number, width: number, seed: number): Tensor {
  const data = Uint8Array.from({ length: height * width * 3 }, (_, i) => (i * (37 + seed * 2) + (i >> 5) * 91) % 256);
  return { dtype: "uint8", shape: [height, width, 3], data };
}
