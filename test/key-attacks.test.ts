/** Attempts to read from a server with API keys: without a key, and with the key of another client. */
import { beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { makeKey } from "../src/cli/commands/key.ts";
import { clientOf } from "./helpers/cli.ts";
import type { Client, PredictionBody } from "./helpers/client.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { storeWith } from "./helpers/server.ts";
import { sendRaw } from "./helpers/wire.ts";

let client: Client;
let prediction: PredictionBody;
const owner = makeKey({ name: "owner" });
const other = makeKey({ name: "other" });
const bearer = (secret: string) => ({ Authorization: `Bearer ${secret}` });

/** Texts that no answer without a key may contain: the models' names, an input field, metrics, a result. */
const secrets = /\blab\b|\bparts\b|"x"|sconce_predictions|"outputs"|"prediction_id"/;

const store = fixture(() => storeWith("lab", "parts"));
const dir = fixture(tempDir);
const server = fixture(async () => {
  await Bun.write(dir.join("keys.toml"), `${owner.entry}\n${other.entry}`);
  const args = ["--fronts", "2", "--base-path", "/base", "--allow-private-urls"];
  const hooks = ["--webhook-secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"];
  return store.start(["lab", "parts", ...args, ...hooks, "--api-keys", dir.join("keys.toml")], { TMPDIR: dir.path });
});
beforeAll(async () => {
  client = await clientOf(server);
  prediction = await client.predict([{ x: 1 }], bearer(owner.secret));
  expect(prediction.status).toBe("success");
});

/** Sends a request line and headers exactly as given. @returns the answer */
async function send(
  line: string,
  headers: readonly string[] = [],
  body = "",
): Promise<{ status: number; text: string }> {
  const length = body === "" ? [] : [`Content-Length: ${body.length}`];
  const head = [`${line} HTTP/1.1`, "Host: localhost", "Connection: close", ...headers, ...length, "", body];
  const text = await sendRaw(client.url, head.join("\r\n"));
  const [, status = 0] = [...text.matchAll(/^HTTP\/1\.1 (\d+)/gm)].at(-1) ?? [];
  return { status: Number(status), text };
}

const methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "PROPFIND"];
const paths = () => {
  const id = prediction.prediction_id;
  const guarded = [
    ["/", "/examples", "/openapi.json", "/metrics", "/predictions", `/predictions/${id}`],
    [`/predictions/${id}/cancel`, `/demo/${id}`],
    ["/v2", "/v2/models/lab", "/v2/models/lab/config", "/v2/models/guess"],
    ["/v2/repository/index", "/v1/models", "/v1/models/lab", "/v1/embeddings", "/mcp", "/classify"],
    ["/front/metrics", "/models", "/models/guess", "/models/guess/predictions", "/v2/repository/models/guess/load"],
    ["/models/lab", "/models/parts", "/models/parts/examples", "/models/parts/metrics", "/models/parts/openapi.json"],
    ["/models/lab/predictions", `/models/lab/predictions/${id}`, "/models/lab/v2/models/lab", "/models/lab/mcp"],
  ].flat();
  return guarded.flatMap((path) => [path, `/base${path}`]);
};

describe("without a key", () => {
  test("no method at any path reads anything", async () => {
    const read: string[] = [];
    for (const method of methods) {
      for (const path of paths()) {
        const { status, text } = await send(`${method} ${path}`);
        const body = text.slice(text.indexOf("\r\n\r\n"));
        if (status !== 401 || secrets.test(body)) read.push(`${method} ${path} ${status} ${body}`);
      }
    }
    expect(read).toEqual([]);
  });

  test("no answer below /models tells whether a model has the name", async () => {
    const names = ["parts", "lab", "guess", "parts:latest", "guess:latest", "team/guess"];
    const ends = [
      ["", "/", "/demo", "/demo/", "/docs", "/docs/", "/openapi.json", "/examples", "/metrics", "/favicon.ico"],
      ["/health/live", "/health/ready", "/v2/health/live", "/v2", "/v2/models/parts/ready", "/mcp", "/v1/models"],
      ["/predictions", "/predictions/none", "/x/demo", "/x/docs", "/demo/x/demo", "/nothing"],
      ["/docs/assets/none/none.js", "/demo/assets/none/none.js"],
    ].flat();
    const heads = [
      ["Accept: text/html"],
      ["Accept: application/json"],
      ["X-API-Key: unknown"],
      ["Accept: text/html", "X-API-Key: unknown"],
    ];
    const answerTo = async (method: string, name: string, end: string, head: readonly string[], start: string) => {
      const { text } = await send(`${method} ${start}/models/${name}${end}`, head);
      return text.replace(/^(?:date|x-request-id): .*\r\n/gim, "").replaceAll(name, "NAME");
    };
    for (const method of ["GET", "HEAD", "POST", "PUT", "OPTIONS"]) {
      for (const end of ends) {
        for (const head of heads) {
          for (const start of ["", "/base"]) {
            const answers = await Promise.all(names.map((name) => answerTo(method, name, end, head, start)));
            expect([method, end, new Set(answers).size]).toEqual([method, end, 1]);
          }
        }
      }
    }
    const models = ["parts", "guess"].map((name) => send(`GET /v2/models/${name}/ready`));
    expect(new Set((await Promise.all(models)).map(({ status }) => status))).toEqual(new Set([401]));
  }, 60_000);

  test("the page and the documentation can ask for the key, and tell nothing of a model", async () => {
    for (const at of ["", "/models/parts", "/base/models/lab"]) {
      const page = await client.fetch(`${at}/demo`, { headers: { Accept: "text/html" } });
      expect(page.status).toBe(200);
      const html = await page.text();
      expect(html).not.toMatch(secrets);
      const [, script = ""] = /src="([^"]+page\.js)"/.exec(html) ?? [];
      const asset = await fetch(new URL(script, page.url));
      expect([asset.status, asset.headers.get("content-type")]).toEqual([200, "text/javascript; charset=utf-8"]);
      const docs = await client.fetch(`${at}/docs`);
      expect([docs.status, secrets.test(await docs.text())]).toEqual([200, false]);
    }
  });

  test("no unusual spelling of a path avoids the check of the key", async () => {
    const id = prediction.prediction_id;
    const known = ["metrics", "openapi.json", `predictions/${id}`, "v2/models/lab", "examples", "models"];
    const starts = [
      ["//", "/./", "/x/../", "/%2e/", "/%2E%2E/", "/base//", "/base/../", "/base/base/", "/;/", "/%00/", "/%0a"],
      ["/health/../", "/health/live/../../", "/favicon.ico/../", "/health/live?/", "/health/live#/", "/docs?/../"],
      ["/docs/assets/../../", "/docs/assets/%2e%2e/%2e%2e/", "/docs/assets/..%2f..%2f", "/demo/assets/..%5c..%5c"],
      ["/docs/assets/x%2f..%2f..%2f..%2f", "/v2/health/live/..%2f..%2f", "/health/live%3f/", "/health/live;/"],
      ["http://localhost/", "http://localhost/health/live/../../", "http://user@localhost/"],
    ].flat();
    const ends = ["?", "#", "%3f", "%23", "/", ".", "%20", ";a=b", "%2f", "\t", "/.", "//"];
    const targets = [...known, "models/parts/examples"].flatMap((to) => [
      ...starts.map((start) => start + to),
      ...ends.map((end) => `/${to}${end}`),
      `/${to.toUpperCase()}`,
      `/${[...to].map((each) => `%${each.charCodeAt(0).toString(16)}`).join("")}`,
      `/%25${to.charCodeAt(0).toString(16)}${to.slice(1)}`,
    ]);
    const read: string[] = [];
    for (const target of targets) {
      const { text } = await send(`GET ${target}`);
      const body = text.slice(text.indexOf("\r\n\r\n")).replaceAll(/"detail":"[^"]*"/g, "");
      if (secrets.test(body)) read.push(`${target} ${body.slice(0, 200)}`);
    }
    expect(read).toEqual([]);
  });

  test.each([
    [["X-HTTP-Method-Override: OPTIONS"]],
    [["X-Original-URL: /health/live"]],
    [["X-Rewrite-URL: /health/live"]],
    [["X-Forwarded-For: 127.0.0.1"]],
    [["X-Forwarded-Prefix: /health"]],
    [["Accept: text/html"]],
    [["Authorization: Bearer"]],
    [["Authorization: Bearer  "]],
    [["Authorization: Bearer undefined"]],
    [["Authorization: Basic b3duZXI6"]],
    [["X-API-Key: "]],
    [["X-API-Key: owner"]],
    [["X-API-Key: sha256:0"]],
    [["Cookie: sconce-api-key=owner"]],
    [["Sec-Fetch-Site: same-origin"]],
    [["Access-Control-Request-Method: GET"]],
    [
      [
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
      ],
    ],
    [["Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"]],
    [["Expect: 100-continue"]],
  ])("no header replaces it: %p", async (headers) => {
    for (const path of ["/openapi.json", "/metrics", `/predictions/${prediction.prediction_id}`, "/v2/models/lab"]) {
      const { status, text } = await sendOnce(`GET ${path}`, headers);
      expect([path, status]).toEqual([path, 401]);
      expect(text.slice(text.indexOf("\r\n\r\n"))).not.toMatch(secrets);
    }
  });

  test("neither the hash of a key nor a part of its secret is accepted as the key", async () => {
    const hash = /sha256:[0-9a-f]+/.exec(owner.entry)?.[0] ?? "";
    const { secret } = owner;
    const spelled = [secret.slice(0, -1), `${secret}x`, secret.toLowerCase()];
    for (const guess of [hash, hash.slice(7), ...spelled, "owner"]) {
      for (const header of [`Authorization: Bearer ${guess}`, `X-API-Key: ${guess}`])
        expect([guess, (await send("GET /", [header])).status]).toEqual([guess, 401]);
    }
    for (const query of ["key", "api_key", "api-key", "token", "access_token", "authorization"])
      expect((await send(`GET /?${query}=${secret}`)).status).toBe(401);
  });

  test("the sockets between the processes are closed to other users", async () => {
    const sockets = readdirSync(dir.path, { recursive: true, encoding: "utf8" }).filter((path) =>
      path.endsWith(".sock"),
    );
    expect(sockets.length).toBeGreaterThan(0);
    for (const socket of sockets) expect(statSync(dirname(dir.join(socket))).mode & 0o077).toBe(0);
  });
});

/**
 * Sends a request with `send`, or with `fetch` if it has its own `Connection` header, since `send` adds `Connection:
 * close`.
 */
async function sendOnce(line: string, headers: readonly string[]) {
  const isUpgrade = headers.some((each) => each.startsWith("Connection:"));
  if (!isUpgrade) return send(line, headers);
  const answer = await client.fetch(line.split(" ")[1] ?? "", {
    headers: Object.fromEntries(headers.map((each) => each.split(": ") as [string, string])),
  });
  return { status: answer.status, text: `\r\n\r\n${await answer.text()}` };
}

test("with the key of another client, no spelling of an id reads, repeats or cancels a prediction", async () => {
  const id = prediction.prediction_id;
  const [stem = "", suffix = ""] = id.split(/(?=\.)/);
  const { prediction_id: own } = await client.predict([{ x: 2 }], bearer(other.secret));
  const [, ownSuffix = ""] = own.split(/(?=\.)/);
  const changed = [`${id}%2e`, `${id}.`, id.replace(".", "%2E"), `${id}%00${ownSuffix}`, `./${id}`, `x/../${id}`];
  const suffixes = ["", ownSuffix, suffix + ownSuffix, suffix.toUpperCase() + ownSuffix, ownSuffix + suffix];
  const spelled = [id, ...changed, ...suffixes.map((each) => stem + each)];
  for (const each of spelled) {
    for (const path of [`/predictions/${each}`, `/demo/${each}`, `/base/predictions/${each}`]) {
      for (const [method, end] of Object.entries({ GET: "", POST: "/cancel" })) {
        const { status, text } = await send(`${method} ${path}${end}`, [`Authorization: Bearer ${other.secret}`]);
        expect([path, end, status]).toEqual([path, end, status === 400 || status === 405 ? status : 404]);
        expect(text.slice(text.indexOf("\r\n\r\n"))).not.toContain('"outputs"');
      }
    }
  }
});

test("preflights of --cors-origin need no key, and reveal nothing", async () => {
  const page = "https://page.example";
  await using open = await store.serve("lab", { apiKeys: dir.join("keys.toml"), corsOrigin: [page] });
  const ask = async (headers: Readonly<Record<string, string>>) =>
    open.client.fetch("/v2/models/guess", { method: "OPTIONS", headers });
  const preflight = await ask({ Origin: page, "Access-Control-Request-Method": "POST" });
  expect([preflight.status, preflight.headers.get("access-control-allow-origin")]).toEqual([204, page]);
  const foreign = await ask({ Origin: "https://evil.example", "Access-Control-Request-Method": "POST" });
  expect([foreign.headers.get("access-control-allow-origin"), await foreign.text()]).toEqual([null, ""]);
});
