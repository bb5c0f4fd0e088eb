/** The operators of torchvision that detectors call run without a library, and give torchvision's results. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { z } from "zod";
import { float32, type Tensor, tensor } from "../src/author/tensor.ts";
import { cliHere } from "./helpers/command-here.ts";
import { visionWeights } from "./helpers/exports.ts";
import { sessions } from "./helpers/sessions.ts";
import { storedTensor } from "./helpers/tensors.ts";

const call = z.object({
  name: z.enum(["nms", "roi_align", "deform_conv2d"]),
  given: z.array(z.union([storedTensor, z.number(), z.boolean()])),
  result: storedTensor,
});

const tensorOf = z.custom<Tensor>((value) => typeof value === "object" && value !== null && "dtype" in value);

const folder = await visionWeights();
const open = sessions();

/** Largest difference from torchvision, relative to the largest value. torchvision sums float16 in float16. */
const tolerances: Readonly<Record<string, number>> = { float16: 4e-3, float32: 2e-6, float64: 1e-14, int64: 0 };

describe("in TorchScript,", async () => {
  const calls = z.array(call).parse(await Bun.file(join(import.meta.dir, "data/vision.json")).json());
  for (const name of call.shape.name.options) {
    test(`${name} gives torchvision's results, for ties, no boxes and each dtype`, async () => {
      const session = await open({ path: join(folder, "methods.pt") });
      const own = calls.filter((each) => each.name === name);
      expect(own.length).toBeGreaterThan(15);
      for (const { given, result } of own) {
        const received = tensorOf.parse(await session.call(name, given));
        expect([received.dtype, received.shape]).toEqual([result.dtype, result.shape]);
        const [ours, theirs] = [numbersOf(received), numbersOf(result)];
        const largest = Math.max(...theirs.map(Math.abs));
        const differences = ours.map((value, i) => Math.abs(value - (theirs[i] ?? Number.NaN)));
        expect(Math.max(0, ...differences)).toBeLessThanOrEqual((tolerances[result.dtype] ?? 0) * Math.max(1, largest));
      }
    });
  }
});

/** The elements; arrays of float16 hold bits. */
function numbersOf({ dtype, data }: Tensor): number[] {
  const { buffer, byteOffset, length } = data;
  return dtype === "float16" ? [...new Float16Array(buffer, byteOffset, length)] : Array.from(data, Number);
}

test("an exported detector marks the boxes that nms keeps, and pools each picture", async () => {
  const session = await open({
    path: join(folder, "detector.pt2"),
    inputs: { pictures: float32(1, 4, 4), boxes: float32(4), scores: float32() },
    outputs: { kept: float32(), pooled: float32(1, 2, 2) },
  });
  const floats = (shape: number[], ...values: number[]) => tensor(Float32Array.from(values), shape);
  const picture = floats([1, 4, 4], ...Array.from({ length: 16 }, (_, i) => i));
  const boxes = [
    [0, 0, 2, 2],
    [0, 0, 2.1, 2],
    [2, 2, 4, 4],
  ];
  const items = boxes.map((box, i) => [picture, floats([4], ...box), floats([], 0.5 + 0.1 * i)]);
  const [kept, pooled] = await session.run(items);
  expect([...(kept?.data ?? [])]).toEqual([0, 1, 1]);
  expect([...(pooled?.data ?? [])].slice(0, 4).map(Number)).toEqual([0, 1, 4, 5]);
});

test.each(["twice.pt", "twice.pt2"])(
  "%s is refused with the operator's name and the page about operators",
  async (file) => {
    const given = file.endsWith(".pt") ? ["--input", "x=float32[N,3]"] : [];
    const { code, stdout } = await cliHere(["check", join(folder, file), ...given]);
    expect(code).toBe(1);
    expect(stdout).toContain("nowhere::twice");
    expect(stdout).toContain(
      "name a library with the operator under operators in model.ts (docs/declare.md#operators)",
    );
    expect(stdout).not.toContain("line ");
  },
);
