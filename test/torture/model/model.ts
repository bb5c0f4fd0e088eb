/** Triples a number. Its forward pass ends or blocks its process if an input says so. */
import { appendFileSync } from "node:fs";
import { defineModel, float32, int64, tensor, z } from "sconce";

/** Faults in the order of their numbers in fault.cc, from 1 on. */
const faults = ["abort", "segv", "exit", "hang", "memory", "throw"] as const;
/** A fault number of `sleep` + n or `compute` + n makes the forward pass sleep or compute for n milliseconds. */
const sleep = 1000;
const compute = 1_000_000;

export default defineModel({
  name: "torture",
  description: "Triples a number, or does what it should not.",
  input: z.object({
    x: z.number(),
    fault: z.enum(faults).optional(),
    /** Milliseconds that the forward pass sleeps. */
    sleepMs: z.int().min(0).default(0),
    /** Milliseconds that the forward pass computes; takes precedence over `sleepMs` and `fault`. */
    computeMs: z.int().min(0).default(0),
    /** A text that the output has, too, if `echo` is true. */
    note: z.string().default(""),
    echo: z.boolean().default(false),
  }),
  output: z.object({ y: z.number(), note: z.string(), length: z.int() }),
  tensors: { inputs: { x: float32(), faults: int64() }, outputs: { y: float32() } },
  weights: "fault.pt",
  operators: ["operators.so"],
  batchSize: 16,
  example: { x: 1 },
  preprocess({ x, fault, sleepMs, computeMs }) {
    const { TORTURE_RUNS } = process.env;
    if (TORTURE_RUNS !== undefined) appendFileSync(TORTURE_RUNS, `${x}\n`);
    const asked = fault === undefined ? 0 : 1 + faults.indexOf(fault);
    const code = computeMs > 0 ? compute + computeMs : sleepMs > 0 ? sleep + sleepMs : asked;
    return { x: tensor(Float32Array.of(x), []), faults: tensor(BigInt64Array.of(BigInt(code)), []) };
  },
  postprocess({ y }, { input: { note, echo } }) {
    return { y: y.data[0] ?? 0, note: echo ? note : "", length: note.length };
  },
});
