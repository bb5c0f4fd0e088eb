/** Runs a model's image as a container engine does: its layers on top of each other, and no other files. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { type BareRoot, bareRoot, bareRootObstacle, bareRootTest } from "../helpers/bare-root.ts";
import { cli, clientOf } from "../helpers/cli.ts";
import { fileUri } from "../helpers/data-uri.ts";
import { type TempDir, tempDir } from "../helpers/fixture.ts";
import { readImage, startOf, unpackImage } from "../helpers/image.ts";

const digits = join(import.meta.dir, "../../examples/digits");
let dir: TempDir;
let root: BareRoot;
let start: ReturnType<typeof startOf>;

beforeAll(async () => {
  if (bareRootObstacle !== undefined) return;
  dir = await tempDir();
  const env = { SCONCE_HOME: dir.join("store") };
  const images = dir.join("images");
  for (const command of [
    ["build", digits, "-t", "digits:v1"],
    ["image", "digits:v1", "-o", images],
  ]) {
    const { code, stderr, stdout } = await cli(command, { env, isSource: true });
    if (code !== 0) throw new Error(`${command.join(" ")} failed: ${stderr}`);
    if (command[0] === "image") expect(stdout).toBe(`oci:${images}:digits:v1\n`);
  }
  root = await bareRoot();
  const image = readImage(images, "digits:v1");
  start = startOf(image);
  await unpackImage(images, image, root.path);
});

afterAll(async () => {
  await root?.[Symbol.asyncDispose]();
  await dir?.[Symbol.asyncDispose]();
});

const bareTest = bareRootTest(test);
const run = (...args: string[]) => root.run([...start.command, ...args], start.options);

bareTest("a container serves its model as a user without rights, and ends with 0 when it is asked to", async () => {
  // The container shares the network of the machine, where the image's port may be in use, so the port is 0.
  const container = run("--host", "127.0.0.1", "--port", "0");
  const client = await clientOf(container);
  expect(await client.json("/")).toMatchObject({ name: "digits", batch_size: 64 });
  const input = { image: await fileUri(join(digits, "samples/3.png")) };
  expect(await client.predict([input, input])).toMatchObject({
    status: "success",
    outputs: [{ digit: 3 }, { digit: 3 }],
  });
  const page = await client.text("/docs");
  const [, style = ""] = /href="([^"]+\.css)"/.exec(page) ?? [];
  expect(await client.status(style)).toBe(200);
  container.kill("SIGTERM");
  expect(await container.exited).toBe(0);
});

bareTest(
  "a container listens on all addresses unless told otherwise, and can be asked for help and its version",
  async () => {
    const [help, version] = [run("--help"), run("--version")];
    expect([await help.exited, await version.exited]).toEqual([0, 0]);
    const text = Bun.stripANSI(await help.stdout);
    expect(text).toContain("--batch-size=<n>");
    expect(text).toMatch(/Address to listen on \(default: 0\.0\.0\.0\)/);
    expect(await version.stdout).toMatch(/^sconce \d/);
  },
);
