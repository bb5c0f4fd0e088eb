/** `maxReadyBytes` limits the bytes of tensors that are prepared before their batches. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { Image } from "../../src/author/media.ts";
import { fixture } from "../helpers/fixture.ts";
import { storeWith, type TestServer } from "../helpers/server.ts";

/** Inputs of the tests differ in shape, so batches do not fill up, and with this delay prepared tensors wait. */
const config = { maxReadyBytes: 20_000, maxQueueDelay: 600_000 };

const store = fixture(() => storeWith("shapes", join(import.meta.dir, "../../examples/upscale")));

/** Sends three predictions of 40 inputs each. @returns the largest number of prepared items and of their bytes */
async function mostReady(
  server: TestServer,
  inputOf: (i: number) => unknown,
): Promise<{ items: number; bytes: number }> {
  const lists = await Promise.all(
    [0, 1, 2].map((k) => Promise.all(Array.from({ length: 40 }, (_, i) => inputOf(k * 40 + i)))),
  );
  const predictions = await Promise.all(lists.map((inputs) => server.client.create(inputs)));
  const read = async () => ({
    items: await server.client.metric("sconce_ready_items"),
    bytes: await server.client.metric("sconce_ready_bytes"),
  });
  let most = await read();
  for (let same = 0; same < 30; ) {
    const now = await read();
    same = most.items > 0 && now.bytes === most.bytes ? same + 1 : 0;
    // Items and bytes are read one after another, so of readings with equal bytes the later is right.
    if (now.bytes >= most.bytes) most = now;
  }
  for (const { prediction_id: id } of predictions) await server.client.cancel(id);
  expect(await read()).toEqual({ items: 0, bytes: 0 });
  return most;
}

test("inputs are prepared up to the byte limit, and one more", async () => {
  await using server = await store.serve("shapes", config);
  const { items, bytes } = await mostReady(server, (i) => {
    const vector = Array(1000 + i).fill(1);
    return { matrix: [vector], vector, mask: [1] };
  });
  expect(items).toBe(3);
  expect(bytes).toBeLessThan(20_000 + 9000);
  const vector = [1, 2];
  const same = Array(8).fill({ matrix: [vector], vector, mask: [0] });
  expect((await server.client.predict(same)).status).toBe("success");
});

test("pictures, which are decoded in parallel, are prepared up to the byte limit, too", async () => {
  await using server = await store.serve("upscale", config);
  const inputOf = async (i: number) => {
    const [width, height] = [50, 40 + i];
    const data = new Uint8Array(width * height * 3);
    return { image: (await Image.fromPixels({ data, width, height, channels: 3 })).toDataUri() };
  };
  // From these inputs the server learns how many bytes the tensors of an input have.
  await mostReady(server, inputOf);
  const { items, bytes } = await mostReady(server, inputOf);
  expect(items).toBeGreaterThan(0);
  expect(bytes).toBeLessThan(20_000 + 2 * 24_000);
  const same = Array(4).fill(await inputOf(0));
  expect((await server.client.predict(same)).status).toBe("success");
});
