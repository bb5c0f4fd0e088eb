/**
 * Loads the image addon, which turns pictures into tensors, and raw pixels into bitmap files for `Bun.Image`. The addon
 * runs on other threads and does not need libtorch.
 */
import { loadEmbeddedAddon } from "../base/native-addon.ts";
import { pixelsFile } from "../base/platform-package.ts";
import type { Canvas, Orientation, Size } from "./placement.ts";

/** Resampling filters. The index of a name is its filter code in native/pixels/resample.h. */
export const filters = ["nearest", "box", "bilinear", "bicubic", "lanczos"] as const;

export interface Target {
  readonly format: "jpeg" | "png" | "gif" | "bmp";
  /** Expected size of the file's picture, except of a PNG. A file of another size is not decoded. */
  readonly sourceWidth: number;
  readonly sourceHeight: number;
  readonly orientation: Orientation;
  /** Undefined if the file is no animation. */
  readonly canvas: Canvas | undefined;
  readonly scaledWidth: number;
  readonly scaledHeight: number;
  /** Resampling filter: an index in `filters`. */
  readonly filter: number;
  readonly width: number;
  readonly height: number;
  /** Position of the scaled picture's top left corner in the result, in pixels. */
  readonly x: number;
  readonly y: number;
  readonly channels: number;
  readonly isBgr: boolean;
  readonly isPlanar: boolean;
  readonly background: readonly number[];
  /** One value for each channel if the result has floats, otherwise empty. */
  readonly mean: readonly number[];
  readonly std: readonly number[];
}

export interface Bitmap {
  readonly width: number;
  readonly height: number;
  readonly channels: number;
  readonly isPlanar: boolean;
  /** Whether to blend transparent pixels over white. */
  readonly isOpaque: boolean;
}

/** Exports of native/pixels/addon.cc. */
interface PixelsAddon {
  /**
   * Decodes, scales and arranges a picture.
   * @param file a JPEG, GIF or BMP, which is copied before the call returns; or an uncompressed PNG of `Bun.Image`,
   * which is overwritten
   * @param result gets `width * height * channels` values
   * @returns milliseconds that the work waited for a thread and the result waited for the event loop; false for a JPEG
   * that this decoder does not support
   * @throws an error with the code `unreadable_picture` for a GIF or BMP that cannot be read; its message continues
   * "The file is …"
   */
  toTensor(file: Uint8Array, result: Uint8Array | Float32Array, target: Target): Promise<number | false>;
  /** Format and size of a GIF or BMP; undefined for any other file. @throws as `toTensor` */
  sizeOf(file: Uint8Array): (Size & { readonly format: "gif" | "bmp" }) | undefined;
  /**
   * Wraps raw pixels in a bitmap file for `Bun.Image`. The pixels are copied before the call returns.
   * @param file gets the bitmap file; has `bitmapBytes` bytes
   */
  toBitmap(pixels: Uint8Array, file: Uint8Array, bitmap: Bitmap): Promise<unknown>;
  /** Filters the rows of a picture with 1 or 2 channels for a PNG. The pixels are copied before the call returns. */
  toScanlines(pixels: Uint8Array, scanlines: Uint8Array, bitmap: Bitmap): Promise<unknown>;
}

export function bitmapBytes({ width, height }: Bitmap): number {
  return 122 + width * height * 4;
}

/** The addon, loaded at the first call. @throws SconceError `native_unavailable` */
export function pixelsAddon(): Promise<PixelsAddon> {
  loaded ??= load();
  return loaded;
}

let loaded: Promise<PixelsAddon> | undefined;

async function load(): Promise<PixelsAddon> {
  const fix = "install sconce again, or run `npm run setup`";
  return loadEmbeddedAddon({ path: pixelsFile(), name: "the native addon for pictures", fix, fits: isPixelsAddon });
}

function isPixelsAddon(value: unknown): value is PixelsAddon {
  if (typeof value !== "object" || value === null) return false;
  const members = new Map<string, unknown>(Object.entries(value));
  return ["toTensor", "sizeOf", "toBitmap", "toScanlines"].every((name) => typeof members.get(name) === "function");
}
