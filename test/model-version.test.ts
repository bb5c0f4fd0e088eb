/** A prediction names the build of the model that made it: in answers, headers, events, log lines and stores. */
import { beforeAll, describe, expect, test } from "bun:test";
import { ModelVersion } from "../src/package/model-version.ts";
import { ModelStore } from "../src/package/store/store.ts";
import type { EndedRecord } from "../src/predictions/record.ts";
import { SqliteStore } from "../src/predictions/sqlite/sqlite-store.ts";
import { clientOf } from "./helpers/cli.ts";
import type { PredictionBody } from "./helpers/client.ts";
import { eventsOf } from "./helpers/events.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { asText, endOf, keepAll, requestOf } from "./helpers/predictions.ts";
import { until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";
import { endIn, leftOf } from "./helpers/sqlite.ts";

let model: NonNullable<PredictionBody["model"]>;
let name: string;

const store = fixture(() => storeWith("lab"));
beforeAll(async () => {
  const { digest } = await new ModelStore(store.home).resolve("lab");
  model = { repository: "lab", tag: digest.slice(7, 19), digest };
  name = `lab:${model.tag}`;
});

test("answers, headers and events of every kind of prediction name the build", async () => {
  await using server = await store.serve("lab");
  const { client } = server;
  const wait = { Prefer: "wait" };
  const created = await client.post([{ x: 1 }, { x: 1, fail: "preprocess" }], wait);
  expect(created.headers.get("x-model")).toBe(name);
  const failed = (await created.json()) as PredictionBody;
  expect(failed).toMatchObject({ status: "failed", model });
  const path = `/predictions/${failed.prediction_id}`;
  const answers = await Promise.all([
    client.fetch(path),
    client.fetch(`${path}/cancel`, { method: "POST" }),
    client.put(crypto.randomUUID(), [{ x: 1 }]),
    client.demos.post([{ x: 1 }], wait),
  ]);
  for (const answer of answers) {
    if (answer instanceof Response) {
      expect(answer.headers.get("x-model")).toBe(name);
      expect(await answer.json()).toMatchObject({ model });
    } else expect(answer).toMatchObject({ status: "success", model });
  }
  const stream = await client.stream([{ x: 1 }]);
  expect(stream.headers.get("x-model")).toBe(name);
  const events = await Array.fromAsync(eventsOf(stream));
  for (const { event, data } of events) if (event !== "output") expect(data).toMatchObject({ model });
  expect(events.map(({ event }) => event)).toEqual(["start", "output", "completed"]);
});

test("answers of the Open Inference Protocol name the build in a header", async () => {
  await using server = await store.serve("lab");
  const inputs = [
    { name: "x", datatype: "FP64", shape: [1, 1], data: [1] },
    { name: "steps", datatype: "INT64", shape: [1, 1], data: [0] },
  ];
  const answer = await server.client.at("/v2/models/lab/infer").post({ inputs });
  expect({ status: answer.status, model: answer.headers.get("x-model") }).toEqual({ status: 200, model: name });
});

test("log lines about a prediction, and the access log, name the build", async () => {
  const options = ["--access-log", "--log-format", "json"];
  await using server = store.start(["lab", ...options]);
  const client = await clientOf(server);
  await client.predict([{ x: 1, fail: "preprocess" }], { "X-Request-Id": "the-request" });
  const lines = () => server.lines.filter((line) => line.includes('"request_id":"the-request"'));
  await until(
    () => lines().some((line) => line.includes("no such x")) && lines().some((line) => line.includes("POST")),
  );
  const models = lines().map((line) => (JSON.parse(line) as { readonly model?: string }).model);
  expect(new Set(models)).toEqual(new Set([`lab:latest@${model.tag}`, name]));
});

describe("a store on disk", () => {
  const models = [undefined, "lab@sha256:11", "lab@sha256:11", "lab@sha256:22", undefined].map((each = "") =>
    ModelVersion.of(each),
  );
  const records: EndedRecord[] = models.map((model, i) => endOf(`0AAAA-ended-${i}-long-id`, { model }));
  const open = (path: string) => SqliteStore.open({ path, retention: keepAll });
  const read = async (from: SqliteStore) => Promise.all(records.map(async ({ id }) => asText(await from.read(id))));

  test("keeps the build of each outcome", async () => {
    await using dir = await tempDir();
    const path = dir.join("predictions.db");
    const first = await open(path);
    await endIn(first, ...records);
    await first.close();
    const next = await open(path);
    expect(await read(next)).toEqual(records);
    await next.close();
  });

  test("has the build that accepted each unfinished request", async () => {
    await using dir = await tempDir();
    const path = dir.join("predictions.db");
    const first = await open(path);
    for (const [i, model] of models.entries()) await first.accept(requestOf(`a${i}`, { model }));
    await first.close();
    const next = await open(path);
    expect((await next.read("a1"))?.model).toBe(models[1]);
    const resumed = await leftOf(next);
    expect(resumed.map(({ model }) => model?.reference)).toEqual(models.map((each) => each?.reference));
    await next.close();
  });
});
