/** `sconce tag`, `rm` and `inspect`: commands that change or show the model store. */
import { beforeEach, describe, expect, test } from "bun:test";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { ModelStore, ModelSummary, PutResult } from "../src/package/store/store.ts";
import { cliHere } from "./helpers/command-here.ts";
import { emptyStores } from "./helpers/empty-stores.ts";
import { modelConfig, modelLayers, modelOf } from "./helpers/model-content.ts";

const emptyStore = emptyStores();
let store: ModelStore;
let digits: PutResult;

beforeEach(async () => {
  store = emptyStore();
  digits = await store.put(modelOf("digits"));
});

const run = (...args: string[]) => cliHere(args, { env: { SCONCE_HOME: store.home } });

async function tags(): Promise<Record<string, readonly string[]>> {
  const summaries: ModelSummary[] = await store.list();
  return Object.fromEntries(summaries.map((summary) => [summary.repository, summary.tags]));
}

test("a command without a name means the most recent build", async () => {
  expect(await run("inspect")).toMatchObject({ code: 0, stdout: expect.stringContaining(digits.digest) });
  const { digest } = await store.put(modelOf("other", { repository: "other" }));
  expect(await run("inspect")).toMatchObject({ code: 0, stdout: expect.stringContaining(digest) });
});

describe("tag", () => {
  test("adds a tag in the same or another repository, and prints the reference", async () => {
    expect(await run("tag", "digits", "digits:v1")).toEqual({ code: 0, stdout: "digits:v1\n", stderr: "" });
    expect(await run("tag", digits.reference, "team/reader")).toMatchObject({ stdout: "team/reader:latest\n" });
    expect(await tags()).toEqual({ digits: [digits.tag, "latest", "v1"], "team/reader": ["latest"] });
  });

  test("moves an existing tag from another model", async () => {
    await store.put(modelOf("new", { tags: ["v1"] }));
    await run("tag", `digits@${digits.digest}`, "digits:v1");
    expect((await store.resolve("digits:v1")).digest).toBe(digits.digest);
  });

  test.each([
    [2, ["digits"], "missing argument TARGET"],
    [2, ["digits", "Digits:v1"], "Digits:v1"],
    [2, ["digits", "digits:v 1"], "digits:v 1"],
    [2, ["digits", `digits@sha256:${"0".repeat(64)}`], "is a digest; expected name[:tag]"],
    [1, ["digit", "digits:v1"], 'no model "digit" in the store; did you mean "digits"?'],
  ])("ends with %d for %j", async (code, args, part) => {
    const result = await run("tag", ...args);
    expect(result).toMatchObject({ code, stdout: "" });
    expect(result.stderr).toContain(part);
    expect(await tags()).toEqual({ digits: [digits.tag, "latest"] });
  });
});

describe("rm", () => {
  test("removes one tag and lists the other tags of the model, which stays", async () => {
    store.tag("digits", "digits:v1");
    const { code, stdout, stderr } = await run("rm", "digits");
    expect({ code, stdout }).toEqual({ code: 0, stdout: "Untagged digits:latest\n" });
    expect(stderr).toContain(
      `The model stays: its other tags are ${digits.reference}, digits:v1; its digest removes it`,
    );
    expect(await tags()).toEqual({ digits: [digits.tag, "v1"] });
  });

  test("removes the model with its last named tag or its generated tag, and prints the freed size", async () => {
    const { stdout } = await run("rm", "digits");
    expect(stdout).toMatch(
      new RegExp(`^Untagged ${digits.reference}\nUntagged digits:latest\nFreed [1-9][\\d.]* (B|KiB)\n$`),
    );
    expect(await store.list()).toEqual([]);
    const old = await store.put(modelOf("old"));
    await store.put(modelOf("new"));
    expect((await run("rm", old.reference)).stdout).toMatch(/^Untagged .*\nFreed [1-9]/);
  });

  test("a digest as argument removes all tags of the model in the repository, and no other model", async () => {
    const other = await store.put(modelOf("new"));
    store.tag(digits.reference, "digits:v1");
    store.tag(digits.reference, "kept:v1");
    const { stdout } = await run("rm", `digits@${digits.digest}`);
    expect(stdout).toBe(`Untagged ${digits.reference}\nUntagged digits:v1\n`);
    expect(await tags()).toEqual({ digits: [other.tag, "latest"], kept: ["v1"] });
    await run("rm", `kept@${digits.digest}`);
    expect(await tags()).toEqual({ digits: [other.tag, "latest"] });
  });

  test("of several models removes those that exist, and fails for the others", async () => {
    store.tag("digits", "digits:v1");
    const { code, stdout, stderr } = await run("rm", "nope", "digits", "digits:v9");
    expect({ code, stdout }).toEqual({ code: 1, stdout: "Untagged digits:latest\n" });
    expect(stderr).toContain('sconce: no model "nope" in the store (models: digits); model "digits" has no tag "v9"');
  });

  test("removes nothing when one reference is misspelled, or none is given", async () => {
    expect(await run("rm", "digits", "Digits")).toMatchObject({ code: 2, stdout: "" });
    expect(await run("rm")).toMatchObject({ code: 2, stderr: expect.stringContaining("missing argument REF") });
    expect(await tags()).toEqual({ digits: [digits.tag, "latest"] });
  });
});

describe("inspect", () => {
  test("prints reference, tags, digest, time, size, layers and config as JSON", async () => {
    const { code, stdout, stderr } = await run("inspect", "digits");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const model = await store.resolve("digits");
    expect(JSON.parse(stdout)).toEqual({
      reference: "digits:latest",
      repository: "digits",
      tags: [digits.tag, "latest"],
      digest: digits.digest,
      size: model.size,
      created: model.created?.toISOString(),
      config: modelConfig(),
      layers: model.layers.map(({ path: _, ...layer }) => layer),
    });
  });

  test("takes a digest as argument; without an argument it shows the most recent build", async () => {
    for (const args of [[], [`digits@${digits.digest}`]]) {
      expect(JSON.parse((await run("inspect", ...args)).stdout).reference).toBe(digits.reference);
    }
  });

  test("shortens data URIs", async () => {
    const uri = `data:image/png;base64,${"A".repeat(400)}`;
    const config = modelConfig({ example: { image: uri } });
    await store.put({ repository: "long", config, layers: modelLayers("long") });
    const { stdout } = await run("inspect", "long");
    expect(stdout).toContain('"image": "data:image/png;base64,AAAAAAAAAAAAAAAAAA… (300 B)"');
  });
});

test("models lists damaged models with their problem", async () => {
  await rm(join(store.home, "blobs", "sha256", digits.digest.slice("sha256:".length)));
  const { code, stdout, stderr } = await run("models");
  expect(code).toBe(0);
  expect(stdout).toMatch(/^digits .* damaged /m);
  expect(stderr).toContain(digits.digest.slice("sha256:".length));
});
