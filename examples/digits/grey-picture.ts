/** Converts pictures to grey, and shrinks them for fast processing in JavaScript. */
import type { Image, Pixels } from "sconce";

/** Maximum length of the longer side, in pixels. Larger pictures are shrunk. */
const largestSide = 128;

/** The picture in grey, at most `largestSide` pixels wide and high. */
export async function greyPicture(image: Image): Promise<Pixels> {
  return image.pixels({ ...(await scaledSize(image, largestSide)), channels: 1 });
}

/**
 * A size for the picture that keeps its proportions.
 * @param side longer side of the result, in pixels
 * @param maxScale largest enlargement: with 1, a smaller picture keeps its size
 */
export async function scaledSize(image: Image, side: number, maxScale = 1): Promise<{ width: number; height: number }> {
  const { width, height } = await image.size();
  const scale = Math.min(maxScale, side / Math.max(width, height));
  return { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) };
}
