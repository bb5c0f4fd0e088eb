/** HTTPS: the server's certificate, and certificates of clients. */
import { beforeAll, expect, test } from "bun:test";
import { type TlsPaths, tlsOf } from "../src/machine/network/tls-files.ts";
import { makeCertificates } from "./helpers/certificates.ts";
import { failureOf } from "./helpers/failure.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { storeWith } from "./helpers/server.ts";

let ca: string;

const store = fixture(() => storeWith("lab"));
const dir = fixture(tempDir);
beforeAll(async () => {
  ({ ca } = await makeCertificates(dir));
});

const files = () => ({ tlsCert: dir.join("server.pem"), tlsKey: dir.join("server.key") });

test("a server with a certificate answers by HTTPS only", async () => {
  await using server = await store.serve("lab", files());
  expect(server.url.protocol).toBe("https:");
  const init = { method: "POST", headers: { Prefer: "wait" }, body: JSON.stringify([{ x: 1 }]), tls: { ca } };
  const answer = await fetch(new URL("/predictions", server.url), init);
  expect((await answer.json()) as object).toMatchObject({ outputs: [{ y: 3 }] });
  await expect(fetch(`http://127.0.0.1:${server.url.port}/health/live`)).rejects.toThrow();
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

test("unusable files are refused by name, with the reason", async () => {
  await using other = await tempDir();
  await makeCertificates(other);
  const [{ tlsCert, tlsKey }, junk] = [files(), other.join("junk.pem")];
  await Bun.write(junk, "junk");
  const faultOf = async (paths: TlsPaths) => (await failureOf(async () => tlsOf(paths))).message;
  expect(await faultOf({ tlsCert, tlsKey: other.join("server.key") })).toMatch(
    new RegExp(`^TLS: ${tlsCert}, ${other.join("server.key")} cannot be used together: .*KEY_VALUES_MISMATCH`),
  );
  for (const paths of [
    { tlsCert: junk, tlsKey },
    { tlsCert, tlsKey: junk },
    { tlsCert, tlsKey, tlsClientCa: junk },
    { tlsCert, tlsKey: other.join("none.key") },
  ])
    expect(await faultOf(paths)).toStartWith(`TLS: ${Object.values(paths).join(", ")} cannot be used together: `);
});
