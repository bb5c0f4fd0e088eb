/** Images by URL: fetched, decoded and normalized by the server, beside the raw loop over tensors that are there already. */
import { Image } from "../src/model/media.ts";
import { atLeast, type CaseOptions, type Measurement } from "./measurement.ts";
import { buildOwnModel, madeBy, writeAsked } from "./networks.ts";
import { decodingCost, PictureServer, pictures } from "./pictures.ts";
import { ms } from "./quantity.ts";
import { RawLoop } from "./raw.ts";
import { Target } from "./target.ts";
import { SLOW_TURNS, turnsUnderLoad } from "./under-load.ts";

const NAME = "resnet18";
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

  const folder = await madeBy("resnet18.py", { name: NAME, makes: "weights.pt" });
  const requests = shown.map((picture) => ({ image: server.urlOf(picture) }));
  const inputs = shown.map(({ bytes }) => ({ image: new Image({ bytes, mediaType: "image/jpeg" }).toDataUri() }));
  const asked = { name: NAME, folder, ...(await writeAsked(folder, { requests, inputs })) };
  await buildOwnModel(NAME);

  await using raw = RawLoop.start("addon", asked, threads);
  // Other decoders give other pixels, so what is right is what the addon makes of the same ones.
  const network = { ...asked, samples: { inputs: requests, outputs: await raw.outputs() } };
  const flags = ["--threads", String(threads), "--batch-size", String(BATCH), "--allow-private-urls"];
  await using served = await Target.served(NAME, flags);
  const seconds = options.seconds * SLOW_TURNS;
  const load = { ...options, seconds, connections: CONNECTIONS, goal: atLeast(0.95), hasSlowBatches: true };
  const measured = await turnsUnderLoad({ network, served, options: load }, () => raw.throughput(BATCH, seconds));
  return {
    ...measured,
    subject: `images by URL, ${threads} ${threads === 1 ? "thread" : "threads"}, ${CONNECTIONS} connections`,
    compared: `of the raw loop, batch ${BATCH}`,
    behind: [
      measured.behind,
      `pixels() alone ${ms(decoding.ms)}`,
      ...(decoding.jsThreadUs === undefined ? [] : [`of that JS thread ${decoding.jsThreadUs.toFixed(0)} µs`]),
    ].join(", "),
  };
}
