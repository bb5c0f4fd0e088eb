/** HTTPS: the server's certificate, certificates of clients, and files that change. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { copyFile } from "node:fs/promises";
import { connect } from "node:tls";
import { makeCertificates } from "./helpers/certificates.ts";
import { failureOf } from "./helpers/failure.ts";
import { until } from "./helpers/running.ts";
import { storeWith, type TestServer, type TestStore } from "./helpers/server.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";

let store: TestStore;
let dir: TempDir;
let ca: string;

beforeAll(async () => {
  [store, dir] = await Promise.all([storeWith("lab"), tempDir()]);
  ({ ca } = await makeCertificates(dir));
});

afterAll(() => Promise.all([store[Symbol.asyncDispose](), dir[Symbol.asyncDispose]()]));

const files = () => ({ tlsCert: dir.join("server.pem"), tlsKey: dir.join("server.key") });

/** The serial number of the certificate that a server presents. */
function serialOf({ url }: TestServer): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port: Number(url.port), host: "127.0.0.1", rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().serialNumber);
      socket.destroy();
    });
    socket.on("error", reject);
  });
}

test("a server with a certificate answers by HTTPS only", async () => {
  await using server = await store.serve("lab", files());
  expect(server.url.protocol).toBe("https:");
  const init = { method: "POST", headers: { Prefer: "wait" }, body: JSON.stringify([{ x: 1 }]), tls: { ca } };
  const answer = await fetch(new URL("/predictions", server.url), init);
  expect((await answer.json()) as object).toMatchObject({ outputs: [{ y: 3 }] });
  await expect(fetch(`http://127.0.0.1:${server.url.port}/health/live`)).rejects.toThrow();
});

test("a changed certificate is presented to new connections", async () => {
  await using own = await tempDir();
  const [tlsCert, tlsKey] = [own.join("server.pem"), own.join("server.key")];
  await copyFile(files().tlsCert, tlsCert);
  await copyFile(files().tlsKey, tlsKey);
  await using server = await store.serve("lab", { tlsCert, tlsKey });
  const before = await serialOf(server);
  await using next = await tempDir();
  await makeCertificates(next);
  await copyFile(next.join("server.key"), tlsKey);
  await copyFile(next.join("server.pem"), tlsCert);
  // While the certificate changes, a connection may be reset.
  await until(async () => (await serialOf(server).catch(() => before)) !== before);
  expect((await fetch(new URL("/health/ready", server.url), { tls: { rejectUnauthorized: false } })).status).toBe(200);
});

test("with --tls-client-ca only clients with a certificate of that authority are answered", async () => {
  await using server = await store.serve("lab", { ...files(), tlsClientCa: dir.join("ca.pem") });
  const ready = new URL("/health/ready", server.url);
  const [cert, key] = await Promise.all([Bun.file(files().tlsCert).text(), Bun.file(files().tlsKey).text()]);
  expect((await fetch(ready, { tls: { ca, cert, key } })).status).toBe(200);
  await expect(fetch(ready, { tls: { ca } }).then((response) => response.text())).rejects.toThrow();
});

test("a certificate without a key is refused by name", async () => {
  const { message } = await failureOf(store.serve("lab", { tlsCert: files().tlsCert }));
  expect(message).toBe("TLS needs both --tls-cert and --tls-key");
});

test("a certificate of another key is refused by name", async () => {
  await using other = await tempDir();
  await makeCertificates(other);
  const { code, message } = await failureOf(store.serve("lab", { ...files(), tlsKey: other.join("server.key") }));
  expect(code).toBe("usage");
  expect(message).toContain("the TLS certificate and its key cannot be used");
});

test("a missing file is refused by name", async () => {
  const { message } = await failureOf(store.serve("lab", { ...files(), tlsCert: dir.join("none.pem") }));
  expect(message).toStartWith("TLS: ");
  expect(message).toContain("none.pem");
});
