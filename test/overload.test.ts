/** An overloaded server refuses requests that would wait too long. */
import { expect, test } from "bun:test";
import { problemOf } from "./helpers/client.ts";
import { fixture } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { storeWith } from "./helpers/server.ts";

const store = fixture(() => storeWith("lab"));

test("a request that would wait longer than its client is refused, and may come again after Retry-After", async () => {
  await using gate = hold();
  // An input has tensors of 12 bytes, so at most two inputs are in `preprocess` at once.
  await using server = await store.serve("lab", { maxReadyBytes: 20 });
  const { client } = server;
  const polled = [];
  for (let x = 0; x < 8; x++) polled.push(await client.create([{ x, before: gate.url("a") }]));
  // The expected wait grows with the time in which no input begins.
  const ask = () => client.post([{ x: 1 }], { Prefer: "wait=1" });
  let response = await ask();
  while (response.status !== 429) response = await ask();
  expect(Number(response.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  expect(await problemOf(response)).toMatchObject({ status: 429, type: "urn:sconce:problem:queue_full" });
  expect(await client.metric('sconce_requests_rejected_total{code="429",cause="time"}')).toBe(1);
  const last = client.predict([{ x: 3 }]);
  gate.release("a");
  expect((await last).status).toBe("success");
  for (const { prediction_id: id } of polled) expect((await client.end(id)).status).toBe("success");
});
