/** Images, beside the raw loop over tensors that are there already: by URL, which the server fetches and decodes; and as ready bytes. */
import { Image } from "../src/model/media.ts";
import { bytesUri } from "./binary.ts";
import { atLeast, type CaseOptions, type Goal, type Measurement } from "./measurement.ts";
import { buildOwnModel, madeBy, writeAsked } from "./networks.ts";
import { decodingCost, PictureServer, pictures } from "./pictures.ts";
import { ms } from "./quantity.ts";
import { RawLoop } from "./raw.ts";
import { Target } from "./target.ts";
import { SLOW_TURNS, turnsUnderLoad } from "./under-load.ts";

const BATCH = 16;
/** One batch that runs, one that is next, and two whose images are fetched and decoded meanwhile. */
const CONNECTIONS = 4 * BATCH;
/** What the model asks `pixels()` for. */
const PIXELS = { width: 224, height: 224 } as const;

/** @param threads of one forward pass, in the server as in the raw loop */
export async function imagesByUrl(threads: number, options: CaseOptions): Promise<Measurement> {
  const shown = await pictures();
  await using server = new PictureServer(shown);
  const decoding = await decodingCost(shown, { ...PIXELS, seconds: options.seconds / 2 });
  const requests = shown.map((picture) => ({ image: server.urlOf(picture) }));
  const inputs = shown.map(({ bytes }) => ({ image: new Image({ bytes, mediaType: "image/jpeg" }).toDataUri() }));
  const measured = await againstRawLoop({ name: "resnet18", threads, requests, inputs, goal: atLeast(0.95), options });
  return {
    ...measured,
    subject: `images by URL, ${asked(threads)}`,
    behind: [
      measured.behind,
      `pixels() alone ${ms(decoding.ms)}`,
      ...(decoding.jsThreadUs === undefined ? [] : [`of that JS thread ${decoding.jsThreadUs.toFixed(0)} µs`]),
    ].join(", "),
  };
}

/** The same network on the same pixels as they are, in base64: how far it gets without fetching and decoding. */
export async function imagesReady(threads: number, options: CaseOptions): Promise<Measurement> {
  const requests: { readonly image: string }[] = [];
  for (const { bytes } of await pictures()) {
    const { data } = await new Image({ bytes, mediaType: "image/jpeg" }).pixels({ ...PIXELS, layout: "chw" });
    requests.push({ image: bytesUri(data) });
  }
  const measured = await againstRawLoop({ name: "resnet18-ready", threads, requests, inputs: requests, options });
  return { ...measured, subject: `images as ready bytes, ${asked(threads)}` };
}

interface ImageCase {
  /** Of the model. */
  readonly name: string;
  readonly threads: number;
  /** One input each, as clients send it. */
  readonly requests: readonly unknown[];
  /** The same inputs as the raw loop takes them. */
  readonly inputs: readonly unknown[];
  readonly goal?: Goal;
  readonly options: CaseOptions;
}

async function againstRawLoop({ name, threads, requests, inputs, goal, options }: ImageCase): Promise<Measurement> {
  const folder = await madeBy("resnet18.py", { name, makes: "weights.pt" });
  const files = await writeAsked(folder, { requests, inputs });
  await buildOwnModel(name);
  await using raw = RawLoop.start("addon", { name, folder, ...files }, threads);
  // Other decoders give other pixels, so what is right is what the addon makes of the same ones.
  const network = { name, folder, ...files, samples: { inputs: requests, outputs: await raw.outputs() } };
  const flags = ["--threads", String(threads), "--batch-size", String(BATCH), "--allow-private-urls"];
  await using served = await Target.served(name, flags);
  const seconds = options.seconds * SLOW_TURNS;
  const load = { ...options, seconds, connections: CONNECTIONS, hasSlowBatches: true, ...(goal ? { goal } : {}) };
  const measured = await turnsUnderLoad({ network, served, options: load }, () => raw.throughput(BATCH, seconds));
  return { ...measured, compared: `of the raw loop, batch ${BATCH}` };
}

function asked(threads: number): string {
  return `${threads} ${threads === 1 ? "thread" : "threads"}, ${CONNECTIONS} connections`;
}
