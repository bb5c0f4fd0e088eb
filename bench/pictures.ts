/** Photographs to be asked about: JPEGs of 320 × 240, made once of those that come with scikit-image, and a server that has them. */
import { existsSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { Image } from "../src/model/media.ts";
import { Child, mainThreadSeconds } from "./child.ts";
import { folderOfAll, python } from "./networks.ts";

const SIZE = { width: 320, height: 240 } as const;
const QUALITY = 90;
const WARM_UP_PASSES = 5;
const PACKAGE = "scikit-image==0.26.0";
const photographs = [
  "astronaut.png",
  "brick.png",
  "camera.png",
  "cell.png",
  "chelsea.png",
  "clock_motion.png",
  "coffee.png",
  "coins.png",
  "grass.png",
  "gravel.png",
  "hubble_deep_field.jpg",
  "ihc.png",
  "moon.png",
  "motorcycle_left.png",
  "retina.jpg",
  "rocket.jpg",
] as const;

export interface Picture {
  /** "astronaut.jpg" */
  readonly name: string;
  readonly bytes: Uint8Array;
}

export async function pictures(): Promise<Picture[]> {
  const folder = join(folderOfAll, "pictures");
  if (!existsSync(folder)) await make(folder);
  return Promise.all(
    photographs.map(async (photograph) => {
      const name = nameOf(photograph);
      return { name, bytes: await Bun.file(join(folder, name)).bytes() };
    }),
  );
}

/** Serves pictures to this machine; it has them in memory. */
export class PictureServer implements AsyncDisposable {
  readonly #server: Bun.Server<undefined>;

  constructor(served: readonly Picture[]) {
    const routes = served.map(({ name, bytes }) => [
      `/${name}`,
      new Response(bytes, { headers: { "Content-Type": "image/jpeg" } }),
    ]);
    this.#server = Bun.serve({ port: 0, hostname: "127.0.0.1", routes: Object.fromEntries(routes) });
  }

  urlOf({ name }: Picture): string {
    return new URL(name, this.#server.url).href;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#server.stop(true);
  }
}

/** What one picture costs without a server, one at a time: until its pixels are there, and what of that the JS thread works. */
export async function decodingCost(
  decoded: readonly Picture[],
  { width, height, seconds }: { width: number; height: number; seconds: number },
): Promise<{ ms: number; jsThreadUs: number | undefined }> {
  const pass = async () => {
    for (const { bytes } of decoded) await new Image({ bytes, mediaType: "image/jpeg" }).pixels({ width, height });
  };
  for (let i = 0; i < WARM_UP_PASSES; i++) await pass();
  const worked = mainThreadSeconds(process.pid);
  const begin = performance.now();
  let count = 0;
  do {
    await pass();
    count += decoded.length;
  } while (performance.now() - begin < seconds * 1000);
  const ms = performance.now() - begin;
  const end = mainThreadSeconds(process.pid);
  const isKnown = worked !== undefined && end !== undefined;
  return { ms: ms / count, jsThreadUs: isKnown ? (1e6 * (end - worked)) / count : undefined };
}

/** A folder that appears whole: it is made beside its place. */
async function make(folder: string): Promise<void> {
  console.error("  making the pictures: their photographs (14 MB) are downloaded with pip, once");
  const installed = `${folder}.package-${process.pid}`;
  const unfinished = `${folder}.unfinished-${process.pid}`;
  const { command, env } = python();
  // Its photographs are the same for every Python; nothing of it is run.
  const options = ["--no-deps", "--no-compile", "--no-input", "--only-binary", ":all:", "--python-version", "3.11"];
  try {
    await Child.run([command, "-m", "pip", "install", ...options, "--target", installed, PACKAGE], env);
    await mkdir(unfinished, { recursive: true });
    for (const photograph of photographs) {
      const bytes = await Bun.file(join(installed, "skimage", "data", photograph)).bytes();
      const pixels = await new Image({ bytes, mediaType: "image/*" }).pixels({ ...SIZE, fit: "cover" });
      const jpeg = await Image.fromPixels(pixels, { format: "jpeg", quality: QUALITY });
      await Bun.write(join(unfinished, nameOf(photograph)), jpeg.bytes);
    }
    await rename(unfinished, folder);
  } finally {
    for (const left of [installed, unfinished]) await rm(left, { recursive: true, force: true });
  }
}

function nameOf(photograph: string): string {
  return photograph.replace(/\.\w+$/, ".jpg");
}
