/** Commands refuse to serve, run or compile a model with a file whose content does not match its digest. */
import { describe, expect, test } from "bun:test";
import { readFile, utimes, writeFile } from "node:fs/promises";
import { ModelStore } from "../src/package/store/store.ts";
import { failureOf } from "./helpers/failure.ts";
import { fixture, type TempDir, tempDir } from "./helpers/fixture.ts";
import { modelOf } from "./helpers/model-content.ts";
import { storeWith } from "./helpers/server.ts";

/** Changes the last byte of a file, but not the file's times. */
async function changeOneByte(path: string): Promise<void> {
  const { mtime } = await Bun.file(path).stat();
  const bytes = await readFile(path);
  await writeFile(path, Buffer.concat([bytes.subarray(0, -1), Buffer.of((bytes.at(-1) ?? 0) ^ 1)]));
  await utimes(path, mtime, mtime);
}

async function storeOfOne(dir: TempDir) {
  const store = new ModelStore(dir.path);
  const put = () => store.put(modelOf("one"));
  await put();
  const model = await store.resolve("digits");
  /**
   * Verifies the model. @returns titles of the files that were read, because their last check is unknown or outdated
   */
  const check = async (options = {}) => {
    const read: string[] = [];
    await new ModelStore(dir.path).verify(model, { ...options, onProgress: ({ title }) => read.push(title) });
    return read;
  };
  return { store, model, put, check };
}

describe("a checked file", () => {
  test("is not read again until it changes, in any process", async () => {
    await using dir = await tempDir();
    const { model, check } = await storeOfOne(dir);
    expect(await check()).toEqual(["digits.pt", "model.js"]);
    expect(await check()).toEqual([]);
    const { path } = model.layer("digits.pt");
    await utimes(path, 0, 0);
    expect(await check()).toEqual(["digits.pt"]);
    expect(await check()).toEqual([]);
    await changeOneByte(path);
    // A check that has failed is never remembered.
    for (let i = 0; i < 2; i++) expect((await failureOf(check())).code).toBe("store_corrupt");
  });

  test("is not read by a process that is given the check, even if the store could not record it", async () => {
    await using dir = await tempDir();
    const { store, model, check } = await storeOfOne(dir);
    const known = await store.verify(model);
    await writeFile(dir.join(".verified"), "{}");
    expect(await check({ known })).toEqual([]);
    await changeOneByte(model.layer("digits.pt").path);
    expect((await failureOf(check({ known }))).code).toBe("store_corrupt");
  });
});

test("a model with a changed file is repaired by building it again", async () => {
  await using dir = await tempDir();
  const { store, model, put } = await storeOfOne(dir);
  for (const { path } of model.layers) await changeOneByte(path);
  await put();
  await store.verify(await store.resolve("digits"));
});

describe("a model", () => {
  const store = fixture(() => storeWith("lab"));
  const run = async (...args: string[]) => {
    const { code, stdout, stderr } = await store.cliHere(args);
    return { code, stdout, error: stderr.split("\n").filter((line) => line.startsWith("sconce: ")) };
  };

  test("with changed weights is neither served, run, compiled nor put into an image", async () => {
    const { path } = (await new ModelStore(store.home).resolve("lab")).layer("lab.pt");
    await changeOneByte(path);
    const error = [`sconce: ${path} does not have the content of its digest; build the model again, or pull it again`];
    const [served, ...others] = await Promise.all([
      run("serve", "lab", "--port", "0"),
      run("predict", "lab", "x=1"),
      run("compile", "lab", "-o", `${store.home}/server`),
      run("image", "lab", "-o", `${store.home}/images`),
    ]);
    for (const result of [served, ...others]) expect(result).toEqual({ code: 1, stdout: "", error });
    await changeOneByte(path);
  });

  test("with changed code never runs", async () => {
    const { path } = (await new ModelStore(store.home).resolve("lab")).bundle;
    await changeOneByte(path);
    const { code, error } = await run("predict", "lab", "x=1");
    expect({ code, error }).toEqual({
      code: 1,
      error: [expect.stringContaining(path)],
    });
    await changeOneByte(path);
  });
});
