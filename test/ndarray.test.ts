/** Tensor fields: lists of numbers and bytes become the same tensors, and every fault has its position. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { elements } from "../src/author/elements.ts";
import { arrayTypes, type TensorSpec } from "../src/author/tensor.ts";
import { wireSchema } from "../src/author/wire-schema.ts";
import * as sconce from "../src/index.ts";
import { type DType, ndarray, pad, tensor, z } from "../src/index.ts";
import { dataUri as dataUriOf } from "./helpers/data-uri.ts";
import { npy } from "./helpers/npy.ts";
import { bytesOf } from "./helpers/tensors.ts";

const { float32, float64, int64, uint8, bool, bfloat16, float16 } = sconce;
const dtypes = Object.keys(arrayTypes) as DType[];

const whole = (bits: number, isSigned = true) =>
  isSigned
    ? fc.integer({ min: -(2 ** (bits - 1)), max: 2 ** (bits - 1) - 1 })
    : fc.integer({ min: 0, max: 2 ** bits - 1 });
/** For each dtype, numbers that JSON and the dtype represent exactly. */
const exact: Readonly<Record<DType, fc.Arbitrary<number | boolean>>> = {
  float32: fc.float({ noNaN: true, noDefaultInfinity: true }),
  float64: fc.double({ noNaN: true, noDefaultInfinity: true }),
  float16: fc.integer({ min: -2048, max: 2048 }),
  bfloat16: fc.integer({ min: -128, max: 127 }).map((x) => x / 16),
  int8: whole(8),
  int16: whole(16),
  int32: whole(32),
  int64: fc.maxSafeInteger(),
  uint8: whole(8, false),
  bool: fc.boolean(),
};

const dataUri = (bytes: Uint8Array, parameters = "") => dataUriOf(bytes, `application/octet-stream${parameters}`);
/** So many bytes of 0. */
const zeros = (count: number, parameters = "") => dataUri(new Uint8Array(count), parameters);

/** The faults of a value as texts "POSITION: MESSAGE". */
function faultsOf(spec: TensorSpec, value: unknown) {
  const { error } = z.object({ x: ndarray(spec) }).safeParse({ x: value });
  return error?.issues.map(({ path, message }) => `${path.join("/")}: ${message}`);
}

describe.each(dtypes)("an array of %s", (dtype) => {
  const field = ndarray({ dtype, dims: [2, "n"] });
  const lists = fc
    .integer({ min: 1, max: 5 })
    .chain((n) => fc.array(fc.array(exact[dtype], { minLength: n, maxLength: n }), { minLength: 2, maxLength: 2 }));

  test("is unchanged after it was decoded and encoded as lists", () => {
    fc.assert(
      fc.property(lists, (given) => {
        const decoded = z.decode(field, given);
        expect(decoded).toMatchObject({ dtype, shape: [2, given[0]?.length] });
        // JSON has no negative zero, so the given value passes through JSON, too.
        expect(JSON.parse(JSON.stringify(z.encode(field, decoded)))).toEqual(JSON.parse(JSON.stringify(given)));
      }),
    );
  });

  test("gives the same tensor from bytes and lists", () => {
    fc.assert(
      fc.property(lists, (given) => {
        const decoded = z.decode(field, given);
        expect(z.decode(field, dataUri(bytesOf(decoded.data)))).toEqual(decoded);
        expect(z.decode(field, dataUri(bytesOf(decoded.data), `;shape=2x${given[0]?.length}`))).toEqual(decoded);
      }),
    );
  });
});

describe("a field accepts", () => {
  test("a NumPy file as bytes, of its own dtype or of another one that holds the same numbers", () => {
    const big = BigInt64Array.of(2n ** 60n, -1n);
    expect(z.decode(ndarray(int64("n")), dataUri(npy({ descr: "'<i8'", shape: "(2,)", data: bytesOf(big) })))).toEqual(
      tensor(big, [2]),
    );
    const [doubles, floats] = [Float64Array.of(1, -2.5, 0, 4), Float32Array.of(1, -2.5, 0, 4)];
    expect(
      z.decode(ndarray(float32(2, "n")), dataUri(npy({ descr: "'<f8'", shape: "(2, 2)", data: bytesOf(doubles) }))),
    ).toEqual(tensor(floats, [2, 2]));
  });

  test("bytes at any offset in memory", () => {
    const bytes = new Uint8Array(Float64Array.of(1, Math.PI).buffer);
    expect([...z.decode(ndarray(float64(2)), dataUri(bytes)).data]).toEqual([1, Math.PI]);
  });

  test("a single number if it has no dimensions", () => {
    expect(z.decode(ndarray(float32()), 1.5)).toEqual(tensor.float32(1.5));
  });

  test("empty lists, which are returned unchanged", () => {
    for (const given of [
      [[], []],
      [[[]], [[]]],
    ]) {
      const dims = given[0]?.length === 0 ? ["a", "b"] : ["a", "b", "c"];
      expect(z.encode(ndarray(float32(...dims)), z.decode(ndarray(float32(...dims)), given))).toEqual(given);
    }
  });

  test("empty bytes, with their own sizes, even if declared sizes are large", () => {
    const [free, fixed] = [float32("a", "b"), float32("a", 3000, 3000)];
    expect(z.decode(ndarray(free), zeros(0, ";shape=0x768")).shape).toEqual([0, 768]);
    expect(z.decode(ndarray(fixed), zeros(0, ";shape=0x3000x3000")).shape).toEqual([0, 3000, 3000]);
  });

  test("padded dimensions of any size", () => {
    expect(z.decode(ndarray(int64(pad("tokens", 0))), [1, 2, 3])).toMatchObject({ shape: [3] });
  });

  test("floats rounded to the nearest value of the dtype", () => {
    const [half, brain] = [z.decode(ndarray(float16(1)), [0.1]), z.decode(ndarray(bfloat16(1)), [0.1])];
    expect([half.data[0], brain.data[0]]).toEqual([0x2e66, 0x3dcd]);
  });
});

describe("a field refuses", () => {
  test.each([
    ["another type", float32(2), { a: 1 }, "x: expected a list of 2, received an object"],
    ["what is no list, where any length is free", float32("n"), null, "x: expected a list, received null"],
    ["what is no list beside lists", float32(2, "n"), [5, [1]], "x/0: expected a list, received a number"],
    ["nothing", float32(2), undefined, "x: expected a list of 2, received nothing"],
    ["another length", float32(2), [1], "x: expected a list of 2, received one of 1"],
    [
      "every element that is no number",
      float32(4),
      [1, "2", null, 4],
      [
        "x/1: expected a number that float32 can hold, received a string",
        "x/2: expected a number that float32 can hold, received null",
      ],
    ],
    ["a number beyond the dtype", float32(1), [1e39], "x/0: expected a number that float32 can hold, received 1e+39"],
    ["a fraction of a whole number", uint8(2), [1, 1.5], "x/1: expected a whole number from 0 to 255, received 1.5"],
    ["numbers for truths", bool(1), [1], "x/0: expected true or false, received 1"],
    ["lists of several lengths", float32(2, "n"), [[1, 2], [3]], "x/1: expected a list of 2, received one of 1"],
    ["a list too deep", float32(1), [[1]], "x/0: expected a number that float32 can hold, received a list"],
    ["too few bytes", float32(2), zeros(4), "x: 4 bytes do not fit float32(2), which has 8 bytes"],
    ["twice the bytes", float32(3, 2), zeros(48), "x: 48 bytes do not fit float32(3, 2), which has 24 bytes"],
    ["bytes of no dtype", int64(2), zeros(5), "x: 5 bytes do not fit int64(2), which has 16 bytes"],
    ["bytes that are no multiple of a row", float32("n", 3), zeros(16), "expected a multiple of 12 bytes"],
    [
      "a NumPy file of another shape",
      float32(2, 2),
      dataUri(npy({ descr: "'<f4'", shape: "(4,)", data: new Uint8Array(16) })),
      "of the shape (4)",
    ],
    [
      "a NumPy file with a fraction of a whole number",
      int64(2),
      dataUri(npy({ descr: "'<f8'", shape: "(2,)", data: bytesOf(Float64Array.of(1, 1.5)) })),
      `x: element 1 of the NumPy array is 1.5, but int64 needs ${elements.int64.expected}`,
    ],
    ["bytes whose sizes cannot be told", uint8("a", "b"), zeros(6), "say the sizes with ;shape=2x3 before ;base64"],
    ["bytes of other sizes than those stated", float32(2, 3), zeros(24, ";shape=3x2"), "24 bytes with the sizes 3x2"],
    ["sizes that no byte stands for", float32("a", pad("b", 0)), zeros(0, ";shape=0x60000000"), "sizes 0x60000000 are"],
    ["such sizes that are large together", float32("a", "b", "c"), zeros(0, ";shape=2000x2000x0"), "are too large for"],
    ["truths that are neither", bool(2), dataUri(Uint8Array.of(1, 2)), "x: byte 1 is 2, but bool has only 0 and 1"],
    ["another text", float32(2), "https://example.com/x", "x: expected lists of numbers for float32(2), or data:"],
  ] as const)("%s", (_, spec, value, faults) => {
    const wanted = [faults].flat().map((fault) => expect.stringContaining(fault));
    expect<unknown>(faultsOf(spec, value)).toEqual(wanted);
  });

  test("truncated base64, with the reason", () => {
    expect(faultsOf(float32(1), "data:;base64,AAAAA")?.[0]).toContain("its base64 is cut off");
  });

  test("many wrong elements, and reports the first thousand faults", () => {
    expect(faultsOf(float32(5000), Array(5000).fill("1"))?.length).toBe(1000);
  });

  test("lists whose first list promises more elements than exist, before it allocates memory", () => {
    const huge = [Array(1e6).fill(1), ...Array(1e5).fill([])];
    expect(faultsOf(float32("a", "b"), huge)?.[0]).toBe("x/1: expected a list of 1000000, received one of 0");
  });

  test.each([
    ["NaN", float32(2), Float32Array.of(1, Number.NaN), "x/1"],
    ["a whole number that a double would round", int64(1), BigInt64Array.of(2n ** 53n), "x/0"],
  ] as const)("%s as an output for a client", (_, spec, data, place) => {
    const given = { x: tensor<DType>(data, [data.length], spec.dtype) };
    const { error } = z.safeEncode(z.object({ x: ndarray<DType>(spec) }), given);
    expect(error?.issues[0]?.path.join("/")).toBe(place);
  });

  test("a tensor of another dtype or shape as an output", () => {
    const given = tensor(new Float32Array(3));
    const { error } = z.safeEncode(ndarray(float32(2)), given);
    expect(error?.issues[0]?.message).toBe("Expected a tensor float32(2); make one with tensor(data, shape)");
  });
});

test("the JSON Schema describes the forms as lists and as bytes", () => {
  const { anyOf } = wireSchema(ndarray(float32(2, "n")), "input") as { anyOf: readonly object[] };
  expect(anyOf).toEqual([
    { type: "array", minItems: 2, maxItems: 2, items: { type: "array", items: { type: "number" } } },
    expect.objectContaining({ type: "string", pattern: "^data:" }),
  ]);
});
