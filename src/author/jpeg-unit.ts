/** The JPEG unit of a GPU, which decodes pictures of fields with `nvjpeg: true`. */
import { log } from "../base/log.ts";
import { pixelsAddon } from "./pixels.ts";

/** A GPU, and the libraries among which nvJPEG is searched. */
export interface JpegUnitPlace {
  /** Index of the GPU among the visible ones. */
  readonly device: number;
  /** File names or paths of nvJPEG, in the order of trial. */
  readonly libraries: readonly string[];
}

class JpegUnit {
  #place: JpegUnitPlace | undefined;
  #opened: Promise<boolean> | undefined;

  /** Sets the GPU, if none is set. The first picture that needs the unit opens it. */
  use(place: JpegUnitPlace | undefined): void {
    this.#place ??= place;
  }

  /** Whether the unit can decode. Without a GPU, or if its unit cannot be opened, the CPU decodes. */
  async isOpen(): Promise<boolean> {
    if (this.#place === undefined) return false;
    this.#opened ??= open(this.#place);
    return await this.#opened;
  }
}

/** The JPEG unit of this process. */
export const jpegUnit = new JpegUnit();

async function open({ device, libraries }: JpegUnitPlace): Promise<boolean> {
  const { openJpegUnit } = await pixelsAddon();
  const reason = await openJpegUnit(libraries, device);
  if (reason === "") log.info(`The JPEG unit of cuda:${device} decodes pictures`);
  else log.warn(`The CPU decodes pictures, not the JPEG unit of cuda:${device}: ${reason}`);
  return reason === "";
}
