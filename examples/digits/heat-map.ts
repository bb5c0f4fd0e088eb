/** Shows which parts of a picture matter, by occlusion: cover a part, and measure how far the answer's score falls. */
import { Image, type Pixels } from "sconce";
import { scaledSize } from "./grey-picture.ts";

/** Patches per row and per column. */
const grid = 8;
/** Longer side of the heat map, in pixels. Pictures of other sizes are scaled. */
const shownSide = 256;

/** Copies of a grey picture. Each copy has another patch in the colour of the paper. */
export function occlusions(picture: Pixels): Promise<Image>[] {
  // The first pixel is a corner, where digits seldom have ink.
  const paper = picture.data[0] ?? 255;
  return Array.from({ length: grid * grid }, (_, patch) => {
    const data = Uint8Array.from(picture.data);
    for (const i of patchPixels(picture, patch)) data[i] = paper;
    return Image.fromPixels({ ...picture, data, channels: 1 });
  });
}

/**
 * The picture in pale grey, with red over the patches that matter.
 * @param falls for each patch, how far the answer's score falls when the patch is covered; the largest fall is reddest
 */
export async function heatMap(image: Image, falls: readonly number[]): Promise<Image> {
  const size = await scaledSize(image, shownSide, Infinity);
  const { data, width, height } = await image.pixels({ ...size, channels: 1, filter: "bicubic" });
  const largest = Math.max(1e-6, ...falls);
  const rgb = new Uint8Array(width * height * 3);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const heat = Math.max(0, between(falls, (x / width) * grid - 0.5, (y / height) * grid - 0.5)) / largest;
      const grey = 96 + ((data[y * width + x] ?? 0) * 159) / 255;
      rgb.set([grey + (255 - grey) * heat, grey * (1 - heat), grey * (1 - heat)], (y * width + x) * 3);
    }
  }
  return Image.fromPixels({ data: rgb, width, height, channels: 3 });
}

/**
 * Bilinear interpolation between the centres of the patches.
 * @param values one value for each patch, row by row
 * @param x column, from 0 (centre of the first patch); fractions lie between two patches
 * @param y row, from 0 (centre of the first patch)
 */
function between(values: readonly number[], x: number, y: number): number {
  const clamp = (at: number) => Math.min(grid - 1, Math.max(0, at));
  const [left, top] = [Math.floor(x), Math.floor(y)];
  const at = (column: number, row: number) => values[clamp(row) * grid + clamp(column)] ?? 0;
  const upper = at(left, top) * (left + 1 - x) + at(left + 1, top) * (x - left);
  const lower = at(left, top + 1) * (left + 1 - x) + at(left + 1, top + 1) * (x - left);
  return upper * (top + 1 - y) + lower * (y - top);
}

/** Indices of the pixels in a patch. */
function* patchPixels({ width, height }: Pixels, patch: number): Generator<number> {
  const edge = (length: number, at: number) => Math.round((length * at) / grid);
  const [column, row] = [patch % grid, Math.floor(patch / grid)];
  for (let y = edge(height, row); y < edge(height, row + 1); y++) {
    for (let x = edge(width, column); x < edge(width, column + 1); x++) yield y * width + x;
  }
}
