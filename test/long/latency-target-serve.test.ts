/** A latency target as an option of `sconce serve`, and as a setting of the model. */
import { expect, test } from "bun:test";
import { clientOf } from "../helpers/cli.ts";
import { cliHere } from "../helpers/command-here.ts";
import { tempDir } from "../helpers/fixture.ts";
import { modelText, writeModel } from "../helpers/model-text.ts";
import { storeWith } from "../helpers/server.ts";

/** Settings of a model whose network takes 20 steps for each input, so an item takes at least some milliseconds. */
const slow = {
  preprocess: "({ x }) => ({ x: tensor(Float32Array.of(x), []), steps: tensor(BigInt64Array.of(20n), []) })",
  batchSize: "4",
};

/** A store with a slow model with these settings. */
async function built(settings: Readonly<Record<string, string>> = {}) {
  await using dir = await tempDir();
  return await storeWith(await writeModel(dir, modelText({ ...slow, ...settings })));
}

const serve = ["serve", "small", "--host", "127.0.0.1", "--port", "0"];

test("a target below the time of one item is refused at start, in one line with the two times and the fix", async () => {
  await using store = await built();
  const { code, stderr } = await store.cli([...serve, "--latency-target", "0.5", "--log-level", "error"]);
  expect(code).toBe(1);
  const [, least, fix] =
    stderr.match(
      /^sconce: the latency target is 0\.5 ms, but one item alone takes ([\d.]+) ms here; set --latency-target to (\d+) or more, or use a faster device\n$/,
    ) ?? [];
  expect(Number(fix)).toBeGreaterThanOrEqual(Number(least));
});

test("the author's target applies unless the operator sets another, and does not affect builds", async () => {
  await using store = await built({ latencyTargetMs: "0.5" });
  const refused = await store.cli([...serve, "--log-level", "error"]);
  expect(refused.stderr).toStartWith("sconce: the latency target is 0.5 ms, but");
  await using server = store.start(["small", "--latency-target", "60000"]);
  const client = await clientOf(server);
  expect(await client.predict(Array.from({ length: 9 }, (_, x) => ({ x })))).toMatchObject({
    status: "success",
    outputs: Array.from({ length: 9 }, (_, x) => ({ y: 2 * x + 1 })),
  });
});

test("an invalid target is refused", async () => {
  expect(await cliHere(["serve", "--latency-target", "0"])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--latency-target must be a number from 0.1 "),
  });
  await using dir = await tempDir();
  const { stderr } = await cliHere(["build", await writeModel(dir, modelText({ latencyTargetMs: "-1" }))]);
  expect(stderr).toContain("latencyTargetMs: must be at least 0.1");
});
