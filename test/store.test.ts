import { describe, expect, test } from "bun:test";
import { mkdir, readdir, stat } from "node:fs/promises";
import { storeLocation } from "../src/store/location.ts";
import { annotations, mediaTypes, modelConfigSchema, titleSchema } from "../src/store/manifest.ts";
import { ModelStore } from "../src/store/store.ts";
import { failureOf } from "./helpers/failure.ts";
import { modelConfig, modelLayers } from "./helpers/model-content.ts";
import { tempDir } from "./helpers/temp-dir.ts";

const blobPath = (store: ModelStore, digest: string) => `${store.home}/blobs/sha256/${digest.slice(7)}`;

describe("a model that was put into the store", () => {
  test("is found under its generated tag, latest and every tag it was given", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.join("store"));
    const put = await store.put({
      repository: "digits",
      tags: ["v1", "stable"],
      config: modelConfig({ description: "Reads one handwritten digit." }),
      layers: modelLayers("one"),
    });
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

  test("gives its files by title and by type", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    await Bun.write(dir.join("weights.pt"), "weights of a file");
    await store.put({
      repository: "digits",
      config: modelConfig(),
      layers: modelLayers("one", dir.join("weights.pt")),
    });
    const model = await store.resolve("digits");
    expect(await Bun.file(model.bundle.path).text()).toBe("// one");
    expect(await Bun.file(model.layer("digits.pt").path).text()).toBe("weights of a file");
    expect(model.layersOf(mediaTypes.weights)).toEqual([model.layer("digits.pt")]);
    const error = await failureOf(() => model.layer("digit.pt"));
    expect(error.message).toContain('has no layer "digit.pt" (layers: digits.pt, model.js)');
  });

  test("has a size that is that of all its blobs", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    await store.put({ repository: "digits", config: modelConfig(), layers: modelLayers("one") });
    const names = await readdir(dir.join("blobs/sha256"));
    const sizes = await Promise.all(names.map(async (name) => (await stat(dir.join("blobs/sha256", name))).size));
    const size = sizes.reduce((sum, each) => sum + each, 0);
    expect((await store.resolve()).size).toBe(size);
    expect((await store.list())[0]?.size).toBe(size);
  });

  test("gets the same tag for the same content, whenever, wherever and in whichever order it is given", async () => {
    await using dir = await tempDir();
    await Bun.write(dir.join("same.pt"), "one");
    const first = new ModelStore(dir.join("a"));
    const second = new ModelStore(dir.join("b"));
    const put = await first.put({ repository: "digits", config: modelConfig(), layers: modelLayers("one") });
    const again = await second.put({
      repository: "other",
      tags: ["v2"],
      config: modelConfig(),
      layers: modelLayers("one", dir.join("same.pt")).toReversed(),
    });
    expect(again.digest).toBe(put.digest);
    const changed = await first.put({
      repository: "digits",
      config: modelConfig({ batchSize: 1 }),
      layers: modelLayers("one"),
    });
    expect(changed.tag).not.toBe(put.tag);
  });

  test("moves latest, and leaves the build before under its own tag", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    const first = await store.put({
      repository: "digits",
      tags: ["v"],
      config: modelConfig(),
      layers: modelLayers("one"),
    });
    const second = await store.put({
      repository: "digits",
      tags: ["v"],
      config: modelConfig(),
      layers: modelLayers("two"),
    });
    expect((await store.resolve("digits")).digest).toBe(second.digest);
    expect((await store.resolve("digits:v")).digest).toBe(second.digest);
    expect((await store.resolve(first.reference)).digest).toBe(first.digest);
    // Building the first content again makes it the latest again.
    await store.put({ repository: "digits", config: modelConfig(), layers: modelLayers("one") });
    expect((await store.resolve("digits")).digest).toBe(first.digest);
  });

  test("tells how far a long copy is", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.join("store"));
    await Bun.write(dir.join("weights.pt"), new Uint8Array(2_500_000));
    const seen: number[] = [];
    const build = () =>
      store.put({
        repository: "digits",
        config: modelConfig(),
        layers: modelLayers("one", dir.join("weights.pt")),
        onProgress: (progress) => {
          expect(progress).toMatchObject({ title: "digits.pt", totalBytes: 2_500_000 });
          seen.push(progress.doneBytes);
        },
      });
    await build();
    expect(seen.length).toBeGreaterThan(1);
    expect(seen).toEqual(seen.toSorted((a, b) => a - b));
    expect(seen.at(-1)).toBe(2_500_000);
    seen.length = 0;
    await build();
    expect(seen).toEqual([2_500_000]);
  });

  test("is not there after its build was aborted, and nothing is left of it", async () => {
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
  test("is an OCI image layout whose manifests say what they are", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    const put = await store.put({
      repository: "digits",
      tags: ["v1"],
      config: modelConfig(),
      layers: modelLayers("one"),
    });
    expect(await Bun.file(dir.join("oci-layout")).json()).toEqual({ imageLayoutVersion: "1.0.0" });
    const index = await Bun.file(dir.join("index.json")).json();
    expect(index).toMatchObject({ schemaVersion: 2, mediaType: mediaTypes.index });
    expect(
      index.manifests.map((each: { annotations: Record<string, string> }) => each.annotations[annotations.refName]),
    ).toEqual([`digits:${put.tag}`, "digits:latest", "digits:v1"]);
    const manifest = await Bun.file(blobPath(store, put.digest)).json();
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

  test("lists every model once, the most recent build first, with its tags", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    expect(await store.list()).toEqual([]);
    const first = await store.put({
      repository: "digits",
      tags: ["v1"],
      config: modelConfig(),
      layers: modelLayers("one"),
    });
    const second = await store.put({ repository: "digits", config: modelConfig(), layers: modelLayers("two") });
    const other = await store.put({ repository: "upscale", config: modelConfig(), layers: modelLayers("three") });
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

  test("keeps what other tools wrote into its index, and does not take it for a model", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    const { digest } = await store.put({ repository: "digits", config: modelConfig(), layers: modelLayers("one") });
    const config = await Bun.file(blobPath(store, digest)).json();
    const image = JSON.stringify({
      schemaVersion: 2,
      mediaType: mediaTypes.manifest,
      config: config.config,
      layers: [],
    });
    const imageDigest = `sha256:${new Bun.CryptoHasher("sha256").update(image).digest("hex")}`;
    await Bun.write(blobPath(store, imageDigest), image);
    const index = await Bun.file(dir.join("index.json")).json();
    const entry = { mediaType: mediaTypes.manifest, digest: imageDigest, size: image.length, data: "e30=" };
    index.manifests.push({ ...entry, annotations: { [annotations.refName]: "debian:12", "org.example": "kept" } });
    index.manifests.push(entry);
    await Bun.write(dir.join("index.json"), JSON.stringify({ ...index, annotations: { a: "b" } }));

    await store.put({ repository: "digits", config: modelConfig(), layers: modelLayers("two") });
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
    expect(error.message).toContain("debian:12 is not a sconce model");
    store.remove("digits");
    expect(await Bun.file(blobPath(store, imageDigest)).exists()).toBe(true);
  });

  test.each([
    [{ SCONCE_HOME: "/a/b", XDG_DATA_HOME: "/x", HOME: "/h" }, "linux", "/a/b"],
    [{ SCONCE_HOME: "", XDG_DATA_HOME: "/x", HOME: "/h" }, "linux", "/x/sconce"],
    [{ XDG_DATA_HOME: "relative", HOME: "/h" }, "linux", "/h/.local/share/sconce"],
    [{ HOME: "/h" }, "darwin", "/h/Library/Application Support/sconce"],
  ] as const)("lies, with %j on %s, in %s", (env, platform, path) => {
    expect(storeLocation(env, platform)).toBe(path);
  });
});

describe("a model that can't be found", () => {
  test("is answered with how to build one when the store is empty", async () => {
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

  test("is answered with what there is, and with what may have been meant", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    const put = await store.put({
      repository: "digits",
      tags: ["stable"],
      config: modelConfig(),
      layers: modelLayers("one"),
    });
    await store.put({ repository: "upscale", config: modelConfig(), layers: modelLayers("one") });
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

describe("a damaged store", () => {
  const damages: [what: string, damage: (path: string) => Promise<unknown>, message: string][] = [
    ["missing", (path) => Bun.file(path).delete(), "is missing from the store"],
    ["cut off", (path) => Bun.write(path, ""), "has 0 bytes; expected"],
  ];
  for (const [what, damage, message] of damages) {
    test(`is told by a blob that is ${what}`, async () => {
      await using dir = await tempDir();
      const store = new ModelStore(dir.path);
      const { digest } = await store.put({ repository: "digits", config: modelConfig(), layers: modelLayers("one") });
      const { manifest } = await store.resolve();
      for (const each of [manifest.layers[0]?.digest, manifest.config.digest, digest]) {
        await damage(blobPath(store, each ?? ""));
        const error = await failureOf(store.resolve("digits"));
        expect(error.code).toBe("store_corrupt");
        expect(error.message).toContain(message);
      }
      expect((await store.list())[0]?.problem).toContain(message);
      // Building again repairs it.
      await store.put({ repository: "digits", config: modelConfig(), layers: modelLayers("one") });
      await store.verify(await store.resolve("digits"));
    });
  }

  test("with a changed manifest or config is refused at once, with a changed layer when it is verified", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    const { digest } = await store.put({ repository: "digits", config: modelConfig(), layers: modelLayers("one") });
    const model = await store.resolve();
    const flip = async (path: string) => Bun.write(path, (await Bun.file(path).text()).replace(/[a-z]/, "~"));
    await store.verify(model);
    await flip(model.layer("digits.pt").path);
    const error = await failureOf(store.verify(await store.resolve()));
    expect(error.code).toBe("store_corrupt");
    expect(error.message).toContain("does not have the content of its digest");
    for (const each of [model.manifest.config.digest, digest]) {
      await flip(blobPath(store, each));
      expect((await failureOf(store.resolve())).code).toBe("store_corrupt");
    }
  });

  test.each(["", "{", "[]", '{"schemaVersion":1,"manifests":[]}'])("with an index of %p is named", async (content) => {
    await using dir = await tempDir();
    await Bun.write(dir.join("index.json"), content);
    const error = await failureOf(new ModelStore(dir.path).resolve("digits"));
    expect(error.code).toBe("store_corrupt");
    expect(error.message).toContain("is not an OCI image index");
  });

  test("with a digest that would lead out of it is refused", async () => {
    await using dir = await tempDir();
    const entry = { mediaType: mediaTypes.manifest, digest: "sha256:../../secret", size: 1 };
    const index = { schemaVersion: 2, manifests: [{ ...entry, annotations: { [annotations.refName]: "digits:v1" } }] };
    await Bun.write(dir.join("index.json"), JSON.stringify(index));
    const error = await failureOf(new ModelStore(dir.path).resolve("digits:v1"));
    expect(error.code).toBe("store_corrupt");
  });

  test("with a model of a later API says to build it again", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    await store.put({ repository: "digits", config: modelConfig(), layers: modelLayers("one") });
    const { manifest } = await store.resolve();
    const config = JSON.stringify({ ...modelConfig(), sconceApi: 2 });
    const write = async (content: string) => {
      const digest = `sha256:${new Bun.CryptoHasher("sha256").update(content).digest("hex")}`;
      await Bun.write(blobPath(store, digest), content);
      return { digest, size: content.length };
    };
    const later = await write(
      JSON.stringify({ ...manifest, config: { ...manifest.config, ...(await write(config)) } }),
    );
    const entry = { mediaType: mediaTypes.manifest, ...later, annotations: { [annotations.refName]: "digits:later" } };
    await Bun.write(dir.join("index.json"), JSON.stringify({ schemaVersion: 2, manifests: [entry] }));
    const error = await failureOf(store.resolve("digits:later"));
    expect(error.code).toBe("model_invalid");
    expect(error.message).toBe(
      "digits:later was built for version 2 of sconce's API and this is version 1; build it again",
    );
  });
});

describe("putting", () => {
  test("a misspelled name or tag is refused before anything is written", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.join("store"));
    const content = { config: modelConfig(), layers: modelLayers("one") };
    expect((await failureOf(store.put({ repository: "Digits", ...content }))).code).toBe("usage");
    expect((await failureOf(store.put({ repository: "digits", tags: ["a b"], ...content }))).code).toBe("usage");
    expect(await readdir(dir.path)).toEqual([]);
  });

  test("two layers of one title, or one that leads out of the package, is refused", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    const layer = { mediaType: mediaTypes.asset, source: new Uint8Array(1) };
    for (const titles of [["a.txt", "a.txt"], ["../a.txt"], ["/etc/passwd"], [""]]) {
      const layers = titles.map((title) => ({ ...layer, title }));
      const error = await failureOf(store.put({ repository: "digits", config: modelConfig(), layers }));
      expect(error.code).toBe("model_invalid");
    }
    expect(await store.list()).toEqual([]);
  });

  test("a file that can't be read is named", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    for (const path of [dir.join("nowhere.pt"), dir.path]) {
      const layers = modelLayers("one", path);
      const error = await failureOf(store.put({ repository: "digits", config: modelConfig(), layers }));
      expect(error.code).toBe("model_invalid");
      expect(error.message).toContain(`${path} can't be read`);
    }
  });

  test("a config that does not fit its schema is refused", async () => {
    await using dir = await tempDir();
    const config = modelConfig({ batchSize: 0 });
    const error = await failureOf(new ModelStore(dir.path).put({ repository: "digits", config, layers: [] }));
    expect(error.code).toBe("model_invalid");
    expect(error.message).toContain("batchSize");
  });

  test.each(["a/../b", "./a", "a//b", "/a", "a/", "..", "a\\b", "a\nb", ""])("a layer is not named %p", (title) => {
    expect(titleSchema.safeParse(title).success).toBe(false);
  });

  test.each(["a", "a/b.txt", "..a", "vocab v1.txt", "ü.bin"])("a layer may be named %p", (title) => {
    expect(titleSchema.safeParse(title).success).toBe(true);
  });

  test("keeps every kind of dimension in the config", () => {
    const inputs = [{ name: "ids", dtype: "int64" as const, dims: [3, "height", { name: "tokens", value: 0 }] }];
    expect(modelConfigSchema.parse(modelConfig({ inputs })).inputs).toEqual(inputs);
  });
});

describe("tagging", () => {
  test("lets another reference stand for a model and moves it when it is used again", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    const first = await store.put({ repository: "digits", config: modelConfig(), layers: modelLayers("one") });
    const second = await store.put({ repository: "digits", config: modelConfig(), layers: modelLayers("two") });
    expect(store.tag(first.reference, "team/reader:v1")).toBe("team/reader:v1");
    expect((await store.resolve("team/reader:v1")).digest).toBe(first.digest);
    store.tag("digits", "team/reader:v1");
    expect((await store.resolve("team/reader:v1")).digest).toBe(second.digest);
    expect((await store.resolve("digits")).digest).toBe(second.digest);
    expect(store.tag(first.reference, "digits")).toBe("digits:latest");
    expect((await store.resolve("digits")).digest).toBe(first.digest);
  });

  test("is no build: the most recent build stays", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    const first = await store.put({ repository: "digits", config: modelConfig(), layers: modelLayers("one") });
    await Bun.sleep(2); // so that the two builds have different times
    const second = await store.put({ repository: "upscale", config: modelConfig(), layers: modelLayers("two") });
    store.tag(first.reference, "digits:v1");
    expect((await store.resolve()).digest).toBe(second.digest);
  });

  test("an unknown model or with a digest as the new name is refused", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.join("store"));
    expect((await failureOf(() => store.tag("digits", "digits:v1"))).code).toBe("model_not_found");
    expect((await failureOf(() => store.tag("digits", `a@sha256:${"0".repeat(64)}`))).code).toBe("usage");
    expect(await readdir(dir.path)).toEqual([]);
  });
});

describe("removing", () => {
  test("a tag leaves the model under its others; the last one frees its blobs and no others", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    const one = await store.put({ repository: "digits", config: modelConfig(), layers: modelLayers("one") });
    const two = await store.put({
      repository: "upscale",
      config: modelConfig({ name: "upscale" }),
      layers: modelLayers("one"),
    });
    const { size } = await store.resolve(one.reference);
    expect(store.remove("digits")).toEqual({ removed: ["digits:latest"], left: [one.reference], freedBytes: 0 });
    const model = await store.resolve(one.reference);
    const { removed, freedBytes } = store.remove(one.reference);
    expect(removed).toEqual([one.reference]);
    // The layers are shared with the other model.
    expect(freedBytes).toBe(size - model.layers.reduce((sum, layer) => sum + layer.size, 0));
    expect((await failureOf(store.resolve("digits"))).message).toContain("(models: upscale)");
    await store.verify(await store.resolve(two.reference));
  });

  test("by digest takes every tag of that model", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    const put = await store.put({
      repository: "digits",
      tags: ["v1"],
      config: modelConfig(),
      layers: modelLayers("one"),
    });
    const { removed, freedBytes } = store.remove(`digits@${put.digest}`);
    expect(removed).toEqual([put.reference, "digits:latest", "digits:v1"]);
    expect(freedBytes).toBeGreaterThan(0);
    expect(await readdir(dir.join("blobs/sha256"))).toEqual([]);
  });

  test("leaves the files of a process that has them open", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    const put = await store.put({ repository: "digits", config: modelConfig(), layers: modelLayers("one") });
    const { promises } = await import("node:fs");
    await using file = await promises.open((await store.resolve()).layer("digits.pt").path);
    store.remove(`digits@${put.digest}`);
    expect(await file.readFile("utf8")).toBe("one");
  });

  test("a model does no harm to a build that was about to share its blobs", async () => {
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
        // The build has just found that it need not copy the weights.
        if (removed.length === 0) removed = store.remove(`old@${old.digest}`).removed;
      },
    });
    expect(removed.length).toBe(2);
    await store.verify(await store.resolve(put.reference));
    expect((await store.list()).map(({ repository }) => repository)).toEqual(["new"]);
  });

  test("frees nothing while a manifest can't be read, since it may need any blob", async () => {
    await using dir = await tempDir();
    const store = new ModelStore(dir.path);
    const broken = await store.put({ repository: "broken", config: modelConfig(), layers: modelLayers("one") });
    const { reference } = await store.put({ repository: "digits", config: modelConfig(), layers: modelLayers("two") });
    await Bun.write(blobPath(store, broken.digest), "{");
    store.remove("digits");
    expect(store.remove(reference).freedBytes).toBe(0);
    expect(store.remove(`broken@${broken.digest}`).freedBytes).toBeGreaterThan(0);
    expect(await readdir(dir.join("blobs/sha256"))).toEqual([]);
  });

  test("an unknown model is refused", async () => {
    await using dir = await tempDir();
    await mkdir(dir.join("store"));
    expect((await failureOf(() => new ModelStore(dir.join("store")).remove("digits"))).code).toBe("model_not_found");
    expect(await readdir(dir.join("store"))).toEqual([]);
  });
});
