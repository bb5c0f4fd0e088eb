import { describe, expect, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { storeLocation } from "../src/machine/files/location.ts";
import { annotations, mediaTypes } from "../src/package/store/manifest.ts";
import { ModelStore } from "../src/package/store/store.ts";
import { emptyStores } from "./helpers/empty-stores.ts";
import { failureOf } from "./helpers/failure.ts";
import { tempDir } from "./helpers/fixture.ts";
import { modelConfig, modelLayers, modelOf } from "./helpers/model-content.ts";

const emptyStore = emptyStores();

describe("a stored model", () => {
  test("is found under its generated tag, under latest, and under every tag that was set", async () => {
    const store = emptyStore();
    const put = await store.put(
      modelOf("one", { tags: ["v1", "stable"], config: modelConfig({ description: "Reads one handwritten digit." }) }),
    );
    expect(put.tag).toBe(put.digest.slice("sha256:".length, "sha256:".length + 12));
    expect(put.reference).toBe(`digits:${put.tag}`);
    for (const tag of [put.tag, "latest", "v1", "stable"]) {
      const model = await store.resolve(`digits:${tag}`);
      expect(model.reference).toBe(`digits:${tag}`);
      expect(model.digest).toBe(put.digest);
      expect(model.config.description).toBe("Reads one handwritten digit.");
    }
    expect((await store.resolve("digits")).tag).toBe("latest");
    expect((await store.resolve(`digits@${put.digest}`)).tag).toBe(put.tag);
    expect((await store.resolve()).reference).toBe(put.reference);
  });

  test("has the same tag if its content is the same, whatever the time, place and order", async () => {
    await using dir = await tempDir();
    await Bun.write(dir.join("same.pt"), "one");
    const first = new ModelStore(dir.join("a"));
    const second = new ModelStore(dir.join("b"));
    const put = await first.put(modelOf("one"));
    const again = await second.put({
      repository: "other",
      tags: ["v2"],
      config: modelConfig(),
      layers: modelLayers("one", dir.join("same.pt")).toReversed(),
    });
    expect(again.digest).toBe(put.digest);
    const changed = await first.put(modelOf("one", { config: modelConfig({ batchSize: 1 }) }));
    expect(changed.tag).not.toBe(put.tag);
  });

  test("gets the tag latest, and the previous build keeps its own tag", async () => {
    const store = emptyStore();
    const first = await store.put(modelOf("one", { tags: ["v"] }));
    const second = await store.put(modelOf("two", { tags: ["v"] }));
    expect((await store.resolve("digits")).digest).toBe(second.digest);
    expect((await store.resolve("digits:v")).digest).toBe(second.digest);
    expect((await store.resolve(first.reference)).digest).toBe(first.digest);
    // Another build of the first content makes that model the latest again.
    await store.put(modelOf("one"));
    expect((await store.resolve("digits")).digest).toBe(first.digest);
  });

  test("does not exist after an aborted build, which leaves nothing behind", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.join("store"));
    await Bun.write(dir.join("weights.pt"), new Uint8Array(3_000_000));
    const controller = new AbortController();
    const reason = new Error("enough");
    const building = store.put({
      repository: "digits",
      config: modelConfig(),
      layers: modelLayers("one", dir.join("weights.pt")),
      onProgress: () => controller.abort(reason),
      signal: controller.signal,
    });
    expect(await building.catch((error: unknown) => error)).toBe(reason);
    expect(await store.list()).toEqual([]);
    expect(await readdir(dir.join("store/.tmp"))).toEqual([]);
  });
});

describe("the store", () => {
  test("is an OCI image layout with valid manifests", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    const put = await store.put(modelOf("one", { tags: ["v1"] }));
    expect(await Bun.file(dir.join("oci-layout")).json()).toEqual({ imageLayoutVersion: "1.0.0" });
    const index = await Bun.file(dir.join("index.json")).json();
    expect(index).toMatchObject({ schemaVersion: 2, mediaType: mediaTypes.index });
    expect(
      index.manifests.map((each: { annotations: Record<string, string> }) => each.annotations[annotations.refName]),
    ).toEqual([`digits:${put.tag}`, "digits:latest", "digits:v1"]);
    const manifest = await Bun.file(store.blobPath(put.digest)).json();
    expect(manifest).toMatchObject({
      schemaVersion: 2,
      mediaType: "application/vnd.oci.image.manifest.v1+json",
      artifactType: "application/vnd.sconce.model.v1",
      config: { mediaType: "application/vnd.sconce.model.config.v1+json" },
      layers: [
        {
          mediaType: "application/vnd.sconce.weights.v1",
          annotations: { "org.opencontainers.image.title": "digits.pt" },
        },
        {
          mediaType: "application/vnd.sconce.bundle.v1+js",
          annotations: { "org.opencontainers.image.title": "model.js" },
        },
      ],
    });
  });

  test("lists every model once with its tags, the most recent build first", async () => {
    const store = emptyStore();
    expect(await store.list()).toEqual([]);
    const first = await store.put(modelOf("one", { tags: ["v1"] }));
    const second = await store.put(modelOf("two"));
    const other = await store.put(modelOf("three", { repository: "upscale" }));
    const list = await store.list();
    expect(list.map(({ repository, tags, digest }) => ({ repository, tags, digest }))).toEqual(
      expect.arrayContaining([
        { repository: "upscale", tags: [other.tag, "latest"], digest: other.digest },
        { repository: "digits", tags: [second.tag, "latest"], digest: second.digest },
        { repository: "digits", tags: [first.tag, "v1"], digest: first.digest },
      ]),
    );
    expect(list.length).toBe(3);
    const times = list.map(({ created }) => created?.getTime() ?? Number.NaN);
    expect(times).toEqual(times.toSorted((a, b) => b - a));
    expect(Date.now() - (times[0] ?? 0)).toBeLessThan(60_000);
  });

  test("keeps entries of other tools in the index, and ignores them", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    const { digest } = await store.put(modelOf("one"));
    const config = await Bun.file(store.blobPath(digest)).json();
    const image = JSON.stringify({
      schemaVersion: 2,
      mediaType: mediaTypes.manifest,
      config: config.config,
      layers: [],
    });
    const imageDigest = `sha256:${new Bun.CryptoHasher("sha256").update(image).digest("hex")}`;
    await Bun.write(store.blobPath(imageDigest), image);
    const index = await Bun.file(dir.join("index.json")).json();
    const entry = { mediaType: mediaTypes.manifest, digest: imageDigest, size: image.length, data: "e30=" };
    index.manifests.push({ ...entry, annotations: { [annotations.refName]: "debian:12", "org.example": "kept" } });
    index.manifests.push(entry);
    await Bun.write(dir.join("index.json"), JSON.stringify({ ...index, annotations: { a: "b" } }));

    await store.put(modelOf("two"));
    const after = await Bun.file(dir.join("index.json")).json();
    expect(after.annotations).toEqual({ a: "b" });
    expect(after.manifests).toContainEqual({
      ...entry,
      annotations: { [annotations.refName]: "debian:12", "org.example": "kept" },
    });
    expect(after.manifests).toContainEqual(entry);
    expect((await store.list()).map(({ repository }) => repository)).toEqual(["digits", "digits"]);
    const error = await failureOf(store.resolve("debian:12"));
    expect(error.code).toBe("model_invalid");
    expect(error.message).toContain("debian:12");
    store.remove("digits");
    expect(await Bun.file(store.blobPath(imageDigest)).exists()).toBe(true);
  });

  test.each([
    [{ SCONCE_HOME: "/a/b", XDG_DATA_HOME: "/x", HOME: "/h" }, "linux", "/a/b"],
    [{ SCONCE_HOME: "", XDG_DATA_HOME: "/x", HOME: "/h" }, "linux", "/x/sconce"],
    [{ XDG_DATA_HOME: "relative", HOME: "/h" }, "linux", "/h/.local/share/sconce"],
    [{ HOME: "/h" }, "darwin", "/h/Library/Application Support/sconce"],
  ] as const)("with %j on %s is in %s", (env, platform, path) => {
    expect(storeLocation(env, platform)).toBe(path);
  });
});
