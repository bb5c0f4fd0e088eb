/**
 * Wrong tensors and weights give a coded error that names the fault, and after a failed batch the session can still be
 * used.
 */
import { describe, expect, test } from "bun:test";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { float32, type Tensor } from "../src/author/tensor.ts";
import type { SessionOptions } from "../src/engine/native/binding.ts";
import { run } from "./helpers/child-output.ts";
import { failure } from "./helpers/failure.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { sessions } from "./helpers/sessions.ts";
import { ones } from "./helpers/tensors.ts";
import { fixtures } from "./helpers/weights.ts";

const made = fixture(fixtures, 600_000);
const dir = fixture(tempDir);
const open = sessions();

const session = (file: string, options: Partial<SessionOptions> = {}) =>
  open({ path: made.path(file), inputs: { x: float32(4) }, outputs: { y: float32(4) }, ...options });

describe("items", () => {
  const undeclared = /^tensor_invalid: item [01], input "x": not the declared float32\(.*\)$/;
  const miscounted = /^tensor_invalid: item [01] has [02] tensors, the model declares 1 \(x\)$/;
  const other = (given: object): Tensor[][] => [[{ ...ones(4), ...given } as Tensor]];
  const cases: [string, Tensor[][], RegExp, SessionOptions["inputs"]?][] = [
    ["no item at all", [], /^tensor_invalid: a batch needs at least one item$/],
    ["too few tensors", [[ones(4)], []], miscounted],
    ["too many tensors", [[ones(4), ones(4)]], miscounted],
    ["another size", [[ones(4)], [ones(5)]], undeclared],
    ["another rank", [[ones(4, 1)]], undeclared],
    ["another dtype", other({ dtype: "int64", data: new BigInt64Array(4) }), undeclared],
    ["data of another type than its dtype", other({ data: new Float64Array(4) }), undeclared],
    ["fewer elements than its shape", other({ data: new Float32Array(3) }), undeclared],
    ["a negative size", other({ shape: [-1] }), undeclared, { x: float32("n") }],
    ["a shape beyond all memory", other({ shape: [2 ** 40, 2 ** 40] }), undeclared, { x: float32("a", "b") }],
    ["sizes that differ within a batch", [[ones(3, 8)], [ones(3, 9)]], undeclared, { x: float32(3, "height") }],
    ["one name with two sizes", [[ones(2, 3)]], undeclared, { x: float32("n", "n") }],
  ];
  test.each(cases)("%s is refused, and the next batch runs", async (_, batch, message, inputs = { x: float32(4) }) => {
    const opened = await session("identity.pt", { inputs, outputs: { y: float32("a", "b") } });
    expect(await failure(opened.run(batch))).toMatch(message);
    const plain = await session("identity.pt");
    expect((await plain.run([[ones(4)]]))[0]?.shape).toEqual([1, 4]);
  });

  test("a detached ArrayBuffer is refused", async () => {
    const opened = await session("identity.pt");
    const tensor = ones(4);
    structuredClone(tensor.data.buffer, { transfer: [tensor.data.buffer as ArrayBuffer] });
    expect(await failure(opened.run([[tensor]]))).toMatch(undeclared);
  });

  test("a padding value outside the dtype's range is refused when the session opens", async () => {
    const inputs = { x: { dtype: "uint8", dims: [{ name: "n", value: -1 }] } } as const;
    expect(await failure(session("identity.pt", { inputs }))).toBe(
      'tensor_invalid: input "x": uint8 cannot hold -1, the padding of "n"',
    );
  });
});

describe("weights whose results do not match the declaration", () => {
  const cases: [string, string, Partial<SessionOptions>, string][] = [
    [
      "another size",
      "identity.pt",
      { outputs: { scores: float32(10) } },
      '"scores": float32(10) was declared, the wei',
    ],
    ["another rank", "identity.pt", { outputs: { y: float32() } }, '"y": float32() was declared, the weights gave flo'],
    ["another dtype", "double.pt", {}, 'output "y": float32(4) was declared, the weights gave float64(4)'],
    ["one number for all", "total.pt", {}, 'output "y": the weights gave one number for the whole batch; its first '],
    ["too few rows", "firstrow.pt", {}, 'output "y": the weights gave 1 row for a batch of 2'],
    ["too few outputs", "identity.pt", { outputs: { y: float32(4), z: float32(4) } }, "1 output, the model declares 2"],
    ["too many outputs", "twice.pt", {}, "the weights give 2 outputs, the model declares 1 (y)"],
    ["other names", "namedresults.pt", { outputs: { low: float32(4), top: float32(4) } }, 'output "top" is missing: '],
    ["a name more", "namedresults.pt", { outputs: { low: float32(4) } }, 'output "high" is not declared: the weights'],
    ["a number", "number.pt", {}, "forward gave Int; expected a tensor, or a tuple, list or dict of tensors"],
    ["a tuple in a tuple", "nested.pt", { outputs: { a: float32(4), b: float32(4) } }, '"b": the weights gave Tuple, '],
  ];
  for (const [what, file, options, message] of cases) {
    test(`${what}: the error names it`, async () => {
      const opened = await session(file, options);
      expect(await failure(opened.run([[ones(4)], [ones(4)]]))).toContain(message);
    });
  }

  test("a dict without a declared key is refused", async () => {
    const fixture = made.get("torchscript float32 one dict");
    const { first, second } = fixture.outputs;
    if (first === undefined || second === undefined) throw new Error("two outputs");
    const opened = await session("", { ...fixture, outputs: { first, last: second } });
    expect(await failure(opened.run(fixture.items))).toStartWith('weights_invalid: output "last" ');
  });
});

describe("weights that cannot be opened", () => {
  const expected =
    "expected an exported program (torch.export.save), an AOTInductor package (aoti_compile_and_package) or a TorchScript file";

  test("a file that is not a zip file, is empty, truncated, inconsistent, or missing", async () => {
    const text = dir.join("text.pt");
    await writeFile(text, "these are not weights\n".repeat(1000));
    const broken = `the file is not a zip archive that PyTorch wrote, or it is cut off; ${expected}`;
    expect(await failure(session("", { path: text }))).toBe(`weights_invalid: weights "text.pt": ${broken}`);
    const empty = dir.join("empty.pt");
    await writeFile(empty, "");
    expect(await failure(session("", { path: empty }))).toBe(`weights_invalid: weights "empty.pt": ${broken}`);
    const cut = dir.join("cut.pt");
    const whole = await readFile(made.path("network.pt"));
    await writeFile(cut, whole.subarray(0, whole.length / 2));
    expect(await failure(session("", { path: cut }))).toBe(`weights_invalid: weights "cut.pt": ${broken}`);
    const lying = dir.join("lying.pt2");
    const program = await readFile(made.path("exported.pt2"));
    const entry = program.lastIndexOf("PK\x01\x02", program.lastIndexOf("models/model.json"), "latin1");
    for (const place of [20, 24]) program.writeUInt32LE(program.length, entry + place);
    await writeFile(lying, program);
    expect(await failure(session("", { path: lying }))).toBe(`weights_invalid: weights "lying.pt2": ${broken}`);
    expect(await failure(session("absent.pt"))).toBe('weights_invalid: weights "absent.pt": there is no such file');
    expect(await failure(session("", { path: dir.path }))).toContain("there is no such file");
  });

  test("an error names forward's arguments if they differ from the declared inputs", async () => {
    expect(await failure(session("identity.pt", { inputs: { pixels: float32(4) } }))).toBe(
      "weights_invalid: forward takes (x), the model declares the inputs (pixels): rename one of them",
    );
    const { path, inputs, outputs } = made.get("torchscript float32 several tensor");
    const { left, right } = inputs;
    if (left === undefined || right === undefined) throw new Error("three inputs");
    expect(await failure(session("", { path, outputs, inputs: { left, right } }))).toBe(
      "weights_invalid: forward takes (left, right, gain), the model declares the inputs (left, right): declare gain too, or give it a default value",
    );
    expect(await failure(session("count.pt", { inputs: { x: float32(4), times: float32() } }))).toBe(
      "weights_invalid: forward's argument times is int, an input is a Tensor",
    );
  });

  test("a compiled package refuses a shape or dtype that it was not compiled for", async () => {
    const one = made.get("aotinductor float32 one tuple");
    const shorter = await session("", { ...one, inputs: { x: float32(3, 2) } });
    expect(await failure(shorter.run([[ones(3, 2)], [ones(3, 2)]]))).toMatch(
      /^run_failed: input "x" .*: unmatched dim value at 2/,
    );
    const bytes = await session("", { ...one, inputs: { x: { dtype: "uint8", dims: [3, 4] } } });
    const item: Tensor[] = [{ dtype: "uint8", shape: [3, 4], data: new Uint8Array(12) }];
    expect(await failure(bytes.run([item, item]))).toMatch(/^run_failed: input "x" .*: unmatched dtype/);
  });
});

describe("the forward pass", () => {
  test("an error of the module is reported in one line", async () => {
    const opened = await session("raises.pt");
    expect(await failure(opened.run([[ones(4)]]))).toBe("run_failed: this item is not wanted");
    const zeros: Tensor = { ...ones(4), data: new Float32Array(4) };
    expect((await opened.run([[zeros]]))[0]?.shape).toEqual([1, 4]);
  });

  test("an error of libtorch is reported in one line", async () => {
    const opened = await session("mismatch.pt");
    // Since torch 2.15 the message names the operator.
    expect(await failure(opened.run([[ones(4)]]))).toMatch(
      /^run_failed: (mm: )?mat1 and mat2 shapes cannot be multiplied \(1x4 and 5x2\)$/,
    );
  });

  test("an error of libtorch in a method that forward calls is reported, although freezing has deleted the method", async () => {
    const script = `
      import { openSession } from "./src/engine/native/binding.ts";
      const tensor = { dtype: "float32", dims: ["width", "height"] };
      const session = await openSession({
        path: ${JSON.stringify(made.path("torchscript-float32-one-tensor.pt"))},
        device: "cpu",
        threads: 1,
        inputs: { x: tensor },
        outputs: { y: tensor },
      });
      const wide = { dtype: "float32", shape: [3, 5], data: new Float32Array(15) };
      console.log(await session.run([[wide]]).catch(({ code, message }) => code + ": " + message));`;
    // glibc overwrites memory as soon as it is freed, which shows reads of freed memory.
    const env = { ...process.env, GLIBC_TUNABLES: "glibc.malloc.tcache_count=0:glibc.malloc.perturb=165" };
    const ended = await run([process.execPath, "-e", script], { cwd: join(import.meta.dir, ".."), env });
    expect(ended).toMatchObject({ code: 0, signal: null });
    expect(ended.stdout).toStartWith("run_failed: The size of tensor a (5) must match");
  });

  test("missing memory has its own error code", async () => {
    const opened = await session("greedy.pt");
    expect(await failure(opened.run([[ones(4)]]))).toStartWith("out_of_memory: ");
    const huge = await session("identity.pt", {
      inputs: { x: float32({ name: "a", value: 0 }, { name: "b", value: 0 }) },
    });
    // The batch would be padded to the larger size in both dimensions: petabytes.
    const batch = [[{ ...ones(0), shape: [2 ** 25, 0] }], [{ ...ones(0), shape: [0, 2 ** 25] }]];
    expect(await failure(huge.run(batch))).toStartWith("out_of_memory: ");
  });

  test("an author's text about memory is no lack of memory", async () => {
    const opened = await session("memory.pt");
    const raised = await failure(opened.run([[ones(4)]]));
    expect(raised).toBe("run_failed: the list is out of memory, not enough memory, std::bad_alloc");
    const program = await session("asserts.pt2");
    expect(await failure(program.run([[ones(4)]]))).toStartWith("run_failed: [enforce fail at alloc_cpu.cpp:127]");
    const zeros: Tensor = { ...ones(4), data: new Float32Array(4) };
    expect((await program.run([[zeros]]))[0]?.shape).toEqual([1, 4]);
  });
});

test.each(["tpu", "cuda", "cuda:99"])("a missing device is refused: %s", async (device) => {
  expect(await failure(session("identity.pt", { device }))).toBe(`device_unavailable: there is no device ${device}`);
});

test("importing the binding loads no addon, and a missing addon is reported with a fix", async () => {
  const script = `
    import { readFileSync } from "node:fs";
    import { openSession } from "./src/engine/native/binding.ts";
    import { setNativeLocation } from "./src/machine/libtorch/native-location.ts";
    if (readFileSync("/proc/self/maps", "utf8").includes("libtorch")) throw new Error("libtorch is loaded already");
    setNativeLocation({ path: "/absent/sconce.node", fix: "run it again" });
    const options = { path: "", device: "cpu", threads: 1, inputs: {}, outputs: {} };
    await openSession(options).catch((error) => console.log(error.code + ": " + error.message));`;
  const { code, stdout } = await run([process.execPath, "-e", script], { cwd: join(import.meta.dir, "..") });
  expect(stdout).toMatch(
    /^native_unavailable: the native addon cannot be loaded \(\/absent\/sconce\.node: .*\): run it again\n$/,
  );
  expect(code).toBe(0);
});
