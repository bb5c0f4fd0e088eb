/** `serve` with models from a registry, with and without their weights. The registry is Debian's docker-registry. */
import { beforeAll, describe, expect, test } from "bun:test";
import { pulledModel } from "../src/cli/commands/registry/registry-pull.ts";
import { ModelStore } from "../src/package/store/store.ts";
import { clientOf, startCli } from "./helpers/cli.ts";
import { cliHere } from "./helpers/command-here.ts";
import { emptyStores } from "./helpers/empty-stores.ts";
import { failure } from "./helpers/failure.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { hasRegistry, registryFixture } from "./helpers/registry.ts";
import { registryProxy } from "./helpers/registry-proxy.ts";
import { storeWith } from "./helpers/server.ts";
import { pushTo, putModel } from "./helpers/transfer.ts";

const weightBytes = 50_000;
const registry = registryFixture();
const dir = fixture(tempDir);
/** Digests of a model in the registry, and of a later build of it. */
let first: string;
let second: string;

beforeAll(async () => {
  if (!hasRegistry) return;
  const source = new ModelStore(dir.join("source"));
  first = (await putModel(source, "one", weightBytes)).digest;
  await pushTo(source, "digits:v1", `${registry.host}/team/digits:v1`);
  second = (await putModel(source, "two", weightBytes)).digest;
  await pushTo(source, "digits:v1", `${registry.host}/team/digits:v2`);
});

const emptyStore = emptyStores();
const run = (store: ModelStore, ...args: string[]) =>
  cliHere(args, { env: { SCONCE_HOME: store.home, HOME: dir.path } });

describe.skipIf(!hasRegistry)("with a registry (Debian's docker-registry)", () => {
  test("serve pulls the model, and serves its stored copy if the registry is unavailable", async () => {
    await using built = await storeWith("lab");
    await pushTo(new ModelStore(built.home), "lab", `${registry.host}/team/lab:v1`);
    await using proxy = await registryProxy(registry.port);
    const remote = `${proxy.host}/team/lab:v1`;
    const store = emptyStore();
    const args = ["serve", remote, "--host", "127.0.0.1", "-p", "0"];
    for (const isGone of [false, true]) {
      if (isGone) await proxy[Symbol.asyncDispose]();
      await using server = startCli(args, { env: { SCONCE_HOME: store.home, HOME: dir.path } });
      const client = await clientOf(server);
      expect((await client.predict([{ x: 1 }])).outputs?.[0]?.y).toBe(3);
      expect(server.lines.some((line) => line.includes(`Pulled ${remote}`))).toBe(!isGone);
      expect(server.lines.some((line) => line.includes("the store's copy") && line.includes("refuses"))).toBe(isGone);
    }
  });

  test("files that the store has are not downloaded again; a moved tag is followed", async () => {
    let served = "v1";
    await using proxy = await registryProxy(registry.port, ({ path }) =>
      path.endsWith("/manifests/live")
        ? { status: 307, headers: { Location: `http://${registry.host}/v2/team/digits/manifests/${served}` } }
        : undefined,
    );
    const store = emptyStore();
    const remote = `${proxy.host}/team/digits:live`;
    expect(await pulledModel(store, remote)).toMatchObject({
      digest: first,
      reference: expect.stringContaining(`${proxy.host}/team/digits:`),
    });
    expect(proxy.of("GET", /blobs/).length).toBe(3);
    const index = await Bun.file(`${store.home}/index.json`).text();
    expect((await pulledModel(store, remote)).digest).toBe(first);
    expect(proxy.of("GET", /blobs/).length).toBe(3);
    expect(await Bun.file(`${store.home}/index.json`).text()).toBe(index);
    served = "v2";
    expect((await pulledModel(store, remote)).digest).toBe(second);
    expect((await store.resolve(`${proxy.host}/team/digits:live`)).digest).toBe(second);
  });

  test("models whose names have the same last part are separate, and a local build keeps its tags", async () => {
    const store = emptyStore();
    const { digest: built } = await putModel(store, "built here");
    const source = new ModelStore(dir.join("source"));
    await pushTo(source, `digits@${first}`, `${registry.host}/alice/digits:latest`);
    await pushTo(source, `digits@${second}`, `${registry.host}/bob/digits:latest`);
    await pulledModel(store, `${registry.host}/alice/digits`);
    await pulledModel(store, `${registry.host}/bob/digits`);
    const digests = ["digits", `${registry.host}/alice/digits`, `${registry.host}/bob/digits`].map(
      async (name) => (await store.resolve(name)).digest,
    );
    expect(await Promise.all(digests)).toEqual([built, first, second]);
    expect(await failure(store.resolve("bob/digits"))).toContain(`did you mean "${registry.host}/bob/digits"?`);
  });

  test("an unavailable registry gives an error of one line if the store has no copy", async () => {
    const store = emptyStore();
    // A local build with the same last part of the name is no copy of the registry's model.
    await putModel(store, "built here");
    expect(await run(store, "serve", "127.0.0.1:1/team/digits:v1")).toEqual({
      code: 1,
      stdout: "",
      stderr: expect.stringMatching(/^sconce: 127\.0\.0\.1:1 .+\n$/),
    });
    expect(await failure(pulledModel(store, `${registry.host}/team/digits:v9`))).toContain("model_not_found: no model");
  });

  test("a front downloads everything except weights, and a command that needs the weights says where they are", async () => {
    await using proxy = await registryProxy(registry.port);
    const store = emptyStore();
    const remote = `${proxy.host}/team/digits:v1`;
    const front = await pulledModel(store, remote, { withoutWeights: true });
    expect({ digest: front.digest, missingLayers: front.missingLayers.map(({ title }) => title) }).toEqual({
      digest: first,
      missingLayers: ["digits.pt"],
    });
    expect(await front.code()).toBe("// one");
    // The store has everything but the weights, so the second call downloads nothing.
    await pulledModel(store, remote, { withoutWeights: true });
    expect(proxy.of("GET", /blobs/).length).toBe(2);
    expect(Object.keys(await store.verify(front))).toEqual([front.bundle.digest]);

    expect(await failure(store.resolve(remote))).toBe(
      `model_not_found: ${remote} is in the store without weights, enough only for --role front; fetch the rest with "sconce pull ${proxy.host}/team/digits@${first}"`,
    );
    expect((await run(store, "compile", remote)).stderr).toContain(`sconce pull ${proxy.host}`);
    expect((await run(store, "models")).stdout).toMatch(/^127\S+\/team\/digits .* KiB without weights /m);
    expect(JSON.parse((await run(store, "inspect", remote)).stdout)).toMatchObject({ withoutWeights: true });

    // A worker needs the weights, too, and downloads only these.
    expect((await pulledModel(store, remote)).missingLayers).toEqual([]);
    expect(proxy.of("GET", /blobs/).length).toBe(3);
    expect((await store.list())[0]).toMatchObject({ withoutWeights: false });
  });

  test("a model without weights is removed completely, except files that other models share", async () => {
    const store = emptyStore();
    const remote = `${registry.host}/team/digits:v1`;
    await pulledModel(store, remote, { withoutWeights: true });
    store.tag(remote, "other:v1");
    await run(store, "rm", `${registry.host}/team/digits@${first}`);
    expect((await store.resolve("other:v1", { weights: false })).digest).toBe(first);
    expect(store.remove("other:v1").freedBytes).toBeGreaterThan(0);
    expect(await store.list()).toEqual([]);
  });

  test("missing weights of a local build count as damage, even for a front", async () => {
    const store = emptyStore();
    await putModel(store, "built here");
    await Bun.file((await store.resolve("digits")).layer("digits.pt").path).delete();
    expect(await failure(store.resolve("digits", { weights: false }))).toContain("store_corrupt");
  });
});
