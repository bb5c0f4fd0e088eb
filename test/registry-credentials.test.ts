/**
 * Logins at registries: passwords, credential helpers, tokens, and who gets a secret. The registries are Debian's
 * docker-registry and a simulated one.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { chmod } from "node:fs/promises";
import { Authorization } from "../src/package/registry/authorization.ts";
import { findCredentials } from "../src/package/registry/credentials.ts";
import { ModelStore } from "../src/package/store/store.ts";
import { type CliResult, cli } from "./helpers/cli.ts";
import { failure } from "./helpers/failure.ts";
import { fakeRegistry } from "./helpers/fake-registry.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelOf } from "./helpers/model-content.ts";
import { hasRegistry, startRegistry } from "./helpers/registry.ts";
import { registryProxy } from "./helpers/registry-proxy.ts";
import { pullFrom, pushTo, putModel } from "./helpers/transfer.ts";

const password = "s3cret:with/colon";
const auth = Buffer.from(`reader:${password}`).toString("base64");

let store: ModelStore;

const dir = fixture(tempDir);
beforeAll(async () => {
  store = new ModelStore(dir.join("store"));
  await putModel(store, "one");
});

/** Writes this config.json into a new folder. @returns DOCKER_CONFIG for it */
async function dockerConfig(content: unknown): Promise<Record<string, string>> {
  const folder = dir.join(crypto.randomUUID());
  await Bun.write(`${folder}/config.json`, JSON.stringify(content));
  return { DOCKER_CONFIG: folder };
}

/**
 * Writes a credential helper with this script, which also records its input. @returns a PATH that finds the helper,
 * and the file with its input
 */
async function helper(name: string, script: string): Promise<{ PATH: string; asked: string }> {
  const folder = dir.join(crypto.randomUUID());
  const asked = `${folder}/asked`;
  await Bun.write(`${folder}/docker-credential-${name}`, `#!/bin/sh\necho "$1 $(cat)" >> ${asked}\n${script}\n`);
  await chmod(`${folder}/docker-credential-${name}`, 0o755);
  return { PATH: `${folder}:${process.env.PATH}`, asked };
}

describe.skipIf(!hasRegistry)("a registry with passwords (Debian's docker-registry)", () => {
  const registry = fixture(() => startRegistry({ users: { reader: password } }));

  const run = (env: Record<string, string>, ...args: string[]): Promise<CliResult> =>
    cli([...args, "--log-level", "trace"], { env: { SCONCE_HOME: store.home, HOME: dir.path, ...env } });

  test("uses the saved login for pushes and pulls, and reveals no secret", async () => {
    const env = await dockerConfig({ auths: { [`http://${registry.host}/v2/`]: { auth } } });
    const pushed = await run(env, "push", "digits:v1", `${registry.host}/team/digits`);
    const pulled = await run({ ...env, SCONCE_HOME: dir.join("pulled") }, "pull", `${registry.host}/team/digits:v1`);
    expect([pushed.code, pulled.code, pulled.stdout]).toEqual([0, 0, `${registry.host}/team/digits:v1\n`]);
    expect(JSON.stringify([pushed, pulled])).not.toMatch(/s3cret|cmVhZGVy/);
  });

  test("without a login reports which files were searched, and how to log in", async () => {
    const { code, stderr } = await run({}, "pull", `${registry.host}/team/digits:v1`);
    expect(code).toBe(1);
    expect(stderr).toMatch(/ to pull team\/digits \(401\); none was found in .*\/\.docker\/config\.json: /);
    expect(stderr).toContain(` docker login ${registry.host}\n`);
  });

  test("with a wrong password names the user, not the password", async () => {
    const wrong = Buffer.from("reader:wr0ng").toString("base64");
    const env = await dockerConfig({ auths: { [registry.host]: { auth: wrong } } });
    const { code, stderr } = await run(env, "push", "digits:v1", `${registry.host}/team/digits`);
    expect(code).toBe(1);
    expect(stderr).toContain(`${registry.host} does not let reader push to team/digits (401`);
    expect(stderr).not.toMatch(/wr0ng|cmVhZGVy/);
  });

  test("uses a credential helper, which is asked for the host", async () => {
    const { PATH, asked } = await helper("test", `echo '{"Username":"reader","Secret":"${password}"}'`);
    for (const config of [{ credHelpers: { [registry.host]: "test" } }, { credsStore: "test", auths: {} }]) {
      const env = { ...(await dockerConfig(config)), PATH };
      expect((await run(env, "push", "digits:v1", `${registry.host}/helped/digits`)).code).toBe(0);
    }
    expect(await Bun.file(asked).text()).toBe(`get ${registry.host}\nget ${registry.host}\n`);
  });

  test("uses podman's file", async () => {
    const file = dir.join("auth.json");
    await Bun.write(file, JSON.stringify({ auths: { [registry.host]: { auth } } }));
    await pushTo(store, "digits:v1", `${registry.host}/podman/digits:v1`, { env: { REGISTRY_AUTH_FILE: file } });
  });
});

describe("saved credentials", () => {
  const find = (env: Record<string, string>, host = "registry.example.com") =>
    findCredentials(host, { HOME: dir.path, ...env });

  test.each([
    [{ auths: { "registry.example.com": { username: "reader", password } } }, { username: "reader", password }],
    [{ auths: { "https://registry.example.com": { auth } } }, { username: "reader", password }],
    [{ auths: { "registry.example.com.evil.example": { auth }, "example.com": { auth } } }, undefined],
    [{ auths: { "registry.example.com": {} }, HttpHeaders: {} }, undefined],
  ] as const)("%j", async (config, expected) => {
    expect((await find(await dockerConfig(config))).found).toEqual(expected);
  });

  test.each(["https://index.docker.io/v1/", "docker.io", "registry-1.docker.io"])(
    "of Docker Hub are found under %s",
    async (key) => {
      const env = await dockerConfig({ auths: { [key]: { auth } } });
      expect((await find(env, "docker.io")).found).toEqual({ username: "reader", password });
    },
  );

  test("of Docker Hub are requested from a helper under the name https://index.docker.io/v1/", async () => {
    const { PATH, asked } = await helper("test", `echo '{"Username":"reader","Secret":"${password}"}'`);
    const env = { ...(await dockerConfig({ credsStore: "test" })), PATH };
    expect((await find(env, "docker.io")).found).toEqual({ username: "reader", password });
    expect(await Bun.file(asked).text()).toBe("get https://index.docker.io/v1/\n");
  });

  test("of a helper that does not answer are not waited for: the helper is killed, with the programs that it has started", async () => {
    const { PATH } = await helper("slow", "sleep 1000");
    const env = { HOME: dir.path, ...(await dockerConfig({ credsStore: "slow" })), PATH };
    expect(await failure(findCredentials("registry.example.com", env, 100))).toContain("within 0.1 s");
  });

  test("may be missing from a helper", async () => {
    const config = await dockerConfig({ credsStore: "test", auths: { "registry.example.com": { auth } } });
    const nothing = await helper("test", "echo 'credentials not found in native keychain'; exit 1");
    expect((await find({ ...config, PATH: nothing.PATH })).found).toMatchObject({ username: "reader" });
  });

  test("that are an identity token are refused", async () => {
    const fix = "has an identity token; log in with a name and a password or an access token";
    const entry = await dockerConfig({ auths: { "registry.example.com": { auth, identitytoken: "s3cret" } } });
    expect(await failure(find(entry))).toEndWith(fix);
    const { PATH } = await helper("test", `echo '{"Username":"<token>","Secret":"s3cret"}'`);
    const config = await dockerConfig({ credsStore: "test" });
    expect(await failure(find({ ...config, PATH }))).toEndWith(fix);
  });

  test("that cannot be read fail with the reason, which does not contain them", async () => {
    const env = await dockerConfig({});
    const file = `${env.DOCKER_CONFIG}/config.json`;
    await Bun.write(file, `{"auths": {"registry.example.com": {"auth": "${auth}"`);
    expect(await failure(find(env))).toBe(`registry_denied: ${file} is not JSON; log in again, or correct it`);
    await Bun.write(file, JSON.stringify({ auths: { "registry.example.com": { auth: 3 } } }));
    expect(await failure(find(env))).toContain("auths.registry.example.com.auth is invalid");
    await Bun.write(file, JSON.stringify({ credsStore: "absent" }));
    expect(await failure(find({ ...env, PATH: "/nonexistent" }))).toContain(
      "names docker-credential-absent for credentials, but it is not on the PATH",
    );
    const broken = await helper("absent", `echo ${password}; exit 3`);
    const message = await failure(find({ ...env, PATH: broken.PATH }));
    expect(message).toContain("docker-credential-absent failed for registry.example.com with code 3");
    expect(message).not.toContain("s3cret");
  });
});

describe("a registry with a token server", () => {
  test("gives one token for a name and password, for each scope", async () => {
    await using server = await fakeRegistry({ tokens: { scope: "x" } });
    const env = await dockerConfig({ auths: { [server.host]: { auth } } });
    await pushTo(store, "digits:v1", `${server.host}/team/digits:v1`, { env });
    await pullFrom(new ModelStore(dir.join("token")), `${server.host}/team/digits:v1`, { env });
    const query = { a: "b", service: 'a "service"' };
    expect(server.tokens).toEqual([
      { authorization: `Basic ${auth}`, query: { ...query, scope: "repository:team/digits:pull,push x" } },
      { authorization: `Basic ${auth}`, query: { ...query, scope: "repository:team/digits:pull x" } },
    ]);
  });

  test("gives tokens without a login, too, and a new token when the old one has expired", async () => {
    const tokens = { uses: Infinity };
    await using server = await fakeRegistry({ tokens });
    await pushTo(store, "digits:v1", `${server.host}/open/digits:v1`);
    const { length } = server.tokens;
    tokens.uses = 2;
    await pullFrom(new ModelStore(dir.join("anonymous")), `${server.host}/open/digits:v1`);
    expect(server.tokens.slice(length).map(({ authorization }) => authorization)).toEqual([undefined, undefined]);
  });

  test("that refuses is reported with the user", async () => {
    await using server = await fakeRegistry({ tokens: { refused: true } });
    const env = await dockerConfig({ auths: { [server.host]: { auth } } });
    expect(await failure(pushTo(store, "digits:v1", `${server.host}/team/digits:v1`, { env }))).toContain(
      "does not let reader push to team/digits (401 from its token server)",
    );
    expect(server.tokens.length).toBeGreaterThan(0);
  });

  test("gets the scopes that the registry names, too: that of its own repository for a mirrored one, and all actions", async () => {
    const scope = "repository:mirror/digits:delete repository:upstream/digits:pull";
    await using server = await fakeRegistry({ tokens: { scope } });
    await pushTo(store, "digits:v1", `${server.host}/mirror/digits:v1`);
    await pullFrom(new ModelStore(dir.join("mirror")), `${server.host}/mirror/digits:v1`);
    expect(server.tokens.map(({ query }) => query.scope)).toEqual([
      "repository:mirror/digits:pull,push,delete repository:upstream/digits:pull",
      "repository:mirror/digits:pull,delete repository:upstream/digits:pull",
    ]);
  });

  test("gives a second token if the registry does not know the first one yet", async () => {
    await using server = await fakeRegistry({ tokens: { unknown: 1 } });
    await pushTo(store, "digits:v1", `${server.host}/late/digits:v1`);
    expect(server.tokens.length).toBe(2);
  });

  test("that gives invalid tokens is not asked again and again", async () => {
    await using server = await fakeRegistry({ tokens: { uses: 0 } });
    const message = await failure(pullFrom(new ModelStore(dir.join("never")), `${server.host}/team/digits:v1`));
    expect(message).toContain("(401, also with a second new token)");
    expect(server.tokens.length).toBe(2);
  });

  test("without TLS gets no credentials of a registry with TLS", async () => {
    const env = await dockerConfig({ auths: { "registry.example.com": { auth } } });
    const authorization = new Authorization({
      host: "registry.example.com",
      repository: "digits",
      actions: "pull",
      env: { HOME: dir.path, ...env },
      isPlain: false,
      send: () => Promise.reject(new Error("nothing may be sent")),
    });
    const challenge = 'Bearer realm="http://tokens.example.com/"';
    expect(await failure(authorization.renew(challenge, undefined))).toContain("expected an https URL");
  });
});

describe.skipIf(!hasRegistry)("blobs on another host (before Debian's docker-registry)", () => {
  test("are fetched without the registry's credentials", async () => {
    await using registry = await startRegistry({ users: { reader: password } });
    await using storage = await registryProxy(registry.port, ({ path }) => {
      // A storage that answers only signed URLs. The signature has the digest of the blob.
      const digest = /signed=(sha256:[0-9a-f]+)/.exec(path)?.[1];
      return digest === undefined
        ? { status: 403 }
        : { status: 200, body: new TextDecoder().decode(contents.get(digest)) };
    });
    const contents = new Map<string, Uint8Array>();
    const env = await dockerConfig({ auths: { [registry.host]: { auth } } });
    const config = await Bun.file(`${env.DOCKER_CONFIG}/config.json`).json();
    await using proxy = await registryProxy(registry.port, ({ method, path }) => {
      const digest = /\/blobs\/(sha256:[0-9a-f]+)$/.exec(path)?.[1];
      if (method !== "GET" || digest === undefined) return undefined;
      return { status: 307, headers: { Location: `http://${storage.host}/bucket?signed=${digest}` } };
    });
    await Bun.write(
      `${env.DOCKER_CONFIG}/config.json`,
      JSON.stringify({ auths: { ...config.auths, [proxy.host]: { auth }, [storage.host]: { auth } } }),
    );
    const text = new ModelStore(dir.join("text"));
    await text.put(modelOf("text", { tags: ["v1"] }));
    const model = await text.resolve("digits");
    for (const { digest } of [model.manifest.config, ...model.layers]) {
      contents.set(digest, await Bun.file(text.blobPath(digest)).bytes());
    }
    await pushTo(text, "digits:v1", `${registry.host}/digits:v1`, { env });
    const pulled = await pullFrom(new ModelStore(dir.join("elsewhere")), `${proxy.host}/digits:v1`, { env });
    expect(pulled.digest).toBe(model.digest);
    expect(storage.requests.length).toBe(3);
    expect(storage.requests.map(({ headers }) => headers.authorization)).toEqual([undefined, undefined, undefined]);
    expect(proxy.requests.at(-1)?.headers.authorization).toBe(`Basic ${auth}`);
  });
});
