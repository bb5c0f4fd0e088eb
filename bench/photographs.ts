/** Photographs to be asked about: JPEGs of 320 × 240, made once of those that come with scikit-image; and the models that are. */
import { join } from "node:path";
import { installPackages, made } from "../examples/minilm/prepared.ts";
import { Image } from "../src/model/media.ts";
import { buildOwnModel, bytesUri, folderOfAll, type Network, python } from "./networks.ts";
import { RawLoop } from "./raw.ts";
import type { Start } from "./target.ts";

const SIZE = { width: 320, height: 240 } as const;
/** What the models ask `pixels()` for. */
const PIXELS = { width: 224, height: 224, layout: "chw" } as const;
const PACKAGE = "scikit-image==0.26.0";
const photographs = (
  "astronaut.png brick.png camera.png cell.png chelsea.png clock_motion.png coffee.png coins.png grass.png gravel.png " +
  "hubble_deep_field.jpg ihc.png moon.png motorcycle_left.png retina.jpg rocket.jpg"
).split(" ");

/** The mean of each channel, a model that costs nothing: its pictures come as data URIs. */
export const meanOfPictures = () => network("mean", dataUri);

/** ResNet-18 on pictures by URL, which it fetches and decodes. */
export function resnetByUrl(): Promise<Network> {
  return network("resnet18", (image, name) => {
    const response = new Response(image.bytes, { headers: { "Content-Type": "image/jpeg" } });
    // It has this one picture, and is there for as long as the program.
    const server = Bun.serve({ port: 0, hostname: "127.0.0.1", routes: { [`/${name}`]: response } });
    server.unref();
    return new URL(name, server.url).href;
  });
}

/** The same network on the same pixels as they are: how far it gets without fetching and decoding. */
export const resnetReady = () =>
  network("resnet18-ready", async (image) => bytesUri((await image.pixels(PIXELS)).data), "resnet18");

async function network(
  name: string,
  request: (image: Image, name: string) => string | Promise<string>,
  weights = name,
): Promise<Network> {
  const folder = await buildOwnModel(name, weights);
  const shown = await pictures();
  const requests = await Promise.all(shown.map(async (each) => ({ image: await request(each.image, each.name) })));
  const isByUrl = requests.some(({ image }) => image.startsWith("http"));
  const inputs = isByUrl ? shown.map(({ image }) => ({ image: dataUri(image) })) : requests;
  const unchecked = { name, folder, requests, inputs, samples: [] };
  await using raw = await RawLoop.start(unchecked);
  // Other decoders give other pixels, so what is right is what the addon makes of the same ones.
  const outputs = await raw.outputs();
  return { ...unchecked, samples: outputs.map((output, i) => ({ input: requests[i] ?? {}, output })) };
}

/** `Bun.Image` alone, on the same pictures in this process: in two passes, since in one it decodes a JPEG at a lower resolution. */
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
          const whole = await new Bun.Image(shown[i % shown.length]?.image.bytes ?? "").png(png).bytes();
          await new Bun.Image(whole).resize(PIXELS.width, PIXELS.height, { filter: "bilinear" }).png(png).bytes();
        }
      };
      await Promise.all(Array.from({ length: connections }, decode));
      return { perSecond: (count * 1000) / (performance.now() - begin) };
    },
    async [Symbol.asyncDispose]() {},
  };
};

const dataUri = (image: Image) => image.toDataUri();

async function pictures(): Promise<{ name: string; image: Image }[]> {
  const folder = await made(join(folderOfAll, "pictures"), async (unfinished) => {
    console.error("  making the pictures: their photographs (14 MB) are downloaded with pip, once");
    // Its photographs are the same for every Python; nothing of it is run.
    const packages = join(folderOfAll, "photographs");
    await made(packages, (target) => installPackages([PACKAGE], python().command, target));
    for (const photograph of photographs) {
      const bytes = await Bun.file(join(packages, "skimage", "data", photograph)).bytes();
      const pixels = await new Image({ bytes, mediaType: "image/*" }).pixels({ ...SIZE, fit: "cover" });
      const jpeg = await Image.fromPixels(pixels, { format: "jpeg", quality: 90 });
      await Bun.write(join(unfinished, nameOf(photograph)), jpeg.bytes);
    }
  });
  return Promise.all(
    photographs.map(nameOf).map(async (name) => {
      const bytes = await Bun.file(join(folder, name)).bytes();
      return { name, image: new Image({ bytes, mediaType: "image/jpeg" }) };
    }),
  );
}

function nameOf(photograph: string): string {
  return photograph.replace(/\.\w+$/, ".jpg");
}
