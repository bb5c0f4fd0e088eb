/** The cell of a front names the running call of a hook. An input that blocked a front fails without another call. */
import { expect, test } from "bun:test";
import { HookCell, Hooks } from "../src/pipeline/hooks.ts";
import { tempDir } from "./helpers/temp-dir.ts";

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
  expect(hooks.call("postprocess", () => seen.running, place)).toEqual({ hook: "postprocess", ...place });
  expect(seen.running).toBeUndefined();
  const thrown = new Error("thrown");
  const throws = () =>
    hooks.call(
      "preprocess",
      () => {
        throw thrown;
      },
      place,
    );
  expect(throws).toThrow(thrown);
  expect(seen.running).toBeUndefined();
});

test("the cell names the whole id of a prediction with an API key", async () => {
  await using opened = await cells();
  const { seen, hooks } = opened;
  const long = { predictionId: `${"a".repeat(64)}.123456`, index: 0 };
  expect(hooks.call("preprocess", () => seen.running, long)).toEqual({ hook: "preprocess", ...long });
});

test("an input that blocked a front fails without another call, and other inputs of its prediction run", () => {
  const hooks = new Hooks({ guilty: [{ hook: "preprocess", ...place }] });
  let calls = 0;
  const call = (index: number) => hooks.call("preprocess", () => (calls += 1), { ...place, index });
  expect(() => call(place.index)).toThrow("preprocess failed: it blocked its process");
  expect([call(0), calls]).toEqual([1, 1]);
});
