/** Pushes and pulls with sconce and with skopeo. The registry is Debian's docker-registry. */
import { describe, expect, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { generatedTag } from "../src/package/store/reference.ts";
import { ModelStore } from "../src/package/store/store.ts";
import { makeCertificates } from "./helpers/certificates.ts";
import { cli } from "./helpers/cli.ts";
import { failure } from "./helpers/failure.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { hasRegistry, registryFixture, startRegistry } from "./helpers/registry.ts";
import { registryProxy } from "./helpers/registry-proxy.ts";
import { skopeo, skopeoObstacle } from "./helpers/skopeo.ts";
import { pullFrom, pushTo, putModel } from "./helpers/transfer.ts";

const registry = registryFixture();
const dir = fixture(tempDir);
const store = fixture(async () => {
  const made = new ModelStore(dir.join("store"));
  await putModel(made, "one", 200_000);
  return made;
});

const run = (home: string, ...args: string[]) => cli(args, { env: { SCONCE_HOME: home, HOME: dir.path } });

async function tagsOf(of: ModelStore): Promise<Record<string, readonly string[]>> {
  return Object.fromEntries((await of.list()).map(({ repository, tags }) => [repository, tags]));
}

async function blobsOf(of: ModelStore): Promise<Record<string, string>> {
  const folder = `${of.home}/blobs/sha256`;
  const names = await readdir(folder);
  return Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, await Bun.file(`${folder}/${name}`).text()])),
  );
}

describe.skipIf(!hasRegistry)("with a registry (Debian's docker-registry)", () => {
  test("a model is pushed, and pulled into another store, with equal bytes, digest and generated tag", async () => {
    const { digest } = await store.resolve("digits");
    const tag = generatedTag(digest);
    const remote = `${registry.host}/team/digits:v1`;
    expect(await run(store.home, "push", "digits:v1", remote)).toEqual({
      code: 0,
      stdout: `${registry.host}/team/digits@${digest}\n`,
      stderr: `ℹ Pushed digits:v1 to ${remote}: 3 of 3 files, 195.6 KiB\n`,
    });
    const other = new ModelStore(dir.join("other"));
    expect(await run(other.home, "pull", remote)).toEqual({
      code: 0,
      stdout: `${remote}\n`,
      stderr: `ℹ Pulled ${remote}: 195.6 KiB\n`,
    });
    expect(await tagsOf(other)).toEqual({ [`${registry.host}/team/digits`]: [tag, "latest", "v1"] });
    expect((await other.resolve(remote)).digest).toBe(digest);
    expect(await blobsOf(other)).toEqual(await blobsOf(store));
    await other.verify(await other.resolve(remote));
    expect(await readdir(`${other.home}/.tmp`)).toEqual([]);
  });

  test("a push needs only its target if the model has this name; else the model's tag is the default", async () => {
    store.tag("digits:v1", `${registry.host}/a/digits:v1`);
    expect((await run(store.home, "push", `${registry.host}/a/digits:v1`)).code).toBe(0);
    const { stdout, stderr } = await run(store.home, "push", "digits:v1", `${registry.host}/b/digits`);
    expect(stderr).toContain(`to ${registry.host}/b/digits:v1`);
    // The push prints a reference with the digest, which can be pulled. A model that is pulled by its digest gets its
    // generated tag.
    const home = dir.join("by-digest");
    const pulled = await run(home, "pull", stdout.trim());
    const { digest } = await store.resolve("digits");
    expect(pulled.stdout).toBe(`${registry.host}/b/digits:${generatedTag(digest)}\n`);
    expect(await tagsOf(new ModelStore(home))).toEqual({
      [`${registry.host}/b/digits`]: [generatedTag(digest), "latest"],
    });
  });

  test("pushes and pulls do not transfer blobs that exist at their destination", async () => {
    await using proxy = await registryProxy(registry.port);
    const remote = `${proxy.host}/again/digits:v1`;
    expect(await pushTo(store, "digits:v1", remote)).toMatchObject({ sentBlobs: 3, blobs: 3 });
    expect(await pushTo(store, "digits:v1", remote)).toMatchObject({ sentBlobs: 0, sentBytes: 0 });
    expect(proxy.of("POST", /uploads/).length).toBe(3);

    const other = new ModelStore(dir.join("sharing"));
    await pullFrom(other, remote);
    await pullFrom(other, remote);
    expect(proxy.of("GET", /blobs/).length).toBe(3);
  });

  test("a pull downloads a damaged blob of the store again", async () => {
    const other = new ModelStore(dir.join("damaged"));
    const remote = `${registry.host}/damaged/digits:v1`;
    await pushTo(store, "digits:v1", remote);
    await pullFrom(other, remote);
    const { path, size } = (await other.resolve("digits")).layer("digits.pt");
    await Bun.write(path, new Uint8Array(size));
    expect((await pullFrom(other, remote)).receivedBytes).toBe(size);
    await other.verify(await other.resolve("digits"));
  });

  test("a pull moves the pulled tag, and latest only if the repository had none", async () => {
    const other = new ModelStore(dir.join("latest"));
    const built = await putModel(other, "built here");
    await pushTo(store, "digits:v1", `${registry.host}/latest/digits:v1`);
    const pulled = await pullFrom(other, `${registry.host}/latest/digits:v1`);
    expect((await other.resolve("digits:v1")).digest).toBe(pulled.digest);
    expect((await other.resolve("digits")).digest).toBe(built.digest);
    await pushTo(store, "digits:v1", `${registry.host}/latest/digits:latest`);
    await pullFrom(other, `${registry.host}/latest/digits:latest`);
    expect((await other.resolve("digits")).digest).toBe(pulled.digest);
  });

  test("a missing tag, repository or digest is reported", async () => {
    await pushTo(store, "digits:v1", `${registry.host}/few/digits:v1`);
    const { code, stdout, stderr } = await run(dir.join("none"), "pull", `${registry.host}/few/digits:v2`);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toBe(`sconce: no model ${registry.host}/few/digits:v2\n`);
    const other = new ModelStore(dir.join("none"));
    expect(await failure(pullFrom(other, `${registry.host}/few/digit:v1`))).toBe(
      `model_not_found: no model ${registry.host}/few/digit:v1`,
    );
    expect(await failure(pullFrom(other, `${registry.host}/few/digits@sha256:${"0".repeat(64)}`))).toContain(
      "model_not_found: no model",
    );
  });
});

test.skipIf(!hasRegistry || Bun.which("openssl") === null)(
  "over TLS (with Debian's docker-registry and openssl), a named private authority is trusted",
  async () => {
    const { key, cert } = await makeCertificates(dir);
    await using secured = await startRegistry({ tls: { key, cert } });
    const script = require.resolve("./helpers/transfer-child.ts");
    const child = Bun.spawn(
      [process.execPath, script, store.home, dir.join("over-tls"), `${secured.host}/team/digits:v1`],
      { env: { ...process.env, NODE_EXTRA_CA_CERTS: dir.join("ca.pem") }, stdout: "pipe", stderr: "inherit" },
    );
    expect((await child.stdout.text()).trim()).toBe((await store.resolve("digits")).digest);
  },
);

describe.skipIf(!hasRegistry || skopeoObstacle !== undefined)("skopeo (with Debian's docker-registry)", () => {
  const copy = (from: string, to: string) =>
    skopeo("copy", "--src-tls-verify=false", "--dest-tls-verify=false", from, to);

  test("copies a model from the store to a registry, from which sconce pulls equal bytes", async () => {
    await copy(`oci:${store.home}:digits:v1`, `docker://${registry.host}/by-skopeo/digits:v1`);
    const other = new ModelStore(dir.join("from-skopeo"));
    const { digest } = await pullFrom(other, `${registry.host}/by-skopeo/digits:v1`);
    expect(digest).toBe((await store.resolve("digits")).digest);
    expect(await blobsOf(other)).toEqual(await blobsOf(store));
  });

  test("copies a pushed model into a store, where sconce finds it", async () => {
    await pushTo(store, "digits:v1", `${registry.host}/for-skopeo/digits:v1`);
    const other = new ModelStore(dir.join("to-skopeo"));
    await copy(`docker://${registry.host}/for-skopeo/digits:v1`, `oci:${other.home}:digits:v1`);
    const { stdout } = await run(other.home, "inspect", "digits:v1");
    const { digest, config } = JSON.parse(stdout);
    const model = await store.resolve("digits");
    expect({ digest, config }).toEqual({ digest: model.digest, config: model.config });
    expect(await blobsOf(other)).toEqual(await blobsOf(store));
    // The store that skopeo has filled accepts builds.
    const two = await putModel(other, "two");
    expect((await other.resolve("digits:v1")).digest).toBe(two.digest);
  });
});
