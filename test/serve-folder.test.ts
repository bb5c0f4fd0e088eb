/**
 * `serve /FOLDER` for a model store. plain-models.test.ts has folders with a model.ts or weights, which are packaged
 * first.
 */
import { expect, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { cli, clientOf, startCli } from "./helpers/cli.ts";
import { fixture } from "./helpers/fixture.ts";
import { storeWith } from "./helpers/server.ts";
import { tempDir } from "./helpers/temp-dir.ts";

const options = ["--port", "0", "--host", "127.0.0.1"];

const one = fixture(() => storeWith("lab"));
const two = fixture(() => storeWith("lab", "picture"));
const home = fixture(tempDir);

const env = () => ({ SCONCE_HOME: home.path });

test("the only model of a store is served in place, also in the child processes of the server", async () => {
  const before = (await readdir(one.home, { recursive: true })).sort();
  await using server = startCli(["serve", one.home, "--fronts", "2", ...options], { env: env() });
  const client = await clientOf(server);
  expect(await client.predict([{ x: 1 }])).toMatchObject({ outputs: [{ y: 3 }] });
  expect(await (await client.fetch("/v2/models/lab/ready")).json()).toEqual({ ready: true });
  expect(await readdir(home.path)).not.toContain("blobs");
  const after = (await readdir(one.home, { recursive: true })).sort();
  expect(after.filter((path) => path !== ".verified" && path !== ".lock")).toEqual(
    before.filter((path) => path !== ".verified" && path !== ".lock"),
  );
});

test("a store with several models is refused, with their names and the way to choose one", async () => {
  expect(await cli(["serve", two.home, ...options], { env: env() })).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(
      `the store has 2 models; name one with SCONCE_HOME=${two.home} (models: lab, picture)`,
    ),
  });
});

test("a folder without a model is refused, with what it should contain", async () => {
  await using empty = await tempDir();
  expect(await cli(["serve", empty.path, ...options], { env: env() })).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(`expected a model store, model.ts or one file of weights (.pt2, .pt) in`),
  });
});
