/** A real model whose inputs differ in length, beside the raw loop that knows all of them beforehand and sorts them by length. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { preparedModel } from "../examples/minilm/prepared.ts";
import { atLeast, type CaseOptions, type Measurement } from "./measurement.ts";
import { buildModel, folderOfAll, writeAsked } from "./networks.ts";
import { perSecond } from "./quantity.ts";
import { RawLoop } from "./raw.ts";
import { sentences } from "./sentences.ts";
import { Target } from "./target.ts";
import { SLOW_TURNS, turnsUnderLoad } from "./under-load.ts";

const NAME = "minilm";
const CONNECTIONS = 64;
const THREADS = 1;
const SENTENCES = 1000;
/** The likeliest last, so that it does not pay for what is done once. */
const BATCHES = [64, 32, 16, 8] as const;

export async function minilm(options: CaseOptions): Promise<Measurement> {
  console.error("  preparing the model: the first time, some 120 MB are downloaded with pip");
  const prepared = await preparedModel();
  const folder = join(folderOfAll, NAME);
  await mkdir(folder, { recursive: true });
  const texts = sentences(
    prepared.sentences.map(({ text }) => text),
    SENTENCES,
  );
  const inputs = texts.map((text) => ({ text }));
  const asked = { name: NAME, folder, ...(await writeAsked(folder, { requests: inputs, inputs })) };
  await buildModel(prepared.folder);
  const samples = {
    inputs: prepared.sentences.map(({ text }) => ({ text })),
    outputs: prepared.sentences.map(({ embedding }) => ({ embedding })),
  };

  await using raw = RawLoop.start("addon", asked, THREADS);
  const tried: { rows: number; rate: number }[] = [];
  for (const rows of BATCHES) {
    console.error(`  trying the raw loop with batches of ${rows}`);
    tried.push({ rows, rate: (await raw.throughput(rows, 0)).perSecond });
  }
  const best = tried.reduce((a, b) => (b.rate > a.rate ? b : a));

  await using served = await Target.served(NAME, ["--threads", String(THREADS)]);
  // As long as the raw loop takes for all of them: what is compared is the same work.
  const seconds = Math.max(options.seconds * SLOW_TURNS, Math.ceil(SENTENCES / best.rate));
  const load = { ...options, seconds, connections: CONNECTIONS, goal: atLeast(0.9), hasSlowBatches: true };
  const network = { ...asked, samples };
  const measured = await turnsUnderLoad({ network, served, options: load }, () => raw.throughput(best.rows, 0));
  const sizes = tried.map(({ rows, rate }) => `${rows}: ${perSecond(rate)}`);
  return {
    ...measured,
    compared: `of the raw loop, sorted, best batch ${best.rows}`,
    behind: `${measured.behind}, raw by batch size ${sizes.join(", ")}`,
  };
}
