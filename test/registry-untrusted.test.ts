/**
 * Registries that send false data, violate the protocol or leave out optional parts: a false model gets no name in the
 * store.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { digestOf } from "../src/package/store/blobs.ts";
import { annotations, mediaTypes } from "../src/package/store/manifest.ts";
import { makeCertificates } from "./helpers/certificates.ts";
import { cli } from "./helpers/cli.ts";
import { emptyStores } from "./helpers/empty-stores.ts";
import { failure } from "./helpers/failure.ts";
import { type Answer, type Content, fakeRegistry } from "./helpers/fake-registry.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelConfig } from "./helpers/model-content.ts";
import { hasRegistry, startRegistry } from "./helpers/registry.ts";
import { registryProxy } from "./helpers/registry-proxy.ts";
import { pullFrom, pushTo, putModel } from "./helpers/transfer.ts";

const dir = fixture(tempDir);

const emptyStore = emptyStores();

describe.skipIf(!hasRegistry)("data that changes on the way from a registry (Debian's docker-registry)", () => {
  const registry = fixture(() => startRegistry());
  let digest: string;
  let weights: string;

  beforeAll(async () => {
    const store = emptyStore();
    ({ digest } = await putModel(store, "one", 50_000));
    weights = (await store.resolve("digits")).layer("digits.pt").digest;
    await pushTo(store, "digits:v1", `${registry.host}/digits:v1`);
    await putModel(store, "two", 50_000);
    await pushTo(store, "digits:v1", `${registry.host}/digits:v2`);
  });

  const flip = (body: Buffer) => {
    const changed = Buffer.from(body);
    changed[10] = (changed[10] ?? 0) ^ 1;
    return changed;
  };

  test("is found if it is a file: nothing of the file is kept, and the next pull is complete", async () => {
    await using liar = await registryProxy(registry.port, ({ path }) =>
      path.endsWith(`/blobs/${weights}`) ? { change: flip } : undefined,
    );
    const store = emptyStore();
    expect(await failure(pullFrom(store, `${liar.host}/digits:v1`))).toBe(
      `registry_corrupt: digits.pt of ${liar.host}/digits:v1 does not match its digest ${weights}; the received bytes were deleted. Pull again; if that does not help, push the model again`,
    );
    expect(await store.list()).toEqual([]);
    expect(await Bun.file(`${store.home}/index.json`).exists()).toBe(false);
    const { receivedBytes } = await pullFrom(store, `${registry.host}/digits:v1`);
    expect(receivedBytes).toBeGreaterThanOrEqual(50_000);
    await store.verify(await store.resolve("digits:v1"));
  });

  test("is found if it is a manifest", async () => {
    await using liar = await registryProxy(registry.port, ({ path }) =>
      /manifests/.test(path) ? { change: flip } : undefined,
    );
    for (const end of [":v1", `@${digest}`]) {
      const store = emptyStore();
      expect(await failure(pullFrom(store, `${liar.host}/digits${end}`))).toContain(`expected ${digest}`);
      expect(await store.list()).toEqual([]);
    }
  });

  test("is reported if the registry changes a manifest that was pushed", async () => {
    await using liar = await registryProxy(registry.port, ({ method, path }) =>
      method === "PUT" && /manifests/.test(path)
        ? { status: 201, headers: { "Docker-Content-Digest": `sha256:${"0".repeat(64)}` } }
        : undefined,
    );
    const store = emptyStore();
    await putModel(store, "one", 50_000);
    expect(await failure(pushTo(store, "digits:v1", `${liar.host}/digits:v3`))).toContain("registry_corrupt: ");
  });
});

const blob = (text: string) => ({ digest: digestOf(Buffer.from(text)), size: Buffer.byteLength(text) });
const layer = (text: string, title: string, mediaType: string = mediaTypes.weights) => ({
  mediaType,
  ...blob(text),
  annotations: { [annotations.title]: title },
});
const bundle = layer("// code", "model.js", mediaTypes.bundle);

/** Manifest, config and blobs of a valid model; the options make it invalid. */
function content(options: { config?: unknown; layers?: readonly object[]; manifest?: object } = {}): Content {
  const config = JSON.stringify(options.config ?? modelConfig());
  const manifest = JSON.stringify({
    schemaVersion: 2,
    mediaType: mediaTypes.manifest,
    artifactType: mediaTypes.model,
    config: { mediaType: mediaTypes.config, ...blob(config) },
    layers: options.layers ?? [bundle, layer("weights", "digits.pt")],
    ...options.manifest,
  });
  const blobs = new Map([config, "// code", "weights"].map((text) => [blob(text).digest, text]));
  return { manifest, blobs };
}

describe("a model from a registry", () => {
  test("is accepted if answers lack any optional part", async () => {
    await using registry = await fakeRegistry({ content: content() });
    const store = emptyStore();
    await pullFrom(store, `${registry.host}/digits:v1`);
    await store.verify(await store.resolve("digits:v1"));
  });

  const docker = "application/vnd.docker.distribution.manifest.v2+json";
  const weights = layer("weights", "digits.pt");
  test.each<[string, Content, string]>([
    [
      "an image",
      content({
        manifest: {
          artifactType: undefined,
          mediaType: docker,
          config: { mediaType: "application/vnd.docker.container.image.v1+json" },
        },
      }),
      "is not a sconce model: its type is application/vnd.docker.container.image.v1+json",
    ],
    [
      "an index of images",
      { manifest: JSON.stringify({ schemaVersion: 2, mediaType: mediaTypes.index, manifests: [] }) },
      `is not a sconce model: its type is ${mediaTypes.index}`,
    ],
    ["something else", { manifest: "<!doctype html>" }, "is not JSON"],
    ["a manifest without end", { manifest: " ".repeat(5_000_000) }, "has more than 4194304 bytes"],
    [
      "a path that leaves the folder",
      content({ layers: [bundle, layer("weights", "../digits.pt")] }),
      "expected a relative path",
    ],
    ["no code", content({ layers: [weights] }), "has 0 layers of type application/vnd.sconce.bundle.v1+js"],
    [
      "code twice",
      content({ layers: [bundle, { ...bundle, annotations: { [annotations.title]: "b.js" } }] }),
      "has 2 layers of type",
    ],
    [
      "a million layers that are none",
      { manifest: content({ layers: [] }).manifest.replace('"layers":[]', `"layers":[{}${",{}".repeat(1_000_000)}]`) },
      "has a manifest that can't be read: ",
    ],
    [
      "a config of a million inputs that are none",
      content({ config: { ...modelConfig(), inputs: Array(1_000_000).fill(0) } }),
      "expected object, received number   → at inputs[0]",
    ],
    [
      "one digest with two sizes",
      content({ layers: [bundle, weights, { ...weights, size: 8, annotations: { [annotations.title]: "b" } }] }),
      "gives blob sha256:",
    ],
    [
      "another algorithm",
      content({ layers: [bundle, { ...weights, digest: `sha512:${"0".repeat(128)}` }] }),
      'expected "sha256:" and 64 hex digits',
    ],
    ["a model of a later sconce", content({ config: { ...modelConfig(), sconceApi: 2 } }), "version 2 of sconce's API"],
    ["a config that is none", content({ config: { sconceApi: 1 } }), "has a config that can't be read"],
    [
      "a config of a gigabyte",
      content({ manifest: { config: { mediaType: mediaTypes.config, ...blob("{}"), size: 2 ** 30 } } }),
      "expected JSON of a few kilobytes",
    ],
  ])("%s is refused", async (_, sent, part) => {
    await using registry = await fakeRegistry({ content: sent });
    const store = emptyStore();
    const message = await failure(pullFrom(store, `${registry.host}/digits:v1`));
    expect(message).toContain("model_invalid: ");
    expect(message).toContain(part);
    expect(message.length).toBeLessThan(1000);
    expect(await store.list()).toEqual([]);
  });

  test("is accepted with unknown entries in the manifest, and without files of unknown types", async () => {
    const absent = { mediaType: mediaTypes.index, digest: `sha256:${"0".repeat(64)}` };
    const odd = content({ manifest: { manifests: [absent, 5] } });
    await using registry = await fakeRegistry({ content: odd });
    const store = emptyStore();
    await pullFrom(store, `${registry.host}/digits:v2`);
    const { reference } = await putModel(store, "other", 50_000);
    expect(store.remove((await store.resolve(reference)).byDigest).freedBytes).toBeGreaterThan(50_000);
    await store.verify(await store.resolve("digits:v2"));
  });

  test("is not read beyond the size that the manifest states", async () => {
    const short = content({ layers: [bundle, { ...layer("weights", "digits.pt"), size: 3 }] });
    await using registry = await fakeRegistry({ content: short });
    const message = await failure(pullFrom(emptyStore(), `${registry.host}/digits:v1`));
    expect(message).toMatch(/^registry_corrupt: blob sha256:\w+ is longer than its 3 bytes$/);
  });

  test("is not requested if the disk lacks space for its size", async () => {
    const vast = content({ layers: [bundle, { ...layer("weights", "digits.pt"), size: 1e15 }] });
    await using registry = await fakeRegistry({ content: vast });
    const store = emptyStore();
    const message = await failure(pullFrom(store, `${registry.host}/digits:v1`));
    expect(message).toStartWith(`store_unwritable: the model store ${store.home} has room for `);
    expect(message).toContain("but 909.5 TiB are needed; ");
    expect(registry.requests.filter((path) => path.includes("/blobs/"))).toEqual([]);
  });

  test("that ends early is requested again a few times", async () => {
    const long = content({ layers: [bundle, { ...layer("weights", "digits.pt"), size: 30 }] });
    await using registry = await fakeRegistry({ content: long });
    const message = await failure(pullFrom(emptyStore(), `${registry.host}/digits:v1`));
    expect(message).toContain("sent only a part of a blob");
    expect(registry.requests.filter((path) => path.includes("/blobs/")).length).toBeGreaterThanOrEqual(5);
  });

  test("is reported if a file of it does not exist", async () => {
    const { manifest } = content();
    await using registry = await fakeRegistry({ content: { manifest } });
    const message = await failure(pullFrom(emptyStore(), `${registry.host}/digits:v1`));
    expect(message).toContain("model_not_found: ");
    expect(message).toContain(`no longer has blob sha256:`);
  });
});

describe("a host that is no registry", () => {
  const page: Answer = { body: "<!doctype html>", headers: { "Content-Type": "text/html" } };

  test.each<[Answer, string]>([
    [page, "has a manifest that is not JSON"],
    [{ status: 404, body: "nothing" }, "if this host is no registry, check its name and the port"],
  ])("is reported with the name that was given: %j", async (always, part) => {
    await using site = await fakeRegistry({ always });
    const message = await failure(pullFrom(emptyStore(), `${site.host}/digits:v1`));
    expect(message).toContain(`${site.host}/digits:v1`);
    expect(message).toContain(part);
  });

  test("is never reported as a successful push, whatever it answers", async () => {
    const store = emptyStore();
    await putModel(store, "one");
    for (const always of [page, { body: "{}" }, {}]) {
      await using site = await fakeRegistry({ always });
      const message = await failure(pushTo(store, "digits:v1", `${site.host}/digits:v1`));
      expect(message).toMatch(/^registry_(refused|corrupt): /);
    }
  });

  test("prints only text to a terminal, no control characters", async () => {
    const artifactType = `evil\u001b]0;owned\u0007\u001b[31m\u202e${"x".repeat(5000)}`;
    await using site = await fakeRegistry({ always: { body: JSON.stringify({ artifactType }) } });
    const env = { SCONCE_HOME: dir.join(crypto.randomUUID()) };
    const { code, stderr } = await cli(["pull", `${site.host}/digits:v1`], { env });
    expect(code).toBe(1);
    expect(stderr).toMatch(/^sconce: [^\p{Cc}\p{Bidi_Control}]{10,1000}\n$/u);
  });

  test("whose login challenge is one long word is reported as unknown", async () => {
    const headers = { "WWW-Authenticate": "a".repeat(200_000) };
    await using site = await fakeRegistry({ always: { status: 401, headers } });
    const message = await failure(pullFrom(emptyStore(), `${site.host}/digits:v1`));
    expect(message).toContain("(401 without a challenge that sconce knows: Basic or Bearer)");
  }, 20_000);

  test("that refuses or closes connections is reported in one line with the fix", async () => {
    const closed = await fakeRegistry();
    const { host } = closed;
    await closed[Symbol.asyncDispose]();
    expect(await failure(pullFrom(emptyStore(), `${host}/digits:v1`))).toBe(
      `registry_unavailable: ${host} refuses connections; check the name and the port, and that the registry runs`,
    );
  });

  test("without TLS is reported with the option that helps", async () => {
    await using plain = await fakeRegistry();
    const { host } = plain;
    expect(await failure(pullFrom(emptyStore(), `${host}/digits:v1`, { isPlain: false }))).toBe(
      `registry_unavailable: ${host} does not speak TLS; if the registry has no TLS and you trust the network, pull or push with --plain-http`,
    );
  });

  test.skipIf(Bun.which("openssl") === null)("with an unknown certificate is reported", async () => {
    const { key, cert } = await makeCertificates(dir);
    await using secured = await fakeRegistry({ tls: { key, cert } });
    const message = await failure(pullFrom(emptyStore(), `${secured.host}/digits:v1`, { isPlain: false }));
    expect(message).toContain("has a certificate that is not trusted (");
    expect(message).toContain("name the authority's file in NODE_EXTRA_CA_CERTS");
  });

  test("with endless redirects, or a redirect to another scheme, is refused", async () => {
    for (const [location, part] of [
      ["/v2/digits/manifests/v1", "redirects more than 5 times"],
      ["file:///etc/passwd", "redirects to a URL without https"],
    ] as const) {
      await using site = await fakeRegistry({ always: { status: 302, headers: { Location: location } } });
      expect(await failure(pullFrom(emptyStore(), `${site.host}/digits:v1`))).toContain(part);
    }
  });
});
