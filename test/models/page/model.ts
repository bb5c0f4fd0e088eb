/** Reads the digits on a page. One network finds the digits, and another reads them, all in one batch. */
import { defineModel, float32, image, int64, type Tensor, tensor, z } from "sconce";
import { canonicalize, side } from "../../../examples/digits/canonicalize.ts";

const limit = 8;
const box = z.object({ left: z.int(), top: z.int(), right: z.int(), bottom: z.int() });

export default defineModel({
  name: "page",
  input: z.object({ page: image() }),
  output: z.object({ digits: z.array(z.int()), boxes: z.array(box) }),
  tensors: {
    inputs: { ink: float32("height", "width") },
    outputs: { count: int64(), digits: int64(limit), boxes: int64(limit, 4) },
  },
  weights: { detector: "detector.pt", reader: "reader.pt" },
  batchSize: 4,
  async preprocess({ page }) {
    const { data, width, height } = await page.pixels({ channels: 1 });
    return {
      ink: tensor(
        Float32Array.from(data, (value) => 1 - value / 255),
        [height, width],
      ),
    };
  },
  async predict({ ink }, { detector, reader }) {
    const [pages = 0, height = 0, width = 0] = ink.shape;
    const [boxes, count] = await detector.call<readonly [Tensor<"int64">, Tensor<"int64">]>("find", ink, 0.5, limit);
    const found = Array.from(count.data, Number).flatMap((of, page) =>
      Array.from({ length: of }, (_, at) => ({ page, at })),
    );
    const digits = new BigInt64Array(pages * limit);
    if (found.length > 0) {
      const pictures = found.map(({ page, at }) => {
        const [left = 0, top = 0, right = 0, bottom = 0] = Array.from(
          boxes.data.subarray((page * limit + at) * 4).subarray(0, 4),
          Number,
        );
        const grey = new Uint8Array((right - left) * (bottom - top));
        for (let y = top, to = 0; y < bottom; y++) {
          for (let x = left; x < right; x++) grey[to++] = 255 * (1 - (ink.data[(page * height + y) * width + x] ?? 0));
        }
        return canonicalize(framed(grey, right - left, bottom - top));
      });
      const stacked = new Float32Array(pictures.length * side * side);
      for (const [i, picture] of pictures.entries()) stacked.set(picture, i * side * side);
      const scores = await reader.call<Tensor<"float32">>("forward", tensor(stacked, [pictures.length, side, side]));
      for (const [i, { page, at }] of found.entries()) {
        const row = [...scores.data.subarray(i * 10, (i + 1) * 10)];
        digits[page * limit + at] = BigInt(row.indexOf(Math.max(...row)));
      }
    }
    return { count, digits: tensor(digits, [pages, limit]), boxes };
  },
  postprocess({ count, digits, boxes }) {
    const found = Number(count.data[0]);
    return {
      digits: Array.from(digits.data.subarray(0, found), Number),
      boxes: Array.from({ length: found }, (_, i) => {
        const [left = 0, top = 0, right = 0, bottom = 0] = Array.from(boxes.data.subarray(4 * i, 4 * i + 4), Number);
        return { left, top, right, bottom };
      }),
    };
  },
});

/** Adds a border of white paper, so that ink differs from its surroundings. */
function framed(grey: Uint8Array, width: number, height: number) {
  const border = 2;
  const data = new Uint8Array((width + 2 * border) * (height + 2 * border)).fill(255);
  for (let y = 0; y < height; y++) {
    data.set(grey.subarray(y * width, (y + 1) * width), (y + border) * (width + 2 * border) + border);
  }
  return { data, width: width + 2 * border, height: height + 2 * border };
}
