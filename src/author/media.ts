/** The class `Image` for model code: size, pixels for tensors, and images made from pixels. */
import { bufferOf } from "../base/bytes.ts";
import { codeOf, messageOf, SconceError } from "../base/errors.ts";
import { BYTES_PER_LINE, BYTES_PER_PIXEL, decodings } from "./decoding-gate.ts";
import { ModelFile } from "./file.ts";
import { greyPng, scanlineBytes } from "./grey-png.ts";
import { type Jpeg, readJpeg } from "./jpeg.ts";
import { checkOptions } from "./options.ts";
import { orientationOf } from "./orientation.ts";
import {
  type channelCounts,
  type colourOrders,
  croppedPixelOptions,
  encodeOptions,
  type encodings,
  type layouts,
  type Normalization,
  perChannel,
  pixelOptions,
  type rawChannelCounts,
  rawPixels,
} from "./picture-options.ts";
import { bitmapBytes, filters, pixelsAddon } from "./pixels.ts";
import { type Orientation, type PlacementOptions, placementOf, type Size } from "./placement.ts";
import { TooManyRecords } from "./records.ts";
import { firstFrame } from "./webp.ts";

export type { Normalization } from "./picture-options.ts";
export type { Fit, Size } from "./placement.ts";

export type Channels = (typeof channelCounts)[number];
export type Layout = (typeof layouts)[number];
export type Rgb = readonly [red: number, green: number, blue: number];
/** Filters by Pillow's names. Results equal Pillow's (version 13). */
export type Filter = (typeof filters)[number];

export interface PixelOptions extends PlacementOptions {
  /** Channels of the result. 1: grey (ITU-R 601 luma, as Pillow's "L"); 3: colour; 4: colour and alpha. Default: 3. */
  channels?: Channels;
  /**
   * Resampling filter. When an image shrinks, all filters but `nearest` widen their support (antialias). Default:
   * `bilinear`, as in torchvision's transforms of Pillow images, which most published weights expect. (Pillow's own
   * `resize` defaults to `bicubic`.)
   */
  filter?: Filter;
  /**
   * Colour behind transparent pixels (unless `channels` is 4) and of the bars of `contain`: red, green, blue from 0 to
   * 255. Default: white.
   */
  background?: Rgb;
  /** Order of the colour channels. Default: `rgb`. */
  order?: (typeof colourOrders)[number];
  /**
   * Order of the values. `hwc`: pixel after pixel; `chw`: one plane per channel, as in PyTorch. Default: `hwc`; with
   * `normalize`, `chw`.
   */
  layout?: Layout;
  /** An abort stops the work with the signal's reason. Default: the end of the image's prediction. */
  signal?: AbortSignal;
}

export interface NormalizedOptions extends PixelOptions {
  /**
   * Returns float32 values: value / 255, minus `mean`, divided by `std`, like torchvision's `ToTensor` and `Normalize`.
   */
  normalize: Normalization;
}

export interface Pixels<Data = Uint8Array<ArrayBuffer>> extends Size {
  /** `width * height * channels` values in the order of `layout`: 0 to 255, or normalized floats. */
  readonly data: Data;
  readonly channels: Channels;
  readonly layout: Layout;
}

/** Pixels for `Image.fromPixels`. */
export interface RawPixels extends Size {
  readonly data: Uint8Array | Uint8ClampedArray;
  /** 1: grey; 2: grey and alpha; 3: colour; 4: colour and alpha. A PNG has the same channels. */
  readonly channels: (typeof rawChannelCounts)[number];
  /** Order of the values in `data`. Default: `hwc`. */
  readonly layout?: Layout;
}

export interface EncodeOptions {
  /** File format. Default: `png`. JPEG has no transparency, so transparent pixels become white. */
  format?: (typeof encodings)[number];
  /** Quality of JPEG and WebP, from 1 to 100. Default: 80. */
  quality?: number;
}

/** Format and orientation of a file, and the size of the oriented picture. */
interface Header extends Size {
  readonly format: string;
  /** Format of a file that the native addon decodes without `Bun.Image`: a GIF, a BMP, or an ordinary JPEG. */
  readonly ownFormat?: "jpeg" | "gif" | "bmp";
  readonly orientation: Orientation;
}

/**
 * Limit of scans in a JPEG. Progressive JPEGs have about 10; only hostile files and extreme compressors write more than
 * 100.
 */
const MAX_SCANS = 100;
/** Limit of scans in a JPEG with the maximum number of pixels. Smaller pictures may have more, up to `MAX_SCANS`. */
const MAX_SCANS_OF_LARGEST = 20;
const readable = ["jpeg", "png", "webp", "gif", "bmp"];
const white: Rgb = [255, 255, 255];

/**
 * An image file: JPEG, PNG, WebP, GIF or BMP. The content decides the format, not the media type. The content of an animation is
 * its first picture. The orientation in Exif or XMP is applied. 16-bit channels become 8-bit. Colour profiles are ignored,
 * as in Pillow.
 */
export class Image extends ModelFile {
  #knownHeader: Header | undefined;

  /**
   * Width and height in pixels after EXIF rotation, read without decoding.
   * @throws SconceError `file_too_large` above the field's `maxPixels`, or for a JPEG with too many scans;
   * `file_invalid` for a file that is not an image, or a JPEG that is cut off
   */
  async size(): Promise<Size> {
    const { width, height } = await this.#header();
    return { width, height };
  }

  /**
   * Decodes, resizes and arranges the pixels on other threads. Default size: the image's.
   * @throws SconceError as `size`, and `item_failed` for wrong options
   */
  async pixels(options: NormalizedOptions): Promise<Pixels<Float32Array<ArrayBuffer>>>;
  async pixels(options?: PixelOptions): Promise<Pixels>;
  async pixels(options: PixelOptions & Partial<NormalizedOptions> = {}): Promise<Pixels<Uint8Array | Float32Array>> {
    const known = typeof options.crop === "object" ? croppedPixelOptions : pixelOptions;
    checkOptions("pixels()", known, options, "item_failed");
    const { normalize: normalization, filter = "bilinear", background = white, order = "rgb" } = options;
    const { channels = 3, layout = normalization === undefined ? "hwc" : "chw" } = options;
    const signal = () => options.signal ?? this.ended;
    const source = await this.#header();
    const { target, scaled, x, y } = placementOf(source, options);
    this.#checkPixels(target, " at the requested size");
    this.#checkPixels(scaled, " when scaled to cover the requested size");
    // The first resize step scales the rows to the new width and keeps the height. For a long, narrow image this step's
    // result can be huge.
    if (filter !== "nearest") this.#checkPixels({ width: scaled.width, height: source.height }, " while it is scaled");
    const { mean, std } = normalization === undefined ? { mean: [], std: [] } : perChannel(normalization, channels);
    const decode = async () => {
      const values = uninitialized(target.width * target.height * channels * (normalization === undefined ? 1 : 4));
      const result = normalization === undefined ? values : new Float32Array(values.buffer);
      const { toTensor } = await pixelsAddon();
      const stored = isTransposed(source.orientation) ? transposed(source) : source;
      const wanted = {
        sourceWidth: stored.width,
        sourceHeight: stored.height,
        orientation: source.orientation,
        canvas: undefined,
        scaledWidth: scaled.width,
        scaledHeight: scaled.height,
        filter: filters.indexOf(filter),
        ...target,
        x,
        y,
        channels,
        isBgr: order === "bgr",
        isPlanar: layout === "chw",
        background,
        mean,
        std,
      };
      const { ownFormat: format } = source;
      const waitedMs =
        format !== undefined && (await this.#read(() => toTensor(this.bytes, result, { ...wanted, format })));
      if (waitedMs !== false) {
        this.waited(waitedMs);
        return result;
      }
      const frame = firstFrame(this.#file);
      const png = await this.#decode(frame?.file ?? this.bytes, source);
      const { canvas } = frame ?? {};
      this.waited((await this.#read(() => toTensor(png, result, { ...wanted, canvas, format: "png" }))) || 0);
      // Frees the memory at once, so that the next image can reuse it. Garbage collection would free it later, and
      // return it to the system.
      if (png.buffer instanceof ArrayBuffer) png.buffer.transfer(0);
      return result;
    };
    // Adds the file's bytes, because decoding on another thread copies them.
    const bytes = checkedBytes(this.label, source, scaled) + this.bytes.length;
    let sinceMs = performance.now();
    const timed = async () => {
      this.waited(performance.now() - sinceMs);
      const values = await decode();
      sinceMs = performance.now();
      return values;
    };
    const data = await decodings.run(this.model, bytes, timed, signal);
    this.waited(performance.now() - sinceMs);
    return { data, ...target, channels, layout };
  }

  /**
   * Encodes raw pixels as an image file, for example for an output. `data` has `width * height * channels` values in
   * the order of `layout`.
   * @throws SconceError `item_failed` for another number of values, or wrong options
   */
  static async fromPixels(pixels: RawPixels, options: EncodeOptions = {}): Promise<Image> {
    checkPixels(pixels);
    checkOptions("Image.fromPixels", encodeOptions, options, "item_failed");
    const { format = "png", quality = 80 } = options;
    const { data, width, height, channels, layout } = pixels;
    const encode = async () => {
      const bitmap = { width, height, channels, isPlanar: layout === "chw", isOpaque: format === "jpeg" };
      const { toBitmap, toScanlines } = await pixelsAddon();
      const values = new Uint8Array(data.buffer, data.byteOffset, data.length);
      if (format === "png" && (channels === 1 || channels === 2)) {
        const grey = { width, height, channels };
        const scanlines = uninitialized(scanlineBytes(grey));
        await toScanlines(values, scanlines, bitmap);
        return greyPng(grey, scanlines);
      }
      const file = uninitialized(bitmapBytes(bitmap));
      await toBitmap(values, file, bitmap);
      const pipeline = new Bun.Image(file);
      const encoders = {
        png: () => pipeline.png(),
        jpeg: () => pipeline.jpeg({ quality }),
        webp: () => pipeline.webp({ quality }),
      };
      return encoders[format]().bytes();
    };
    const charged = checkedBytes("The image", pixels);
    // The model is unknown here, so the pictures of all outputs share the turns of one model.
    const bytes = await decodings.run(Image, charged, encode);
    return new Image({ bytes, mediaType: `image/${format}` });
  }

  async #header(): Promise<Header> {
    try {
      this.#knownHeader ??= await this.#readHeader();
      return this.#knownHeader;
    } catch (error) {
      if (!(error instanceof TooManyRecords)) throw error;
      const message = `${this.label} is an image that cannot be read: ${error.message}; save it without metadata`;
      throw new SconceError("file_invalid", message, { cause: error });
    }
  }

  async #readHeader(): Promise<Header> {
    if (this.bytes.length === 0) throw this.#unreadable();
    const jpeg = await readJpeg(this.#file, MAX_SCANS);
    // libjpeg fills missing data with grey and only warns. The model would then compute an output for an empty picture.
    if (jpeg !== undefined && !jpeg.hasEnd && jpeg.scans <= MAX_SCANS) throw this.#damaged();
    const orientation = orientationOf(this.#file, jpeg);
    const stored = await this.#storedHeader(jpeg);
    if (!readable.includes(stored.format)) throw this.#unreadable();
    const header: Header = { ...stored, ...(isTransposed(orientation) ? transposed(stored) : {}), orientation };
    this.#checkPixels(header, "");
    if (jpeg !== undefined && header.format === "jpeg") this.#checkScans(header, jpeg.scans);
    return header;
  }

  /** The bytes of the file, for readers of numbers and texts. */
  get #file(): Buffer {
    return bufferOf(this.bytes);
  }

  /** Format and size of the picture before it is oriented. */
  async #storedHeader(jpeg: Jpeg | undefined): Promise<Omit<Header, "orientation">> {
    if (jpeg?.size !== undefined) return { ...jpeg.size, format: "jpeg", ownFormat: "jpeg" };
    const { sizeOf } = await pixelsAddon();
    const own = await this.#read(() => sizeOf(this.bytes));
    if (own !== undefined) return { ...own, ownFormat: own.format };
    const canvas = firstFrame(this.#file)?.canvas;
    if (canvas !== undefined) return { width: canvas.width, height: canvas.height, format: "webp" };
    // Disables Bun's limit of pixels for the header: `#checkPixels` has a better message, with the image's size.
    return this.#pipeline(this.bytes, (image) => image.metadata(), { maxPixels: Number.MAX_SAFE_INTEGER });
  }

  /** Decodes to an uncompressed PNG. */
  #decode(bytes: Uint8Array, source: Size): Promise<Uint8Array> {
    const run = (image: Bun.Image) => image.png({ compressionLevel: 0 }).bytes();
    // Limits the pixels to the size in the header, for which memory is reserved: a hostile file may contain a larger
    // picture.
    return this.#pipeline(bytes, run, { maxPixels: source.width * source.height });
  }

  /** Calls the native addon, and names this file in the errors about it. */
  async #read<T>(call: () => T | Promise<T>): Promise<T> {
    try {
      return await call();
    } catch (error) {
      if (codeOf(error) !== "unreadable_picture") throw error;
      throw new SconceError("file_invalid", `${this.label} is ${messageOf(error)}`, { cause: error });
    }
  }

  async #pipeline<T>(
    bytes: Uint8Array,
    run: (image: Bun.Image) => Promise<T>,
    { maxPixels = this.limits.maxPixels } = {},
  ): Promise<T> {
    try {
      return await run(new Bun.Image(bytes, { maxPixels, autoOrient: false }));
    } catch (error) {
      const code = codeOf(error);
      if (code === "ERR_IMAGE_DECODE_FAILED") throw this.#damaged(error);
      if (code === "ERR_IMAGE_UNKNOWN_FORMAT" || code === "ERR_IMAGE_FORMAT_UNSUPPORTED") throw this.#unreadable(error);
      if (code === "ERR_IMAGE_TOO_MANY_PIXELS") {
        throw new SconceError("file_too_large", `${this.label} is an image with too many pixels`, { cause: error });
      }
      throw new SconceError("file_invalid", `${this.label} could not be decoded: ${messageOf(error)}`, {
        cause: error,
      });
    }
  }

  #checkPixels({ width, height }: Size, when: string): void {
    const { maxPixels } = this.limits;
    if (width * height <= maxPixels) return;
    throw new SconceError(
      "file_too_large",
      `${this.label} is an image of ${width} × ${height} pixels${when}; this field takes at most ${maxPixels} pixels`,
    );
  }

  #checkScans({ width, height }: Size, scans: number): void {
    // Decoding a scan takes a few milliseconds per megapixel, so the limit is lower for larger pictures.
    const max = Math.min(
      MAX_SCANS,
      Math.max(1, Math.floor((MAX_SCANS_OF_LARGEST * this.limits.maxPixels) / (width * height))),
    );
    if (scans <= max) return;
    throw new SconceError("file_too_large", `${this.label} is a JPEG of more than ${max} scans; save it with fewer`);
  }

  #unreadable(cause?: unknown): SconceError {
    const fault = this.bytes.length === 0 ? "is empty and" : "is";
    const message = `${this.label} ${fault} not an image that can be read; send JPEG, PNG, WebP, GIF or BMP`;
    return new SconceError("file_invalid", message, { cause });
  }

  #damaged(cause?: unknown): SconceError {
    return new SconceError("file_invalid", `${this.label} is an image that is damaged or cut off`, { cause });
  }
}

/**
 * Memory in bytes that decoding takes. @throws SconceError `file_too_large` if this exceeds the limit of a single task
 */
function checkedBytes(label: string, ...pictures: readonly Size[]): number {
  const bytes = pictures.reduce((sum, picture) => sum + bytesOf(picture), 0);
  const { maxTaskBytes } = decodings;
  if (bytes <= maxTaskBytes) return bytes;
  const sizes = pictures.map(({ width, height }) => `${width} × ${height}`).join(", then ");
  throw new SconceError(
    "file_too_large",
    `${label} needs ${bytes} bytes of memory while it has ${sizes} pixels; this server has ${Math.floor(maxTaskBytes)} for one image (--max-memory)`,
  );
}

/** Whether an orientation exchanges width and height. */
function isTransposed(orientation: Orientation): boolean {
  return orientation >= 5;
}

function transposed({ width, height }: Size): Size {
  return { width: height, height: width };
}

function bytesOf({ width, height }: Size): number {
  return width * height * BYTES_PER_PIXEL + (width + height) * BYTES_PER_LINE;
}

function checkPixels(pixels: RawPixels): void {
  checkOptions("Image.fromPixels", rawPixels, pixels, "item_failed");
  const { data, width, height, channels } = pixels;
  const expected = width * height * channels;
  if (Number.isInteger(width) && Number.isInteger(height) && expected > 0 && data.length === expected) return;
  throw new SconceError(
    "item_failed",
    `Image.fromPixels: ${width} × ${height} pixels of ${channels} channels are ${expected} values, received ${data.length}`,
  );
}

/** Allocates memory without zeros; the caller overwrites all of it. */
function uninitialized(bytes: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.allocUnsafeSlow(bytes).buffer);
}
