/** API keys of a server: requests without a key, results that a key may read, permissions of a key, changes of the file of keys. */
import { describe, expect, test } from "bun:test";
import { appendFileSync, rmSync, writeFileSync } from "node:fs";
import { makeKey, type NewKey } from "../src/cli/commands/key.ts";
import { ApiKeys } from "../src/http/access/api-keys.ts";
import { parseKeys } from "../src/http/access/key-file.ts";
import { Client, problemOf } from "./helpers/client.ts";
import { cliHere } from "./helpers/command-here.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";

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
  for (const key of [{ name: "one" }, { name: "two" }, { name: "reader", only: ["read"] }] as const)
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
    expect(await server.client.status(at)).toBe(404);
  });

  test.each(["/health/live", "/health/ready", "/favicon.ico"])("get an answer at %s", async (at) => {
    expect(await server.client.status(at)).toBe(200);
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

  test("changes nothing while it has a fault or is missing", async () => {
    await using own = await tempDir();
    const file = own.join("keys.toml");
    const { secret, entry } = makeKey({ name: "first" });
    writeFileSync(file, entry);
    using keys = new ApiKeys(file);
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
    ["[[key]]\nname = 'a'\nshare = 0", ["must be 1 to 1000", "→ at key[0].hash"]],
    ["[[key", ["is not TOML"]],
  ])("is refused with every fault named: %s", (text, faults) => {
    for (const fault of faults) expect(() => parseKeys(text, "keys.toml")).toThrow(fault);
  });
});

test("sconce key new prints a key once, and appends its entry to the file", async () => {
  await using own = await tempDir();
  const file = own.join("keys.toml");
  const made = await cliHere(["key", "new", "--name", "team-a", "--file", file]);
  expect(made.code).toBe(0);
  expect(made.stdout).toMatch(/^sconce_[\w-]{43}\n$/);
  const text = await Bun.file(file).text();
  expect(text).not.toContain(made.stdout.trim());
  expect(parseKeys(text, file)).toMatchObject([{ name: "team-a", share: 1 }]);
  const refused = await cliHere(["key", "new", "--name", "a b"]);
  expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining("--name") });
});

test("sconce key new gives another key of a client its share and permissions", async () => {
  await using own = await tempDir();
  const file = own.join("keys.toml");
  const fields = { only: ["read" as const], share: 3 };
  await Bun.write(file, makeKey({ name: "team-a", ...fields }).entry);
  const { stderr } = await cliHere(["key", "new", "--name", "team-a", "--file", file]);
  expect(stderr).toContain("as another key of this client, with its share and permissions");
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
