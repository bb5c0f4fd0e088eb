/** Invalid and almost valid HTTP: the server refuses the request or closes the connection, and continues. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { sendRaw } from "./helpers/raw-client.ts";
import { SharedServer } from "./helpers/shared-server.ts";

const server = new SharedServer(["lab"], "lab");

const body = '[{"x": 1}]';
const noise = fc.string({ unit: fc.nat(255).map((code) => String.fromCharCode(code)), maxLength: 40 });
const oneOf = (...given: readonly string[]) =>
  fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...given) }, { weight: 1, arbitrary: noise });

/** A random request: a request line, headers and a body, any of which may be invalid. */
const request = fc
  .record({
    method: oneOf("POST", "post", "GET", "PO ST", "", "CONNECT", "PRI"),
    target: oneOf(
      "/predictions",
      "*",
      "//",
      "/%00",
      "http://a/b",
      "/../../etc/passwd",
      "/\r\nX: y",
      `/${"a".repeat(9000)}`,
    ),
    version: oneOf("HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/9.9", "http/1.1", ""),
    headers: fc.array(
      oneOf(
        "Host: localhost",
        "Host: localhost\r\nHost: y",
        "Content-Type: application/json",
        "Content-Length: 10",
        "Content-Length: -1",
        "Content-Length: 1e3",
        "Content-Length: 99999999999999999999",
        "Content-Length: 10\r\nContent-Length: 11",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding : chunked",
        "Expect: 100-continue",
        "Upgrade: h2c\r\nConnection: Upgrade",
        " folded",
        "no colon",
        ": no name",
        `X: ${"a".repeat(20_000)}`,
      ),
      { maxLength: 6 },
    ),
    end: fc.oneof({ weight: 8, arbitrary: fc.constant("\r\n") }, { weight: 1, arbitrary: fc.constantFrom("\n", "\r") }),
    rest: oneOf(body, "0\r\n\r\n", "5\r\n[{\r\n", "fffffffffffffffff\r\n[", "-1\r\n", "", "GET / HTTP/1.1\r\n\r\n"),
  })
  .map(({ method, target, version, headers, end, rest }) =>
    [`${method} ${target} ${version}`, ...headers, "", rest].join(end),
  );

test("hundreds of malformed requests are refused, served or dropped without a server error, and valid requests in between are answered", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(request, { minLength: 20, maxLength: 40, size: "max" }), async (requests) => {
      const answers = await Promise.all(
        requests.map((bytes) => sendRaw(server.url, bytes, { end: true }).catch(() => "")),
      );
      for (const answer of answers) expect(answer).toMatch(/^($|HTTP\/1\.1 ([1-4]\d\d|505) )/);
      expect((await server.client.predict([{ x: 1 }])).status).toBe("success");
    }),
    { numRuns: 12, endOnFailure: true },
  );
});

test("a repeated Content-Length counts once", async () => {
  const head = "Host: localhost\r\nContent-Type: application/json\r\nPrefer: wait\r\nConnection: close";
  const length = `Content-Length: ${body.length}`;
  const bytes = `POST /predictions HTTP/1.1\r\n${head}\r\n${length}\r\n${length}\r\n\r\n${body}`;
  expect(await sendRaw(server.url, bytes)).toMatch(/^HTTP\/1\.1 200 .*"status":"success"/s);
});

test("a Host header that is no host causes no server error, not even in the redirect to the page", async () => {
  for (const path of ["/", "/demo", "/docs/", "/nothing", "/openapi.json"]) {
    const bytes = `GET ${path} HTTP/1.1\r\nHost: a\xcd;A\xfc b\r\nAccept: text/html\r\nConnection: close\r\n\r\n`;
    expect(await sendRaw(server.url, bytes)).not.toMatch(/^HTTP\/1\.1 5/);
  }
});
