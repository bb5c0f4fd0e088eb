/** The setting `share` of an API key: how many `preprocess` calls of a prediction run at once on an idle server. */
import { expect, test } from "bun:test";
import { makeKey } from "../src/http/access/key-file.ts";
import { hold } from "./helpers/hold.ts";
import { storeWith } from "./helpers/server.ts";
import { tempDir } from "./helpers/temp-dir.ts";

/** Maximum number of pending `preprocess` calls of a prediction from a key with share 1. */
const PENDING = 32;

test("preprocess runs for as many more inputs of the prediction at a time as the share says", async () => {
  await using gate = hold();
  await using dir = await tempDir();
  const { secret, entry } = makeKey({ name: "large", share: 3 });
  await Bun.write(dir.join("keys.toml"), entry);
  await using store = await storeWith("lab");
  await using server = await store.serve("lab", { apiKeys: dir.join("keys.toml"), allowPrivateUrls: true });
  const headers = { "X-API-Key": secret };
  const names = Array.from({ length: 4 * PENDING }, (_, i) => String(i));
  const inputs = names.map((name, i) => ({ x: i, before: gate.url(name) }));
  const { prediction_id: id } = await server.client.create(inputs, headers);
  // No call ends before its gate is released, so all these calls are pending at the same time.
  await Promise.all(names.slice(0, 3 * PENDING).map((name) => gate.arrived(name)));
  for (const name of names) gate.release(name);
  expect(await server.client.read(id, { Prefer: "wait", ...headers })).toMatchObject({ status: "success" });
}, 20_000);
