/** Sentences for an embedding model, the same in every run: inputs whose lengths differ. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { preparedModel } from "../examples/minilm/prepared.ts";
import { seeded } from "../test/helpers/loads.ts";
import { buildModel, folderOfAll, type Network } from "./networks.ts";

const COUNT = 1000;
const LENGTHS = { least: 5, most: 120 } as const;
/**
 * Difference between the lengths of successive sentences, modulo the number of lengths. The two numbers have no common
 * divisor, so every length appears.
 */
const STEP = 71;

export async function minilm(): Promise<Network> {
  console.error("  preparing the model: the first time, some 120 MB are downloaded with pip");
  const prepared = await preparedModel();
  const folder = join(folderOfAll, "minilm");
  await mkdir(folder, { recursive: true });
  await buildModel(prepared.folder);
  const samples = prepared.sentences.map(({ text, embedding }) => ({ input: { text }, output: { embedding } }));
  const requests = sentences(prepared.sentences.map(({ text }) => text)).map((text) => ({ text }));
  return { name: "minilm", folder, requests, inputs: requests, samples };
}

/** Makes sentences of 5 to 120 random words from the texts. All lengths are about equally frequent. */
function sentences(texts: readonly string[]): string[] {
  const words = texts.flatMap((text) => text.split(/\s+/)).filter((word) => word !== "");
  const random = seeded(20);
  const lengths = LENGTHS.most - LENGTHS.least + 1;
  return Array.from({ length: COUNT }, (_, i) => {
    const length = LENGTHS.least + ((i * STEP) % lengths);
    return Array.from({ length }, () => words[Math.floor(random() * words.length)]).join(" ");
  });
}
