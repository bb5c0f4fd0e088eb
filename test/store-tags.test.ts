import { describe, expect, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { mediaTypes } from "../src/package/store/manifest.ts";
import { ModelStore } from "../src/package/store/store.ts";
import { emptyStores } from "./helpers/empty-stores.ts";
import { failureOf } from "./helpers/failure.ts";
import { tempDir } from "./helpers/fixture.ts";
import { modelConfig, modelLayers, modelOf } from "./helpers/model-content.ts";

const emptyStore = emptyStores();

describe("storing a model", () => {
  test("under a misspelled name or tag is refused before anything is written", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.join("store"));
    const content = { config: modelConfig(), layers: modelLayers("one") };
    expect((await failureOf(store.put({ repository: "Digits", ...content }))).code).toBe("usage");
    expect((await failureOf(store.put({ repository: "digits", tags: ["a b"], ...content }))).code).toBe("usage");
    expect(await readdir(dir.path)).toEqual([]);
  });

  test("with equal titles of layers, or a title outside the package, is refused", async () => {
    const store = emptyStore();
    const layer = { mediaType: mediaTypes.asset, source: new Uint8Array(1) };
    const outside = ["a/../b", "./a", "a//b", "/a", "a/", "..", "a\\b", "a\nb", ""];
    for (const titles of [["a.txt", "a.txt"], ...outside.map((title) => [title])]) {
      const layers = titles.map((title) => ({ ...layer, title }));
      const error = await failureOf(store.put({ repository: "digits", config: modelConfig(), layers }));
      expect(error.code).toBe("model_invalid");
    }
    expect(await store.list()).toEqual([]);
    const layers = ["a", "a/b.txt", "..a", "vocab v1.txt", "ü.bin"].map((title) => ({ ...layer, title }));
    await store.put({ repository: "digits", config: modelConfig(), layers });
  });

  test("with a file that cannot be read names the file", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    for (const path of [dir.join("nowhere.pt"), dir.path]) {
      const layers = modelLayers("one", path);
      const error = await failureOf(store.put({ repository: "digits", config: modelConfig(), layers }));
      expect(error.code).toBe("model_invalid");
      expect(error.message).toContain(`${path} can't be read`);
    }
  });

  test("with a config that does not match its schema is refused", async () => {
    await using dir = await tempDir();
    const config = modelConfig({ batchSize: 0 });
    const error = await failureOf(new ModelStore(dir.path).put({ repository: "digits", config, layers: [] }));
    expect(error.code).toBe("model_invalid");
    expect(error.message).toContain("batchSize");
  });
});

describe("removing a model", () => {
  test("by a tag keeps it under its other tags; the last tag removes the generated tag, too, and frees exactly its blobs", async () => {
    const store = emptyStore();
    const one = await store.put(modelOf("one"));
    const two = await store.put(modelOf("one", { repository: "upscale", config: modelConfig({ name: "upscale" }) }));
    const { size } = await store.resolve(one.reference);
    store.tag("digits", "digits:v1");
    const remaining = [one.reference, "digits:v1"];
    expect(store.remove("digits")).toEqual({ removed: ["digits:latest"], remaining, freedBytes: 0 });
    const model = await store.resolve(one.reference);
    const { removed, freedBytes } = store.remove("digits:v1");
    expect(removed).toEqual(remaining);
    // The freed bytes do not include the layers, which the other model shares.
    expect(freedBytes).toBe(size - model.layers.reduce((sum, layer) => sum + layer.size, 0));
    expect((await failureOf(store.resolve("digits"))).message).toContain("(models: upscale)");
    await store.verify(await store.resolve(two.reference));
  });

  test("does not harm a build that was about to share its blobs", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.join("store"));
    await Bun.write(dir.join("weights.pt"), "weights in common");
    const layers = modelLayers("one", dir.join("weights.pt"));
    const old = await store.put({ repository: "old", config: modelConfig(), layers });
    let removed: readonly string[] = [];
    const put = await store.put({
      repository: "new",
      config: modelConfig({ name: "new" }),
      layers,
      onProgress: () => {
        // At this moment the build has found its weights in the store, and the test removes the other model with these
        // weights.
        if (removed.length === 0) removed = store.remove(`old@${old.digest}`).removed;
      },
    });
    expect(removed.length).toBe(2);
    await store.verify(await store.resolve(put.reference));
    expect((await store.list()).map(({ repository }) => repository)).toEqual(["new"]);
  });

  test("frees nothing while another manifest cannot be read, since it may need any blob", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    const broken = await store.put(modelOf("one", { repository: "broken" }));
    await store.put(modelOf("two"));
    await Bun.write(store.blobPath(broken.digest), "{");
    expect(store.remove("digits").freedBytes).toBe(0);
    expect(store.remove(`broken@${broken.digest}`).freedBytes).toBeGreaterThan(0);
    expect(await readdir(dir.join("blobs/sha256"))).toEqual([]);
  });
});
