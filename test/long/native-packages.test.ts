/** AOTInductor packages of every dtype and form of inputs and outputs, compared with PyTorch. */
import { expect, test } from "bun:test";
import { inputsOfSource } from "../../src/cli/build/plain/package-source.ts";
import { Archive } from "../../src/machine/files/archive.ts";
import { cliHere } from "../helpers/command-here.ts";
import { failure } from "../helpers/failure.ts";
import { fixture, tempDir } from "../helpers/fixture.ts";
import { sessions } from "../helpers/sessions.ts";
import { packages } from "../helpers/weights.ts";

const dir = fixture(tempDir);
const made = fixture(packages, 600_000);
const open = sessions();

test.each(["aotinductor int64 several dict", "aotinductor uint8 one tensor"])(
  "%s has PyTorch's values, in one batch and alone",
  async (name) => {
    const fixture = made.get(name);
    const opened = await open(fixture);
    const together = await opened.run(fixture.items);
    expect<unknown>(together).toEqual(fixture.expected);
    for (const i of [0, 17, 63]) {
      const alone = await opened.run([fixture.items[i] ?? []]);
      for (const [j, { data }] of alone.entries()) {
        expect<unknown>(data).toEqual(together[j]?.data.slice(i * data.length, (i + 1) * data.length));
      }
    }
  },
);

test("the outputs of a package are matched by name", async () => {
  const fixture = made.get("aotinductor int64 several dict");
  const outputs = Object.fromEntries(Object.entries(fixture.outputs).reverse());
  const opened = await open({ ...fixture, outputs });
  const results = await opened.run(fixture.items);
  expect<unknown>(results).toEqual(fixture.expected.toReversed());
});

test("an error names a compiled package's inputs and outputs if they differ from the declared ones", async () => {
  const several = made.get("aotinductor int64 several dict");
  const { left, right, gain } = several.inputs;
  const { first, second } = several.outputs;
  if (!left || !right || !gain || !first || !second) throw new Error("three inputs and two outputs");
  expect(await failure(open({ ...several, inputs: { left, middle: right, gain } }))).toBe(
    "weights_invalid: the package takes 0 inputs by order and (gain, right, left) by name, the model declares the inputs (left, middle, gain): rename one of them",
  );
  expect(await failure(open({ ...several, inputs: { left, right } }))).toBe(
    "weights_invalid: the package takes 0 inputs by order and (gain, right, left) by name, the model declares the inputs (left, right)",
  );
  expect(await failure(open({ ...several, outputs: { first, last: second } }))).toContain(
    'weights_invalid: output "last" is missing: the weights give (second, first)',
  );
  expect(await failure(open({ ...several, outputs: { first } }))).toContain(
    "weights_invalid: the weights give 2 outputs, the model declares 1 (first)",
  );
});

test("a package describes its inputs and outputs: names, dtypes and sizes", async () => {
  const { path } = made.get("aotinductor int64 several dict");
  const env = { SCONCE_HOME: dir.join("home"), SCONCE_CACHE_DIR: dir.join("cache") };
  const { stdout } = await cliHere(["build", path, "-t", "several"], { env });
  expect(stdout).toMatch(/^several:[0-9a-f]{12}\n$/);
  const fields = ["gain=100", "right=[1, 2, 3, 4]", "left=[[1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]]"];
  expect(JSON.parse((await cliHere(["predict", "several", ...fields], { env })).stdout)).toEqual({
    second: [2, 4, 6],
    first: [
      [102, 104, 106, 108],
      [103, 106, 109, 112],
      [104, 108, 112, 116],
    ],
  });
});

test("a package has free sizes with bounds, and equal sizes share a name", () => {
  const source = Archive.open(made.path("enlarged-compiled.pt2"))?.text(/\.wrapper\.cpp$/) ?? "";
  const free = (name: string) => ({ name, min: 1, max: 16384 });
  const pixels = inputsOfSource(source, [])?.[0];
  expect(pixels).toMatchObject({
    name: "input0",
    dtype: "uint8",
    sizes: [{}, free("input0_1"), free("input0_2"), 3],
  });
});
