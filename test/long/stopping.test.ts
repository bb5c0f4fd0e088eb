/** A server that stops: running batches end, and clients get their last results. */
import { expect, test } from "bun:test";
import { clientOf } from "../helpers/cli.ts";
import { fixture } from "../helpers/fixture.ts";
import { hold } from "../helpers/hold.ts";
import { until } from "../helpers/running.ts";
import { storeWith } from "../helpers/server.ts";

const store = fixture(() => storeWith("lab"));

test("a stopping server waits for the end of a running batch", async () => {
  await using server = store.start(["lab"]);
  const client = await clientOf(server);
  let isOver = false;
  const waiting = client.predict([{ x: 1, steps: 800 }]).finally(() => {
    isOver = true;
  });
  await until(async () => isOver || (await client.metric("sconce_predictions_active")) !== 0);
  server.kill("SIGTERM");
  expect((await waiting).status).toBe("success");
  expect(await server.exited).toBe(0);
});

test("a stopping server answers requests for the last results, and ends once each result was read", async () => {
  await using gate = hold();
  await using server = store.start(["lab"]);
  const client = await clientOf(server);
  const created = await Promise.all([1, 2].map((x) => client.create([{ x, before: gate.url("a") }])));
  const [first = "", second = ""] = created.map(({ prediction_id: id }) => id);
  await gate.arrived("a");
  server.kill("SIGTERM");
  await until(async () => (await client.fetch("/health/ready")).status === 503);
  gate.release("a");
  expect((await client.until(first, ({ status }) => status === "success")).outputs).toMatchObject([{ y: 3 }]);
  expect((await client.post([{ x: 1 }])).headers.get("connection")).toBe("close");
  expect((await client.until(second, ({ status }) => status === "success")).outputs).toMatchObject([{ y: 5 }]);
  expect(await server.exited).toBe(0);
});
