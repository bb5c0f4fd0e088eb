/** The same input gives the same bits in every run, for each batch size. */
import { afterAll, expect, test } from "bun:test";
import { join } from "node:path";
import { float32, tensor } from "../src/author/tensor.ts";
import { openSession } from "../src/engine/native/binding.ts";
import { sameBits } from "./helpers/exports.ts";

const RUNS = 100;

const opened = new AsyncDisposableStack();

afterAll(() => opened.disposeAsync());

test.each([
  { file: "linear.pt", what: "linear layers", shape: [512], packed: 3 },
  { file: "convolutions.pt", what: "convolutions", shape: [3, 16, 16], packed: 2 },
])(
  "the same input gives the same bits in each of 100 runs: $what",
  async ({ file, shape, packed }) => {
    const session = await openSession({
      path: join(await sameBits(), file),
      device: "cpu",
      threads: 1,
      inputs: { input: float32(...shape) },
      outputs: { y: float32(10) },
    });
    opened.defer(() => session.dispose());
    expect(session.packedLayers).toBe(packed);
    const size = shape.reduce<number>((product, each) => product * each, 1);
    for (const count of [1, 2, 7, 16]) {
      const item = (row: number) => [
        tensor(
          Float32Array.from({ length: size }, (_, i) => Math.sin(row + 7 * i)),
          shape,
        ),
      ];
      const batch = Array.from({ length: count }, (_, row) => item(row));
      const [first] = await session.run(batch);
      for (let run = 1; run < RUNS; run++) {
        const [given] = await session.run(batch);
        expect(given?.data).toEqual(first?.data);
      }
    }
  },
  60_000,
);
