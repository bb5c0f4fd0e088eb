/**
 * Decodes picture files on the GPU's JPEG unit, all at once, and on the CPU, and compares the pixels. Arguments: the
 * paths, then the index of the GPU. Prints one JSON line.
 */
import { image } from "../../src/author/fields.ts";
import { jpegUnit } from "../../src/author/jpeg-unit.ts";
import { z } from "../../src/author/z.ts";
import { nvjpegFor } from "../../src/machine/nvjpeg.ts";

const paths = process.argv.slice(2, -1);
jpegUnit.use(nvjpegFor([`cuda:${process.argv.at(-1)}`]));
const files = await Promise.all(paths.map((path) => Bun.file(path).bytes()));
function pixels(nvjpeg: boolean) {
  const field = image({ nvjpeg });
  const pictures = files.map((bytes) => {
    const picture = z.decode(field, "https://example.com/picture");
    picture.fill({ bytes, mediaType: "image/png" });
    return picture.pixels({ width: 40, height: 30, layout: "chw" });
  });
  return Promise.all(pictures);
}
const onCpu = await pixels(false);
const isOpen = await jpegUnit.isOpen();
const inUnit = await pixels(true);
console.info(JSON.stringify({ isOpen, isEqual: Bun.deepEquals(onCpu, inUnit) }));
