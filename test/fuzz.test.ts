/**
 * Readers of files and frames refuse damaged bytes with a coded error. A short form of `npm run fuzz`, and tests for
 * faults that it found.
 */
import { expect, test } from "bun:test";
import { fileURLToPath } from "node:url";
import { programText } from "../src/engine/program/program-graph.ts";
import { parseExactly } from "../src/engine/program/program-literals.ts";
import { programSchema } from "../src/engine/program/program-schema.ts";
import { WeightsFile } from "../src/engine/program/weights-file.ts";
import { targets } from "./fuzz/targets.ts";
import { failureOf } from "./helpers/failure.ts";
import { tempDir } from "./helpers/fixture.ts";
import { seeded } from "./helpers/loads.ts";

const INPUTS = 100;
const program = fileURLToPath(new URL("../src/cli/commands/init/template/model.pt2", import.meta.url));

test.each(Object.keys(targets))("damaged inputs of the target %s are read or refused", async (name) => {
  const target = await targets[name]?.();
  if (target === undefined) throw new Error(`there is no target ${name}`);
  const seed = Date.now() % 1_000_000;
  for (let at = 0; at < INPUTS; at++) {
    const input = target.make(seeded(seed * 1_000_003 + at));
    try {
      await target.read(input);
    } catch (error) {
      if (!target.isRefusal(error)) throw new Error(`input ${at} of --seed ${seed}`, { cause: error });
    }
  }
});

test("an exported program whose graph is no JSON is refused with the name of its file", async () => {
  await using dir = await tempDir();
  const bytes = Buffer.from(await Bun.file(program).bytes());
  bytes[bytes.indexOf('{"graph_module"')] = 0;
  await Bun.write(dir.join("cut.pt2"), bytes);
  const { code, message } = await failureOf(async () => new WeightsFile(dir.join("cut.pt2")).program());
  expect(code).toBe("weights_invalid");
  expect(message).toMatch(/^cut\.pt2 can't be run uncompiled: a part of it is not JSON/);
});

test('an input named like a member of every JavaScript object, such as "constructor", has no sizes', () => {
  const parsed = programSchema.parse(JSON.parse(new WeightsFile(program).programText ?? ""));
  for (const spec of parsed.graph_module.signature.input_specs) {
    if ("user_input" in spec) Object.assign(spec, { user_input: { arg: { as_tensor: { name: "constructor" } } } });
  }
  expect(() => programText(parsed)).toThrow("it does not say the sizes of its input constructor");
});

test("an exported program whose output tree is no JSON is refused", () => {
  for (const outSpec of ["TRAINING", '[1, {"type": "dict", "context": "[x", "children_spec": []}]']) {
    const parsed = programSchema.parse(parseExactly(new WeightsFile(program).programText ?? ""));
    for (const { signature } of parsed.graph_module.module_call_graph)
      Object.assign(signature ?? {}, { out_spec: outSpec });
    expect(() => programText(parsed)).toThrow("the tree of its outputs is not JSON");
  }
});
