/** Simulated registries of known providers (Docker Hub, GHCR, …): names, logins, token scopes, and where they lead. */
import { beforeAll, describe, expect, test } from "bun:test";
import { chmod } from "node:fs/promises";
import { findCredentials } from "../src/package/registry/credentials.ts";
import { pull } from "../src/package/registry/pull.ts";
import { push } from "../src/package/registry/push.ts";
import { Registry } from "../src/package/registry/registry.ts";
import { parseRemoteReference } from "../src/package/registry/remote-reference.ts";
import { ModelStore } from "../src/package/store/store.ts";
import { failure } from "./helpers/failure.ts";
import { type FakeRegistry, fakeRegistry, pullFromLeading } from "./helpers/fake-registry.ts";
import { fixture } from "./helpers/fixture.ts";
import { tempDir } from "./helpers/temp-dir.ts";
import { putModel } from "./helpers/transfer.ts";

let store: ModelStore;

const dir = fixture(tempDir);
beforeAll(async () => {
  store = new ModelStore(dir.join("store"));
  await putModel(store, "one", 50_000);
});

/** A client for the registry that a reference names, but whose requests go to the simulated registry. */
function registryAt(fake: FakeRegistry, reference: string, actions: "pull" | "pull,push"): Registry {
  return new Registry({
    remote: parseRemoteReference(reference),
    actions,
    apiHost: fake.host,
    isPlain: true,
    env: { HOME: "/nonexistent" },
    signal: new AbortController().signal,
    retryDelayMs: 1,
  });
}

const pushTo = async (registry: Registry) => push({ registry, store, model: await store.resolve("digits"), tag: "v1" });

test.each([
  ["docker.io/alice/digits:v1", "alice/digits"],
  ["docker.io/digits:v1", "library/digits"],
  ["123456789012.dkr.ecr.eu-west-1.amazonaws.com/digits:v1", "digits"],
  ["quay.io/alice/digits:v1", "alice/digits"],
])("%s is pushed to and pulled from %s", async (reference, repository) => {
  await using fake = await fakeRegistry({ service: "fake" });
  await pushTo(registryAt(fake, reference, "pull,push"));
  const pulled = new ModelStore(dir.join(crypto.randomUUID()));
  const registry = registryAt(fake, reference, "pull");
  const { digest } = await pull({ registry, store: pulled, repository: "digits", tags: ["v1"] });
  expect(digest).toBe((await store.resolve("digits")).digest);
  expect(fake.requests).toContain(`PUT /v2/${repository}/manifests/v1`);
  expect(new Set(fake.scopes)).toEqual(
    new Set([`repository:${repository}:pull,push`, `repository:${repository}:pull`]),
  );
});

test.each([
  ["registry.example.com asks for a login", { status: 401, code: "UNAUTHORIZED" }],
  ["check the name and that the repository exists", { status: 403, code: "DENIED" }],
  ["has no repository digits, and a push does not create it", { status: 404, code: "NAME_UNKNOWN" }],
])("a push to a repository that does not exist is refused: %s", async (message, missing) => {
  await using fake = await fakeRegistry({ service: "fake", missing });
  const registry = registryAt(fake, "registry.example.com/digits:v1", "pull,push");
  expect(await failure(pushTo(registry))).toContain(message);
});

describe("a login for Docker Hub", () => {
  const auth = Buffer.from("alice:secret").toString("base64");
  const found = { username: "alice", password: "secret" };

  async function config(content: unknown): Promise<string> {
    const folder = dir.join(crypto.randomUUID());
    await Bun.write(`${folder}/config.json`, JSON.stringify(content));
    return folder;
  }

  test.each(["https://index.docker.io/v1/", "docker.io", "registry-1.docker.io"])("is found under %s", async (key) => {
    const DOCKER_CONFIG = await config({ auths: { [key]: { auth } } });
    expect((await findCredentials("docker.io", { HOME: dir.path, DOCKER_CONFIG })).found).toEqual(found);
  });

  test("is requested from a credential helper under the name https://index.docker.io/v1/", async () => {
    const folder = await config({ credsStore: "hub" });
    const answer = '{"Username":"alice","Secret":"secret"}';
    const script = `#!/bin/sh\n[ "$(cat)" = https://index.docker.io/v1/ ] && echo '${answer}'\n`;
    await Bun.write(`${folder}/docker-credential-hub`, script);
    await chmod(`${folder}/docker-credential-hub`, 0o755);
    const env = { HOME: dir.path, DOCKER_CONFIG: folder, PATH: `${folder}:${process.env.PATH}` };
    expect((await findCredentials("docker.io", env)).found).toEqual(found);
  });
});

test("a credential helper that does not answer is killed, with the programs that it has started", async () => {
  const folder = dir.join(crypto.randomUUID());
  await Bun.write(`${folder}/config.json`, JSON.stringify({ credsStore: "slow" }));
  await Bun.write(`${folder}/docker-credential-slow`, "#!/bin/sh\nsleep 1000\n");
  await chmod(`${folder}/docker-credential-slow`, 0o755);
  const env = { HOME: dir.path, DOCKER_CONFIG: folder, PATH: `${folder}:${process.env.PATH}` };
  expect(await failure(findCredentials("registry.example.com", env, 100))).toContain(
    "registry_denied: docker-credential-slow gave no answer for registry.example.com within 0.1 s",
  );
});

describe("a registry can send its clients", () => {
  const pulled = (address: string, lead: "redirect" | "realm") =>
    pullFromLeading(new ModelStore(dir.join(crypto.randomUUID())), address, lead);

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
