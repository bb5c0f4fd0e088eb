/** The cell of a front names the running call of a hook. An input that blocked a front fails without another call. */
import { expect, test } from "bun:test";
import { HookCell } from "../src/server/flow/hook-cell.ts";
import { Hooks } from "../src/server/flow/hooks.ts";
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
  expect(seen.blocking).toBeUndefined();
  expect(hooks.call("postprocess", () => seen.blocking, place)).toEqual({ hook: "postprocess", ...place });
  expect(seen.blocking).toBeUndefined();
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
  expect(seen.blocking).toBeUndefined();
});

test("the cell names the only call whose promise has not settled", async () => {
  await using opened = await cells();
  const { seen, hooks } = opened;
  const [one, two] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const first = hooks.call("preprocess", () => one.promise, place);
  expect(seen.blocking).toEqual({ hook: "preprocess", ...place });
  const second = hooks.call("postprocess", () => two.promise, { ...place, index: 1 });
  expect(seen.blocking).toBeUndefined();
  one.resolve();
  await first;
  expect(seen.blocking).toEqual({ hook: "postprocess", ...place, index: 1 });
  two.resolve();
  await second;
  expect(seen.blocking).toBeUndefined();
});

test("after a block by an unknown call, calls run one by one", async () => {
  await using dir = await tempDir();
  const cell = HookCell.create(dir.join("cell"));
  const hooks = new Hooks({ cell, aloneMs: 600_000 });
  const [one, two] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const begun: number[] = [];
  const calls = [one, two].map(({ promise }, index) =>
    hooks.call(
      "preprocess",
      () => {
        begun.push(index);
        return promise;
      },
      { ...place, index },
    ),
  );
  await Bun.sleep(0);
  expect([begun, cell.blocking?.index]).toEqual([[0], 0]);
  one.resolve();
  await calls[0];
  await Bun.sleep(0);
  expect([begun, cell.blocking?.index]).toEqual([[0, 1], 1]);
  two.resolve();
  await Promise.all(calls);
});

test("the cell names the whole id of a prediction with an API key", async () => {
  await using opened = await cells();
  const { seen, hooks } = opened;
  const long = { predictionId: `${"a".repeat(64)}.123456`, index: 0 };
  expect(hooks.call("preprocess", () => seen.blocking, long)).toEqual({ hook: "preprocess", ...long });
});

test("an input that blocked a front fails without another call, and other inputs of its prediction run", () => {
  const hooks = new Hooks({ guilty: [{ hook: "preprocess", ...place }] });
  let calls = 0;
  const call = (index: number) => hooks.call("preprocess", () => (calls += 1), { ...place, index });
  expect(() => call(place.index)).toThrow("preprocess failed: it blocked its process");
  expect([call(0), calls]).toEqual([1, 1]);
});
