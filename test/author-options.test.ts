/** Options in a model's code: a misspelled name or value is refused, with the nearest right one. */
import { describe, expect, test } from "bun:test";
import {
  Audio,
  audio,
  defineModel,
  file,
  float32,
  Image,
  InputError,
  image,
  ModelFile,
  ndarray,
  stack,
  tensor,
  z,
} from "../src/index.ts";

const picture = await Image.fromPixels({ data: new Uint8Array(12), width: 2, height: 2, channels: 3 });
const sound = Audio.fromSamples({ data: new Float32Array(2), rate: 8000 });
const field = z.object({ text: z.string() });
const model = {
  name: "options",
  input: field,
  output: field,
  tensors: { inputs: { x: float32(1) }, outputs: { y: float32(1) } },
  weights: "model.pt",
  preprocess: () => ({ x: tensor(Float32Array.of(1)) }),
  postprocess: () => ({ text: "" }),
};

interface Call {
  readonly call: (options: never) => unknown;
  /** Every option, with a right value. */
  readonly options: object;
  /** Paths of options that take one of a few values. */
  readonly enumerated?: readonly string[];
}

const call = (options: object, make: (options: never) => unknown, ...enumerated: string[]): Call => ({
  call: make,
  options,
  enumerated,
});
const only = <T>(options: T) => options;

const calls: Readonly<Record<string, Call>> = {
  "image()": call({ maxBytes: 10, maxPixels: 10 }, image),
  "audio()": call({ maxBytes: 10, maxSeconds: 1.5, decoders: {} }, audio),
  "file()": call({ maxBytes: 10, mediaTypes: ["audio/wav", "text/*"] }, file),
  "ndarray()": call({ ...float32(2) }, (spec) => ndarray(spec), "dtype"),
  "stack()": call({ pad: 0 }, (options) => stack([tensor(Float32Array.of(1))], options)),
  InputError: call({ field: "text", cause: 1 }, (options) => new InputError("refused", options)),
  "new ModelFile": call({ bytes: new Uint8Array(1), mediaType: "a/b" }, (content) => new ModelFile(content)),
  "pixels()": call(
    {
      width: 2,
      height: 2,
      fit: "cover",
      crop: { width: 1, height: 1 },
      channels: 3,
      filter: "lanczos",
      background: [0, 0, 255],
      order: "bgr",
      layout: "chw",
      signal: new AbortController().signal,
      normalize: { mean: 0.5, std: [1, 1, 1] },
    },
    (options) => picture.pixels(options),
    ...["fit", "filter", "order", "layout", "channels"],
  ),
  "pixels({ shortSide })": call({ shortSide: 2 }, (options) => picture.pixels(options)),
  "Image.fromPixels": call(
    { data: new Uint8Array(4), width: 2, height: 2, channels: 1, layout: "hwc" },
    (pixels) => Image.fromPixels(pixels),
    ...["channels", "layout"],
  ),
  "encoding of Image.fromPixels": call(
    { format: "jpeg", quality: 90 },
    (options) => Image.fromPixels({ data: new Uint8Array(1), width: 1, height: 1, channels: 1 }, options),
    "format",
  ),
  "samples()": call({ rate: 4000, channels: 1 }, (options) => sound.samples(options)),
  "Audio.fromSamples": call({ data: new Float32Array(2), rate: 8000, channels: 1 }, (data) => Audio.fromSamples(data)),
  "encoding of Audio.fromSamples": call(
    { encoding: "float32" },
    (options) => Audio.fromSamples({ data: new Float32Array(1), rate: 8000 }, options),
    "encoding",
  ),
  "defineModel()": call(
    {
      ...only(model),
      description: "",
      operators: ["ops.so"],
      assets: ["words.txt"],
      example: { text: "" },
      examples: [{ text: "" }],
      params: z.object({ threshold: z.number().default(1) }),
      setup: () => 1,
      teardown: () => {},
      demo: { output: field, predict: () => ({ outputs: [], demoOutputs: [] }) },
      batchSize: 1,
      maxQueueDelayMs: 1,
      latencyTargetMs: 1,
      device: "cpu",
      instances: 1,
      threads: 1,
      maxInputs: 1,
    },
    (declaration) => defineModel(declaration),
    ...["tensors.inputs.x.dtype", "device"],
  ),
};

async function faultOf({ call }: Call, options: object): Promise<string> {
  try {
    await call(options as never);
    return "";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Paths of all options, those of nested objects too. */
function pathsIn(value: object, prefix: readonly string[] = []): string[][] {
  return Object.entries(value).flatMap(([key, inner]) => {
    const path = [...prefix, key];
    return isPlain(inner) ? [path, ...pathsIn(inner, path)] : [path];
  });
}

function isPlain(value: unknown): value is object {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

/** A copy of the options, in which `change` has replaced the entry at the path. */
function changed(value: object, [key = "", ...rest]: readonly string[], change: Change): object {
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => {
      if (name !== key) return [name, inner];
      return rest.length === 0 ? change(name, inner) : [name, changed(Object(inner), rest, change)];
    }),
  );
}

type Change = (name: string, value: unknown) => [string, unknown];

/** Names that an author chooses. */
const isOwnName = (path: readonly string[]) => /^(tensors\.(inputs|outputs)|example)\.\w+$/.test(path.join("."));

const all = Object.entries(calls);

describe.each(all)("%s", (_, tested) => {
  test("takes all its options", async () => {
    expect(await faultOf(tested, tested.options)).toBe("");
  });

  const paths = pathsIn(tested.options).filter((path) => !isOwnName(path));
  test.each(paths.map((path) => [path.join("."), path] as const))("refuses a misspelled %s", async (name, path) => {
    const misspelled = changed(tested.options, path, (key, value) => [`${key}x`, value]);
    const fault = await faultOf(tested, misspelled);
    expect(fault).toContain(`${name}x`);
    expect(fault).toContain(`did you mean ${name}`);
  });

  const { enumerated = [] } = tested;
  test.each(enumerated)("refuses a misspelled value of %s", async (name) => {
    const misspelled = changed(tested.options, name.split("."), (key, value) => [key, `${value}x`]);
    const fault = await faultOf(tested, misspelled);
    expect(fault).toContain(name.split(".").at(-1) ?? "");
    expect(fault).toMatch(/did you mean|must be "auto"/);
  });
});

test.each([
  [{ filter: "lancoz" }, 'pixels(): filter is "lancoz"; did you mean "lanczos"? Give one of "nearest", "box", '],
  [{ fit: "crop" }, 'pixels(): fit is "crop"; give one of "fill", "cover", "contain"'],
  [{ background: [0, 0, 300] }, "pixels(): background.2 is 300; give 0 to 255"],
])("pixels(%j) names the right option", async (options, fault) => {
  const tested = { call: (wrong: never) => picture.pixels(wrong), options };
  expect(await faultOf(tested, options)).toStartWith(fault);
});

test("An option that is undefined has its default", () => {
  expect(z.decode(image({ maxBytes: undefined as never }), "data:image/png;base64,").limits.maxBytes).toBe(
    32 * 2 ** 20,
  );
});
