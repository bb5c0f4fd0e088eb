/**
 * Simulated registries: names and token scopes of known providers (Docker Hub, GHCR, …), where registries lead, and
 * uploads to registries that close connections, discard uploads or stop reading.
 */
import { describe, expect, test } from "bun:test";
import type { ModelStore } from "../src/package/store/store.ts";
import { emptyStores } from "./helpers/empty-stores.ts";
import { failure } from "./helpers/failure.ts";
import { fakeRegistry } from "./helpers/fake-registry.ts";
import { fixture } from "./helpers/fixture.ts";
import { pullFrom, pushTo, putModel } from "./helpers/transfer.ts";

const emptyStore = emptyStores();

async function storeOf(weightBytes: number): Promise<ModelStore> {
  const made = emptyStore();
  await putModel(made, "one", weightBytes);
  return made;
}
const store = fixture(() => storeOf(50_000));

test.each([
  ["docker.io/alice/digits:v1", "alice/digits"],
  ["docker.io/digits:v1", "library/digits"],
  ["123456789012.dkr.ecr.eu-west-1.amazonaws.com/digits:v1", "digits"],
  ["quay.io/alice/digits:v1", "alice/digits"],
])("%s is pushed to and pulled from %s", async (reference, repository) => {
  await using fake = await fakeRegistry({ tokens: {} });
  await pushTo(store, "digits", reference, { apiHost: fake.host });
  const { digest } = await pullFrom(emptyStore(), reference, { apiHost: fake.host });
  expect(digest).toBe((await store.resolve("digits")).digest);
  expect(fake.requests).toContain(`PUT /v2/${repository}/manifests/v1`);
  expect(fake.tokens.map(({ query }) => query.scope)).toEqual([
    `repository:${repository}:pull,push`,
    `repository:${repository}:pull`,
  ]);
});

test.each([
  ["registry.example.com asks for a login", { status: 401, code: "UNAUTHORIZED" }],
  ["check the name and that the repository exists", { status: 403, code: "DENIED" }],
  ["has no repository digits, and a push does not create it", { status: 404, code: "NAME_UNKNOWN" }],
])("a push to a repository that does not exist is refused: %s", async (message, missing) => {
  await using fake = await fakeRegistry({ tokens: {}, missing });
  const pushing = pushTo(store, "digits", "registry.example.com/digits:v1", { apiHost: fake.host });
  expect(await failure(pushing)).toContain(message);
});

describe("a registry can send its clients", () => {
  /** Pulls from a registry at `address` that leads to another server on 127.0.0.1, by a redirect or for a token. */
  async function pulled(address: string, lead: "redirect" | "realm") {
    await using inner = await fakeRegistry();
    const target = `http://${inner.host}/x`;
    const headers = lead === "redirect" ? { Location: target } : { "WWW-Authenticate": `Bearer realm="${target}"` };
    await using outer = await fakeRegistry({ always: { status: lead === "redirect" ? 307 : 401, headers } });
    const resolver = async (name: string) => (name === "localhost" ? [address] : ["10.0.0.7"]);
    const message = await failure(pullFrom(emptyStore(), `localhost:${outer.port}/digits:v1`, { resolver }));
    return { message, reached: inner.requests.length };
  }

  test.each(["redirect", "realm"] as const)(
    "not into a private network, if the registry is public: %s",
    async (lead) => {
      const { message, reached } = await pulled("8.8.8.8", lead);
      expect(message).toMatch(
        /registry_refused: localhost:\d+ leads to 127\.0\.0\.1:\d+, which is in a private network/,
      );
      expect(reached).toBe(0);
    },
  );

  test.each(["redirect", "realm"] as const)("anywhere, if the registry is in a private network: %s", async (lead) => {
    expect((await pulled("127.0.0.1", lead)).reached).toBeGreaterThan(0);
  });
});

describe("an upload", () => {
  test.each([
    ["is one request", [], 1],
    ["that is interrupted starts again", [{ cutAfter: 40_000 }, undefined], 2],
    ["starts again if the registry has discarded the upload", ["forget"], 2],
  ] as const)("%s", async (_, faults, requests) => {
    const store = await storeOf(250_000);
    await using server = await fakeRegistry({ faults });
    await pushTo(store, "digits:v1", `${server.host}/team/digits:v1`);
    const model = await store.resolve("digits");
    for (const { digest, path } of model.layers) {
      expect(server.blobs.get(digest)?.equals(await Bun.file(path).bytes())).toBe(true);
    }
    expect(server.manifests.get("v1")?.toString()).toBe(await Bun.file(store.blobPath(model.digest)).text());
    expect(server.largeUploads).toBe(requests);
  });

  test("that is refused with 416 several times ends with the registry's reason", async () => {
    const store = await storeOf(250_000);
    await using server = await fakeRegistry({ faults: Array.from({ length: 20 }, () => "refuse" as const) });
    expect(await failure(pushTo(store, "digits:v1", `${server.host}/team/digits:v1`))).toBe(
      `registry_refused: ${server.host} refused an upload: 416 BLOB_UPLOAD_INVALID: upload is too large (tried 5 times)`,
    );
    expect(server.manifests.size).toBe(0);
  });

  test("whose body the registry stops reading is abandoned, whatever its size", async () => {
    const store = await storeOf(30_000_000);
    await using server = await fakeRegistry({ faults: Array.from({ length: 20 }, () => ({ stallAfter: 1 })) });
    const pushing = pushTo(store, "digits:v1", `${server.host}/team/digits:v1`, { silenceMs: 300 });
    expect(await failure(pushing)).toBe(
      `registry_unavailable: ${server.host} has sent nothing for too long (tried 5 times)`,
    );
    expect(server.largeUploads).toBe(5);
  });

  test("of a damaged file is reported with the registry's error", async () => {
    const store = await storeOf(50_000);
    const { path, size } = (await store.resolve("digits")).layer("digits.pt");
    await Bun.write(path, new Uint8Array(size));
    await using server = await fakeRegistry();
    expect(await failure(pushTo(store, "digits:v1", `${server.host}/team/digits:v1`))).toBe(
      `registry_refused: ${server.host} refused a request for team/digits: 400 DIGEST_INVALID: provided digest did not match`,
    );
  });
});
