/** Computes the scaled size of an image, and its position in the result. */
import { SconceError } from "../base/errors.ts";

export interface Size {
  readonly width: number;
  readonly height: number;
}

/** 1: as it is stored; 2 to 8: mirrored and rotated. */
export const orientations = [1, 2, 3, 4, 5, 6, 7, 8] as const;
export type Orientation = (typeof orientations)[number];

/** The canvas of an animation, and the position of the first frame on it, in pixels. */
export interface Canvas {
  readonly width: number;
  readonly height: number;
  readonly x: number;
  readonly y: number;
  /** Whether the animation has no transparency. The area around the frame is then black. */
  readonly isOpaque: boolean;
}

export const fits = ["fill", "cover", "contain"] as const;
export type Fit = (typeof fits)[number];

export interface PlacementOptions {
  /** Width of the result. Default: the image's width, or in proportion if only `height` is given. */
  width?: number;
  /** Height of the result. Default: the image's height, or in proportion if only `width` is given. */
  height?: number;
  /**
   * How the image fits if its proportions differ from the result's. `fill` stretches it. `cover` scales it until it
   * covers the result, and crops it to the centre. `contain` scales it until all of it is visible, and fills the bars
   * with `background`. Default: `fill`.
   */
  fit?: Fit;
  /**
   * Replaces `width` and `height`: scales the shorter side to this length in pixels, in proportion, like torchvision's
   * `Resize(size)`.
   */
  shortSide?: number;
  /**
   * Crops the centre of the scaled image; a number crops a square. Like torchvision's `CenterCrop`, except that areas
   * beyond the image get `background`. Default: no crop.
   */
  crop?: number | Size;
}

/**
 * The size of the result, the size to which the image is scaled, and the position (x, y) of its top left corner in the
 * result. Negative positions crop the image, positive ones leave a bar.
 */
export interface Placement {
  readonly target: Size;
  readonly scaled: Size;
  readonly x: number;
  readonly y: number;
}

/**
 * Computes size and position. `cover` rounds like torchvision's `Resize` of the shorter side with `CenterCrop`;
 * `contain` rounds like Pillow's `ImageOps.pad`.
 * @throws SconceError `item_failed` for `shortSide` beside `width` or `height`
 */
export function placementOf(source: Size, options: PlacementOptions): Placement {
  const { width, height, shortSide, fit = "fill", crop } = options;
  const cut = typeof crop === "number" ? { width: crop, height: crop } : crop;
  if (shortSide !== undefined && (width ?? height) !== undefined) {
    throw new SconceError("item_failed", "pixels(): shortSide is given with width or height; give one or the other");
  }
  const box = boxOf(source, options);
  const scaled = scaledTo(source, box, fit);
  const target = cut ?? box;
  const centre = cut === undefined ? roundHalfEven : Math.trunc;
  const start = (own: number, whole: number) => (whole > own ? roundHalfEven : centre)((own - whole) / 2);
  return { target, scaled, x: start(target.width, scaled.width), y: start(target.height, scaled.height) };
}

function scaledTo(source: Size, target: Size, fit: Fit): Size {
  if (fit === "fill") return target;
  const wide = source.width * target.height >= source.height * target.width;
  const cover = fit === "cover";
  const round = cover ? Math.floor : Math.round;
  return wide === cover
    ? { width: Math.max(1, round((target.height * source.width) / source.height)), height: target.height }
    : { width: target.width, height: Math.max(1, round((target.width * source.height) / source.width)) };
}

function boxOf(source: Size, { width, height, shortSide }: PlacementOptions): Size {
  if (shortSide !== undefined) {
    const [wide, high] = [source.width, source.height];
    return wide <= high
      ? { width: shortSide, height: Math.floor((shortSide * high) / wide) }
      : { width: Math.floor((shortSide * wide) / high), height: shortSide };
  }
  if (width === undefined && height === undefined) return { width: source.width, height: source.height };
  return {
    width: width ?? Math.max(1, Math.round(((height ?? 1) * source.width) / source.height)),
    height: height ?? Math.max(1, Math.round(((width ?? 1) * source.height) / source.width)),
  };
}

/** Rounds halves to the even neighbour, as Python's `round` does. */
function roundHalfEven(value: number): number {
  const floor = Math.floor(value);
  if (value - floor !== 0.5) return Math.round(value);
  return floor % 2 === 0 ? floor : floor + 1;
}
