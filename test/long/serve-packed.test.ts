/** `sconce serve` reports how many layers of a model have weights that are arranged for the processor. */
import { expect, test } from "bun:test";
import { storeWith } from "../helpers/server.ts";
import { fixtures } from "../helpers/weights.ts";

test("`serve` reports how many layers are packed", async () => {
  const options = ["--log-level", "info", "--threads", "1", "--device", "cpu"];
  const path = (await fixtures()).path("layers/exported.pt2");
  await using store = await storeWith();
  await using server = store.start([path, ...options]);
  expect(await server.line("Running on")).toContain(", 8 layers packed, max batch size");
});
