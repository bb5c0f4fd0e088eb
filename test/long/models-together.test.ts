/** Several models in one server, together with API keys, queues, webhooks, MCP and lists of models. */
import { expect, test } from "bun:test";
import { makeKey } from "../../src/cli/commands/key.ts";
import { clientOf } from "../helpers/cli.ts";
import { fixture, tempDir } from "../helpers/fixture.ts";
import { hold } from "../helpers/hold.ts";
import { mcpClient } from "../helpers/mcp.ts";
import { modelText, writeModel } from "../helpers/model-text.ts";
import { receiver, secret } from "../helpers/receiver.ts";
import { hasRedis, startRedis } from "../helpers/redis.ts";
import { until } from "../helpers/running.ts";
import { storeWith } from "../helpers/server.ts";

const dir = fixture(tempDir);
const store = fixture(async () => {
  const postprocess = "({ y }) => ({ y: 10 * y.data[0] })";
  const text = modelText({ name: '"ten"', postprocess });
  return storeWith("lab", await writeModel(dir, text, "ten"));
});

test("an API key is valid for all models, and reads only its own predictions", async () => {
  const [one, two, reader] = [
    makeKey({ name: "one" }),
    makeKey({ name: "two" }),
    makeKey({ name: "reader", only: ["read"] }),
  ];
  const file = dir.join("keys.toml");
  await Bun.write(file, [one, two, reader].map(({ entry }) => entry).join("\n"));
  await using server = store.start(["lab", "ten", "--api-keys", file]);
  const client = await clientOf(server);
  const by = (key: typeof one) => ({ Authorization: `Bearer ${key.secret}` });
  const made = await client.predictAt("/models/ten", [{ x: 1 }], by(one));
  expect(made.outputs).toEqual([{ y: 30 }]);
  const path = `/models/ten/predictions/${made.prediction_id}`;
  expect((await client.fetch(path, { headers: by(one) })).status).toBe(200);
  expect((await client.fetch(path, { headers: by(two) })).status).toBe(404);
  expect((await client.at("/models/lab/predictions").post([{ x: 1 }], by(two))).status).toBe(200);
  const unload = { method: "POST", headers: by(reader) };
  expect((await client.fetch("/v2/repository/models/ten/unload", unload)).status).toBe(403);
  expect((await client.fetch("/models", { headers: by(reader) })).status).toBe(200);
});

test("MCP has a tool for each model, at the model's path; a webhook names the build of each model", async () => {
  await using hooks = receiver();
  await using server = store.start(["lab", "ten", "--webhook-secret", secret, "--allow-private-urls"]);
  const client = await clientOf(server);
  await using mcp = await mcpClient(client.url, "modern", "/models/ten/mcp");
  const { tools } = await mcp.client.listTools();
  expect(tools.map(({ name }) => name)).toEqual(["ten"]);
  expect(await mcp.client.callTool({ name: "ten", arguments: { x: 2 } })).toMatchObject({
    structuredContent: { y: 50 },
  });
  const made = [];
  for (const name of ["lab", "ten"])
    made.push(await client.predictAt(`/models/${name}`, [{ x: 1 }], { "Webhook-URL": hooks.url() }));
  const received = await hooks.until(2);
  const sent = received
    .map(({ data }) => data)
    .toSorted((a, b) => (String(a.prediction_id) < String(b.prediction_id) ? -1 : 1));
  const expected = made.toSorted((a, b) => (a.prediction_id < b.prediction_id ? -1 : 1));
  expect(sent).toMatchObject(expected.map(({ prediction_id, model }) => ({ prediction_id, model })));
  expect(new Set(sent.map(({ model }) => JSON.stringify(model))).size).toBe(2);
});

test.skipIf(!hasRedis)(
  `with --queue, the replicas that have a model take its work${hasRedis ? "" : ": no redis-server here"}`,
  async () => {
    await using redis = await startRedis();
    const queue = ["--queue", redis.url];
    await using front = store.start(["lab", "ten", ...queue, "--role", "front"]);
    await using worker = store.start(["ten", ...queue, "--role", "worker"]);
    const client = await clientOf(front);
    await worker.line("Listening on");
    expect((await client.predictAt("/models/ten", [{ x: 1 }])).outputs).toEqual([{ y: 30 }]);
    const waiting = await client.predictAt("/models/lab", [{ x: 1 }], { Prefer: "wait=0" });
    expect(waiting.status).toBe("pending");
    await using both = store.start(["ten", "lab", ...queue, "--role", "worker"]);
    await both.line("Listening on");
    const end = await client.fetch(`/models/lab/predictions/${waiting.prediction_id}`, { headers: { Prefer: "wait" } });
    expect(await end.json()).toMatchObject({ outputs: [{ y: 3 }], model: { repository: "lab" } });
  },
);

test.skipIf(!hasRedis)(
  `with --queue, a replica loads a model when its predictions wait, and unloads it when it is idle${hasRedis ? "" : ": no redis-server here"}`,
  async () => {
    await using redis = await startRedis();
    await using server = store.start(["lab", "ten", "--queue", redis.url, "--keep-alive", "0.2"]);
    const client = await clientOf(server);
    const state = async () => {
      const { models } = (await client.json("/models")) as { models: { state: string }[] };
      return models.map((model) => model.state);
    };
    expect(await state()).toEqual(["unloaded", "unloaded"]);
    for (let x = 0; x < 2; x++) {
      expect((await client.predictAt("/models/ten", [{ x }])).outputs).toEqual([{ y: 10 * (2 * x + 1) }]);
      await until(async () => String(await state()) === "unloaded,unloaded");
    }
  },
);

test.skipIf(!hasRedis)(
  `with --queue, a stopping replica loads no model for predictions that wait${hasRedis ? "" : ": no redis-server here"}`,
  async () => {
    await using redis = await startRedis();
    await using gate = hold();
    const queue = ["--queue", redis.url, "--allow-private-urls"];
    await using front = store.start(["lab", "ten", ...queue, "--role", "front"]);
    await using stopping = store.start(["lab", "ten", ...queue, "--keep-alive", "60"]);
    const [client, stopped] = [await clientOf(front), await clientOf(stopping)];
    const held = await client.predictAt("/models/lab", [{ x: 1, before: gate.url("a") }], { Prefer: "wait=0" });
    await gate.arrived("a");
    stopping.kill("SIGTERM");
    await until(async () => (await stopped.status("/health/ready")) === 503);
    // The metric shows a new figure after each read of the queue, and a read is an occasion to load the model.
    for (let waiting = 1; waiting <= 2; waiting++) {
      await client.predictAt("/models/ten", [{ x: 1 }], { Prefer: "wait=0" });
      await until(async () => (await stopped.metric('sconce_queue_items{model="ten"}')) === waiting);
    }
    expect(await stopped.json("/models")).toMatchObject({
      models: [{ state: "ready" }, { state: "unloaded" }],
    });
    gate.release("a");
    expect(await stopping.exited).toBe(0);
    const end = await client.fetch(`/models/lab/predictions/${held.prediction_id}`);
    expect(await end.json()).toMatchObject({ outputs: [{ y: 3 }] });
  },
);

test("two models with one name of a queue are refused", async () => {
  await using server = store.start(["lab", "ten", "--queue", "redis://127.0.0.1:1", "--queue-name", "both"]);
  expect(await server.exited).toBe(2);
  expect(server.lines.at(-1)).toContain("lab and ten have the queue both");
});

test("--store must name a folder for several models, and a file for one", async () => {
  await using own = await tempDir();
  await Bun.write(own.join("file"), "");
  const refused = async (...args: string[]) => {
    await using server = store.start([...args]);
    expect(await server.exited).toBe(2);
    return server.lines.join("\n");
  };
  expect(await refused("lab", "ten", "--store", own.join("file"))).toContain(
    "file is a file; with several models, name a folder",
  );
  expect(await refused("lab", "--store", own.path)).toContain(
    `is a folder; with one model, name a file: ${own.join("lab.sqlite")}`,
  );
});
