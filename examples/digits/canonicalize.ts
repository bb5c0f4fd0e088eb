/** Normalizes a picture of a digit to the form of the training data. train.py has the same code in Python. */

/** Width and height of the network's input, in pixels. */
export const side = 20;
/** Longer side of the scaled digit within the network's input, in pixels. */
const inner = 16;
/** A picture with a smaller difference between ink and paper is blank. Pixels have values from 0 to 255. */
const minContrast = 16;
/** Pixels with more ink belong to the digit, pixels with less may be noise. Ink has values from 0 to 1. */
const minInk = 0.3;

interface Grey {
  data: Uint8Array;
  width: number;
  height: number;
}

/** Values from 0 (paper) to 1 (the strongest ink). */
interface Ink {
  data: Float64Array;
  width: number;
  height: number;
}

/**
 * Crops a grey picture to the digit, scales the digit and centres it on `side` × `side` values: ink is 1, paper is 0.
 * The digit may be dark on light or light on dark. A blank picture gives zeros.
 */
export function canonicalize(grey: Grey): Float32Array<ArrayBuffer> {
  const canvas = new Float32Array(side * side);
  const ink = separateInk(grey);
  if (ink === undefined) return canvas;
  const cropped = cropToInk(ink);
  const scale = inner / Math.max(cropped.width, cropped.height);
  const scaled = resize(cropped, {
    width: Math.max(1, Math.floor(cropped.width * scale + 0.5)),
    height: Math.max(1, Math.floor(cropped.height * scale + 0.5)),
  });
  const left = Math.floor((side - scaled.width) / 2);
  const top = Math.floor((side - scaled.height) / 2);
  const darkest = scaled.data.reduce((a, b) => Math.max(a, b));
  scaled.data.forEach((value, i) => {
    const row = top + Math.floor(i / scaled.width);
    canvas[row * side + left + (i % scaled.width)] = value / darkest;
  });
  return canvas;
}

/**
 * Turns grey values into ink: their difference from the paper, lighter or darker. The grey of the paper is the median
 * of the border pixels.
 * @returns undefined for a blank picture
 */
function separateInk({ data, width, height }: Grey): Ink | undefined {
  const edge: number[] = [];
  for (let x = 0; x < width; x++) edge.push(data[x] ?? 0, data[(height - 1) * width + x] ?? 0);
  for (let y = 0; y < height; y++) edge.push(data[y * width] ?? 0, data[y * width + width - 1] ?? 0);
  const paper = edge.sort((a, b) => a - b)[width + height] ?? 0;
  let [lightest, darkest] = [paper, paper];
  for (const value of data) {
    if (value > lightest) lightest = value;
    if (value < darkest) darkest = value;
  }
  const contrast = Math.max(lightest - paper, paper - darkest);
  if (contrast < minContrast) return undefined;
  const sign = lightest - paper > paper - darkest ? 1 : -1;
  const ink = new Float64Array(data.length);
  for (let i = 0; i < data.length; i++) ink[i] = Math.max(0, (((data[i] ?? 0) - paper) * sign) / contrast);
  return { data: ink, width, height };
}

/** Crops to the smallest rectangle that contains all pixels of the digit. */
function cropToInk({ data, width, height }: Ink): Ink {
  let [left, right, top, bottom] = [width, 0, height, 0];
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i++) {
      if ((data[i] ?? 0) <= minInk) continue;
      if (x < left) left = x;
      if (x >= right) right = x + 1;
      if (y < top) top = y;
      bottom = y + 1;
    }
  }
  const cropped = new Float64Array((right - left) * (bottom - top));
  for (let y = top, to = 0; y < bottom; y++, to += right - left) {
    cropped.set(data.subarray(y * width + left, y * width + right), to);
  }
  return { data: cropped, width: right - left, height: bottom - top };
}

function resize(ink: Ink, { width, height }: { width: number; height: number }): Ink {
  const across = weights(ink.width, width);
  const down = weights(ink.height, height);
  const data = new Float64Array(width * height);
  for (let y = 0; y < height; y++) {
    const row = new Float64Array(ink.width);
    for (const [from, weight] of down[y] ?? []) {
      for (let x = 0; x < ink.width; x++) row[x] = (row[x] ?? 0) + weight * (ink.data[from * ink.width + x] ?? 0);
    }
    for (let x = 0; x < width; x++) {
      for (const [from, weight] of across[x] ?? []) {
        data[y * width + x] = (data[y * width + x] ?? 0) + weight * (row[from] ?? 0);
      }
    }
  }
  return { data, width, height };
}

/**
 * A triangle filter for one dimension, as wide as two target pixels when it shrinks.
 * @param source number of source pixels
 * @param target number of target pixels
 * @returns for each target pixel, the weights of source pixels; their sum is 1
 */
function weights(source: number, target: number): [from: number, weight: number][][] {
  const scale = source / target;
  const reach = Math.max(1, scale);
  return Array.from({ length: target }, (_, i) => {
    const center = (i + 0.5) * scale;
    const taken: [number, number][] = [];
    for (let from = Math.max(0, Math.floor(center - reach)); from < Math.min(source, center + reach); from++) {
      const weight = 1 - Math.abs(from + 0.5 - center) / reach;
      if (weight > 0) taken.push([from, weight]);
    }
    const total = taken.reduce((sum, [, weight]) => sum + weight, 0);
    return taken.map(([from, weight]) => [from, weight / total]);
  });
}
