/** A latency target as an option of `sconce serve`, and as a setting of the model. */
import { expect, test } from "bun:test";
import { cli, clientOf, startCli } from "../helpers/cli.ts";
import { tempDir } from "../helpers/fixture.ts";
import { modelText, writeModel } from "../helpers/model-text.ts";

/** Settings of a model whose network takes 20 steps for each input, so an item takes at least some milliseconds. */
const slow = {
  preprocess: "({ x }) => ({ x: tensor(Float32Array.of(x), []), steps: tensor(BigInt64Array.of(20n), []) })",
  batchSize: "4",
};

/** Builds a slow model with these settings into a new store. @returns the environment for `sconce serve` */
async function built(settings: Readonly<Record<string, string>> = {}) {
  const dir = await tempDir();
  const env = { SCONCE_HOME: dir.join("home") };
  const { code, stderr } = await cli(
    ["build", "--allow-random", await writeModel(dir, modelText({ ...slow, ...settings }))],
    { env },
  );
  if (code !== 0) throw new Error(stderr);
  return { env, [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose]() };
}

const serve = ["serve", "small", "--host", "127.0.0.1", "--port", "0"];

test("a target below the time of one item is refused at start, in one line with the two times and the fix", async () => {
  await using store = await built();
  const { code, stderr } = await cli([...serve, "--latency-target", "0.5", "--log-level", "error"], store);
  expect(code).toBe(1);
  const [, least, fix] =
    stderr.match(
      /^sconce: the latency target is 0\.5 ms, but one item alone takes ([\d.]+) ms here; set --latency-target to (\d+) or more, or use a faster device\n$/,
    ) ?? [];
  expect(Number(fix)).toBeGreaterThanOrEqual(Number(least));
});

test("the author's target applies unless the operator sets another, and does not affect builds", async () => {
  await using store = await built({ latencyTargetMs: "0.5" });
  const refused = await cli([...serve, "--log-level", "error"], store);
  expect(refused.stderr).toStartWith("sconce: the latency target is 0.5 ms, but");
  await using server = startCli([...serve, "--latency-target", "60000"], store);
  const client = await clientOf(server);
  expect(await client.predict(Array.from({ length: 9 }, (_, x) => ({ x })))).toMatchObject({
    status: "success",
    outputs: Array.from({ length: 9 }, (_, x) => ({ y: 2 * x + 1 })),
  });
});

test("an invalid target is refused", async () => {
  expect(await cli(["serve", "--latency-target", "0"])).toMatchObject({
    code: 2,
    stderr: 'sconce: --latency-target must be a number from 0.1 to 2147483647, not "0"\n',
  });
  await using dir = await tempDir();
  const { stderr } = await cli(["build", await writeModel(dir, modelText({ latencyTargetMs: "-1" }))]);
  expect(stderr).toContain("latencyTargetMs: must be at least 0.1");
});
