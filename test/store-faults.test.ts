import { describe, expect, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { annotations, mediaTypes } from "../src/package/store/manifest.ts";
import { ModelStore } from "../src/package/store/store.ts";
import { emptyStores } from "./helpers/empty-stores.ts";
import { failure, failureOf } from "./helpers/failure.ts";
import { tempDir } from "./helpers/fixture.ts";
import { modelConfig, modelLayers, modelOf } from "./helpers/model-content.ts";
import { canMount, tmpfs } from "./helpers/tmpfs.ts";

const emptyStore = emptyStores();

describe("a model that can't be found", () => {
  test("is reported with a hint to build one if the store is empty", async () => {
    await using dir = await tempDir();
    for (const reference of [undefined, "digits"]) {
      const error = await failureOf(new ModelStore(dir.join("nowhere")).resolve(reference));
      expect(error.code).toBe("model_not_found");
      expect(error.message).toBe(
        `the model store ${dir.join("nowhere")} is empty; build a model with "sconce build DIR"`,
      );
    }
    expect(await readdir(dir.path)).toEqual([]);
  });

  test("is reported with the names of existing models and a suggestion", async () => {
    const store = emptyStore();
    const put = await store.put(modelOf("one", { tags: ["stable"] }));
    await store.put(modelOf("one", { repository: "upscale" }));
    const messageFor = async (reference: string) => {
      const error = await failureOf(store.resolve(reference));
      expect(error.code).toBe("model_not_found");
      return error.message;
    };
    expect(await messageFor("digitz")).toBe(
      'no model "digitz" in the store; did you mean "digits"? (models: digits, upscale)',
    );
    expect(await messageFor("minilm")).toBe('no model "minilm" in the store (models: digits, upscale)');
    expect(await messageFor("digits:stabel")).toBe(
      `model "digits" has no tag "stabel"; did you mean "stable"? (tags: latest, ${put.tag}, stable)`,
    );
    expect(await messageFor(`digits@sha256:${"0".repeat(64)}`)).toContain("(tags: latest, ");
  });
});

test.skipIf(!canMount)(
  "a model for which there is no disk space, or no permission to write, is reported with a fix (skipped where file systems cannot be mounted)",
  async () => {
    using disk = tmpfs("256k");
    const store = new ModelStore(disk.path);
    const layers = modelLayers("one", new Uint8Array(1_000_000));
    const put = () => store.put({ repository: "digits", config: modelConfig(), layers });
    expect(await failure(put())).toBe(
      `store_unwritable: the model store ${disk.path} has no space left; make room, or remove models with \`sconce rm\``,
    );
    expect(await store.list()).toEqual([]);
  },
);

test.skipIf(!canMount)(
  "a read-only store is reported by all commands that write to it (skipped where file systems cannot be mounted)",
  async () => {
    using disk = tmpfs("1m");
    const store = new ModelStore(disk.path);
    const content = { config: modelConfig(), layers: modelLayers("one") };
    await store.put({ repository: "digits", ...content });
    const told = `store_unwritable: the model store ${disk.path} is read-only; name another with SCONCE_HOME`;
    const works = {
      put: () => store.put({ repository: "digits", ...content }),
      tag: async () => store.tag("digits", "digits:x"),
      remove: async () => store.remove("digits"),
    };
    for (const isLocked of [true, false]) {
      if (!isLocked) {
        disk.setReadOnly(false);
        await Bun.file(`${disk.path}/.lock`).delete();
      }
      disk.setReadOnly(true);
      for (const [name, work] of Object.entries(works)) {
        expect({ name, isLocked, told: await failure(work()) }).toEqual({ name, isLocked, told });
      }
    }
  },
);

test.skipIf(!canMount)(
  "with a full disk, models can still be removed (skipped where file systems cannot be mounted)",
  async () => {
    using disk = tmpfs("2m");
    const store = new ModelStore(disk.path);
    const put = (name: string) =>
      store.put({ repository: name, config: modelConfig(), layers: modelLayers(name, new Uint8Array(500_000)) });
    for (const name of ["one", "two"]) await put(name);
    disk.fill();
    expect(store.remove("one")).toMatchObject({ remaining: [], freedBytes: expect.any(Number) });
    expect((await store.list()).map(({ repository }) => repository)).toEqual(["two"]);
    await store.verify(await store.resolve("two"));
    disk.fill();
    expect(store.remove("two").freedBytes).toBeGreaterThan(500_000);
    expect(await readdir(`${disk.path}/blobs/sha256`)).toEqual([]);
    expect((await readdir(disk.path)).filter((name) => name.endsWith(".new"))).toEqual([]);
  },
);

describe("a damaged store", () => {
  const damages: [what: string, damage: (path: string) => Promise<unknown>, message: string][] = [
    ["missing", (path) => Bun.file(path).delete(), "is missing from the store"],
    ["cut off", (path) => Bun.write(path, ""), "has 0 bytes; expected"],
  ];
  for (const [what, damage, message] of damages) {
    test(`is recognized by a blob that is ${what}`, async () => {
      const store = emptyStore();
      const { digest } = await store.put(modelOf("one"));
      const { manifest } = await store.resolve();
      for (const each of [manifest.layers[0]?.digest, manifest.config.digest, digest]) {
        await damage(store.blobPath(each ?? ""));
        const error = await failureOf(store.resolve("digits"));
        expect(error.code).toBe("store_corrupt");
        expect(error.message).toContain(message);
      }
      expect((await store.list())[0]?.problem).toContain(message);
      // Another build of the same content repairs the store.
      await store.put(modelOf("one"));
      await store.verify(await store.resolve("digits"));
    });
  }

  test("is refused at once if a manifest or config was changed, and at verification if a layer was", async () => {
    const store = emptyStore();
    const { digest } = await store.put(modelOf("one"));
    const model = await store.resolve();
    const flip = async (path: string) => Bun.write(path, (await Bun.file(path).text()).replace(/[a-z]/, "~"));
    await store.verify(model);
    await flip(model.layer("digits.pt").path);
    expect((await failureOf(store.verify(await store.resolve()))).code).toBe("store_corrupt");
    for (const each of [model.manifest.config.digest, digest]) {
      await flip(store.blobPath(each));
      expect((await failureOf(store.resolve())).code).toBe("store_corrupt");
    }
  });

  test.each(["", "{", "[]", '{"schemaVersion":1,"manifests":[]}'])(
    "with an index of %p is reported",
    async (content) => {
      await using dir = await tempDir();
      await Bun.write(dir.join("index.json"), content);
      const error = await failureOf(new ModelStore(dir.path).resolve("digits"));
      expect(error.code).toBe("store_corrupt");
      expect(error.message).toContain("is not an OCI image index");
    },
  );

  test("is refused if a digest would lead out of the folder", async () => {
    await using dir = await tempDir();
    const entry = { mediaType: mediaTypes.manifest, digest: "sha256:../../secret", size: 1 };
    const index = { schemaVersion: 2, manifests: [{ ...entry, annotations: { [annotations.refName]: "digits:v1" } }] };
    await Bun.write(dir.join("index.json"), JSON.stringify(index));
    const error = await failureOf(new ModelStore(dir.path).resolve("digits:v1"));
    expect(error.code).toBe("store_corrupt");
  });
});
