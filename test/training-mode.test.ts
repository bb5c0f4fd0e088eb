/** Every command refuses an exported program in training mode, and prints the Python that fixes it. */
import { expect, test } from "bun:test";
import { copyFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { runnableWeights } from "../src/cli/build/plain/plain-model.ts";
import { mistakes } from "./helpers/exports.ts";
import { failure } from "./helpers/failure.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { storeWith } from "./helpers/server.ts";

const programs = await mistakes();
const dir = fixture(tempDir);
const store = fixture(() => storeWith());

const mend = "call model.eval() before torch.export.export(model, …)";

test.each([
  ["dropout", "dropout"],
  ["rates", "dropout"],
  ["branch", "dropout"],
  ["attention", "dropout of attention"],
  ["recurrent", "dropout of a recurrent layer"],
  ["norm", "batch normalization"],
  ["norm-decomposed", "batch normalization"],
  ["dropout-decomposed", "dropout"],
  ["attention-decomposed", "dropout"],
  ["instance", "instance normalization"],
  ["rrelu", "RReLU"],
  ["rrelu-decomposed", "RReLU"],
])("%s is found: %s", async (file, layer) => {
  const path = join(programs, `training-${file}.pt2`);
  expect(await failure(runnableWeights(path))).toContain(` (${layer}): `);
});

test("programs in evaluation mode are accepted", async () => {
  const files = (await readdir(programs)).filter((file) => file.startsWith("evaluated-"));
  expect(files).toHaveLength(10);
  for (const file of files) expect(await runnableWeights(join(programs, file))).toBe(join(programs, file));
});

test("build, build --aot and check refuse a program in training mode in the same words", async () => {
  const file = join(programs, "training-dropout.pt2");
  const text = modelText({
    tensors: "{ inputs: { input: float32(4, 4) }, outputs: { output0: float32(4, 4) } }",
    preprocess: "({ x }) => ({ input: tensor(new Float32Array(16).fill(x), [4, 4]) })",
    postprocess: "({ output0 }) => ({ y: output0.data[0] })",
    weights: '"net.pt2"',
  });
  const folder = await writeModel(dir, text, "net");
  await copyFile(file, join(folder, "net.pt2"));
  const refused = `was exported in training mode (dropout): ${mend}, and in forward F.dropout(x, training=self.training)`;
  const ways = [
    ["build", folder],
    ["build", folder, "--aot"],
    ["build", folder, "--allow-random"],
    ["build", file],
  ];
  for (const way of ways) {
    const { code, stderr } = await store.cliHere(way);
    expect({ way, code, stderr }).toEqual({ way, code: 1, stderr: expect.stringContaining(refused) });
  }
  const { code, stdout } = await store.cliHere(["check", folder, "--json"]);
  expect({ code, findings: JSON.parse(stdout).findings }).toEqual({
    code: 1,
    findings: [
      {
        mistake: "training mode",
        message: expect.stringContaining(refused),
        python: expect.stringContaining("torch.export.export(net.eval(), example"),
        effect: "refused",
      },
    ],
  });
});
