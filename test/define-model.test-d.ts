/**
 * Types of `defineModel`: code that must compile, and code that must not. `tsc -p .` checks this file; it never runs.
 */
import {
  argmax,
  type DeviceTensor,
  defineModel,
  float32,
  type Image,
  image,
  int64,
  pad,
  type Tensor,
  tensor,
  uint8,
  z,
} from "sconce";

/** Compiles only if A and B are the same type. */
function same<A, B>(_: (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false): void {}

const digit = {
  name: "digits",
  input: z.object({ image: image(), threshold: z.number().default(0.5), tags: z.array(z.string()).optional() }),
  output: z.object({ digit: z.int(), scores: z.array(z.number()) }),
  tensors: { inputs: { pixels: float32(64), ids: int64(pad("tokens", 0)) }, outputs: { scores: float32(10) } },
  weights: "digits.pt",
} as const;
const pixels = tensor(new Float32Array(64), [64]);
const ids = tensor(new BigInt64Array(3), [3]);

// TypeScript infers the argument of preprocess, and the tensors and context of postprocess.
defineModel({
  ...digit,
  example: { image: "samples/3.png", threshold: 1 },
  preprocess(input) {
    same<typeof input.image, Image>(true);
    same<typeof input.threshold, number>(true);
    same<typeof input.tags, string[] | undefined>(true);
    return { pixels, ids };
  },
  postprocess(rows, { input }) {
    same<typeof rows.scores.data, Float32Array<ArrayBufferLike>>(true);
    same<typeof input.threshold, number>(true);
    return { digit: 1, scores: [...rows.scores.data] };
  },
});

// preprocess and postprocess may be asynchronous.
defineModel({
  ...digit,
  preprocess: async ({ image }) => ({ pixels: tensor(Float32Array.from((await image.pixels()).data), [64]), ids }),
  postprocess: async ({ scores }) => ({ digit: 1, scores: [...scores.data] }),
});

// Enums and tuples keep their literal types.
defineModel({
  ...digit,
  output: z.object({ size: z.enum(["small", "large"]), corner: z.tuple([z.int(), z.int()]) }),
  preprocess: () => ({ pixels, ids }),
  postprocess({ scores: { data } }) {
    const [x = 0, y = 0] = data;
    return { size: x > y ? "large" : "small", corner: [x, y] };
  },
  demo: {
    output: z.object({ kind: z.literal("plain"), side: z.enum(["left", "right"]) }),
    async predict(inputs, { predict }) {
      const outputs = await predict(inputs);
      return {
        outputs,
        demoOutputs: outputs.map(({ size }) => ({ kind: "plain", side: size === "small" ? "left" : "right" })),
      };
    },
  },
});

// Hooks get what setup returns as `state`, and the model's parameters.
defineModel({
  ...digit,
  params: z.object({ threshold: z.number().default(0.5), mode: z.enum(["fast", "best"]).default("fast") }),
  async setup({ asset, params }) {
    same<typeof params.threshold, number>(true);
    return { words: (await asset("words.txt").text()).split("\n") };
  },
  teardown: (state) => same<typeof state, { words: string[] }>(true),
  preprocess(_, { state, params, device, signal, log }) {
    same<typeof state, { words: string[] }>(true);
    same<typeof params.mode, "fast" | "best">(true);
    log(device, signal.aborted);
    return { pixels, ids };
  },
  predict: ({ pixels }, _, { state }) => ({ scores: state.words.length > 0 ? pixels : pixels }),
  postprocess({ scores }, { state, input, params }) {
    same<typeof state.words, string[]>(true);
    same<typeof input.threshold, number>(true);
    same<typeof params.threshold, number>(true);
    return { digit: argmax(scores), scores: [...scores.data] };
  },
  demo: {
    output: z.object({ first: z.string() }),
    async predict(inputs, { predict, state }) {
      return { outputs: await predict(inputs), demoOutputs: inputs.map(() => ({ first: state.words[0] ?? "" })) };
    },
  },
});

// Without setup and params, `state` is undefined.
defineModel({
  ...digit,
  preprocess(_, { state }) {
    same<typeof state, undefined>(true);
    return { pixels, ids };
  },
  postprocess: ({ scores }) => ({ digit: 1, scores: [...scores.data] }),
});

const postprocess = () => ({ digit: 1, scores: [1] });
const preprocess = () => ({ pixels, ids });
/** A right declaration, in which the following code makes a mistake or replaces functions. */
const right = { ...digit, preprocess, postprocess };

// @ts-expect-error the input has no field `picture`
defineModel({ ...right, preprocess: ({ picture }) => ({ pixels, ids, picture }) });

// @ts-expect-error postprocess reads a tensor that is not declared
defineModel({ ...right, postprocess: ({ logits }) => ({ digit: 1, scores: [...logits.data] }) });

// @ts-expect-error preprocess returns no tensor `ids`
defineModel({ ...right, preprocess: () => ({ pixels }) });

// @ts-expect-error preprocess returns a tensor of another dtype than declared
defineModel({ ...right, preprocess: () => ({ pixels, ids: tensor(new Int32Array(3), [3]) }) });

// @ts-expect-error preprocess returns an array instead of a tensor
defineModel({ ...right, preprocess: () => ({ pixels: [1, 2], ids }) });

// @ts-expect-error postprocess returns an output of another type than declared
defineModel({ ...right, postprocess: () => ({ digit: "1", scores: [1] }) });

// @ts-expect-error postprocess returns a value outside the output's enum
defineModel({ ...right, output: z.object({ size: z.enum(["s"]) }), postprocess: () => ({ size: "big" }) });

// @ts-expect-error postprocess returns no field `scores`
defineModel({ ...right, postprocess: () => ({ digit: 1 }) });

// @ts-expect-error postprocess returns a URL instead of an Image
defineModel({ ...right, output: z.object({ image: image() }), postprocess: () => ({ image: "a.png" }) });

const { name, input, output, tensors, weights } = digit;

// @ts-expect-error `batchSize` is misspelled
defineModel({ name, input, output, tensors, weights, preprocess, postprocess, batchsize: 4 });

// @ts-expect-error `batchSize` is no number
defineModel({ ...right, batchSize: "4" });

// @ts-expect-error the example does not match the input
defineModel({ ...right, example: { image: 3 } });

// @ts-expect-error `weights` is missing
defineModel({ name: "x", input: digit.input, output: digit.output, tensors: digit.tensors, preprocess, postprocess });

// Float16, bfloat16 and bool share their array type with another dtype, so `tensor` requires the dtype.
tensor(new Uint16Array(1), [1], "float16").dtype satisfies "float16";
tensor(new Uint8Array(1), [1], "bool").dtype satisfies "bool";
tensor(new Uint8Array(1), [1]).dtype satisfies "uint8";
uint8(3, 4).dtype satisfies "uint8";

// TypeScript infers the batch and the sessions that predict gets. A model with one weights file has the session
// `model`; with several, the sessions have the names of the weights.
defineModel({
  ...right,
  async predict({ pixels, ids }, { model }) {
    same<typeof pixels.data, Float32Array<ArrayBufferLike>>(true);
    same<typeof ids.data, BigInt64Array<ArrayBufferLike>>(true);
    const [scores, steps] = await model.call<readonly [Tensor<"float32">, number]>(
      "vote",
      pixels,
      ids,
      16_000,
      true,
      "fast",
    );
    same<typeof steps, number>(true);
    return { scores };
  },
});

defineModel({
  ...right,
  weights: { detector: "detector.pt", reader: "reader.pt" },
  predict: async ({ pixels }, { detector, reader }) => {
    const found = await detector.call("forward", pixels);
    return { scores: await reader.call<Tensor<"float32">>("forward", found) };
  },
});

// @ts-expect-error the model has no session `reader`
defineModel({ ...right, predict: async ({ pixels }, { reader }) => reader.call("f", pixels) });

// @ts-expect-error predict returns a tensor that is not a declared output
defineModel({ ...right, predict: ({ pixels }) => ({ logits: pixels }) });

// @ts-expect-error a call has an argument that is no tensor
defineModel({ ...right, predict: (_, { model }) => model.call("f", { step: 1 }) });

// An output that arrives in parts: postprocess yields the parts, and returns the whole output.
const inParts = { ...right, part: z.object({ step: z.int(), kind: z.enum(["first", "other"]) }) } as const;
defineModel({
  ...inParts,
  async *postprocess({ scores }, { input }) {
    same<typeof input.threshold, number>(true);
    for (const [step] of scores.data.entries()) yield { step, kind: step === 0 ? "first" : "other" };
    return { digit: 1, scores: [...scores.data] };
  },
});

// predict yields tensors with one row per input: outputs, or the tensors declared in `tensors.parts`.
defineModel({
  ...inParts,
  async *predict({ pixels }, { model }) {
    for (let i = 0; i < 3; i++) yield { scores: await model.call<Tensor<"float32">>("forward", pixels) };
    return { scores: pixels };
  },
  postprocessPart({ scores }, { sequence, input }) {
    same<typeof scores.data, Float32Array<ArrayBufferLike>>(true);
    same<typeof input.threshold, number>(true);
    return { step: sequence, kind: "first" };
  },
});
defineModel({
  ...inParts,
  tensors: { ...digit.tensors, parts: { token: int64() } },
  async *predict({ pixels }) {
    yield { token: tensor(new BigInt64Array(1), [1]) };
    return { scores: pixels };
  },
  async postprocessPart({ token }) {
    same<typeof token.data, BigInt64Array<ArrayBufferLike>>(true);
    return token.data[0] === 0n ? undefined : { step: Number(token.data[0]), kind: "other" };
  },
});

defineModel({
  ...right,
  // @ts-expect-error postprocess yields a part, but the model declares no `part`
  async *postprocess({ scores }) {
    yield { step: 1 };
    return { digit: 1, scores: [...scores.data] };
  },
});

defineModel({
  ...right,
  // @ts-expect-error predict yields rows of a part, but the model declares no `part`
  async *predict({ pixels }) {
    yield { scores: pixels };
    return { scores: pixels };
  },
});

defineModel({
  ...inParts,
  // @ts-expect-error the part has another type than declared
  async *postprocess({ scores }) {
    yield { step: "1", kind: "first" };
    return { digit: 1, scores: [...scores.data] };
  },
});

defineModel({
  ...inParts,
  // @ts-expect-error the generator returns no output
  async *postprocess() {
    yield { step: 1, kind: "first" };
  },
});

defineModel({
  ...inParts,
  // @ts-expect-error the yielded tensor is not declared
  async *predict({ pixels }) {
    yield { token: pixels };
    return { scores: pixels };
  },
  postprocessPart: (_, { sequence }) => ({ step: sequence, kind: "first" }),
});

defineModel({
  name: "stated",
  input: z.object({ x: z.number() }),
  output: z.object({ y: z.number() }),
  weights: "stated.pt2",
  preprocess: ({ x }) => ({ x: tensor(Float32Array.of(x), []) }),
  // Without `tensors`, only the weights file has the names and dtypes, so TypeScript does not know them.
  postprocess: ({ anything }) => ({ y: anything.item() }),
});

// TypeScript infers the type of the states from begin. Tensors that sessions return may be states and outputs.
defineModel({
  ...right,
  async begin({ pixels, ids }, { model }) {
    same<typeof ids.data, BigInt64Array<ArrayBufferLike>>(true);
    return { cache: await model.call("forward", pixels), count: 0 };
  },
  async step(states, { model }) {
    same<(typeof states)[number], { cache: DeviceTensor; count: number }>(true);
    const rows = await model.call<readonly DeviceTensor<"float32">[]>(
      "step",
      states.map(({ cache }) => cache),
    );
    return states.map(({ count }, i) => {
      const [scores = pixels, part] = [rows[i], { scores: pixels }];
      return count > 3 ? { outputs: { scores } } : { state: { cache: rows[i] ?? fail(), count: count + 1 }, part };
    });
  },
});

const fail = (): never => {
  throw new Error("no row");
};

defineModel({
  ...right,
  begin: () => ({ count: 0 }),
  // @ts-expect-error the state has another type than the state of begin
  step: (states) => states.map(() => ({ state: { count: "0" } })),
});

defineModel({
  ...right,
  begin: () => ({ count: 0 }),
  // @ts-expect-error `logits` is not a declared output
  step: (states) => states.map(() => ({ outputs: { logits: pixels } })),
});
