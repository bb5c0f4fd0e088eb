/** Pictures of digits that training did not use, with their labels. */
import { Image } from "sconce";
import heldout from "./heldout.json" with { type: "json" };

export interface HeldOutDigit {
  readonly label: number;
  /** 8 × 8 pixels, light on dark. */
  readonly image: Image;
}

/** All held-out digits. `heldout.json` has one character for each pixel: 0 to 16 in base 17. */
export function heldOutDigits(): Promise<HeldOutDigit[]> {
  return Promise.all(
    heldout.pixels.map(async (text, i) => {
      const data = Uint8Array.from(text, (value) => Math.round((Number.parseInt(value, 17) * 255) / 16));
      const image = await Image.fromPixels({ data, width: 8, height: 8, channels: 1 });
      return { label: Number(heldout.labels[i]), image };
    }),
  );
}

/** Results of train.py, for comparison in tests: answers of the network, and normalized pixels as hexadecimal bytes. */
export const python = heldout.python;
