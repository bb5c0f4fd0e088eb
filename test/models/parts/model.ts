/** Computes 2 x + 1 in parts: `predict` yields rows, then `postprocess` yields words. The input can ask for faults. */
import { defineModel, float32, Image, image, int64, pad, type Tensor, tensor, uint8, z } from "sconce";

const faults = ["none", "predict", "postprocessPart", "part", "postprocess"] as const;

export default defineModel({
  name: "parts",
  input: z.object({
    x: z.number(),
    /** Number of rows that `predict` yields. */
    rounds: z.int().default(0),
    /** Words that `postprocess` yields as parts. */
    words: z.array(z.string()).default([]),
    /** Base URL of a server that delays each round (`r0`), each word (`w0`) and the end of `postprocess` (`end`). */
    gate: z.url().optional(),
    /** Whether each word comes with a picture. */
    draw: z.boolean().default(false),
    fail: z.enum(faults).default("none"),
  }),
  output: z.object({ y: z.number(), text: z.string() }),
  /** `pid` is the id of the process that runs `predict`. */
  part: z.object({ text: z.string(), pid: z.int().optional(), picture: image().optional() }),
  tensors: {
    inputs: { x: float32(), rounds: int64(), fault: int64(), gate: uint8(pad("gate", 0)) },
    outputs: { y: float32() },
    parts: { round: int64(), pid: int64() },
  },
  weights: "parts.pt",
  batchSize: 4,
  example: { x: 1.5, rounds: 1, words: ["one", "two"] },
  preprocess({ x, rounds, fail, gate = "" }) {
    const url = new TextEncoder().encode(gate);
    return {
      x: tensor(Float32Array.of(x), []),
      rounds: tensor(BigInt64Array.of(BigInt(rounds)), []),
      fault: tensor(BigInt64Array.of(BigInt(faults.indexOf(fail))), []),
      gate: tensor(url, [url.length]),
    };
  },
  async *predict({ x, rounds, fault, gate }, { model }) {
    const items = x.data.length;
    const width = gate.shape[1] ?? 0;
    const urls = Array.from({ length: items }, (_, i) => textOf(gate.data.subarray(i * width, (i + 1) * width)));
    const last = Math.max(...[...rounds.data].map(Number));
    for (let round = 0; round < last; round++) {
      for (const url of urls) if (url !== "") await answered(`${url}r${round}`);
      if (round > 0 && fault.data.includes(1n)) throw new Error("no such round");
      const own = BigInt64Array.from(rounds.data, (each) => (round < each ? BigInt(round) : -1n));
      const pids = new BigInt64Array(items).fill(BigInt(process.pid));
      yield { round: tensor(own, [items]), pid: tensor(pids, [items]) };
    }
    const steps = tensor(new BigInt64Array(items), [items]);
    const [y] = await model.call<readonly [Tensor<"float32">, Tensor]>("forward", x, steps);
    return { y };
  },
  postprocessPart({ round, pid }, { input, sequence }) {
    if (input.fail === "postprocessPart" && sequence === 1) throw new Error("no such part");
    const own = Number(round.data[0]);
    return own < 0 ? undefined : { text: `round ${own}`, pid: Number(pid.data[0]) };
  },
  async *postprocess({ y }, { input: { words, gate, draw, fail } }) {
    try {
      for (const [i, text] of words.entries()) {
        if (gate !== undefined) await answered(`${gate}w${i}`);
        if (fail === "postprocess" && i === 1) throw new Error("no such word");
        if (fail === "part" && i === 1) yield { text, pid: 0.5 };
        const picture = { data: new Uint8Array(4 * 4).fill(60 * i), width: 4, height: 4, channels: 1 } as const;
        yield draw ? { text, picture: await Image.fromPixels(picture, { format: "png" }) } : { text };
      }
      return { y: y.data[0] ?? 0, text: words.join(" ") };
    } finally {
      if (gate !== undefined && words.length > 0) await answered(`${gate}end`);
    }
  },
});

function textOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes).replaceAll("\0", "");
}

async function answered(url: string): Promise<void> {
  await (await fetch(url)).arrayBuffer();
}
