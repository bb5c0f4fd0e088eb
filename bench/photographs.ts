/**
 * Photographs for the benchmark, and the models that read them. The inputs are JPEGs of 320 × 240 pixels, made from sample
 * pictures of a model in examples/.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { root } from "../scripts/setup/step.ts";
import { Image } from "../src/author/media.ts";
import { buildOwnModel, type Network } from "./networks.ts";
import { rawOutputs } from "./raw.ts";
import type { Start } from "./target.ts";

const samples = join(root, "examples/upscale/samples");
const SIZE = { width: 320, height: 240, fit: "cover" } as const;
/** JPEG qualities. Each picture is encoded once per quality. */
const QUALITIES = [86, 88, 90, 92, 94];
/** Width and height that the models pass to `pixels()`. */
const PIXELS = [224, 224] as const;

/** A model without cost (the mean of each channel) with pictures as data URIs. */
export const meanOfPictures = () => network("mean", (image) => image.toDataUri());

/** A model without cost (the mean of each channel) with pictures by URL. */
export const meanByUrl = () => network("mean", served);

export const resnetByUrl = () => network("resnet18", served);
export const resnetByData = () => network("resnet18", (image) => image.toDataUri());

/** Starts an HTTP server for one picture, which runs until the program ends. @returns the picture's URL */
function served({ bytes }: Image): string {
  const response = new Response(bytes, { headers: { "Content-Type": "image/jpeg" } });
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", routes: { "/picture.jpg": response } });
  server.unref();
  return new URL("picture.jpg", server.url).href;
}

/** ResNet-18 with the pixels of the pictures, as bytes. */
export async function resnetByTensors(): Promise<Network> {
  const folder = await buildOwnModel("resnet18-tensors", "resnet18");
  const [width, height] = PIXELS;
  const shown = await Promise.all((await pictures()).map((image) => image.pixels({ width, height, layout: "chw" })));
  const requests = shown.map(({ data }) => ({ image: `data:application/octet-stream;base64,${data.toBase64()}` }));
  return withSamples({ name: "resnet18-tensors", folder, requests, inputs: requests });
}

async function network(name: string, request: (image: Image) => string): Promise<Network> {
  const folder = await buildOwnModel(name);
  const shown = await pictures();
  const requests = shown.map((image) => ({ image: request(image) }));
  return withSamples({ name, folder, requests, inputs: shown.map((image) => ({ image: image.toDataUri() })) });
}

/** Adds the expected outputs. The addon computes them, because other JPEG decoders give other pixels. */
async function withSamples(network: Omit<Network, "samples">): Promise<Network> {
  const outputs = await rawOutputs({ ...network, samples: [] });
  return { ...network, samples: outputs.map((output, i) => ({ input: network.requests[i] ?? {}, output })) };
}

/**
 * Baseline without a server: `Bun.Image` resizes the same pictures in this process. Two passes, because a single pass
 * decodes JPEGs at a lower resolution.
 */
export const bunImage: Start = async () => {
  const shown = await pictures();
  const png = { compressionLevel: 0 } as const;
  return {
    title: "Bun.Image alone",
    async measure({ connections, seconds }) {
      const begin = performance.now();
      let count = 0;
      const decode = async (_: unknown, first: number) => {
        for (let i = first; performance.now() - begin < seconds * 1000; i++, count++) {
          const whole = await new Bun.Image(shown[i % shown.length]?.bytes ?? "").png(png).bytes();
          await new Bun.Image(whole)
            .resize(...PIXELS, { filter: "bilinear" })
            .png(png)
            .bytes();
        }
      };
      await Promise.all(Array.from({ length: connections }, decode));
      return { perSecond: (count * 1000) / (performance.now() - begin) };
    },
    async [Symbol.asyncDispose]() {},
  };
};

async function pictures(): Promise<Image[]> {
  const made: Image[] = [];
  for (const name of readdirSync(samples).sort()) {
    const file = Bun.file(join(samples, name));
    const pixels = await new Image({ bytes: await file.bytes(), mediaType: file.type }).pixels(SIZE);
    for (const quality of QUALITIES) made.push(await Image.fromPixels(pixels, { format: "jpeg", quality }));
  }
  return made;
}
