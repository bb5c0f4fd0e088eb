/** Invalid and almost valid HTTP: the server refuses the request or closes the connection, and continues. */
import { expect, test } from "bun:test";
import { seeded } from "./helpers/loads.ts";
import { SharedServer } from "./helpers/shared-server.ts";
import { sendRaw } from "./helpers/wire.ts";
import { MalformedRequests } from "./torture/malformed-requests.ts";

const server = new SharedServer(["lab"], "lab");

const body = '[{"x": 1}]';

test("hundreds of malformed requests are refused, served or dropped without a server error, and valid requests in between are answered", async () => {
  const seed = Date.now() % 1_000_000;
  const requests = new MalformedRequests(seeded(seed));
  for (let round = 0; round < 12; round++) {
    const sent = Array.from({ length: 30 }, () => Buffer.concat(requests.next().pieces).toString("latin1"));
    const answers = await Promise.all(sent.map((bytes) => sendRaw(server.url, bytes, { end: true }).catch(() => "")));
    const wrong = answers.filter((answer) => !/^($|HTTP\/1\.1 ([1-4]\d\d|50[15]) )/.test(answer));
    expect({ seed, wrong }).toEqual({ seed, wrong: [] });
    expect((await server.client.predict([{ x: 1 }])).status).toBe("success");
  }
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
