/** Uploads to a registry that closes connections, discards uploads or stops reading. */
import { describe, expect, test } from "bun:test";
import { ModelStore } from "../src/package/store/store.ts";
import { failure } from "./helpers/failure.ts";
import { fakeRegistry } from "./helpers/fake-registry.ts";
import { tempDir } from "./helpers/temp-dir.ts";
import { pushTo, putModel } from "./helpers/transfer.ts";

describe("an upload", () => {
  test.each([
    ["is one request", [], 1],
    ["that is interrupted starts again", [{ cutAfter: 40_000 }, undefined], 2],
    ["starts again if the registry has discarded the upload", ["forget"], 2],
  ] as const)("%s", async (_, faults, requests) => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    await putModel(store, "one", 250_000);
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
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    await putModel(store, "one", 250_000);
    await using server = await fakeRegistry({ faults: Array.from({ length: 20 }, () => "refuse" as const) });
    expect(await failure(pushTo(store, "digits:v1", `${server.host}/team/digits:v1`))).toBe(
      `registry_refused: ${server.host} refused an upload: 416 BLOB_UPLOAD_INVALID: upload is too large (tried 5 times)`,
    );
    expect(server.manifests.size).toBe(0);
  });

  test("whose body the registry stops reading is abandoned, whatever its size", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    await putModel(store, "one", 30_000_000);
    await using server = await fakeRegistry({ faults: Array.from({ length: 20 }, () => ({ stallAfter: 1 })) });
    const pushing = pushTo(store, "digits:v1", `${server.host}/team/digits:v1`, { silenceMs: 300 });
    expect(await failure(pushing)).toBe(
      `registry_unavailable: ${server.host} has sent nothing for too long (tried 5 times)`,
    );
    expect(server.largeUploads).toBe(5);
  });

  test("of a damaged file is reported with the registry's error", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    await putModel(store, "one", 50_000);
    const { path, size } = (await store.resolve("digits")).layer("digits.pt");
    await Bun.write(path, new Uint8Array(size));
    await using server = await fakeRegistry();
    expect(await failure(pushTo(store, "digits:v1", `${server.host}/team/digits:v1`))).toBe(
      `registry_refused: ${server.host} refused a request for team/digits: 400 DIGEST_INVALID: provided digest did not match`,
    );
  });
});
