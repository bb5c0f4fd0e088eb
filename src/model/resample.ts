/** Resampling of transparent pictures row by row, as Pillow does it (`Resample.c`), so that none of their copies is ever whole. */
import { divide255, type Raster, type Size } from "./raster.ts";

interface Kernel {
  /** Distance from the centre, in source pixels of an unscaled picture, beyond which the weight is 0. */
  readonly support: number;
  weight(distance: number): number;
}

/** Named as in Pillow. */
export const kernels = {
  box: { support: 0.5, weight: (x) => (x > -0.5 && x <= 0.5 ? 1 : 0) },
  bilinear: { support: 1, weight: (x) => Math.max(0, 1 - Math.abs(x)) },
  bicubic: { support: 2, weight: bicubic },
  lanczos: { support: 3, weight: (x) => (x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0) },
} satisfies Record<string, Kernel>;

export type KernelName = keyof typeof kernels;

/** Which source pixels make a target pixel: `weights` of those from `first`. */
interface Taps {
  readonly first: number;
  /** Whole numbers, of which `ONE` is 1: rounded as Pillow's are, since low alphas make a large colour of a small difference. */
  readonly weights: Float64Array;
}

const ONE = 2 ** 22;

/** Taps worked on between two turns of the event loop: a few milliseconds. */
const TAPS_PER_TURN = 2_000_000;
/** Rows that several target rows need are kept up to this; those of absurd shapes are made again. */
const MAX_KEPT_BYTES = 32 * 2 ** 20;

/** @returns the picture in another size, its colours multiplied by alpha */
export async function resamplePremultiplied(
  source: Raster,
  { width, height }: Size,
  name: KernelName,
): Promise<Raster> {
  const columns = tapsOf(source.width, width, kernels[name]);
  const rows = tapsOf(source.height, height, kernels[name]);
  const rowBytes = width * 4;
  const bytes = new Uint8Array(rowBytes * height);
  const kept = new KeptRows(source, columns, rows);
  const sums = new Float64Array(rowBytes);
  let taps = 0;
  for (const [y, { first, weights }] of rows.entries()) {
    sums.fill(ONE / 2);
    for (let i = 0; i < weights.length; i++) {
      const { row, work } = kept.get(first + i);
      addWeighted(sums, row, weights[i] ?? 0);
      taps += work + rowBytes;
      if (taps < TAPS_PER_TURN) continue;
      taps = 0;
      await new Promise(setImmediate);
    }
    writeRow(sums, bytes, y * rowBytes);
  }
  return { width, height, bytes, offset: 0, rowBytes, premultiplied: true };
}

/** Source rows, resampled along their length. */
class KeptRows {
  readonly #source: Raster;
  readonly #columns: readonly Taps[];
  readonly #rows: readonly Uint8ClampedArray[];
  /** Which source row is in which place. */
  readonly #held: Int32Array;
  readonly #scratch: Uint8Array;
  readonly #work: number;

  constructor(source: Raster, columns: readonly Taps[], rows: readonly Taps[]) {
    const rowBytes = columns.length * 4;
    const wanted = rows.reduce((most, { weights }) => Math.max(most, weights.length), 1);
    const count = Math.max(1, Math.min(wanted, Math.floor(MAX_KEPT_BYTES / rowBytes)));
    this.#source = source;
    this.#columns = columns;
    this.#rows = Array.from({ length: count }, () => new Uint8ClampedArray(rowBytes));
    this.#held = new Int32Array(count).fill(-1);
    this.#scratch = new Uint8Array(source.width * 4);
    this.#work = columns.reduce((sum, { weights }) => sum + weights.length, source.width);
  }

  get(y: number): { readonly row: Uint8ClampedArray; readonly work: number } {
    const place = y % this.#rows.length;
    const row = this.#rows[place] ?? new Uint8ClampedArray(0);
    if (this.#held[place] === y) return { row, work: 0 };
    premultiplyRow(this.#source, y, this.#scratch);
    resampleRow(this.#scratch, this.#columns, row);
    this.#held[place] = y;
    return { row, work: this.#work };
  }
}

function premultiplyRow({ width, bytes, offset, rowBytes }: Raster, y: number, row: Uint8Array): void {
  let from = offset + y * rowBytes;
  for (let to = 0; to < width * 4; from += 4, to += 4) {
    const alpha = bytes[from + 3] ?? 0;
    row[to] = divide255((bytes[from] ?? 0) * alpha);
    row[to + 1] = divide255((bytes[from + 1] ?? 0) * alpha);
    row[to + 2] = divide255((bytes[from + 2] ?? 0) * alpha);
    row[to + 3] = alpha;
  }
}

function resampleRow(row: Uint8Array, columns: readonly Taps[], result: Uint8ClampedArray): void {
  let to = 0;
  for (const { first, weights } of columns) {
    let red = ONE / 2;
    let green = ONE / 2;
    let blue = ONE / 2;
    let alpha = ONE / 2;
    for (let i = 0, from = first * 4; i < weights.length; i++, from += 4) {
      const weight = weights[i] ?? 0;
      red += weight * (row[from] ?? 0);
      green += weight * (row[from + 1] ?? 0);
      blue += weight * (row[from + 2] ?? 0);
      alpha += weight * (row[from + 3] ?? 0);
    }
    result[to] = Math.floor(red / ONE);
    result[to + 1] = Math.floor(green / ONE);
    result[to + 2] = Math.floor(blue / ONE);
    result[to + 3] = Math.floor(alpha / ONE);
    to += 4;
  }
}

function addWeighted(sums: Float64Array, row: Uint8ClampedArray, weight: number): void {
  for (let i = 0; i < sums.length; i++) sums[i] = (sums[i] ?? 0) + weight * (row[i] ?? 0);
}

function writeRow(sums: Float64Array, bytes: Uint8Array, at: number): void {
  for (let i = 0; i < sums.length; i++) bytes[at + i] = Math.min(255, Math.max(0, Math.floor((sums[i] ?? 0) / ONE)));
}

/** For each target pixel; when shrinking, the kernel is as much wider (antialias). */
function tapsOf(size: number, targetSize: number, { support, weight }: Kernel): Taps[] {
  const scale = size / targetSize;
  const widening = Math.max(1, scale);
  const reach = support * widening;
  return Array.from({ length: targetSize }, (_, target) => {
    const centre = (target + 0.5) * scale;
    const first = Math.max(0, Math.trunc(centre - reach + 0.5));
    const end = Math.min(size, Math.trunc(centre + reach + 0.5));
    const weights = new Float64Array(Math.max(1, end - first));
    for (let i = 0; i < weights.length; i++) weights[i] = weight((first + i - centre + 0.5) / widening);
    const sum = weights.reduce((total, one) => total + one, 0);
    return { first, weights: weights.map((one) => Math.round((one / sum) * ONE)) };
  });
}

/** Keys' cubic convolution, a = -0.5. */
function bicubic(distance: number): number {
  const x = Math.abs(distance);
  if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
  return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

function sinc(x: number): number {
  return x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x);
}
