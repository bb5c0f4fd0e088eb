/** Predictions go on while other inputs fail, hang or are large. */
import { expect, test } from "bun:test";
import { fileUri } from "./helpers/data-uri.ts";
import { fixture } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { nextTurn } from "./helpers/loop-turns.ts";
import { modelFolder, storeWith } from "./helpers/server.ts";

const store = fixture(() => storeWith("lab", "stage", "picture"));

test("a prediction ends even if more of its inputs fail than are prepared in advance", async () => {
  await using server = await store.serve("lab");
  const body = await server.client.predict(Array.from({ length: 60 }, () => ({ x: 1, steps: -1 })));
  expect(body.status).toBe("failed");
  expect(body.errors?.length).toBe(60);
});

test("inputs without files overtake any number of predictions whose files hang", async () => {
  await using server = await store.serve("picture", { maxFetches: 2, allowPrivateUrls: true });
  await using gate = hold();
  for (const i of [1, 2, 3, 4]) await server.client.create([{ image: gate.url(`${i}`) }, { image: gate.url(`${i}`) }]);
  await gate.arrived("1");
  const image = await fileUri(`${modelFolder("picture")}/white.png`);
  expect((await server.client.predict([{ image }])).status).toBe("success");
});

test("the number of concurrent fetches is limited across all predictions", async () => {
  await using server = await store.serve("picture", { maxFetches: 3, allowPrivateUrls: true });
  const png = await Bun.file(`${import.meta.dir}/models/picture/white.png`).bytes();
  let [now, most] = [0, 0];
  const files = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch() {
      now += 1;
      most = Math.max(most, now);
      // Waits one turn of the event loop, in which more requests could arrive.
      await nextTurn();
      now -= 1;
      return new Response(png);
    },
  });
  const predictions = await Promise.all(
    [1, 2, 3, 4].map(() => server.client.predict(Array.from({ length: 10 }, () => ({ image: files.url.href })))),
  );
  await files.stop(true);
  expect(predictions.map(({ status }) => status)).toEqual(["success", "success", "success", "success"]);
  expect(most).toBeLessThanOrEqual(3);
});

test("canceling a demo before it awaits its predictions leaves the server running", async () => {
  await using server = await store.serve("stage");
  await using gate = hold();
  const { demos } = server.client;
  const { prediction_id: id } = await demos.create([{ x: 1, fail: "late", before: gate.url("a") }]);
  await gate.arrived("a");
  await demos.cancel(id);
  gate.release("a");
  expect((await server.client.predict([{ x: 1 }])).status).toBe("success");
});

test("a demo that has ended sends no more inputs to the model", async () => {
  await using server = await store.serve("stage");
  await using gate = hold();
  const { demos } = server.client;
  const { prediction_id: id } = await demos.create(Array.from({ length: 3 }, (_, x) => ({ x, before: gate.url("a") })));
  await gate.arrived("a");
  await demos.cancel(id);
  gate.release("a");
  expect((await server.client.predict([{ x: 4 }])).status).toBe("success");
  expect(await server.client.metric("sconce_batch_size_sum")).toBe(1);
});

test("outputs above the byte limit of a prediction fail the prediction", async () => {
  await using server = await store.serve("lab", { maxResultBytes: 100 });
  const body = await server.client.predict(Array.from({ length: 20 }, (_, x) => ({ x })));
  expect(body.status).toBe("failed");
  expect(body.error_message).toBe(
    "The outputs have more than 100 bytes (the limit of one prediction); send fewer inputs in one request",
  );
  expect((await server.client.predict([{ x: 1 }])).status).toBe("success");
});

test("if a single input has too large an output, the error does not suggest fewer inputs", async () => {
  await using server = await store.serve("lab", { maxResultBytes: 4 });
  const { error_message } = await server.client.predict([{ x: 1 }]);
  expect(error_message).toBe("The output has more than 4 bytes (the limit of one prediction)");
});
