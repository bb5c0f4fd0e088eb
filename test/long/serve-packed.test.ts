/** `sconce serve` reports how many layers of a model have weights that are arranged for the processor. */
import { expect, test } from "bun:test";
import { startCli } from "../helpers/cli.ts";
import { fixture, tempDir } from "../helpers/fixture.ts";
import { fixtures } from "../helpers/weights.ts";

const dir = fixture(tempDir);

test("`serve` reports how many layers are packed", async () => {
  const options = ["--port", "0", "--host", "127.0.0.1", "--log-level", "info", "--threads", "1", "--device", "cpu"];
  const path = (await fixtures()).path("layers/exported.pt2");
  await using server = startCli(["serve", path, ...options], { env: { SCONCE_HOME: dir.path } });
  expect(await server.line("Running on")).toContain(", 8 layers packed, max batch size");
});
