/** Decoded pixels on their way to the ones asked for: transparency, grey, channel order, layout. */

/** 8-bit RGBA; row y starts at `offset + y * rowBytes`. */
export interface Raster {
  readonly width: number;
  readonly height: number;
  readonly bytes: Uint8Array;
  readonly offset: number;
  readonly rowBytes: number;
  /** Colours are already multiplied by alpha, as resampling needs them: else what is transparent bleeds into what is not. */
  readonly premultiplied: boolean;
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

export type Channels = 1 | 3 | 4;
export type Layout = "hwc" | "chw";
export type Rgb = readonly [red: number, green: number, blue: number];

export function isOpaque({ width, height, bytes, offset, rowBytes }: Raster): boolean {
  for (let y = 0; y < height; y++) {
    const start = offset + y * rowBytes + 3;
    for (let at = start; at < start + width * 4; at += 4) if (bytes[at] !== 255) return false;
  }
  return true;
}

/** Takes for each target pixel the source pixel under its centre, as Pillow's NEAREST does. */
export function resampleNearest(source: Raster, { width, height }: Size): Raster {
  const from = new DataView(source.bytes.buffer, source.bytes.byteOffset);
  const bytes = new Uint8Array(width * height * 4);
  const to = new DataView(bytes.buffer);
  for (let y = 0, at = 0; y < height; y++) {
    const row = source.offset + Math.floor(((y + 0.5) * source.height) / height) * source.rowBytes;
    for (let x = 0; x < width; x++, at += 4) {
      to.setUint32(at, from.getUint32(row + Math.floor(((x + 0.5) * source.width) / width) * 4));
    }
  }
  return { width, height, bytes, offset: 0, rowBytes: width * 4, premultiplied: source.premultiplied };
}

export interface Conversion {
  readonly target: Size;
  readonly x: number;
  readonly y: number;
  readonly channels: Channels;
  readonly background: Rgb;
  readonly order: "rgb" | "bgr";
  readonly layout: Layout;
}

/** Writes a raster into the target: the pass over the pixels that runs on the JS thread. */
export async function convert(raster: Raster, conversion: Conversion): Promise<Uint8Array<ArrayBuffer>> {
  const { target, y, channels } = conversion;
  const data = new Uint8Array(target.width * target.height * channels);
  if (raster.width < target.width || raster.height < target.height) paintBackground(data, conversion);
  const firstRow = Math.max(0, y);
  const endRow = Math.min(target.height, y + raster.height);
  await inTurns({ row: firstRow, endRow, width: target.width }, (row, endRow) =>
    convertRows(raster, data, { ...conversion, row, endRow }),
  );
  return data;
}

/** Pixels worked on between two turns of the event loop: a few milliseconds. */
const pixelsPerTurn = 1_000_000;

/** Calls `work` for all rows, a block at a time, and makes way for others between the blocks. */
export async function inTurns(
  { row, endRow, width }: { row: number; endRow: number; width: number },
  work: (row: number, endRow: number) => void,
): Promise<void> {
  const rowsPerTurn = Math.max(1, Math.floor(pixelsPerTurn / width));
  for (let from = row; from < endRow; from += rowsPerTurn) {
    if (from > row) await new Promise(setImmediate);
    work(from, Math.min(endRow, from + rowsPerTurn));
  }
}

function convertRows(
  { width, bytes, offset, rowBytes, premultiplied }: Raster,
  data: Uint8Array,
  { target, x, y, channels, background, order, layout, row, endRow }: Conversion & { row: number; endRow: number },
): void {
  const { pixelStride, channelStride } = stridesOf(target, channels, layout);
  const redAt = order === "bgr" ? 2 * channelStride : 0;
  const blueAt = 2 * channelStride - redAt;
  const firstColumn = Math.max(0, x);
  const endColumn = Math.min(target.width, x + width);
  for (; row < endRow; row++) {
    let to = (row * target.width + firstColumn) * pixelStride;
    let from = offset + (row - y) * rowBytes + (firstColumn - x) * 4;
    for (let column = firstColumn; column < endColumn; column++, from += 4, to += pixelStride) {
      let red = bytes[from] ?? 0;
      let green = bytes[from + 1] ?? 0;
      let blue = bytes[from + 2] ?? 0;
      const alpha = bytes[from + 3] ?? 0;
      if (alpha !== 255) {
        if (channels !== 4) {
          red = over(red, alpha, background[0], premultiplied);
          green = over(green, alpha, background[1], premultiplied);
          blue = over(blue, alpha, background[2], premultiplied);
        } else if (premultiplied && alpha > 0) {
          red = Math.min(255, Math.floor((red * 255) / alpha));
          green = Math.min(255, Math.floor((green * 255) / alpha));
          blue = Math.min(255, Math.floor((blue * 255) / alpha));
        }
      }
      if (channels === 1) {
        data[to] = luma(red, green, blue);
      } else {
        data[to + redAt] = red;
        data[to + channelStride] = green;
        data[to + blueAt] = blue;
        if (channels === 4) data[to + 3 * channelStride] = alpha;
      }
    }
  }
}

/** ITU-R BT.601 in 16-bit fixed point, as Pillow converts to "L". */
export function luma(red: number, green: number, blue: number): number {
  return (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16;
}

function over(color: number, alpha: number, background: number, premultiplied: boolean): number {
  const own = premultiplied ? color * 255 : color * alpha;
  return Math.min(255, divide255(own + background * (255 - alpha)));
}

/** A product of two bytes divided by 255, rounded; the division by shifts of Blinn (1995), which is exact. */
export function divide255(product: number): number {
  const sum = product + 128;
  return (sum + (sum >> 8)) >> 8;
}

function paintBackground(data: Uint8Array, { target, channels, background, order, layout }: Conversion): void {
  const [red, green, blue] = background;
  const color =
    channels === 1 ? [luma(red, green, blue)] : order === "bgr" ? [blue, green, red, 255] : [red, green, blue, 255];
  const { pixelStride, channelStride } = stridesOf(target, channels, layout);
  for (let channel = 0; channel < channels; channel++) {
    const value = color[channel] ?? 0;
    for (let i = 0, at = channel * channelStride; i < target.width * target.height; i++, at += pixelStride)
      data[at] = value;
  }
}

export function stridesOf(target: Size, channels: Channels, layout: Layout) {
  return layout === "hwc"
    ? { pixelStride: channels, channelStride: 1 }
    : { pixelStride: 1, channelStride: target.width * target.height };
}
