/** The cell of a front names the running call of a hook. An input that blocked a front fails without another call. */
import { expect, test } from "bun:test";
import { HookCell, Hooks } from "../src/pipeline/hooks.ts";
import { tempDir } from "./helpers/fixture.ts";

const place = { predictionId: "held-1", index: 70_000 };

async function cells() {
  const dir = await tempDir();
  const seen = HookCell.create(dir.join("cell"));
  const cell = new HookCell(dir.join("cell"));
  return { seen, hooks: new Hooks({ cell }), [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose]() };
}

test("the cell names a call while it runs, and no call afterwards", async () => {
  await using opened = await cells();
  const { seen, hooks } = opened;
  expect(seen.running).toBeUndefined();
  hooks.begin("postprocess", place);
  expect(seen.running).toEqual({ hook: "postprocess", ...place });
  hooks.end();
  expect(seen.running).toBeUndefined();
});

test("the cell names the whole id of a prediction with an API key", async () => {
  await using opened = await cells();
  const { seen, hooks } = opened;
  const long = { predictionId: `${"a".repeat(64)}.123456`, index: 0 };
  hooks.begin("preprocess", long);
  expect(seen.running).toEqual({ hook: "preprocess", ...long });
});

test("an input that blocked a front fails without another call, and other inputs of its prediction run", () => {
  const hooks = new Hooks({ guilty: [{ hook: "preprocess", ...place }] });
  expect(() => hooks.begin("preprocess", place)).toThrow("preprocess failed: it blocked its process");
  hooks.begin("preprocess", { ...place, index: 0 });
});
