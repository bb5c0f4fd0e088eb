/**
 * API keys of a server: requests without a key, results that a key may read, limits of a key, changes of the file of
 * keys.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { appendFileSync, rmSync, writeFileSync } from "node:fs";
import { ApiKeys, keyNumbers } from "../src/http/access/api-keys.ts";
import { makeKey, type NewKey, parseKeys } from "../src/http/access/key-file.ts";
import { cli } from "./helpers/cli.ts";
import { Client, problemOf } from "./helpers/client.ts";
import { fixture } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";
import { tempDir } from "./helpers/temp-dir.ts";

let path: string;
const secrets = new Map<string, string>();

function add(key: NewKey): string {
  const { secret, entry } = makeKey(key);
  appendFileSync(path, `${entry}\n`);
  return secret;
}

const store = fixture(() => storeWith("lab"));
const dir = fixture(tempDir);
const server = fixture(() => {
  path = dir.join("keys.toml");
  for (const key of [
    { name: "one" },
    { name: "two" },
    { name: "reader", only: ["read"] },
    { name: "slow", rate: "2/h" },
    { name: "narrow", concurrent: 1 },
  ] as const)
    secrets.set(key.name, add(key));
  return store.serve("lab", { apiKeys: path, allowPrivateUrls: true });
});

class KeyClient extends Client {
  readonly #secret: string;

  constructor(name: string) {
    super(server.url);
    this.#secret = secrets.get(name) ?? name;
  }

  override fetch(to: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    headers.set("Authorization", `Bearer ${this.#secret}`);
    return super.fetch(to, { ...init, headers });
  }
}

describe("requests without a key", () => {
  test("get 401 with a challenge", async () => {
    const response = await server.client.fetch("/");
    expect(response.headers.get("www-authenticate")).toBe('Bearer realm="sconce"');
    expect(await problemOf(response)).toMatchObject({ status: 401, type: "urn:sconce:problem:key_required" });
  });

  test.each(["application/json, text/html;q=0.5", "text/html;q=0, */*", "text/htmlx"])(
    "get 401 at / if they accept %s, which gets the description from a server without keys",
    async (accept) => {
      expect((await server.client.fetch("/", { headers: { Accept: accept } })).status).toBe(401);
    },
  );

  test.each(["/.well-known/oauth-protected-resource", "/.well-known/security.txt"])("get 404 at %s", async (at) => {
    expect((await server.client.fetch(at)).status).toBe(404);
  });

  test.each(["/health/live", "/health/ready", "/favicon.ico"])("get an answer at %s", async (at) => {
    expect((await server.client.fetch(at)).status).toBe(200);
  });

  test.each(["/demo", "/docs"])("get the page at %s, without the model's name", async (at) => {
    const response = await server.client.fetch(at, { headers: { Accept: "text/html" } });
    expect(response.status).toBe(200);
    expect(await response.text()).not.toContain("lab");
  });
});

test("an unknown key gets 401, which says that the key is unknown", async () => {
  const response = await new KeyClient("sconce_unknown").fetch("/");
  expect(response.headers.get("www-authenticate")).toBe('Bearer realm="sconce", error="invalid_token"');
  expect(await problemOf(response)).toMatchObject({ status: 401, type: "urn:sconce:problem:key_unknown" });
});

test("a key is taken as a bearer token and as X-API-Key", async () => {
  expect((await new KeyClient("one").predict([{ x: 1 }])).outputs).toMatchObject([{ y: 3 }]);
  const headers = { "X-API-Key": secrets.get("one") ?? "" };
  expect((await server.client.predict([{ x: 2 }], headers)).outputs).toMatchObject([{ y: 5 }]);
});

test("the OpenAPI document declares the key, and the answers to requests without one", async () => {
  const document: unknown = await (await new KeyClient("one").fetch("/openapi.json")).json();
  expect(document).toMatchObject({
    security: [{ apiKey: [] }],
    components: { securitySchemes: { apiKey: { type: "http", scheme: "bearer" } } },
    paths: {
      "/predictions": { post: { responses: { 401: expect.anything() } } },
      "/health/live": { get: { security: [] } },
    },
  });
});

test("an id that a client chooses is stored with a suffix of its key, and found without it", async () => {
  const one = new KeyClient("one");
  const { prediction_id: id, outputs } = await one.put("order-0000000000001", [{ x: 1 }]);
  expect(id).toStartWith("order-0000000000001.");
  expect((await one.read("order-0000000000001")).outputs).toEqual(outputs);
  expect((await one.read(id)).outputs).toEqual(outputs);
});

test("a key may do what its field `only` permits, and gets 403 for the rest", async () => {
  const reader = new KeyClient("reader");
  expect((await reader.fetch("/")).status).toBe(200);
  expect(await reader.refused([{ x: 1 }])).toMatchObject({ status: 403, type: "urn:sconce:problem:key_refused" });
  expect(await problemOf(await reader.fetch("/metrics"))).toMatchObject({ status: 403 });
  expect((await new KeyClient("one").fetch("/metrics")).status).toBe(200);
});

test("above its rate a key gets 429, with the seconds until the next window", async () => {
  const slow = new KeyClient("slow");
  await slow.predict([{ x: 1 }]);
  await slow.predict([{ x: 1 }]);
  const response = await slow.post([{ x: 1 }]);
  const seconds = Number(response.headers.get("retry-after"));
  expect([seconds >= 1, seconds <= 3600]).toEqual([true, true]);
  expect(await problemOf(response)).toMatchObject({
    status: 429,
    type: "urn:sconce:problem:key_limit",
    detail: expect.stringContaining("slow"),
  });
  expect(await slow.metric('sconce_requests_rejected_total{code="429",cause="key_limit"}')).toBe(1);
  // The other APIs refuse it, too, each with its own error body.
  const refusedAt = async (path: string, init: RequestInit) =>
    (await slow.fetch(path, { method: "POST", ...init })).text();
  expect(await refusedAt("/v2/models/lab/infer", { body: "{}" })).toContain("its limit");
  expect(await refusedAt("/mcp", mcp("tools/call", { name: "lab", arguments: { x: 1 } }))).toContain('"code":-32000');
});

test("a key has at most as many unfinished predictions as its limit", async () => {
  await using gate = hold();
  const narrow = new KeyClient("narrow");
  const { prediction_id: id } = await narrow.create([{ x: 1, before: gate.url("a") }]);
  expect(await narrow.refused([{ x: 2 }])).toMatchObject({ status: 429, type: "urn:sconce:problem:key_limit" });
  gate.release("a");
  await narrow.end(id);
  expect((await narrow.predict([{ x: 2 }])).status).toBe("success");
});

/** Requests that start no prediction, each with the status that it gets at the limit of a key. */
const readings: readonly [what: string, status: number, path: string, init: RequestInit][] = [
  ["reads a result", 200, "/predictions/ID", {}],
  ["polls it with a long wait", 200, "/predictions/ID", { headers: { Prefer: "wait=0" } }],
  ["cancels an ended prediction", 200, "/predictions/ID/cancel", { method: "POST" }],
  ["lists the models", 200, "/v2/repository/index", { method: "POST" }],
  ["lists the tools", 200, "/mcp", mcp("tools/list")],
  [
    "initializes MCP",
    200,
    "/mcp",
    mcp("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "a", version: "1" } }),
  ],
  ["repeats a PUT", 200, "/predictions/limits-of-a-key-0001", { method: "PUT", body: '[{"x":1}]' }],
  [
    "repeats an Idempotency-Key",
    200,
    "/predictions",
    { method: "POST", body: '[{"x":1}]', headers: { "Idempotency-Key": "limits-of-a-key-0001" } },
  ],
];

function mcp(method: string, params: object = {}): RequestInit {
  const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
  return { method: "POST", headers, body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }) };
}

describe.each([
  ["rate", { rate: "2/h" }],
  ["concurrent", { concurrent: 1 }],
])("a client whose key is at its limit %s", (name, limit) => {
  let atLimit: KeyClient;
  let id: string;
  let gate: ReturnType<typeof hold>;

  beforeAll(async () => {
    const file = makeKey({ name: `at-${name}`, ...limit });
    appendFileSync(path, `${file.entry}\n`);
    secrets.set(`at-${name}`, file.secret);
    atLimit = new KeyClient(`at-${name}`);
    await until(async () => (await atLimit.fetch("/")).ok);
    gate = hold();
    ({ prediction_id: id } = await atLimit.put("limits-of-a-key-0001", [{ x: 1 }]));
    await atLimit.predict([{ x: 1 }], { "Idempotency-Key": "limits-of-a-key-0001" });
    if (name === "concurrent") await atLimit.create([{ x: 1, before: gate.url("a") }]);
    expect(await atLimit.refused([{ x: 2 }])).toMatchObject({ status: 429, type: "urn:sconce:problem:key_limit" });
  });

  afterAll(() => gate[Symbol.asyncDispose]());

  test.each(readings)("%s", async (_, status, to, init) => {
    // More requests than the rate permits.
    for (let i = 0; i < 3; i++) {
      const headers = { "Content-Type": "application/json", ...init.headers };
      const answer = await atLimit.fetch(to.replace("ID", id), { ...init, headers });
      expect(answer.status).toBe(status);
      await answer.body?.cancel();
    }
  });
});

describe("a key with concurrent = 1 has one place", () => {
  const body = JSON.stringify([{ x: 1 }]);

  /** Begins an upload, whose last byte comes with `finish`. */
  async function upload(to: string, secret: string) {
    const answer = Promise.withResolvers<string>();
    let text = "";
    const socket = await Bun.connect({
      hostname: server.url.hostname,
      port: Number(server.url.port),
      socket: {
        data: (_, bytes) => {
          text += bytes.toString();
          const status = /^HTTP\/1\.1 (\d+)/.exec(text)?.[1];
          if (status !== undefined) answer.resolve(status);
        },
        close: () => answer.resolve(text),
      },
    });
    const head = [`POST ${to} HTTP/1.1`, "Host: localhost", `Authorization: Bearer ${secret}`, "Prefer: wait"];
    const length = ["Content-Type: application/json", `Content-Length: ${body.length}`];
    socket.write(`${[...head, ...length, "", ""].join("\r\n")}${body.slice(0, -1)}`);
    return { status: answer.promise, finish: () => socket.write(body.slice(-1)), leave: () => socket.end() };
  }

  test.each(["/predictions", "/demo", "/v2/models/lab/infer"])("for many slow uploads at once to %s", async (to) => {
    const own = new KeyClient("narrow");
    const uploads = await Promise.all(Array.from({ length: 20 }, () => upload(to, secrets.get("narrow") ?? "")));
    // All uploads but one are refused before their bodies are complete.
    const refused: string[] = [];
    for (const { status } of uploads) void status.then((each) => refused.push(each));
    await until(() => refused.length === uploads.length - 1);
    expect(new Set(refused)).toEqual(new Set(["429"]));
    for (const each of uploads) each.finish();
    const statuses = await Promise.all(uploads.map(({ status }) => status));
    expect(statuses.filter((status) => status !== "429")).toHaveLength(1);
    // The place is free again, whether the request succeeded or failed.
    expect((await own.predict([{ x: 2 }])).status).toBe("success");
    for (const each of uploads) each.leave();
  });

  test("which a failed request gives back: a client that leaves, a bad body, a body of another type", async () => {
    const own = new KeyClient("narrow");
    const begun = await upload("/predictions", secrets.get("narrow") ?? "");
    await until(async () => (await own.post([{ x: 1 }])).status === 429);
    begun.leave();
    await until(async () => (await own.post([{ x: 1 }], { Prefer: "wait" })).status === 200);
    for (const bad of ["[", "[{}]", "[]"]) expect((await own.post(bad)).status).toBeGreaterThanOrEqual(400);
    expect((await own.post("x", { "Content-Type": "image/png" })).status).toBe(415);
    expect((await own.predict([{ x: 2 }])).status).toBe("success");
  });
});

describe("the file of keys", () => {
  test("is read again when it changes", async () => {
    await using own = await tempDir();
    const file = own.join("keys.toml");
    const [first, second] = [makeKey({ name: "first" }), makeKey({ name: "second" })];
    writeFileSync(file, first.entry);
    await using changing = await store.serve("lab", { apiKeys: file });
    const statusOf = async ({ secret }: { secret: string }) =>
      (await changing.client.fetch("/", { headers: { "X-API-Key": secret } })).status;
    expect([await statusOf(first), await statusOf(second)]).toEqual([200, 401]);
    writeFileSync(file, second.entry);
    await until(async () => (await statusOf(second)) === 200);
    expect(await statusOf(first)).toBe(401);
  });

  test("may change while a prediction of a limited key runs, without harm to the key's count", async () => {
    await using own = await tempDir();
    await using gate = hold();
    const file = own.join("keys.toml");
    const { secret, entry } = makeKey({ name: "narrow", concurrent: 1 });
    writeFileSync(file, entry);
    await using changing = await store.serve("lab", { apiKeys: file, allowPrivateUrls: true });
    const headers = { "X-API-Key": secret };
    const { client } = changing;
    const { prediction_id: id } = await client.create([{ x: 1, before: gate.url("a") }], headers);
    const other = makeKey({ name: "other" });
    // The counters of a key are in a slot of shared memory. 1000 more keys move the counters to another slot.
    const more = Array.from({ length: 1000 }, (_, i) => makeKey({ name: `a${i}` }).entry);
    writeFileSync(file, [entry, other.entry, ...more].join("\n"));
    await until(async () => (await client.fetch("/", { headers: { "X-API-Key": other.secret } })).ok);
    gate.release("a");
    await client.read(id, { Prefer: "wait", ...headers });
    for (let i = 0; i < 3; i++) expect((await client.predict([{ x: 2 }], headers)).status).toBe("success");
    const held = await client.create([{ x: 1, before: gate.url("b") }], headers);
    expect(await client.refused([{ x: 2 }], headers)).toMatchObject({ status: 429 });
    gate.release("b");
    await client.read(held.prediction_id, { Prefer: "wait", ...headers });
  });

  test("changes nothing while it has a fault or is missing", async () => {
    await using own = await tempDir();
    const file = own.join("keys.toml");
    const { secret, entry } = makeKey({ name: "first" });
    writeFileSync(file, entry);
    using keys = new ApiKeys(file, { rows: [new Float64Array(keyNumbers.length)], own: 0 });
    const found = () => keys.find(new Headers({ "X-API-Key": secret }))?.name;
    writeFileSync(file, "[[key]]\nname = 1");
    keys.reload();
    expect(found()).toBe("first");
    rmSync(file);
    keys.reload();
    expect(found()).toBe("first");
    writeFileSync(file, "");
    keys.reload();
    expect(found()).toBeUndefined();
  });

  test.each([
    ["[[key]]\nname = 'a b'\nhash = 'sha256:00'", ["→ at key[0].name", "→ at key[0].hash"]],
    ["[[key]]\nnme = 'a'", ['Unrecognized key: "nme"', "→ at key[0].name"]],
    ["[key]\nname = 'a'", ["must be tables that begin with [[key]]"]],
    [
      "[[key]]\nname = 'a'\nrate = '5 a day'",
      ["must be a number of requests for each s, min or h", "→ at key[0].hash"],
    ],
    ["[[key", ["is not TOML"]],
  ])("is refused with every fault named: %s", (text, faults) => {
    for (const fault of faults) expect(() => parseKeys(text, "keys.toml")).toThrow(fault);
  });
});

test("sconce key new prints a key once, and appends its entry to the file", async () => {
  await using own = await tempDir();
  const file = own.join("keys.toml");
  const made = await cli(["key", "new", "--name", "team-a", "--file", file]);
  expect(made.code).toBe(0);
  expect(made.stdout).toMatch(/^sconce_[\w-]{43}\n$/);
  const text = await Bun.file(file).text();
  expect(text).not.toContain(made.stdout.trim());
  expect(parseKeys(text, file)).toMatchObject([{ name: "team-a", share: 1 }]);
  const refused = await cli(["key", "new", "--name", "a b"]);
  expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining("--name") });
});

test("sconce key new gives another key of a client its limits and permissions", async () => {
  await using own = await tempDir();
  const file = own.join("keys.toml");
  const fields = { rate: "600/min", only: ["read" as const], share: 1, concurrent: 5 };
  await Bun.write(file, makeKey({ name: "team-a", ...fields }).entry);
  const { stderr } = await cli(["key", "new", "--name", "team-a", "--file", file]);
  expect(stderr).toContain("as another key of this client, with its limits and permissions");
  expect(parseKeys(await Bun.file(file).text(), file)).toMatchObject([fields, fields]);
});

test("a server with a faulty file of keys does not start", async () => {
  await using own = await tempDir();
  await expect(store.serve("lab", { apiKeys: own.join("none.toml") })).rejects.toThrow("the API keys cannot be read");
});

test.each([
  ["/v1/embeddings", { error: { code: "key_required", type: "invalid_request_error" } }],
  ["/v2/models/lab/infer", { error: expect.stringContaining("an API key is required") }],
  ["/mcp", { jsonrpc: "2.0", error: { message: expect.stringContaining("an API key is required") } }],
])("without a key, %s answers in the form of its API", async (at, body) => {
  const response = await server.client.fetch(at, { method: "POST", body: "{}" });
  expect([response.status, response.headers.get("www-authenticate")]).toEqual([401, 'Bearer realm="sconce"']);
  expect(await response.json()).toMatchObject(body);
});
