/** `sconce serve` reports how many layers of a model have weights that are arranged for the processor. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { startCli } from "../helpers/cli.ts";
import { type TempDir, tempDir } from "../helpers/temp-dir.ts";
import { fixtures } from "../helpers/weights.ts";

let dir: TempDir;

beforeAll(async () => {
  dir = await tempDir();
});

afterAll(() => dir[Symbol.asyncDispose]());

test.each([
  { flags: [], told: ", 8 layers packed, max batch size" },
  { flags: ["--no-pack-layers"], told: "thread, max batch size" },
])("`serve` reports how many layers are packed, none with --no-pack-layers ($flags)", async ({ flags, told }) => {
  const options = ["--port", "0", "--host", "127.0.0.1", "--log-level", "info", "--threads", "1", "--device", "cpu"];
  const path = (await fixtures()).path("layers/exported.pt2");
  await using server = startCli(["serve", path, ...options, ...flags], { env: { SCONCE_HOME: dir.path } });
  expect(await server.line("Running on")).toContain(told);
});
