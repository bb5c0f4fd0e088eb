/** A model store receives a model piece by piece, as a pull does. */
import { describe, expect, test } from "bun:test";
import { readdir, utimes } from "node:fs/promises";
import type { PartialBlob } from "../src/package/store/partial-blob.ts";
import { ModelStore } from "../src/package/store/store.ts";
import { failure } from "./helpers/failure.ts";
import { modelConfig, modelLayers, modelOf } from "./helpers/model-content.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";
import { canMount, tmpfs } from "./helpers/tmpfs.ts";

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

/** A delivery that fails after half of the weights. */
const half: Fill = async (partial, bytes) => {
  if (bytes.length < 10_000) return whole(partial, bytes);
  await partial.append(bytes.subarray(0, bytes.length / 2));
  throw new Error("broken off");
};

describe("a model that is received", () => {
  test.skipIf(!canMount)(
    "is refused before a download if it would fill the disk (skipped where file systems cannot be mounted)",
    async () => {
      await using dir = await tempDir();
      using disk = tmpfs(dir.join("disk"), "20m");
      expect(await failure(received(dir, whole, new ModelStore(disk.path), 8_200_000))).toMatch(
        /^store_unwritable: the model store \S+ has room for [\d.]+ \wiB but 7.8 MiB are needed; /,
      );
    },
  );

  test("is complete although a file manager has put its files into the store", async () => {
    await using dir = await tempDir();
    for (const folder of [".partial", ".tmp"]) await Bun.write(dir.join("to", folder, ".DS_Store"), "");
    const { reference } = await received(dir, whole);
    const store = new ModelStore(dir.join("to"));
    expect(store.remove((await store.resolve(reference)).byDigest).freedBytes).toBeGreaterThan(0);
  });

  test("resumes after an interruption, for a week, although builds ran meanwhile", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.join("to"));
    expect(await received(dir, half).catch((error: Error) => error.message)).toBe("broken off");
    await store.put(modelOf("other", { repository: "other" }));
    const [name = ""] = await readdir(dir.join("to/.partial"));
    const found: number[] = [];
    const asked: Fill = (partial, bytes) => {
      found.push(partial.foundBytes);
      return whole(partial, bytes);
    };
    await received(dir, asked);
    // The weights continue with their second half. A small blob that was received at the same time may be received
    // again.
    expect(found.filter((bytes) => bytes > 0)).toEqual([5000]);
    expect(await readdir(dir.join("to/.partial"))).toEqual([]);

    store.remove((await store.resolve("digits")).byDigest);
    await received(dir, half).catch(() => {});
    const old = new Date(Date.now() - 8 * 24 * 3600 * 1000);
    for (const file of await readdir(dir.join(`to/.partial/${name}`))) {
      await utimes(dir.join(`to/.partial/${name}/${file}`), old, old);
    }
    await store.put(modelOf("another", { repository: "other" }));
    expect(await readdir(dir.join("to/.partial"))).toEqual([]);
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
    // Three deliveries: the weights in the first attempt; config and code in the second, because they were removed in
    // between.
    expect(fills).toBe(3);
  });
});
