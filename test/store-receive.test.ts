/** A model store receives a model piece by piece, as a pull does. */
import { describe, expect, test } from "bun:test";
import type { PartialBlob } from "../src/package/store/partial-blob.ts";
import { ModelStore } from "../src/package/store/store.ts";
import { type TempDir, tempDir } from "./helpers/fixture.ts";
import { modelConfig, modelLayers, modelOf } from "./helpers/model-content.ts";

type Fill = (partial: PartialBlob, whole: Uint8Array) => Promise<void>;

/** Sends a model from one store to another. @param fill delivers the bytes of each blob */
async function received(dir: TempDir, fill: Fill, to = new ModelStore(dir.join("to")), weightBytes = 10_000) {
  const from = new ModelStore(dir.join("from"));
  const layers = modelLayers("one", new Uint8Array(weightBytes).fill(7));
  const { digest } = await from.put({ repository: "digits", config: modelConfig(), layers });
  return to.receive({
    repository: "digits",
    tags: ["v1"],
    source: "registry.example.com/digits",
    name: "a/digits:v1",
    manifest: await from.manifestBytes(await from.resolve(`digits@${digest}`)),
    atOnce: 3,
    signal: new AbortController().signal,
    fill: async (partial) => fill(partial, await Bun.file(from.blobPath(partial.blob.digest)).bytes()),
  });
}

const whole: Fill = (partial, bytes) => partial.append(bytes.subarray(partial.doneBytes));

describe("a model that is received", () => {
  test("is complete although a file manager has put its files into the store", async () => {
    await using dir = await tempDir();
    await Bun.write(dir.join("to/.tmp/.DS_Store"), "");
    const { reference } = await received(dir, whole);
    const store = new ModelStore(dir.join("to"));
    expect(store.remove((await store.resolve(reference)).byDigest).freedBytes).toBeGreaterThan(0);
  });

  test("is complete although another process removes shared blobs meanwhile", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.join("to"));
    const shared = await store.put(modelOf("one", { repository: "shared" }));
    let fills = 0;
    const removing: Fill = (partial, bytes) => {
      fills += 1;
      if (fills === 1) store.remove(`shared@${shared.digest}`);
      return whole(partial, bytes);
    };
    const { reference } = await received(dir, removing);
    await store.verify(await store.resolve(reference));
    // The first attempt receives the weights. The second attempt receives all blobs.
    expect(fills).toBe(4);
  });
});
