/** Continues texts, one character of every text in each step. */
import { argmax, type DeviceTensor, defineModel, float32, int64, type Tensor, tensor, uint8, unstack, z } from "sconce";

/** State of one text between two steps. */
interface Text {
  /** Keys and values of all read characters, on the device of the network. */
  readonly cache: DeviceTensor;
  /** The character that the network reads in the next step. */
  readonly next: number;
  /** ASCII codes of the characters that the network has written. */
  readonly written: readonly number[];
  /** Number of characters to write. */
  readonly length: number;
  readonly temperature: number;
  readonly seed: number;
}

export default defineModel({
  name: "writer",
  description: "Continues a text, character by character.",
  input: z.object({
    prompt: z.string().regex(/^[\n -~]{1,100}$/, "must have 1 to 100 ASCII characters"),
    length: z.int().min(1).max(150).default(80).describe("Characters to write."),
    temperature: z.number().min(0).max(2).default(0.7).describe("0 takes the likeliest character."),
    seed: z.int().min(0).max(1_000_000).default(0),
  }),
  output: z.object({ text: z.string() }),
  part: z.string(),
  tensors: {
    inputs: { prompt: int64("characters"), length: int64(), temperature: float32(), seed: int64() },
    outputs: { text: uint8("length") },
    parts: { character: uint8() },
  },
  weights: "writer.pt",
  batchSize: 16,
  example: { prompt: "Return the " },
  preprocess: ({ prompt, length, temperature, seed }) => ({
    prompt: tensor.int64(new TextEncoder().encode(`\n${prompt}`)),
    length: tensor.int64(length),
    temperature: tensor.float32(temperature),
    seed: tensor.int64(seed),
  }),
  // Reads the prompt except its last character, which the first step reads.
  async begin({ prompt, length, temperature, seed }, { model }): Promise<Text> {
    const [next = 0n] = prompt.data.slice(-1);
    const [, cache] = await model.call<readonly [Tensor, DeviceTensor]>("begin", tensor(prompt.data.slice(0, -1)));
    return {
      cache,
      next: Number(next),
      written: [],
      length: length.item(),
      temperature: temperature.item(),
      seed: seed.item(),
    };
  },
  async step(texts, { model }) {
    const characters = tensor.int64(texts.map(({ next }) => next));
    const pasts = texts.map(({ cache }) => cache);
    const [scores, caches] = await model.call<readonly [DeviceTensor<"float32">, readonly DeviceTensor[]]>(
      "step",
      characters,
      pasts,
    );
    // Reading waits for the device without blocking the process.
    await scores.read();
    const rows = unstack(scores);
    return texts.map((text, i) => {
      const [row, cache] = [rows[i], caches[i]];
      if (row === undefined || cache === undefined) throw new Error("the network has a row for each text");
      const next = picked(row, text);
      const written = [...text.written, next];
      const part = { character: tensor.uint8(next) };
      if (written.length === text.length) return { outputs: { text: tensor.uint8(written) }, part };
      return { state: { ...text, cache, next, written }, part };
    });
  },
  postprocessPart: ({ character }) => String.fromCharCode(character.item()),
  postprocess: ({ text }) => ({ text: String.fromCharCode(...text.data) }),
});

/** Chooses the next character: the likeliest at temperature 0, else one at random, by its score. */
function picked(scores: Tensor<"float32">, { temperature, seed, written }: Text): number {
  if (temperature === 0) return argmax(scores);
  const most = Math.max(...scores.data);
  const weights = scores.data.map((score) => Math.exp((score - most) / temperature));
  let left = random(seed, written.length) * weights.reduce((sum, weight) => sum + weight, 0);
  const chosen = weights.findIndex((weight) => {
    left -= weight;
    return left < 0;
  });
  // Rounding errors may leave a rest above 0 after the last character.
  return chosen < 0 ? argmax(scores) : chosen;
}

/** A pseudo-random number from 0 to 1. The same seed and position give the same number, so texts do not depend on the batch. */
function random(seed: number, at: number): number {
  let bits = (Math.imul(seed + 1, 0x9e3779b1) + Math.imul(at + 1, 0x85ebca6b)) | 0;
  bits = Math.imul(bits ^ (bits >>> 16), 0x21f0aaad);
  bits = Math.imul(bits ^ (bits >>> 15), 0x735a2d97);
  return ((bits ^ (bits >>> 15)) >>> 0) / 2 ** 32;
}
