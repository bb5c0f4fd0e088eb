/**
 * Loudness of a signal over time. The module keeps a state, and receives the signal piece by piece. The sampling rate
 * is an argument of its methods.
 */
import { defineModel, float32, int64, pad, tensor, z } from "sconce";

/** Number of samples in a piece. */
const piece = 4;
/** Largest number of samples. Padding looks like silence, so the length of the signal is an input too. */
const longest = 64;

export default defineModel({
  name: "meter",
  input: z.object({
    samples: z.array(z.number()).min(1).max(longest),
    rate: z.int().min(1).default(8),
    unit: z.enum(["level", "decibel", "nothing"]).default("level"),
  }),
  /** The loudness after each piece, and the number of samples that the module has counted. */
  output: z.object({ levels: z.array(z.number()), samples: z.int() }),
  tensors: {
    inputs: { samples: float32(pad("samples", 0)), length: int64(), rate: int64(), unit: int64() },
    outputs: { levels: float32(longest / piece), pieces: int64(), samples: int64() },
  },
  weights: "meter.pt",
  batchSize: 8,
  example: { samples: [1, -1, 1, -1, 0.5] },
  preprocess: ({ samples, rate, unit }) => ({
    samples: tensor(Float32Array.from(samples), [samples.length]),
    length: tensor(BigInt64Array.of(BigInt(samples.length)), []),
    rate: tensor(BigInt64Array.of(BigInt(rate)), []),
    unit: tensor(BigInt64Array.of(unit === "level" ? 0n : unit === "decibel" ? 1n : 2n), []),
  }),
  async predict(batch, { model }) {
    const items = batch.length.data.length;
    const levels = new Float32Array((items * longest) / piece);
    const pieces = new BigInt64Array(items);
    const heard = new BigInt64Array(items);
    const width = batch.samples.shape[1] ?? 0;
    for (let i = 0; i < items; i++) {
      const signal = batch.samples.data.subarray(i * width, i * width + Number(batch.length.data[i]));
      const unit = batch.unit.data[i] === 1n ? "decibel" : "level";
      if (batch.unit.data[i] === 2n) throw new Error("there is no such unit");
      await model.call<null>("reset");
      for (let from = 0, at = 0; from < signal.length; from += piece, at++) {
        const part = signal.slice(from, from + piece);
        const rate = Number(batch.rate.data[i]);
        const level = await model.call("step", tensor(part, [part.length]), rate, 0.5, true, unit);
        levels[(i * longest) / piece + at] = Number(level.data[0]);
        pieces[i] = BigInt(at + 1);
      }
      heard[i] = BigInt(await model.call<number>("samples"));
    }
    return {
      levels: tensor(levels, [items, longest / piece]),
      pieces: tensor(pieces, [items]),
      samples: tensor(heard, [items]),
    };
  },
  postprocess: ({ levels, pieces, samples }) => ({
    levels: [...levels.data.subarray(0, Number(pieces.data[0]))],
    samples: Number(samples.data[0]),
  }),
});
