/** A small picture of a run, for the history. */
import { pictureIn, type Value } from "./value.ts";

const SIDE = 96;

/** Undefined where there is no picture, or one of another site, whose pixels a page may not read. */
export async function thumbnailOf(values: readonly Value[]): Promise<string | undefined> {
  const url = pictureIn(values.filter((value) => value !== undefined));
  if (url === undefined || !url.startsWith("data:")) return undefined;
  const picture = new Image();
  picture.src = url;
  try {
    await picture.decode();
  } catch {
    return undefined;
  }
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [SIDE, SIDE];
  const { naturalWidth: width, naturalHeight: height } = picture;
  const scale = SIDE / Math.min(width, height);
  const context = canvas.getContext("2d");
  context?.drawImage(picture, (SIDE - width * scale) / 2, (SIDE - height * scale) / 2, width * scale, height * scale);
  return canvas.toDataURL("image/webp", 0.7);
}
