/** A prediction with an id or key of the client is created once, however often the client sends it. */
import { describe, expect, test } from "bun:test";
import { chosenId, idOfKey } from "../src/http/request-headers.ts";
import { type PredictionBody, problemOf } from "./helpers/client.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { storeWith, type TestServer } from "./helpers/server.ts";

const store = fixture(() => storeWith("lab"));
const dir = fixture(tempDir);
const server = fixture(() => store.serve("lab"));

interface Sent {
  readonly to?: TestServer;
  readonly headers?: Readonly<Record<string, string>>;
  readonly path?: string;
  readonly signal?: AbortSignal;
}

/** The two requests with which a client creates a prediction only once. */
const ways = {
  "PUT of an id": (name: string, inputs: unknown, sent: Sent = {}) => send("PUT", `/${name}`, inputs, sent),
  "Idempotency-Key": (name: string, inputs: unknown, { headers = {}, ...sent }: Sent = {}) =>
    send("POST", "", inputs, { ...sent, headers: { "Idempotency-Key": `"${name}"`, ...headers } }),
};

function send(method: string, rest: string, inputs: unknown, { to = server, headers, path, signal }: Sent) {
  return to.client.fetch((path ?? "/predictions") + rest, {
    method,
    headers: { "Content-Type": "application/json", ...headers },
    body: typeof inputs === "string" ? inputs : JSON.stringify(inputs),
    ...(signal && { signal }),
  });
}

const made = async (response: Promise<Response>) => (await (await response).json()) as PredictionBody;
const wait = { Prefer: "wait" };

describe.each(Object.entries(ways))("%s", (_, sendAs) => {
  const named = () => crypto.randomUUID();

  test("creates one prediction from a hundred concurrent requests", async () => {
    const name = named();
    const before = await server.client.metric('sconce_predictions_total{status="success"}');
    const all = await Promise.all(Array.from({ length: 100 }, () => made(sendAs(name, [{ x: 1 }], { headers: wait }))));
    expect(new Set(all.map((body) => JSON.stringify(body))).size).toBe(1);
    expect(all[0]).toMatchObject({ status: "success", outputs: [{ y: 3 }] });
    expect(await server.client.metric('sconce_predictions_total{status="success"}')).toBe(before + 1);
  });

  test("is answered with the current prediction if it is sent again", async () => {
    await using gate = hold();
    const inputs = [{ x: 2, before: gate.url("a") }];
    const name = named();
    const { prediction_id: id, status } = await made(sendAs(name, inputs));
    expect(status).toBe("pending");
    expect(await made(sendAs(name, inputs))).toMatchObject({
      prediction_id: id,
      status: expect.stringMatching(/ing$/),
    });
    gate.release("a");
    const ended = await server.client.end(id);
    expect(await made(sendAs(name, inputs))).toEqual(ended);
  });

  test("is refused if it is sent again with another body", async () => {
    const name = named();
    const { prediction_id: id } = await made(sendAs(name, [{ x: 1 }]));
    const other = await problemOf(await sendAs(name, [{ x: 2 }]));
    expect(other).toMatchObject({ status: 422, type: "urn:sconce:problem:prediction_differs" });
    expect((await server.client.end(id)).outputs).toMatchObject([{ y: 3 }]);
  });

  test("continues when its client leaves", async () => {
    await using gate = hold();
    const name = named();
    const leaving = new AbortController();
    const inputs = [{ x: 4, before: gate.url("a") }];
    const left = sendAs(name, inputs, { headers: wait, signal: leaving.signal }).catch(() => "left");
    await gate.arrived("a");
    leaving.abort();
    expect(await left).toBe("left");
    gate.release("a");
    expect(await made(sendAs(name, inputs, { headers: wait }))).toMatchObject({ status: "success" });
  });

  test("can be sent again with another body after it was refused", async () => {
    const name = named();
    expect((await sendAs(name, [{ x: "one" }])).status).toBe(422);
    expect(await made(sendAs(name, [{ x: 1 }], { headers: wait }))).toMatchObject({ status: "success" });
  });

  test("is answered even if the queue is full, if it was accepted before", async () => {
    await using full = await store.serve("lab", { maxQueuedItems: 1 });
    await using gate = hold();
    const inputs = [{ x: 1, before: gate.url("a") }];
    const name = named();
    const { prediction_id: id } = await made(sendAs(name, inputs, { to: full }));
    expect((await sendAs(named(), inputs, { to: full })).status).toBe(429);
    expect((await made(sendAs(name, inputs, { to: full }))).prediction_id).toBe(id);
  });

  test("is answered after a restart, ended or not", async () => {
    const config = { store: dir.join(`${named()}.sqlite`), drainTimeout: 0 };
    await using gate = hold();
    const [ended, open] = [named(), named()];
    const late = [{ x: 5, before: gate.url("a") }];
    const first = await store.serve("lab", config);
    const before = await made(sendAs(ended, [{ x: 1 }], { to: first, headers: wait }));
    const { prediction_id: id } = await made(sendAs(open, late, { to: first }));
    await first.stop();
    await using second = await store.serve("lab", config);
    expect(await made(sendAs(ended, [{ x: 1 }], { to: second }))).toEqual(before);
    expect((await sendAs(ended, [{ x: 2 }], { to: second })).status).toBe(422);
    expect((await sendAs(open, [{ x: 2 }], { to: second })).status).toBe(422);
    gate.release("a");
    const last = await made(sendAs(open, late, { to: second, headers: wait }));
    expect(last).toMatchObject({ prediction_id: id, outputs: [{ y: 11 }] });
  });

  test("distinguishes predictions from demo predictions", async () => {
    const name = named();
    await made(sendAs(name, [{ x: 1 }], { headers: wait }));
    const demo = await sendAs(name, [{ x: 1 }], { headers: wait, path: "/demo" });
    // A key is valid for one path, so the demo is new. An id belongs to one prediction, so the demo is refused.
    const hasPath = sendAs === ways["Idempotency-Key"];
    expect(demo.status).toBe(hasPath ? 200 : 422);
    expect((await demo.text()).includes("demo_outputs")).toBe(hasPath);
  });
});

test("PUT creates a prediction with the id in the path", async () => {
  const id = `a-_${crypto.randomUUID()}`;
  const response = await ways["PUT of an id"](id, [{ x: 1 }], { headers: wait });
  expect(response.headers.get("location")).toBe(`/predictions/${id}`);
  expect(await response.json()).toEqual(await server.client.read(id));
});

test.each(["short", "x".repeat(65), "with%20a%20blank%20in%20it", "not.of.these.letters"])(
  "PUT of the id %s is refused",
  async (id) => {
    const { detail } = await problemOf(await ways["PUT of an id"](id, [{ x: 1 }]));
    expect(detail).toContain("16 to 64 of A-Z, a-z, 0-9, _ and -");
  },
);

test("an id made from a key could also be chosen by a client, and is no option on a command line", () => {
  const ids = Array.from({ length: 500 }, (_, i) => idOfKey(`key-${i}-0123456789`, "/predictions"));
  expect(ids.filter((id) => !chosenId.test(id))).toEqual([]);
  expect(new Set(ids).size).toBe(500);
});

test.each(["short", "k".repeat(256), "k".repeat(8000)])("a key of invalid length is refused", async (key) => {
  expect(await problemOf(await ways["Idempotency-Key"](key, [{ x: 1 }]))).toMatchObject({ status: 400 });
});
